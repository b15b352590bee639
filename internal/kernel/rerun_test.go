package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// step is one line of a test program: a letter and a number.
//
//	w3  writes 3            W3  the same, async, its result is taken at the end of the parallel group
//	i3  puts 3, which is idempotent
//	r3  reads 3             R3  async
//	n   asks for the time   s3  sets state 3    l  logs    z  sleeps a second
//	p3  prints 3            x   raises          .  ends the parallel group
type steps string

func (s steps) run(p *prog) error {
	var open []int64
	for word := range strings.FieldsSeq(string(s)) {
		letter, n := word[:1], word[1:]
		var got json.RawMessage
		var err error
		switch letter {
		case "w":
			got, err = p.call("tool.call", callTool("append", `{"n":"`+n+`"}`))
		case "i":
			got, err = p.call("tool.call", callTool("put", `{"n":"`+n+`"}`))
		case "r":
			got, err = p.call("tool.call", callTool("echo", `{"n":"`+n+`"}`))
		case "W":
			open = append(open, p.async("tool.call", callTool("append", `{"n":"`+n+`"}`)))
		case "R":
			open = append(open, p.async("tool.call", callTool("echo", `{"n":"`+n+`"}`)))
		case ".":
			for range open {
				reply := p.turn(agentkernel.Turn{Kind: agentkernel.TurnWait})
				p.print("<%d>", slices.Index(open, reply.ID))
				if reply.Err != nil {
					p.print("[%s]", reply.Err.Code)
				}
			}
			open = nil
		case "n":
			got, err = p.call("time.now", `{}`)
		case "s":
			got, err = p.call("state.set", `{"key":"k","value":`+n+`}`)
		case "l":
			_, err = p.call("log.write", `{"message":"x"}`)
		case "z":
			_, err = p.call("time.sleep", `{"seconds":1}`)
		case "p":
			p.print("%s", n)
		case "x":
			return agentkernel.Errorf(agentkernel.CodeProgram, "program", "it failed")
		}
		if err != nil {
			p.print("[%s]", told(err))
			if !strings.HasSuffix(n, "?") { // a program that handles its errors
				return err
			}
		} else if letter == "n" {
			p.print("%s ", got)
		}
	}
	return nil
}

// rerunning is a spec that takes up what process pid did.
func rerunning(program string, pid agentkernel.PID, change ...func(*agentkernel.Past)) agentkernel.Spec {
	s := spec(program)
	s.Past = &agentkernel.Past{PID: pid}
	for _, c := range change {
		c(s.Past)
	}
	return s
}

// toolRuns is what the tool server did, in order: w1 r2.
func toolRuns(r *rig) string {
	r.tools.mu.Lock()
	defer r.tools.mu.Unlock()
	return strings.Join(r.tools.log, " ")
}

// watchTools makes the far end remember what it was asked for, and fail where a test says so. The results of
// parallel calls come in the reverse order of their numbers.
func watchTools(r *rig, failing func(word string) error) {
	r.tools.fail = func(c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
		var a struct{ N string }
		_ = json.Unmarshal(c.Arguments, &a)
		word := map[string]string{"append": "w", "put": "i", "echo": "r"}[c.Tool] + a.N
		r.tools.mu.Lock()
		r.tools.log = append(r.tools.log, word)
		r.tools.mu.Unlock()
		pass(time.Duration('9'-word[1]) * time.Millisecond)
		if failing == nil {
			return agentkernel.ToolResult{}, nil
		}
		return agentkernel.ToolResult{}, failing(word)
	}
}

func failFor(words ...string) func(string) error {
	return func(word string) error {
		if slices.Contains(words, word) {
			return agentkernel.Errorf(agentkernel.CodeTool, "tool.call", "%s was refused", word)
		}
		return nil
	}
}

// TestRerun runs a program, then another with the first as its origin. made is what the tool server was asked
// for by the second, out what it printed, says what was told about the origin.
func TestRerun(t *testing.T) {
	for name, c := range map[string]struct {
		first, second steps
		fails         []string
		past          func(*agentkernel.Past)
		made, out     string
		says          string
	}{
		"the same again": {first: "w1 r2 p3 w4", second: "w1 r2 p3 w4", out: "3", says: "calls 1-3 answered from the journal of process 1; none was live"},
		"fixed where it failed": {first: "w1 r2 w3 w4", second: "w1 r2 w5 w4", fails: []string{"w3"}, made: "w5 w4",
			says: "calls 1-2 answered from the journal of process 1; live from call 3: it is another than call 3 of process 1"},
		"the program failed by itself": {first: "w1 w2 x w3", second: "w1 w2 w3", made: "w3",
			says: "calls 1-2 answered from the journal of process 1; live from call 3: the journal of process 1 ends there"},
		"a call that ended the past is made again": {first: "w1 r2 w3", second: "w1 r2 w3", fails: []string{"r2"}, made: "r2",
			says: "live from call 2: it failed in process 1, which ended with that: tool_error: r2 was refused", out: ""},
		"an error that the past survived is not": {first: "w1 r2? w3", second: "w1 r2? w3 w4", fails: []string{"r2?"},
			out: "[tool_error: r2? was refused]", made: "w4", says: "calls 1-3 answered"},
		"an error that the past survived before it failed by itself is not": {first: "w1 w2? s1 n l p5 x", second: "w1 w2? s1 n l p5 w3", fails: []string{"w2?"},
			out: "[tool_error: w2? was refused]", made: "w3", says: "3 of calls 1-5 answered"},
		"state, log and clock are no difference": {first: "w1 w2 x", second: "l s1 n w1 s2 n l z w2 w3", made: "w3",
			says: "2 of calls 1-9 answered from the journal of process 1; live from call 10"},
		"what belongs to each process is not answered": {first: "s1 l x", second: "s2 l", out: "",
			says: "no call answered from the journal of process 1; none is a difference: state, log, exit and the like belong to the new process"},
		"nor where something is": {first: "s1 w1 l x", second: "s2 w1 l", out: "",
			says: "1 of calls 1-3 answered from the journal of process 1; none is a difference: state, log"},
		"a write beyond the difference is not made again": {first: "r1 w2 w3 r4 x", second: "r9 w2 r4 w3 w3", made: "r9 r4 w3",
			says: "call 2 (fake.append) was made by process 1 as call 2: answered from its journal (--again 'fake.append' makes it again)"},
		"a write that was answered already is made when it comes again": {first: "w1 r2 x", second: "w1 r9 w1", made: "r9 w1",
			says: "call 1 answered from the journal of process 1; live from call 2"},
		"an idempotent call beyond the difference is not made again": {first: "r1 i2 i2 x", second: "r9 i2 i2 i2", made: "r9 i2",
			says: "call 2 (fake.put) was made by process 1 as call 2: answered from its journal (--again 'fake.put' makes it again)"},
		"an idempotent call is made again if it is asked for": {first: "r1 i2 x", second: "r9 i2", made: "r9 i2",
			past: func(p *agentkernel.Past) { p.Again = []string{"fake.put"} }, says: "live from call 1"},
		"an idempotent call that failed is made again": {first: "r1 i2? x", second: "r9 i2?", fails: []string{"i2?"}, made: "r9 i2?",
			out: "[tool_error: i2? was refused]", says: "live from call 1"},
		"unless it is asked for": {first: "r1 w2 w3 x", second: "r9 w2 w3", made: "r9 w2 w3",
			past: func(p *agentkernel.Past) { p.Again = []string{"fake.app*"} }, says: "live from call 1"},
		"from an earlier call": {first: "r1 r2 w3 r4 x", second: "r1 r2 w3 r4 r5", made: "r2 r4 r5",
			past: func(p *agentkernel.Past) { p.From = 2 }, says: "call 1 answered from the journal of process 1; live from call 2: only calls before 2 were to be answered"},
		"a write that failed is made again": {first: "r1 w2? x", second: "r9 w2?", fails: []string{"w2?"}, made: "r9 w2?",
			out: "[tool_error: w2? was refused]", says: "no call answered from the journal of process 1; live from call 1"},
		"parallel calls": {first: "W1 R2 R3 . x", second: "W1 R2 R3 . w4", made: "w4", out: "<2><1><0>", says: "calls 1-3 answered"},
		"a difference among parallel calls": {first: "W1 R2 R3 . x", second: "W1 R9 W3 .", made: "r9 w3", out: "",
			says: "call 1 answered from the journal of process 1; live from call 2"},
		"waited for at once instead of in parallel": {first: "W1 R2 R3 . x", second: "w1 r2 r3 p9", made: "", out: "9", says: "none was live"},
		"in parallel instead of waited for":         {first: "w1 r2 r3 x", second: "W1 R2 R3 .", made: "", out: "<0><1><2>", says: "none was live"},
		"shorter":                                   {first: "w1 w2 w3", second: "w1", says: "call 1 answered from the journal of process 1; none was live"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.Now = sinceStart() })
				watchTools(r, failFor(c.fails...))
				r.backend.add("first", c.first.run)
				r.backend.add("second", c.second.run)
				first, _ := r.run(t, spec("first"))
				r.tools.log = nil
				if c.past == nil {
					c.past = func(*agentkernel.Past) {}
				}
				second, said := r.rerun(t, rerunning("second", first.PID, c.past))
				if second.PID == first.PID || sorted(toolRuns(r)) != sorted(c.made) {
					t.Errorf("made again: %q, want %q", toolRuns(r), c.made)
				}
				if got := printed(t, r, second.PID); !strings.Contains(got, c.out) {
					t.Errorf("printed %q, want %q", got, c.out)
				}
				if !strings.Contains(said, c.says) {
					t.Errorf("said %q, want %q", said, c.says)
				}
				if want := strings.Count(c.made, " ") + 1; c.made != "" && second.Usage.ToolCalls != int64(want) || c.made == "" && second.Usage.ToolCalls != 0 {
					t.Errorf("%d tool calls are counted", second.Usage.ToolCalls)
				}
				completeByItself(t, r, second.PID)
				saysWhatItTook(t, r, second.PID)
			})
		})
	}
}

// saysWhatItTook checks that a rerun says of as many calls that they were answered as its journal names calls of the past for, up to the
// first difference.
func saysWhatItTook(t interface{ Errorf(string, ...any) }, r *rig, pid agentkernel.PID) {
	entries, err := r.Journal(context.Background(), pid, 1, 0)
	if err != nil {
		t.Errorf("%v", err)
	}
	took := 0
	for _, e := range entries {
		switch {
		case e.Kind == agentkernel.EntryCall && e.Origin != nil && !e.Origin.As:
			took++
		case e.Kind == agentkernel.EntryPast:
			said := saidToBeAnswered.FindStringSubmatch(e.Note)
			if said == nil {
				t.Errorf("%q does not say how many calls were answered", e.Note)
				return
			}
			last, _ := strconv.Atoi(said[2] + said[3]) // calls 1-3: all of them, call 1: that one
			if n, err := strconv.Atoi(said[1]); err == nil {
				last = n
			}
			if last != took {
				t.Errorf("%d calls name one of the past, and it said %q", took, e.Note)
			}
			return
		}
	}
}

var saidToBeAnswered = regexp.MustCompile(`^(?:no call|(?:(\d+) of )?calls 1-(\d+)|call (1)) answered from the journal`)

// sinceStart is a clock that begins at 0 and rises.
func sinceStart() func() time.Time {
	start := time.Now()
	return func() time.Time { return time.Unix(0, 0).Add(time.Since(start)) }
}

// rerun runs a spec and gives what was said about its origin besides.
func (r *rig) rerun(t *testing.T, s agentkernel.Spec) (agentkernel.Process, string) {
	t.Helper()
	var said []string
	p, err := r.Run(t.Context(), s, func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventPast {
			said = append(said, ev.Text)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("rerun: %v", err)
	}
	return p, strings.Join(said, "\n")
}

// completeByItself checks that a journal answers all its calls itself: each has a result, as far as the process
// came, and the copied ones say where from.
func completeByItself(t *testing.T, r *rig, pid agentkernel.PID) {
	t.Helper()
	entries, err := r.Journal(t.Context(), pid, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	results := map[int64]bool{}
	for _, e := range entries {
		results[e.Call] = results[e.Call] || e.Kind == agentkernel.EntryResult || e.Done
	}
	for _, e := range entries {
		if e.Kind == agentkernel.EntryCall && !results[e.Call] {
			t.Errorf("call %d has no result in the journal of process %d", e.Call, pid)
		}
		if strings.HasPrefix(e.Note, "from pid") && e.Note != fmt.Sprintf("from pid 1 call %s", e.Note[strings.LastIndexByte(e.Note, ' ')+1:]) {
			t.Errorf("call %d says %q", e.Call, e.Note)
		}
	}
}

// TestRerunIsShownAgain: whoever reads the events later is told the same about the origin.
func TestRerunIsShownAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("first", steps("w1 x").run)
		r.backend.add("second", steps("w1 w2").run)
		first, _ := r.run(t, spec("first"))
		p, said := r.rerun(t, rerunning("second", first.PID))
		var again []string
		if err := r.Events(t.Context(), p.PID, 1, false, func(ev agentkernel.Event) error {
			if ev.Kind == agentkernel.EventPast {
				again = append(again, ev.Text)
			}
			return nil
		}); err != nil || strings.Join(again, "\n") != said {
			t.Errorf("said %q, later %q, %v", said, again, err)
		}
	})
}

// TestRerunOnAnotherBackend: the origin does not care where the program ran.
func TestRerunOnAnotherBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := newGoBackend()
		other.name, other.fingerprint = "other", "other-1"
		r := newRig(t, newRAMStore())
		r = r.boot(t, r.store, func(c *kernel.Config) { c.Backends = append(c.Backends, other) })
		watchTools(r, nil)
		r.backend.add("p", steps("w1 n r2 x").run)
		other.add("p", steps("w1 n r2 w3").run)
		first, _ := r.run(t, spec("p"))
		out := printed(t, r, first.PID)
		s := rerunning("p", first.PID)
		s.Backend = "other"
		second, _ := r.rerun(t, s)
		if second.Backend != "other" || toolRuns(r) != "w1 r2 w3" || printed(t, r, second.PID) != out {
			t.Errorf("on %s: %q %q", second.Backend, toolRuns(r), printed(t, r, second.PID))
		}
	})
}

// TestRerunWithOtherArguments: proc.self gives the new ones although the rest of its answer is the origin's.
func TestRerunWithOtherArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", func(p *prog) error {
			self, err := p.call("proc.self", `{}`)
			p.print("%s", self)
			return err
		})
		first, _ := r.run(t, spec("p"))
		s := rerunning("p", first.PID)
		s.Program.Args = []string{"new"}
		second, _ := r.rerun(t, s)
		want := `{"args":["new"],"name":"p","namespace":"default","parent":0,"pid":1,"priority":10}`
		if got := printed(t, r, second.PID); got != want {
			t.Errorf("got %s", got)
		}
	})
}

// TestRerunOfAWriteInDoubt: a write of which the origin does not know whether it happened is never made again by
// itself: the program is told, or a human decides.
func TestRerunOfAWriteInDoubt(t *testing.T) {
	for _, how := range []string{"killed", "killed, beyond the difference", "raised", "beyond the difference", "interrupted", "interrupted, beyond the difference"} {
		for _, pause := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pause %v", how, pause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, newRAMStore())
					r.tools.fail = func(c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
						if c.Tool != "append" {
							return agentkernel.ToolResult{}, nil
						}
						if strings.HasPrefix(how, "killed") || strings.HasPrefix(how, "interrupted") {
							pass(time.Hour)
						}
						return agentkernel.ToolResult{}, agentkernel.Errorf(agentkernel.CodeTimeout, "tool.call", "too slow")
					}
					r.backend.add("first", steps("r1 w2").run)
					second := steps("r1 w2")
					if strings.HasSuffix(how, "beyond the difference") {
						second = "r9 w2"
					}
					r.backend.add("second", second.run)
					first, err := r.Spawn(t.Context(), spec("first"))
					if err != nil {
						t.Fatal(err)
					}
					pass(time.Second)
					signal, sent := map[string]agentkernel.Signal{"killed": agentkernel.SignalKill, "interrupted": agentkernel.SignalInterrupt}[strings.TrimSuffix(how, ", beyond the difference")]
					if sent {
						if err := r.Signal(t.Context(), first.PID, signal); err != nil {
							t.Fatal(err)
						}
						pass(time.Second)
					}
					r.tools.mu.Lock()
					r.tools.fail = func(agentkernel.ToolCall) (agentkernel.ToolResult, error) { return agentkernel.ToolResult{}, nil }
					r.tools.mu.Unlock()
					s := rerunning("second", first.PID)
					if pause {
						s.OnUnknown = agentkernel.UnknownPause
					}
					p, _ := r.rerun(t, s)
					if r.tools.wrote() != 0 {
						t.Fatalf("the write was made again")
					}
					if !pause {
						if got := printed(t, r, p.PID); !strings.Contains(got, "outcome_unknown: fake.append may or may not have happened") {
							t.Errorf("the program was told %q", got)
						}
						return
					}
					if p, err = r.Wait(t.Context(), p.PID); err != nil || !p.Paused {
						t.Fatalf("%+v %v", p, err)
					}
					if err := r.Resolve(t.Context(), p.PID, 2, retry); err != nil {
						t.Fatal(err)
					}
					if p, err = r.Wait(t.Context(), p.PID); err != nil || p.State != agentkernel.StateExited || r.tools.wrote() != 1 {
						t.Errorf("after the decision: %+v %v, %d writes", p, err, r.tools.wrote())
					}
				})
			})
		}
	}
}

// TestRerunOfARerun: a third process has the second as its origin, and the writes of both are not made again.
func TestRerunOfARerun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		watchTools(r, nil)
		r.backend.add("one", steps("w1 w2 w3 x").run)
		r.backend.add("two", steps("w1 w8 w2 x").run) // w3 is left to nobody
		r.backend.add("three", steps("w1 w8 w2 w3 w4").run)
		one, _ := r.run(t, spec("one"))
		two, _ := r.rerun(t, rerunning("two", one.PID))
		three, said := r.rerun(t, rerunning("three", two.PID))
		if got := toolRuns(r); got != "w1 w2 w3 w8 w4" {
			t.Errorf("made: %s", got)
		}
		if !strings.Contains(said, "calls 1-3 answered from the journal of process 2") || !strings.Contains(said, "call 4 (fake.append) was made by process 1 as call 3") {
			t.Errorf("process %d was told: %s", three.PID, said)
		}
	})
}

func TestRerunRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("sleeps", steps("z").run)
		r.backend.add("long", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":1000}`); return err })
		running, _ := r.Spawn(t.Context(), spec("long"))
		paused, _ := r.Spawn(t.Context(), spec("long"))
		unfinished, _ := r.Spawn(t.Context(), spec("long"))
		ended, _ := r.run(t, spec("sleeps"))
		if err := r.Signal(t.Context(), paused.PID, agentkernel.SignalPause); err != nil {
			t.Fatal(err)
		}
		_ = r.store.Flush(t.Context(), 0)
		r2 := r.boot(t, r.store.crash())
		for _, pid := range []agentkernel.PID{running.PID, paused.PID} {
			if _, err := r2.Recover(t.Context(), pid); err != nil {
				t.Fatal(err)
			}
		}
		for name, c := range map[string]struct {
			past      agentkernel.Past
			namespace string
			code      agentkernel.Code
			says      string
		}{
			"unknown":         {agentkernel.Past{PID: 99}, "", agentkernel.CodeNotFound, "no process 99"},
			"running":         {agentkernel.Past{PID: running.PID}, "", agentkernel.CodeConflict, "process 1 is running"},
			"paused":          {agentkernel.Past{PID: paused.PID}, "", agentkernel.CodeConflict, "process 2 is paused"},
			"unfinished":      {agentkernel.Past{PID: unfinished.PID}, "", agentkernel.CodeConflict, "process 3 is unfinished"},
			"other namespace": {agentkernel.Past{PID: ended.PID}, "x", agentkernel.CodeDenied, "belongs to the namespace"},
			"no pid":          {agentkernel.Past{}, "", agentkernel.CodeInvalid, "cannot be"},
			"negative call":   {agentkernel.Past{PID: ended.PID, From: -1}, "", agentkernel.CodeInvalid, "cannot be"},
		} {
			s := spec("sleeps")
			s.Past, s.Namespace = &c.past, c.namespace
			if _, err := r2.Spawn(t.Context(), s); agentkernel.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %s that says %q", name, err, c.code, c.says)
			}
		}
	})
}

// printed is what a process wrote to its output.
func printed(t *testing.T, r *rig, pid agentkernel.PID) string {
	t.Helper()
	var out strings.Builder
	if err := r.Events(t.Context(), pid, 1, false, func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventOutput {
			out.WriteString(ev.Text)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func sorted(words string) string {
	list := strings.Fields(words)
	slices.Sort(list)
	return strings.Join(list, " ")
}

// TestAWriteUnderWayAtTheEndIsTold: by whatever is told of the end, also of a program that ended well.
func TestAWriteUnderWayAtTheEndIsTold(t *testing.T) {
	for program, state := range map[steps]agentkernel.State{"W1 R2 z": agentkernel.StateExited, "W1 R2 z x": agentkernel.StateFailed, "R2 z": ""} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore())
			r.tools.fail = func(agentkernel.ToolCall) (agentkernel.ToolResult, error) {
				pass(time.Hour)
				return agentkernel.ToolResult{}, nil
			}
			r.backend.add("p", program.run)
			p, _ := r.run(t, spec("p"))
			stored, err := r.Process(t.Context(), p.PID)
			if err != nil {
				t.Fatal(err)
			}
			const told = "tool.call fake.append was under way: look whether it happened"
			for _, p := range []agentkernel.Process{p, stored} {
				switch said := strings.Contains(p.Receipt(), told); {
				case state == agentkernel.StateExited && (!said || !slices.Equal(p.UnderWay, []string{"tool.call fake.append"})):
					t.Errorf("%s: %v, %s", program, p.UnderWay, p.Receipt())
				case state == agentkernel.StateFailed && (said || !strings.Contains(p.Error.Hint, told)):
					t.Errorf("%s: %s, %v", program, p.Receipt(), p.Error.Hint)
				case state == "" && (said || p.UnderWay != nil):
					t.Errorf("%s: %v, %s", program, p.UnderWay, p.Receipt())
				}
			}
		})
	}
}
