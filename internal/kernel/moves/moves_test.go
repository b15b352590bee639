package moves_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/moves"
)

// fake is a backend that refuses some programs, by their source, and runs some in another way.
type fake struct {
	agentkernel.Backend
	info    agentkernel.BackendInfo
	refuses map[string]agentkernel.Code
	differs string
}

func (f *fake) Info() agentkernel.BackendInfo { return f.info }

func (f *fake) Check(p agentkernel.Program) (n agentkernel.Needs, err error) {
	if code := f.refuses[p.Source]; code != "" {
		return n, agentkernel.Errorf(code, "check", "%s does not run %s", f.info.Name, p.Source)
	}
	if p.Source == f.differs {
		n.Differs = []string{"line 1 differs"}
	}
	return n, nil
}

func backend(name string, change func(*fake)) *fake {
	f := &fake{info: agentkernel.BackendInfo{Name: name, Languages: []agentkernel.Language{agentkernel.Python}, Sessions: true, Replayable: true,
		Isolation: agentkernel.IsolationProcess, Available: true}, refuses: map[string]agentkernel.Code{}}
	if change != nil {
		change(f)
	}
	return f
}

// TestCheck: a cell runs where its session is unless that cannot, or another backend would do as the language does; then the
// session goes to the first behind it that can.
func TestCheck(t *testing.T) {
	quick := backend("quick", func(f *fake) {
		f.refuses["open()"], f.refuses["("], f.refuses["everywhere"] = agentkernel.CodeUnsupported, agentkernel.CodeSyntax, agentkernel.CodeUnsupported
		f.differs = "hash()"
	})
	none := backend("none", func(f *fake) { f.info.Isolation = agentkernel.IsolationNone })
	once := backend("once", func(f *fake) { f.info.Replayable = false })
	real := backend("real", func(f *fake) { f.refuses["everywhere"] = agentkernel.CodeUnsupported })
	all := backends.New([]agentkernel.Backend{quick, none, once, real})
	for name, c := range map[string]struct {
		source, wants string
		fixed         bool // the choice of the backend was not the kernel's
		stays         bool
		to            string
		code          agentkernel.Code
		why           string
		canRun        bool
	}{
		"what it can run":             {source: "1"},
		"what it cannot":              {source: "open()", to: "real", code: agentkernel.CodeUnsupported, why: "quick does not run open()"},
		"what it runs differently":    {source: "hash()", to: "real", why: "line 1 differs", canRun: true},
		"but the session cannot move": {source: "hash()", stays: true},
		"and it cannot run it":        {source: "open()", stays: true, code: agentkernel.CodeUnsupported},
		"what is no program":          {source: "(", code: agentkernel.CodeSyntax},
		"what nobody can run":         {source: "everywhere", code: agentkernel.CodeUnsupported},
		"a backend that was chosen":   {source: "open()", fixed: true, code: agentkernel.CodeUnsupported},
		"chosen, and it differs":      {source: "hash()", fixed: true},
		"asked for":                   {source: "1", wants: "real", fixed: true, to: "real", why: "its client asked for the real backend"},
		"asked for, and refused":      {source: "everywhere", wants: "real", code: agentkernel.CodeUnsupported},
		"asked for what it has":       {source: "1", wants: "quick"},
		"left to the kernel":          {source: "1", wants: backends.Auto},
		"asked for what is not there": {source: "1", wants: "moon", code: agentkernel.CodeInvalid},
		"for one without a boundary":  {source: "1", wants: "none", code: agentkernel.CodeInvalid},
		"for one that cannot repeat":  {source: "1", wants: "once", code: agentkernel.CodeUnsupported},
	} {
		spec := agentkernel.Spec{Backend: backends.Auto, Program: agentkernel.Program{Session: true, Language: agentkernel.Python}}
		if c.fixed {
			spec.Backend = "quick"
		}
		cell := moves.Placing{PID: 7, Spec: &spec, Stays: c.stays, Backend: c.wants, Program: &agentkernel.Program{Language: agentkernel.Python, Source: c.source}}
		v := cell.Check(all, all[0])
		to, why := "", ""
		if v.To != nil {
			to, why = v.To.Name, v.Why.Message()
		}
		if to != c.to || agentkernel.CodeOf(v.Err) != c.code || why != c.why || v.CanRun != c.canRun {
			t.Errorf("%s: to %q because of %q, %v, can run %t", name, to, why, v.Err, v.CanRun)
		}
	}
}

// TestSession: whoever moves a session hears what became of it: it is there, it has gone back, or it has ended.
func TestSession(t *testing.T) {
	why, failed := agentkernel.Errorf(agentkernel.CodeUnsupported, "x", "it needs open"), agentkernel.Errorf(agentkernel.CodeDiverged, "x", "another call")
	open := func(s *moves.Session) bool {
		select {
		case <-s.Done():
			return false
		default:
			return true
		}
	}
	s := moves.NewSession(nil, 0)
	if !open(s) {
		t.Error("it is there before it has moved")
	}
	s.Arrive()
	if err := s.Outcome(7, "real", why); open(s) || err != nil {
		t.Errorf("it is there: %v", err)
	}
	s = moves.NewSession(nil, 0)
	if !s.Returns(failed, false) || !open(s) {
		t.Error("a session that diverges does not go back")
	}
	if s.Returns(failed, false) {
		t.Error("it goes back again and again")
	}
	if err := s.Outcome(7, "real", why); agentkernel.CodeOf(err) != agentkernel.CodeDiverged || !strings.Contains(err.Error(), "it needs open") || !strings.Contains(err.Error(), "another call") {
		t.Errorf("it has gone back: %v", err)
	}
	for _, end := range []*agentkernel.Error{nil, failed} {
		s = moves.NewSession(nil, 3)
		s.End(end)
		if err := s.Outcome(7, "real", why); open(s) || agentkernel.CodeOf(err) != agentkernel.CodeConflict {
			t.Errorf("it has ended: %v", err)
		}
	}
}

// TestReturns: what ends a session wherever it is, ends it; an exit is taken for a divergence.
func TestReturns(t *testing.T) {
	for name, c := range map[string]struct {
		err     *agentkernel.Error
		exited  bool
		returns bool
	}{
		"an error of the program": {agentkernel.Errorf(agentkernel.CodeProgram, "x", "x"), false, true},
		"an exit":                 {nil, true, true},
		"no error and no exit":    {nil, false, false},
		"a kill":                  {agentkernel.Errorf(agentkernel.CodeKilled, "x", "x"), false, false},
		"the wall limit":          {agentkernel.LimitErrorf("wall", "x"), false, false},
		"a limit of its sandbox":  {agentkernel.LimitErrorf("memory", "x"), false, true},
	} {
		s := moves.NewSession(nil, 0)
		if got := s.Returns(c.err, c.exited); got != c.returns {
			t.Errorf("%s: %t", name, got)
		}
		if c.returns && s.Failed == nil {
			t.Errorf("%s: it goes back for nothing", name)
		}
	}
}

// TestMoved: a journal tells of a move what was said when it was made.
func TestMoved(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	why := agentkernel.Errorf(agentkernel.CodeProgram, "x", "NameError: open\nsecond line")
	made := moves.New("quick", at, why)
	entry := made.Entry("real")
	entry.Seq = 9
	read := moves.Of(&entry)
	if read.Move != made.Move || read.Err != why || read.Seq != 9 || read.Why != "NameError: open" || entry.Kind != agentkernel.EntryMoved {
		t.Errorf("%+v, made %+v", read, made)
	}
	entry.Data = json.RawMessage("{")
	if got := moves.Of(&entry); got.From != "?" {
		t.Errorf("an entry that says nothing: from %q", got.From)
	}
	if err := made.NotStarted("real", errors.New("no engine")); err.Message() != why.Message() || !strings.Contains(err.Hint, "no engine") {
		t.Errorf("%v (%s)", err, err.Hint)
	}
}

// TestEnding: an error says what the process had moved for, unless that is the same, or it says what to do already.
func TestEnding(t *testing.T) {
	first := agentkernel.Errorf(agentkernel.CodeProgram, "x", "NameError: open")
	first.Traceback = "line 1"
	m := moves.New("quick", time.Time{}, first)
	diverged := agentkernel.Errorf(agentkernel.CodeDiverged, "x", "another call")
	if err := m.Ending(diverged, "real", 7); !strings.Contains(err.Message(), "another call") || !strings.Contains(err.Message(), "from quick to real, for: NameError: open") ||
		!strings.Contains(err.Hint, "7") || err.Traceback != "line 1" || diverged.Traceback != "" {
		t.Errorf("%v (%s)", err, err.Hint)
	}
	if err := m.Ending(agentkernel.Errorf(agentkernel.CodeProgram, "x", "KeyError"), "real", 7); err.Hint != "it had moved from quick, for: NameError: open" {
		t.Errorf("another error: %s", err.Hint)
	}
	if err := m.Ending(agentkernel.Errorf(agentkernel.CodeProgram, "x", "NameError: open"), "real", 7); err.Hint != "" {
		t.Errorf("the same: %s", err.Hint)
	}
	if err := m.Ending(agentkernel.Errorf(agentkernel.CodeProgram, "x", "KeyError").WithHint("look"), "real", 7); err.Hint != "look" {
		t.Errorf("one that says what to do: %s", err.Hint)
	}
}

// TestCellOf: the last answer to a session's call is the cell, in the session's language and environment.
func TestCellOf(t *testing.T) {
	entries := []agentkernel.Entry{
		{Kind: agentkernel.EntryResult, Call: 1, Data: json.RawMessage(`{"piece":{"name":"a","source":"1"}}`)},
		{Kind: agentkernel.EntryResult, Call: 2, Data: json.RawMessage(`{"piece":{"name":"b","source":"2","modules":{"m":"x"}}}`)},
		{Kind: agentkernel.EntryResult, Call: 3, Err: agentkernel.Errorf(agentkernel.CodeInterrupted, "x", "x")},
	}
	session := &agentkernel.Program{Name: "s", Language: agentkernel.Node, Host: "/h", Source: "0"}
	p, ok := moves.CellOf(entries, 2, session)
	if !ok || p.Name != "b" || p.Source != "2" || p.Language != agentkernel.Node || p.Host != "/h" || p.Modules["m"] != "x" {
		t.Errorf("%+v, %t", p, ok)
	}
	for _, call := range []int64{3, 4} {
		if _, ok := moves.CellOf(entries, call, session); ok {
			t.Errorf("call %d was answered with a cell", call)
		}
	}
}
