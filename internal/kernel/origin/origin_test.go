package origin

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"agentkernel"
	"agentkernel/internal/journal"
)

// mayHaveHappened says of each code with which a write that was sent can be answered whether the write may have happened. A new
// code must be put here: what may have happened is not done again by a rerun.
var mayHaveHappened = map[agentkernel.Code]bool{
	agentkernel.CodeOutcomeUnknown: true,
	agentkernel.CodeInterrupted:    true, // the program was taken away from a call that goes on
	agentkernel.CodeAnswerLost:     true, // it was made, and its answer cannot be given
	agentkernel.CodeLimit:          true, // it answered, with more than the journal has room for

	agentkernel.CodeInvalid: false, agentkernel.CodeSyntax: false, agentkernel.CodeUnsupported: false, agentkernel.CodeNotFound: false,
	agentkernel.CodeConflict: false, agentkernel.CodeDenied: false, agentkernel.CodeTimeout: false, agentkernel.CodeUnavailable: false,
	agentkernel.CodeTool: false, agentkernel.CodeSessionLost: false, agentkernel.CodeKilled: false, agentkernel.CodeProgram: false,
	agentkernel.CodeDiverged: false, agentkernel.CodeCrashed: false, agentkernel.CodeCorrupt: false, agentkernel.CodeVersion: false,
	agentkernel.CodeStorage: false, agentkernel.CodeFenced: false, agentkernel.CodeCanceled: false, agentkernel.CodeInternal: false,
}

// TestAWriteThatMayHaveHappenedIsNotMadeAgain: neither where the rerun does what its past did, nor beyond the first
// difference. nil is a write without an answer, "" one that was answered well.
func TestAWriteThatMayHaveHappenedIsNotMadeAgain(t *testing.T) {
	source, err := os.ReadFile("../../../error.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^\tCode\w+ +Code = "(\w+)"`).FindAllSubmatch(source, -1)
	for _, m := range codes {
		if _, ok := mayHaveHappened[agentkernel.Code(m[1])]; !ok {
			t.Errorf("may a write that was answered with %s have happened?", m[1])
		}
	}
	if len(codes) != len(mayHaveHappened) {
		t.Errorf("%d codes are in error.go, %d here", len(codes), len(mayHaveHappened))
	}
	args := json.RawMessage(`{"server":"x","tool":"y"}`)
	rules := func(string) Rule { return Rule{} }
	recorded := func(answered bool, code agentkernel.Code) []agentkernel.Entry {
		e := []agentkernel.Entry{
			{Seq: 1, Kind: agentkernel.EntryCall, Call: 1, Op: "tool.call", Effect: agentkernel.EffectRead, Args: json.RawMessage(`{}`)},
			{Seq: 2, Kind: agentkernel.EntryResult, Call: 1, Data: json.RawMessage(`1`)},
			{Seq: 3, Kind: agentkernel.EntryCall, Call: 2, Op: "tool.call", Effect: agentkernel.EffectWrite, Args: args},
		}
		if answered {
			result := agentkernel.Entry{Seq: 4, Kind: agentkernel.EntryResult, Call: 2}
			if code != "" {
				result.Err = agentkernel.Errorf(code, "tool.call", "so it ended")
			}
			e = append(e, result, agentkernel.Entry{Seq: 5, Kind: agentkernel.EntryTerminal, Err: result.Err})
		}
		return e
	}
	check := func(name string, entries []agentkernel.Entry, happened bool) {
		t.Helper()
		h := New(rules, 7, 0, entries)
		if c, why := h.Match("tool.call", json.RawMessage(`{}`)); c == nil {
			t.Fatalf("%s: the first call is not answered: %s", name, why)
		}
		if c, why := h.Match("tool.call", args); (c != nil) != happened {
			t.Errorf("%s, the same again: answered %t, %q", name, c != nil, why)
		}
		h = New(rules, 7, 0, entries)
		if c, _ := h.Match("tool.call", json.RawMessage(`{"other":1}`)); c != nil {
			t.Fatalf("%s: another call is answered", name)
		}
		h.Leave()
		if c, _ := h.TakeDone("tool.call", agentkernel.EffectWrite, args, false); (c != nil) != happened {
			t.Errorf("%s, beyond the difference: answered %t", name, c != nil)
		}
		if c, _ := h.TakeDone("tool.call", agentkernel.EffectWrite, args, false); c != nil {
			t.Errorf("%s: one write answers two", name)
		}
	}
	check("without an answer", recorded(false, ""), true)
	check("answered well", recorded(true, ""), true)
	for code, happened := range mayHaveHappened {
		check(string(code), recorded(true, code), happened)
	}
	queued := func(e []agentkernel.Entry) []agentkernel.Entry {
		e[2].Reserve = agentkernel.Amounts{agentkernel.AmountUnsent: 1}
		return e
	}
	check("that waited for its turn", queued(recorded(false, "")), false)
	check("interrupted while it waited for its turn", queued(recorded(true, agentkernel.CodeInterrupted)), false)
	check("that had its turn", append(queued(recorded(false, "")), agentkernel.Entry{Seq: 4, Kind: agentkernel.EntryRetry, Call: 2}), true)
}

// TestWhatAProcessEndedWith: only the error that ended a process is tried again by a rerun.
func TestWhatAProcessEndedWith(t *testing.T) {
	failure := agentkernel.Errorf(agentkernel.CodeTool, "tool.call", "no such order").WithHint("look")
	raised := func(exception, message, traceback string) *agentkernel.Entry {
		e := agentkernel.Errorf(agentkernel.CodeProgram, "run", "%s: %s", exception, message)
		e.Exception, e.Traceback = exception, traceback
		return &agentkernel.Entry{Kind: agentkernel.EntryTerminal, Err: e}
	}
	exited := func(code string) *agentkernel.Entry {
		return &agentkernel.Entry{Kind: agentkernel.EntryTerminal, Data: json.RawMessage(`{"state":"exited","exit_code":` + code + `}`)}
	}
	stderr := func(text string) *agentkernel.Entry {
		return &agentkernel.Entry{Kind: agentkernel.EntryOutput, Stream: "stderr", Data: journal.String(text)}
	}
	const words = "kernel: tool_error: no such order (look)\n"
	for name, c := range map[string]struct {
		entry, words *agentkernel.Entry
		printed      int64
		ended        bool
	}{
		"not caught":                 {raised("ToolError", "tool_error: no such order (look)", ""), nil, 5, true},
		"the hint was another":       {raised("RuntimeError", "tool_error: no such order (ask)", ""), nil, 0, true},
		"raised anew":                {raised("ValueError", "step 3: tool_error: no such order", ""), nil, 0, true},
		"in a group":                 {raised("ExceptionGroup", "unhandled errors in a TaskGroup (1 sub-exception)", "| ToolError: tool_error: no such order (look)"), nil, 0, true},
		"the kernel's own":           {&agentkernel.Entry{Err: failure}, nil, 0, true},
		"a command":                  {exited("1"), stderr("first\n" + words), 0, true},
		"failed by itself":           {raised("ZeroDivisionError", "division by zero", ""), stderr(words), 0, false},
		"failed while it handled it": {raised("ZeroDivisionError", "division by zero", "ToolError: tool_error: no such order"), nil, 0, false},
		"a group of others":          {raised("ExceptionGroup", "unhandled errors", "| KeyError: 'order'"), nil, 0, false},
		"exit in good order":         {exited("0"), stderr(words), 0, false},
		"a command that printed":     {exited("3"), stderr(words), 5, false},
		"printed before the call":    {exited("3"), stderr(words), 3, true},
		"a command that went on":     {exited("1"), stderr(words + "trying another\n"), 0, false},
		"a command that is silent":   {exited("1"), nil, 0, false},
		"killed":                     {&agentkernel.Entry{Err: agentkernel.Errorf(agentkernel.CodeKilled, "run", "killed")}, nil, 0, false},
		"no end":                     {nil, nil, 0, false},
	} {
		if got := (ending{c.entry, c.words, c.printed}).with(&agentkernel.Entry{Seq: 4, Err: failure}); got != c.ended {
			t.Errorf("%s: %t", name, got)
		}
	}
	interrupt := &agentkernel.Entry{Seq: 4, Err: agentkernel.Errorf(agentkernel.CodeInterrupted, "tool.call", "it was interrupted")}
	for op, ended := range map[string]bool{"stop": true, agentkernel.OpDeadline: true, "kill": false} {
		end := &agentkernel.Entry{Kind: agentkernel.EntryTerminal, Err: agentkernel.Errorf(agentkernel.CodeKilled, op, "it was asked to stop, and did")}
		if got := (ending{end, nil, 0}).with(interrupt); got != ended {
			t.Errorf("%s of a process that was interrupted in a call: %t", op, got)
		}
	}
}
