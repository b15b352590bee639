package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"agentkernel"
)

// evil is what programs and tool servers hold in names, messages and values to make a terminal do something.
const evil = "a\x1b[2J\x1b]52;c;ZXZpbA==\x07b\u009b2Jc\rd\u202ee"

func evilJSON() json.RawMessage {
	b, _ := json.Marshal(map[string]any{evil: evil, "$repr": 1}) // texts always encode
	return b
}

// evilKernel has a process of which everything is evil that can be.
type evilKernel struct{ fakeKernel }

func (k *evilKernel) Journal(context.Context, agentkernel.PID, int64, int) ([]agentkernel.Entry, error) {
	repr, _ := json.Marshal(map[string]string{"$repr": evil}) // texts always encode
	text, _ := json.Marshal(evil)
	failure := agentkernel.Errorf(agentkernel.CodeTool, evil, "%s", evil).WithHint("%s", evil)
	return []agentkernel.Entry{
		{PID: 12, Seq: 1, Kind: agentkernel.EntryCreated, Data: json.RawMessage(`{"tools":[` + string(text) + `],"allow":[` + string(text) + `]}`)},
		{PID: 12, Seq: 2, Kind: agentkernel.EntryCall, Call: 1, Op: "tool.call", Effect: agentkernel.EffectWrite,
			Args: json.RawMessage(`{"server":` + string(text) + `,"tool":` + string(text) + `,"arguments":` + string(evilJSON()) + `}`)},
		{PID: 12, Seq: 3, Kind: agentkernel.EntryResult, Call: 1, Data: repr, Note: evil},
		{PID: 12, Seq: 4, Kind: agentkernel.EntryCall, Call: 2, Op: evil, Done: true, Args: evilJSON(), Err: failure},
		{PID: 12, Seq: 5, Kind: agentkernel.EntryOutput, Stream: "stdout", Data: text},
		{PID: 12, Seq: 6, Kind: agentkernel.EntryPaused, Note: evil},
		{PID: 12, Seq: 7, Kind: agentkernel.EntryTerminal, Data: json.RawMessage(`{"state":"failed","exit_code":1}`), Err: failure},
	}, nil
}

func (k *evilKernel) Events(_ context.Context, _ agentkernel.PID, _ int64, _ bool, fn func(agentkernel.Event) error) error {
	for _, ev := range []agentkernel.Event{output("stdout", evil+"\n"), output("stderr", evil+"\n"), {Kind: agentkernel.EventLog, PID: 12, Text: evil}} {
		if err := fn(ev); err != nil {
			return err
		}
	}
	return nil
}

func (k *evilKernel) List(_ context.Context, f agentkernel.Filter) ([]agentkernel.Process, error) {
	if f.Parent != 0 || f.Before != 0 {
		return nil, nil
	}
	return k.list, nil
}

func (k *evilKernel) State(context.Context, agentkernel.PID) (map[string]json.RawMessage, error) {
	return map[string]json.RawMessage{evil: evilJSON()}, nil
}

func (k *evilKernel) Allowances(context.Context, string) ([]agentkernel.AllowanceState, error) {
	return []agentkernel.AllowanceState{{Allowance: agentkernel.Allowance{Namespace: evil, Period: agentkernel.Period(evil), Limit: agentkernel.Spending{Calls: 1}}}}, nil
}

func (k *evilKernel) ModelUsage(context.Context, agentkernel.UsageQuery) (agentkernel.ModelUsage, error) {
	return agentkernel.ModelUsage{Rows: []agentkernel.UsageRow{{Agent: evil, Model: evil, Day: evil, Namespace: evil, Calls: 1}}, Total: agentkernel.UsageRow{Calls: 1}}, nil
}

func (k *evilKernel) ModelLimits(context.Context) (agentkernel.ModelLimits, error) {
	return agentkernel.ModelLimits{Keys: []agentkernel.KeyLimits{{Key: evil, Family: evil, Waiting: evil, Limits: []agentkernel.ModelLimit{{What: evil, Source: evil}}}},
		Deployments: []agentkernel.ModelDeployment{{Name: evil, Key: evil, Family: evil, Model: evil, State: evil, Reason: evil}}}, nil
}

func (k *evilKernel) GiveKey(context.Context, agentkernel.PID, string, string) error {
	return agentkernel.Errorf(agentkernel.CodeNotFound, "key", "%s", evil).WithHint("%s", evil)
}

func (k *evilKernel) Wait(context.Context, agentkernel.PID) (agentkernel.Process, error) {
	return k.list[0], nil
}

// TestCommandsShowNothingThatATerminalObeys: whoever looks at a hostile program, while it runs or later, sees
// text.
func TestCommandsShowNothingThatATerminalObeys(t *testing.T) {
	failure := agentkernel.Errorf(agentkernel.CodeProgram, "run", "%s", evil).WithHint("%s", evil)
	failure.Traceback, failure.Exception = "Traceback\n  "+evil+"\n", evil
	p := agentkernel.Process{PID: 12, Name: evil, Namespace: evil, Backend: evil, State: agentkernel.StateFailed, PauseNote: evil,
		WaitsFor: []string{"tool.call " + evil}, Result: evilJSON(), Error: failure, Fingerprint: evil, ExitCode: 1}
	paused := p
	paused.PID, paused.State, paused.Paused = 13, agentkernel.StateWaiting, true
	for _, args := range [][]string{
		{"ps", "-a"}, {"inspect", "12"}, {"inspect", "13"}, {"trace", "12"}, {"trace", "12", "--full"}, {"logs", "12"}, {"logs", "12", "--log"},
		{"wait", "12"}, {"wait", "13"}, {"run", "-c", "x"}, {"why", "12"}, {"run", "-c", "x", "--json"}, {"inspect", "12", "--json"}, {"ps", "--json"},
		{"llm", "usage"}, {"llm", "usage", "--csv"}, {"llm", "limits"}, {"budget", "show"},
	} {
		r := newRig(t)
		r.outTTY = true
		answers, typed := io.Pipe()
		go func() { _, _ = io.WriteString(typed, "n\n") }() // nobody asks in most of them
		r.tty = answers
		k := &evilKernel{fakeKernel{list: []agentkernel.Process{p, paused}}}
		answered := make(chan struct{})
		k.answer = func(int64, agentkernel.Answer) error { close(answered); return nil }
		k.run = func(_ context.Context, _ agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
			ask := agentkernel.Event{Kind: agentkernel.EventAsk, PID: 12, Ask: &agentkernel.Ask{ID: 1, Call: evil, Effect: agentkernel.EffectWrite, Args: evilJSON()}}
			for _, ev := range []agentkernel.Event{created(12), output("stdout", evil), output("stderr", evil), ask} {
				if err := fn(ev); err != nil {
					return p, err
				}
			}
			<-answered
			return p, fn(agentkernel.Event{Kind: agentkernel.EventEnd, PID: 12, Process: &p})
		}
		r.any = k
		r.run(args...)
		_ = typed.Close()
		for name, text := range map[string]string{"stdout": r.out.String(), "stderr": r.err.String()} {
			own := strings.ReplaceAll(text, "\r\x1b[K", "") // what takes the progress line away
			if strings.ContainsAny(own, "\a\r\u009b\u202e") || strings.Contains(own, "\x1b[2J") || strings.Contains(own, "\x1b]") {
				t.Errorf("%v: %s has %q", args, name, own)
			}
		}
		if len(r.out.String())+len(r.err.String()) < 20 {
			t.Errorf("%v shows nothing: %q %q", args, r.out.String(), r.err.String())
		}
	}
}

// TestQuestionsShowEverything: nothing that is to be allowed can be pushed out of sight.
func TestQuestionsShowEverything(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		want []string
	}{
		"the end of a long text":     {`{"path":"` + strings.Repeat("/safe", 500) + `/../../etc/passwd"}`, []string{`path="/safe`, `/etc/passwd"`, " more "}},
		"the last of many":           {`{"a":"` + strings.Repeat("x", 5000) + `","b":1,"c":2,"recursive":true}`, []string{"b=1", "c=2", "recursive=true"}},
		"a long name":                {`{"` + strings.Repeat("n", 5000) + `":1,"force":true}`, []string{"force=true"}},
		"a name that looks like two": {`{"path=\"/tmp\", x":1}`, []string{`"path=\"/tmp\", x"=1`}},
		"the last of very many":      {"{" + strings.Repeat(`"a":1,`, 60) + `"path":"/etc"}`, []string{`path="/etc"`}},
		"lines":                      {`{"a":"x\nfs.read() changes things. Allow? "}`, []string{`a="x\nfs.read()`}},
	} {
		r := newRig(t)
		answers, typed := io.Pipe()
		r.tty = answers
		r.asked(agentkernel.Ask{ID: 1, Call: "fs.delete", Effect: agentkernel.EffectWrite, Args: json.RawMessage(c.args)})
		shown := r.err.sees("Allow? [y]es")
		go func() { <-shown; _, _ = io.WriteString(typed, "n\n") }()
		r.run("run", "-c", "x")
		question, _, _ := strings.Cut(r.err.String(), "Allow? [y]es")
		if len(question) > 2000 || strings.Contains(question, "\n") {
			t.Errorf("%s: %d bytes: %q", name, len(question), question)
		}
		contains(t, name, question, c.want...)
	}
}

// asked is a program that asks one question and ends.
func (r *rig) asked(q agentkernel.Ask) {
	answered := make(chan struct{})
	r.kernel.answer = func(int64, agentkernel.Answer) error { close(answered); return nil }
	r.kernel.run = func(_ context.Context, _ agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
		if err := fn(agentkernel.Event{Kind: agentkernel.EventAsk, PID: 12, Ask: &q}); err != nil {
			return agentkernel.Process{}, err
		}
		<-answered
		return exitedProcess, fn(agentkernel.Event{Kind: agentkernel.EventEnd, PID: 12, Process: &exitedProcess})
	}
}
