package cells_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	"agentkernel"
	"agentkernel/internal/kernel/cells"
	"agentkernel/internal/kernel/history"
)

// TestTake: one feeds a session at a time; who waits is next, and who does not is told.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := cells.New()
		if mine, err := r.Take(t.Context(), 7, false); !mine || err != nil {
			t.Fatal(mine, err)
		}
		if mine, _ := r.Take(t.Context(), 7, false); mine {
			t.Error("two feed a session")
		}
		if mine, _ := r.Take(t.Context(), 8, false); !mine {
			t.Error("another session is fed by who feeds the first")
		}
		gone, cancel := context.WithCancel(t.Context())
		left, next := make(chan error), make(chan bool)
		go func() { _, err := r.Take(gone, 7, true); left <- err }()
		go func() { mine, _ := r.Take(t.Context(), 7, true); next <- mine }()
		synctest.Wait()
		cancel()
		if err := <-left; agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
			t.Errorf("who has left: %v", err)
		}
		select {
		case <-next:
			t.Error("two feed a session, and one has waited")
		default:
		}
		r.Release(7)
		if !<-next {
			t.Error("who has waited does not feed it")
		}
	})
}

// TestHasKey: the keys of a session are read once, unless all of its cells came through this kernel.
func TestHasKey(t *testing.T) {
	r, reads := cells.New(), 0
	var fails error
	read := func() ([]history.Handed, error) {
		reads++
		return []history.Handed{{Key: "old"}}, fails
	}
	has := func(key string, whole bool) bool {
		known, _ := r.HasKey(7, key, whole, read)
		return known
	}
	if has("old", true) || reads != 0 {
		t.Error("the journal of a new session is read")
	}
	fails = errors.New("broken")
	for range 2 {
		if !has("old", false) {
			t.Error("a key that was read is not known")
		}
	}
	if reads != 2 {
		t.Errorf("what could not all be read is read %d times", reads)
	}
	fails = nil
	if !has("old", false) || has("new", false) || reads != 3 {
		t.Errorf("read %d times", reads)
	}
	r.Remember(7, cells.Sources{Key: "new"})
	if !has("new", false) || has("other", false) || reads != 3 {
		t.Errorf("a cell that was fed is not known, or read %d times", reads)
	}
	r.Forget(7)
	if _, ok := r.Known(7); ok || !has("new", false) {
		t.Error("what an aborted cell has changed is known, or its key is not")
	}
	r.Ended(7)
	if !has("old", false) || reads != 4 {
		t.Error("the keys of a session that has ended stay")
	}
}

// TestSources: what a session has been fed is the text of its cells, but for the plain and the aborted ones, and how many
// there were.
func TestSources(t *testing.T) {
	before := cells.Earlier("first", []history.Handed{{Source: "a"}, {Source: "b", Aborted: true}, {Source: "c"}})
	if !slices.Equal(before.Texts, []string{"first", "a", "c"}) || before.Cells != 3 {
		t.Errorf("%+v", before)
	}
	cell := agentkernel.Cell{Source: "d", Key: "k", Shared: true}
	fed := before.Fed(&cell, true, "n")
	if !slices.Equal(fed.Texts, before.Texts) || fed.Cells != 4 || fed.Key != "k" || fed.Bind == nil || *fed.Bind != (agentkernel.Key{Namespace: "n", Name: "k"}) {
		t.Errorf("a plain cell with a key: %+v", fed)
	}
	cell = agentkernel.Cell{Source: "e", Key: "own"}
	if fed = fed.Fed(&cell, false, "n"); fed.Texts[3] != "e" || fed.Key != "own" || fed.Bind != nil {
		t.Errorf("a cell whose key is the session's alone: %+v", fed)
	}
}

// TestProgram: a cell is a program with what its session is; its own modules go first.
func TestProgram(t *testing.T) {
	session := &agentkernel.Program{Name: "s", Language: agentkernel.Node, Args: []string{"x"}, Host: "/h", Modules: map[string]string{"a": "1", "b": "1"}}
	cell := &agentkernel.Cell{Source: "1", Modules: map[string]string{"b": "2"}}
	p := cells.Program(session, cell, cells.Sources{Texts: []string{"0"}, Cells: 2})
	want := agentkernel.Program{Name: "<cell>", Language: agentkernel.Node, Source: "1", Args: []string{"x"}, Host: "/h", Modules: map[string]string{"a": "1", "b": "2"},
		Earlier: []string{"0"}, Cells: 2}
	if !reflect.DeepEqual(p, want) || cell.Name != "<cell>" || session.Modules["b"] != "1" {
		t.Errorf("%+v, the cell is called %q, the session has %v", p, cell.Name, session.Modules)
	}
	if p := cells.Program(&agentkernel.Program{}, &agentkernel.Cell{Name: "n"}, cells.Sources{}); p.Modules == nil || p.Name != "n" {
		t.Errorf("%+v", p)
	}
}

func TestTools(t *testing.T) {
	bound := []agentkernel.Tool{{Name: "f", InputSchema: json.RawMessage("{}"), OutputSchema: json.RawMessage("{}")}}
	out := cells.Tools(bound)
	if len(out) != 1 || out[0].Name != "f" || out[0].InputSchema != nil || out[0].OutputSchema != nil {
		t.Errorf("handed over: %+v", out)
	}
	if bound[0].InputSchema == nil {
		t.Error("the tool itself has lost its schema")
	}
}

// TestFedBefore: the last cell with the key is the one; another text under the key is a conflict.
func TestFedBefore(t *testing.T) {
	handed := []history.Handed{{Seq: 3, Key: "k", Source: "1"}, {Seq: 5, Source: "1"}, {Seq: 8, Key: "k", Source: "1"}, {Seq: 9, Key: "j", Source: "2"}}
	for _, c := range []struct {
		key, source string
		at          int64
		code        agentkernel.Code
	}{{"k", "1", 8, ""}, {"j", "2", 9, ""}, {"new", "1", 0, ""}, {"j", "1", 0, agentkernel.CodeConflict}} {
		at, err := cells.FedBefore(7, handed, &agentkernel.Cell{Key: c.key, Source: c.source})
		if at != c.at || agentkernel.CodeOf(err) != c.code {
			t.Errorf("%q under %q: %d, %v", c.source, c.key, at, err)
		}
	}
}

// TestFollow: a cell is followed until it has run, or its session has ended or is paused.
func TestFollow(t *testing.T) {
	output := agentkernel.Event{Kind: agentkernel.EventOutput}
	state := func(paused bool) agentkernel.Event {
		return agentkernel.Event{Kind: agentkernel.EventState, Process: &agentkernel.Process{Paused: paused}}
	}
	result := json.RawMessage("7")
	idle := agentkernel.Event{Kind: agentkernel.EventIdle, Idle: &agentkernel.Idle{Result: result}}
	end := agentkernel.Event{Kind: agentkernel.EventEnd, Process: &agentkernel.Process{Result: result}}
	for name, c := range map[string]struct {
		events              []agentkernel.Event
		told                int
		done, ended, result bool
	}{
		"it has run":       {[]agentkernel.Event{output, idle, output}, 2, true, false, true},
		"its session ends": {[]agentkernel.Event{output, end, output}, 2, true, true, true},
		"it is paused":     {[]agentkernel.Event{state(false), state(true), idle}, 2, true, false, false},
		"nothing of it":    {[]agentkernel.Event{output, state(false)}, 2, false, false, false},
	} {
		told := 0
		got, done, err := cells.Follow(func(fn func(agentkernel.Event) error) error {
			for _, ev := range c.events {
				if err := fn(ev); err != nil {
					return err
				}
			}
			return nil
		}, func(agentkernel.Event) error { told++; return nil })
		if err != nil || told != c.told || done != c.done || got.Ended != c.ended || (got.Result != nil) != c.result {
			t.Errorf("%s: told of %d, done %t, %+v, %v", name, told, done, got, err)
		}
	}
	broken := errors.New("broken")
	if _, done, err := cells.Follow(func(fn func(agentkernel.Event) error) error { return fn(idle) }, func(agentkernel.Event) error { return broken }); done || !errors.Is(err, broken) {
		t.Errorf("a reader that fails: done %t, %v", done, err)
	}
}

// TestAborts: what an aborted cell's error says, and which errors abort a cell and not its session.
func TestAborts(t *testing.T) {
	crash := agentkernel.Errorf(agentkernel.CodeCrashed, "x", "100%% gone").WithHint("look")
	if err := cells.Broke(crash); err.Code != agentkernel.CodeCrashed || err.Hint != "look" || err.Op != agentkernel.OpCell || err.Message() != "100% gone; the session has the variables from before it, and the calls that it made stay made" {
		t.Errorf("%v (%s)", err, err.Hint)
	}
	if err := cells.Stopped(); err.Code != agentkernel.CodeInterrupted {
		t.Error(err)
	}
	if err := cells.InDoubt("a.b", crash); err.Code != agentkernel.CodeOutcomeUnknown || err.Message() != "a.b may or may not have happened: 100% gone" {
		t.Error(err)
	}
	for err, alone := range map[*agentkernel.Error]bool{crash: true, agentkernel.LimitErrorf("memory", "x"): true, agentkernel.LimitErrorf("recursion", "x"): true, agentkernel.LimitErrorf("locks", "x"): true, agentkernel.LimitErrorf("open_files", "x"): true,
		agentkernel.LimitErrorf("time", "x"): false, agentkernel.Errorf(agentkernel.CodeKilled, "x", "x"): false} {
		if cells.Alone(err) != alone {
			t.Errorf("%v ends the cell alone: %t", err, !alone)
		}
	}
}
