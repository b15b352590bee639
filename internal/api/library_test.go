package api_test

import (
	"context"
	"encoding/json"

	"agentkernel"
)

func (k *double) SaveSkill(_ context.Context, s agentkernel.Skill) (agentkernel.Skill, error) {
	if s.Name == "bad" {
		return s, agentkernel.Errorf(agentkernel.CodeSyntax, "skill", "skills/bad.py, line 1: no")
	}
	s.Version = 3
	return s, nil
}

func (k *double) Skill(_ context.Context, namespace, name string, version int) (agentkernel.Skill, error) {
	if name == "none" {
		return agentkernel.Skill{}, agentkernel.Errorf(agentkernel.CodeNotFound, "skill", "there is no skill %q", name).WithHint("there are: a")
	}
	return agentkernel.Skill{Namespace: namespace, Name: name, Version: version, Code: "def f(): pass"}, nil
}

func (k *double) Skills(_ context.Context, q agentkernel.SkillQuery) ([]agentkernel.Skill, error) {
	return []agentkernel.Skill{{Namespace: q.Namespace, Name: "a", Description: q.Text, Version: q.Limit}}, nil
}

func (k *double) DeleteSkill(_ context.Context, _, name string) error {
	_, err := k.Skill(context.Background(), "", name, 0)
	return err
}

func (k *double) Document(_ context.Context, namespace, owner, name string) (agentkernel.Document, error) {
	return agentkernel.Document{Namespace: namespace, Owner: owner, Name: name, Version: 2, Data: json.RawMessage(`{"a":[1.0,2]}`)}, nil
}

func (k *double) PutDocument(_ context.Context, d agentkernel.Document) (agentkernel.Document, error) {
	if d.Version == 9 {
		return d, agentkernel.Errorf(agentkernel.CodeConflict, "state", "it is at version 3")
	}
	d.Version++
	return d, nil
}

func (k *double) Feed(_ context.Context, pid agentkernel.PID, p agentkernel.Cell, fn func(agentkernel.Event) error) (agentkernel.CellEnd, error) {
	if pid == 99 {
		return agentkernel.CellEnd{}, agentkernel.Errorf(agentkernel.CodeConflict, "session", "session 99 is busy")
	}
	if err := fn(agentkernel.Event{Kind: agentkernel.EventOutput, PID: pid, Seq: 4, Stream: "stdout", Text: p.Source}); err != nil {
		return agentkernel.CellEnd{}, err
	}
	idle := &agentkernel.Idle{Result: json.RawMessage(`1.0`)}
	err := fn(agentkernel.Event{Kind: agentkernel.EventIdle, PID: pid, Seq: 5, Idle: idle})
	return agentkernel.CellEnd{Process: agentkernel.Process{PID: pid}, Result: idle.Result}, err
}

func (k *double) EndSession(_ context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	return agentkernel.Process{PID: pid, State: agentkernel.StateExited}, nil
}

// libraryCalls are the calls of agentkernel.Library and agentkernel.Sessions for the table of both_test.go.
var libraryCalls = []struct {
	name string
	call func(ctx context.Context, k agentkernel.Kernel) (any, error)
}{
	{"skill saved", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.SaveSkill(ctx, agentkernel.Skill{Namespace: "n", Name: "x", Code: "def f():\n    return '<ü>'\n", Tags: []string{"a"}})
	}},
	{"skill refused", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.SaveSkill(ctx, agentkernel.Skill{Name: "bad", Code: "("})
	}},
	{"skill", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Skill(ctx, "n ü", "x/../y", 2) }},
	{"no skill", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Skill(ctx, "", "none", 0) }},
	{"skills", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Skills(ctx, agentkernel.SkillQuery{Namespace: "n", Text: "a & b", Limit: 3})
	}},
	{"skill deleted", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return nil, k.DeleteSkill(ctx, "n", "x") }},
	{"no skill deleted", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.DeleteSkill(ctx, "n", "none")
	}},
	{"document", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Document(ctx, "n", "o", "s.json")
	}},
	{"document put", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.PutDocument(ctx, agentkernel.Document{Owner: "o", Name: "s.json", Data: json.RawMessage(`{"b":1,"a":1.50}`)})
	}},
	{"cell", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		var got []agentkernel.Event
		end, err := k.Feed(ctx, 7, agentkernel.Cell{Name: "p", Source: "print('<ü>')"}, func(ev agentkernel.Event) error {
			got = append(got, ev)
			return nil
		})
		return []any{got, end}, err
	}},
	{"cell for a busy session", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Feed(ctx, 99, agentkernel.Cell{Source: "1"}, func(agentkernel.Event) error { return nil })
	}},
	{"session ended", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.EndSession(ctx, 7) }},
	{"document in conflict", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.PutDocument(ctx, agentkernel.Document{Name: "s.json", Version: 9, Data: json.RawMessage(`1`)})
	}},
}
