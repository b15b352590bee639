package kernel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/recording"
	"agentkernel/internal/retention"
	"agentkernel/internal/sys/families"
	"agentkernel/internal/sys/tool"
)

// rig is a kernel with Go programs and a tool server that remembers.
type rig struct {
	*kernel.Kernel
	store   *ramStore
	backend *goBackend
	tools   *fakeTools
}

func newRig(t *testing.T, store *ramStore, change ...func(*kernel.Config)) *rig {
	t.Helper()
	r := &rig{store: store, backend: newGoBackend(), tools: &fakeTools{}}
	return r.boot(t, store, change...)
}

// boot starts a kernel on a store, with the rig's backend and tools.
func (r *rig) boot(t *testing.T, store *ramStore, change ...func(*kernel.Config)) *rig {
	t.Helper()
	cfg := kernel.Config{Store: store, Backends: []agentkernel.Backend{r.backend}, Grace: time.Millisecond,
		Tools: toolsOf(func([]string) (agentkernel.ToolSource, error) { return r.tools, nil })}
	cfg.Loaded = -1 // what is parked is read back each time
	for _, c := range change {
		c(&cfg)
	}
	if cfg.Families == nil {
		cfg.Families = families.All(families.Parts{Tools: cfg.Tools.(*tool.Box)})
	}
	if cfg.Retention == nil {
		cfg.Retention = retention.New(retention.Config{Store: cfg.Store, Now: cfg.Now})
	}
	cfg.Recordings = func(host agentkernel.RecordingHost) agentkernel.Recordings {
		return recording.New(recording.Config{Store: cfg.Store, Layers: cfg.Layers, Room: cfg.Retention.Room, Tools: cfg.Tools.(*tool.Box).Open, Version: cfg.About.Version}, host)
	}
	k, err := kernel.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = k.Close()
		checkBases(t, store)
	})
	return &rig{Kernel: k, store: store, backend: r.backend, tools: r.tools}
}

// afterCrash starts a kernel on what was durable, and waits there for the process of a Spec with a key, which has to exit.
func (r *rig) afterCrash(t *testing.T, s agentkernel.Spec, change ...func(*kernel.Config)) (*rig, agentkernel.Process) {
	t.Helper()
	next := r.boot(t, r.store.crash(), change...)
	if _, err := next.Recover(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	p, err := next.Spawn(t.Context(), s)
	if err == nil {
		p, err = next.Wait(t.Context(), p.PID)
	}
	if err != nil || p.State != agentkernel.StateExited {
		t.Fatalf("%+v %v", p, err)
	}
	return next, p
}

func toolsOf(open func([]string) (agentkernel.ToolSource, error)) *tool.Box {
	return tool.New(open, nil)
}

func spec(program string) agentkernel.Spec {
	return agentkernel.Spec{Program: agentkernel.Program{Name: program, Source: program}, Backend: "go",
		Tools: []string{"fake.json"}, Allow: []string{"fake.*"}}
}

// run runs a program to its end and gives it with what it printed.
func (r *rig) run(t *testing.T, s agentkernel.Spec) (agentkernel.Process, string) {
	t.Helper()
	var out strings.Builder
	p, err := r.Run(t.Context(), s, func(ev agentkernel.Event) error {
		if ev.Kind != agentkernel.EventBudget { // which comes beside what is printed, a moment earlier or later
			out.WriteString(ev.Text)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("run %s: %v", s.Program.Source, err)
	}
	return p, out.String()
}

func callTool(tool, args string) string {
	return fmt.Sprintf(`{"server":"fake","tool":%q,"arguments":%s}`, tool, args)
}

func TestRunOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("hello", func(p *prog) error { p.print("hello\n"); p.result = json.RawMessage("42"); return nil })
		p, out := r.run(t, spec("hello"))
		if p.State != agentkernel.StateExited || out != "hello\n" || string(p.Result) != "42" {
			t.Errorf("got %+v, %q", p, out)
		}
		if r.store.flushes != 1 {
			t.Errorf("a short run cost %d commits, want 1", r.store.flushes)
		}
		if n := r.backend.sandboxes(); n != 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	})
}

func TestSyscallsTable(t *testing.T) {
	for _, c := range []struct {
		op, args, want string
		code           agentkernel.Code
	}{
		{"proc.self", `{}`, `{"args":[],"name":"one","namespace":"default","parent":0,"pid":1,"priority":10}`, ""},
		{"state.get", `{"key":"a"}`, `null`, ""},
		{"state.get", `{"key":"a","default":7}`, `7`, ""},
		{"state.set", `{"key":"a","value":{"$tuple":[1]}}`, `null`, ""},
		{"state.set", `{"key":"a"}`, ``, agentkernel.CodeInvalid},
		{"state.delete", `{"key":"a"}`, `false`, ""},
		{"state.keys", `{}`, `[]`, ""},
		{"state.keys", `{"x":1}`, ``, agentkernel.CodeInvalid},
		{"time.now", `{}`, `946684800.0`, ""},
		{"time.sleep", `{"seconds":2}`, `null`, ""},
		{"time.sleep", `{"seconds":-1}`, ``, agentkernel.CodeInvalid},
		{"rand.bytes", `{"n":3}`, `{"$bytes":"AAAA"}`, ""},
		{"rand.bytes", `{"n":70000}`, ``, agentkernel.CodeInvalid},
		{"log.write", `{"message":"x"}`, `null`, ""},
		{"log.write", `{"message":"x","level":"loud"}`, ``, agentkernel.CodeInvalid},
		{"tool.call", callTool("echo", `{"v":1}`), `{"v":1}`, ""},
		{"tool.call", callTool("nope", `{}`), ``, agentkernel.CodeNotFound},
		{"tool.call", `{"server":"other","tool":"x"}`, ``, agentkernel.CodeNotFound},
		{"tool.list", `{}`, `[{"server":"fake","name":"append"`, ""},
		{"tool.describe", `{"server":"fake","tool":"echo"}`, `{"doc":"","effect":"read","import":"from tools.fake import echo"`, ""},
		{"proc.wait", `{"pid":99}`, ``, agentkernel.CodeNotFound},
		{"no.such", `{}`, ``, agentkernel.CodeNotFound},
	} {
		t.Run(c.op+" "+c.args, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore(), func(cfg *kernel.Config) {
					cfg.Families = families.All(families.Parts{Tools: cfg.Tools.(*tool.Box), Random: strings.NewReader(strings.Repeat("\x00", 100))})
				})
				var got json.RawMessage
				var err error
				r.backend.add("one", func(p *prog) error { got, err = p.call(c.op, c.args); return nil })
				r.run(t, spec("one"))
				if agentkernel.CodeOf(err) != c.code || !strings.HasPrefix(string(got), c.want) || c.want == "" && len(got) > 0 {
					t.Errorf("got %s, %v; want %s %s", got, err, c.want, c.code)
				}
			})
		})
	}
}

func TestExternalCallWaitsForItsIntent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("write", func(p *prog) error {
			if _, err := p.call("state.set", `{"key":"before","value":1}`); err != nil {
				return err
			}
			_, err := p.call("tool.call", callTool("append", `{"n":1}`))
			return err
		})
		r.tools.delay = func() {
			r.store.mu.Lock()
			durable := slices.Clone(r.store.durable)
			r.store.mu.Unlock()
			var ops []string
			for _, b := range durable {
				for _, e := range b.Entries {
					ops = append(ops, string(e.Kind)+" "+e.Op)
				}
			}
			if got := strings.Join(ops, ","); got != "created ,call state.set,call tool.call" {
				t.Errorf("durable when the tool ran: %s", got)
			}
		}
		r.run(t, spec("write"))
	})
}

// slowDisk takes its time to make anything durable.
type slowDisk struct {
	*ramStore
	takes time.Duration
}

func (s slowDisk) Flush(ctx context.Context, pos agentkernel.Position) error {
	select {
	case <-time.After(s.takes):
		return s.ramStore.Flush(ctx, pos)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A disk that takes longer than a call may last delays the call: nothing has gone out yet, and its program gets an answer.
func TestTheDiskIsSlowerThanACallMayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRAMStore()
		r := newRig(t, store, func(cfg *kernel.Config) { cfg.Store = slowDisk{store, time.Second} })
		r.backend.add("write", func(p *prog) error {
			_, err := p.call("tool.call", callTool("append", `{"n":1}`))
			return err
		})
		s := spec("write")
		s.Limits.CallWait = agentkernel.Duration(200 * time.Millisecond)
		if p, _ := r.run(t, s); p.State != agentkernel.StateExited || len(r.tools.lines) != 1 {
			t.Errorf("%s, %v, the tool was called %d times", p.State, p.Error, len(r.tools.lines))
		}
	})
}

func TestPermission(t *testing.T) {
	for _, c := range []struct {
		allow []string
		tool  string
		code  agentkernel.Code
	}{
		{nil, "echo", ""},
		{nil, "append", agentkernel.CodeDenied},
		{[]string{"fake.append"}, "append", ""},
		{[]string{"fake.app*"}, "append", ""},
		{[]string{"fake"}, "append", ""},
		{[]string{"*"}, "append", ""},
		{[]string{"fake.put"}, "append", agentkernel.CodeDenied},
	} {
		t.Run(fmt.Sprint(c.allow, c.tool), func(t *testing.T) {
			r := newRig(t, newRAMStore())
			var err error
			r.backend.add("p", func(p *prog) error { _, err = p.call("tool.call", callTool(c.tool, `{}`)); return nil })
			s := spec("p")
			s.Allow = c.allow
			r.run(t, s)
			if agentkernel.CodeOf(err) != c.code {
				t.Fatalf("got %v, want %q", err, c.code)
			}
			if c.code != "" && !strings.Contains(agentkernel.AsError(err, "", "").GuestText(), "--allow 'fake.append'") {
				t.Errorf("the refusal does not name the flag: %v", err)
			}
		})
	}
}

func TestAskAtTheTerminal(t *testing.T) {
	for answer, want := range map[agentkernel.Answer]string{"yes": "ok,permission_denied", "always": "ok,ok", "no": "permission_denied,permission_denied"} {
		t.Run(string(answer), func(t *testing.T) {
			r := newRig(t, newRAMStore())
			var got []string
			r.backend.add("p", func(p *prog) error {
				for range 2 {
					_, err := p.call("tool.call", callTool("append", `{}`))
					if err == nil {
						got = append(got, "ok")
						continue
					}
					got = append(got, string(agentkernel.CodeOf(err)))
				}
				return nil
			})
			s := spec("p")
			s.Allow, s.Interactive = nil, true
			asked := 0
			_, err := r.Run(t.Context(), s, func(ev agentkernel.Event) error {
				if ev.Kind != agentkernel.EventAsk {
					return nil
				}
				if asked++; asked > 1 {
					return r.Answer(t.Context(), ev.PID, ev.Ask.ID, agentkernel.AnswerNo)
				}
				return r.Answer(t.Context(), ev.PID, ev.Ask.ID, answer)
			})
			if err != nil || strings.Join(got, ",") != want {
				t.Errorf("got %v, %v; want %s", got, err, want)
			}
		})
	}
}

// pausedAtItsQuestion runs a program, which nobody allows anything, until it asks, and pauses it there.
func (r *rig) pausedAtItsQuestion(t *testing.T, program string) agentkernel.Process {
	t.Helper()
	s := spec(program)
	s.Allow, s.Interactive = nil, true
	p, err := r.Run(t.Context(), s, func(ev agentkernel.Event) error {
		if ev.Kind != agentkernel.EventAsk {
			return nil
		}
		return r.Signal(t.Context(), ev.PID, agentkernel.SignalPause)
	})
	if err != nil || !p.Paused {
		t.Fatalf("%+v, %v; want a pause", p, err)
	}
	return p
}

// A pause at the question is not a no: whoever resumes is asked again.
func TestAPauseLeavesTheQuestionOpen(t *testing.T) {
	r := newRig(t, newRAMStore())
	got := make(chan error, 1)
	r.backend.add("p", func(p *prog) error {
		_, err := p.call("tool.call", callTool("append", `{}`))
		got <- err
		return nil
	})
	p := r.pausedAtItsQuestion(t, "p")
	p, err := r.Process(t.Context(), p.PID)
	if err != nil || len(p.WaitsFor) != 1 || !strings.HasPrefix(p.WaitsFor[0], agentkernel.YourAnswer) {
		t.Fatalf("it waits for %q, %v", p.WaitsFor, err)
	}
	if err := r.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
		t.Fatal(err)
	}
	err = r.Events(t.Context(), p.PID, 1, true, func(ev agentkernel.Event) error {
		if ev.Kind != agentkernel.EventAsk {
			return nil
		}
		return r.Answer(t.Context(), ev.PID, ev.Ask.ID, agentkernel.AnswerYes)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("the call that was allowed: %v", err)
	}
}

// Nor is the end of the kernel, while the process is paused.
func TestAPauseLeavesTheQuestionOpenForTheNextKernel(t *testing.T) {
	crash := func(r *rig) *ramStore { return r.store.crash() }
	stop := func(r *rig) *ramStore {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		return r.store
	}
	for _, c := range []struct {
		answer agentkernel.Answer
		end    func(*rig) *ramStore
	}{{agentkernel.AnswerYes, crash}, {agentkernel.AnswerYes, stop}, {agentkernel.AnswerNo, stop}} {
		answer := c.answer
		r := newRig(t, newRAMStore())
		r.backend.add("p", func(p *prog) error {
			_, err := p.call("tool.call", callTool("append", `{}`))
			p.print("%s", agentkernel.CodeOf(err))
			return nil
		})
		p := r.pausedAtItsQuestion(t, "p")
		again := r
		for range 2 { // also when it was taken up, and not resumed
			again = again.boot(t, c.end(again))
			if taken, err := again.Recover(t.Context(), p.PID); err != nil || len(taken) != 1 || !taken[0].Paused {
				t.Fatalf("%+v, %v; want it to stay paused", taken, err)
			}
		}
		asked, resumed := 0, false
		err := again.Events(t.Context(), p.PID, 1, true, func(ev agentkernel.Event) error {
			if !resumed {
				resumed = true
				return again.Signal(t.Context(), p.PID, agentkernel.SignalResume)
			}
			if ev.Kind != agentkernel.EventAsk {
				return nil
			}
			asked++
			return again.Answer(t.Context(), ev.PID, ev.Ask.ID, answer)
		})
		want := map[agentkernel.Answer]string{agentkernel.AnswerYes: "", agentkernel.AnswerNo: string(agentkernel.CodeDenied)}[answer]
		if out := again.output(t, p.PID); err != nil || asked != 1 || out != want {
			t.Errorf("%s: asked %d times, the program is told %q, %v", answer, asked, out, err)
		}
	}
}

func TestAsyncResultsInOrderOfCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", func(p *prog) error {
			slow := p.async("time.sleep", `{"seconds":3}`)
			fast := p.async("time.sleep", `{"seconds":1}`)
			if _, err := p.wait(fast); err != nil {
				return err
			}
			p.print("fast ")
			_, err := p.wait(slow)
			p.print("slow")
			return err
		})
		start := time.Now()
		p, out := r.run(t, spec("p"))
		if out != "fast slow" || time.Since(start) > 4*time.Second {
			t.Errorf("%q after %v, %+v", out, time.Since(start), p)
		}
	})
}

func TestSleepersAreParkedAndComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.ParkAfter = time.Second })
		r.backend.add("p", func(p *prog) error {
			for i := range 3 {
				p.print("%d", i)
				if _, err := p.call("time.sleep", `{"seconds":60}`); err != nil {
					return err
				}
			}
			return nil
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		pass(30 * time.Second)
		if n := r.backend.sandboxes(); n != 0 {
			t.Errorf("%d sandboxes in memory while all sleep", n)
		}
		if got, _ := r.Process(t.Context(), p.PID); got.Resident || got.State != agentkernel.StateWaiting || len(got.WaitsFor) != 1 {
			t.Errorf("parked process: %+v", got)
		}
		if p, err = r.Wait(t.Context(), p.PID); err != nil || p.State != agentkernel.StateExited {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

func TestManyMoreProcessesThanSandboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.Residents, c.Slots = 4, 4 })
		r.backend.add("p", func(p *prog) error {
			_, err := p.call("time.sleep", `{"seconds":5}`)
			return err
		})
		var pids []agentkernel.PID
		for range 50 {
			p, err := r.Spawn(t.Context(), spec("p"))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, p.PID)
		}
		for _, pid := range pids {
			if p, err := r.Wait(t.Context(), pid); err != nil || p.State != agentkernel.StateExited {
				t.Fatalf("%+v, %v", p, err)
			}
		}
	})
}

func TestSignals(t *testing.T) {
	sleeper := func(p *prog) error {
		_, err := p.call("time.sleep", `{"seconds":100}`)
		if agentkernel.CodeOf(err) == agentkernel.CodeInterrupted {
			p.print("interrupted")
			return nil
		}
		return err
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", sleeper)
		for _, c := range []struct {
			sig   agentkernel.Signal
			state agentkernel.State
			after time.Duration
		}{
			{agentkernel.SignalKill, agentkernel.StateKilled, 0},
			{agentkernel.SignalInterrupt, agentkernel.StateExited, 0},
		} {
			p, err := r.Spawn(t.Context(), spec("p"))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			start := time.Now()
			if err := r.Signal(t.Context(), p.PID, c.sig); err != nil {
				t.Fatal(err)
			}
			got, err := r.Wait(t.Context(), p.PID)
			if err != nil || got.State != c.state || time.Since(start) > time.Second {
				t.Errorf("%s: %+v, %v after %v", c.sig, got, err, time.Since(start))
			}
			if err := r.Signal(t.Context(), p.PID, c.sig); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
				t.Errorf("signal to an ended process: %v", err)
			}
		}
	})
}

func TestPauseHoldsTheProgramAndResumeLetsItGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		var ticks atomic.Int64
		r.backend.add("p", func(p *prog) error {
			for range 10 {
				if _, err := p.call("time.sleep", `{"seconds":1}`); err != nil {
					return err
				}
				if !p.quiet { // a program that is loaded from an image runs through its origin again
					ticks.Add(1)
				}
			}
			return nil
		})
		p, _ := r.Spawn(t.Context(), spec("p"))
		pass(3500 * time.Millisecond)
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalPause); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if got, _ := r.Process(t.Context(), p.PID); !got.Paused || ticks.Load() != 3 {
			t.Errorf("paused: %+v after %d ticks", got, ticks.Load())
		}
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
			t.Fatal(err)
		}
		if got, _ := r.Wait(t.Context(), p.PID); got.State != agentkernel.StateExited || ticks.Load() != 10 {
			t.Errorf("resumed: %+v after %d ticks", got, ticks.Load())
		}
	})
}

func TestChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("child", func(p *prog) error {
			p.print("child of %v", p.args)
			_, err := p.call("time.sleep", `{"seconds":2}`)
			p.result = json.RawMessage(`7`)
			return err
		})
		r.backend.add("parent", func(p *prog) error {
			pid, err := p.call("proc.spawn", `{"source":"child","args":["x"],"limits":{"time":"1s"}}`)
			if err != nil {
				return err
			}
			for range 2 { // also after it has ended
				res, err := p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid))
				if err != nil {
					return err
				}
				p.print("%s\n", res)
			}
			return nil
		})
		_, out := r.run(t, spec("parent"))
		want := `{"error":null,"exit_code":0,"pid":2,"result":7,"state":"exited","stdout":"child of [x]"}` + "\n"
		if out != want+want {
			t.Errorf("got %s", out)
		}
	})
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits agentkernel.Limits
		fn     func(*prog) error
		want   string
		exit   int
	}{
		{"output", agentkernel.Limits{Output: 10}, func(p *prog) error { p.print("0123456789abc"); _, err := p.call("time.now", `{}`); return err }, "limit.output", 137},
		{"calls", agentkernel.Limits{Calls: 2}, func(p *prog) error {
			for range 3 {
				if _, err := p.call("time.now", `{}`); err != nil {
					return err
				}
			}
			return nil
		}, "limit.calls", 137},
		{"wall", agentkernel.Limits{Wall: agentkernel.Duration(time.Second)}, func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":9}`); return err }, "limit.wall", 124},
		{"time", agentkernel.Limits{Time: agentkernel.Duration(time.Second)}, func(p *prog) error { <-p.s.dead; return nil }, "limit.time", 124},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore())
				r.backend.add("p", c.fn)
				s := spec("p")
				s.Limits = c.limits
				p, _ := r.run(t, s)
				if p.State != agentkernel.StateKilled || p.Error == nil || p.Error.Op != c.want || p.ExitCode != c.exit {
					t.Errorf("got %+v, error %v", p, p.Error)
				}
			})
		})
	}
}

func TestIdempotencyKeyGivesTheSameProcess(t *testing.T) {
	r := newRig(t, newRAMStore())
	r.backend.add("p", func(*prog) error { return nil })
	r.backend.add("q", func(*prog) error { return nil })
	s := spec("p")
	s.IdempotencyKey = "once"
	a, err := r.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Spawn(t.Context(), s)
	if err != nil || a.PID != b.PID {
		t.Errorf("got %d and %d, %v", a.PID, b.PID, err)
	}
	if p, _ := r.run(t, s); p.PID != a.PID || p.State != agentkernel.StateExited {
		t.Errorf("run with the same key: %+v", p)
	}
	for what, change := range map[string]func(*agentkernel.Spec){
		"another program": func(s *agentkernel.Spec) { s.Program.Source = "q" },
		"other arguments": func(s *agentkernel.Spec) { s.Program.Args = []string{"2026"} },
	} {
		other := s
		change(&other)
		if p, err := r.Spawn(t.Context(), other); agentkernel.CodeOf(err) != agentkernel.CodeConflict || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: pid %d, %v", what, p.PID, err)
		}
	}
}

func TestRefusedBeforeAnythingRuns(t *testing.T) {
	r := newRig(t, newRAMStore())
	for name, c := range map[string]struct {
		change func(*agentkernel.Spec)
		code   agentkernel.Code
	}{
		"unknown program":  {func(s *agentkernel.Spec) { s.Program.Source = "nope" }, agentkernel.CodeSyntax},
		"unknown backend":  {func(s *agentkernel.Spec) { s.Backend = "nope" }, agentkernel.CodeInvalid},
		"invalid utf-8":    {func(s *agentkernel.Spec) { s.Program.Source = "a\n\xff" }, agentkernel.CodeSyntax},
		"bad priority":     {func(s *agentkernel.Spec) { s.Priority = -1 }, agentkernel.CodeInvalid},
		"unknown language": {func(s *agentkernel.Spec) { s.Program.Language = "cobol" }, agentkernel.CodeUnsupported},
	} {
		s := spec("p")
		c.change(&s)
		if _, err := r.Spawn(t.Context(), s); agentkernel.CodeOf(err) != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
	}
	if rows, _ := r.List(t.Context(), agentkernel.Filter{}); len(rows) != 0 {
		t.Errorf("refused programs left %d processes", len(rows))
	}
}

func TestStoreFailureStopsTheWorkAndSaysWhy(t *testing.T) {
	r := newRig(t, newRAMStore())
	full := agentkernel.Errorf(agentkernel.CodeStorage, "store", "the disk is full")
	r.backend.add("p", func(p *prog) error {
		r.store.mu.Lock()
		r.store.failed = full
		r.store.mu.Unlock()
		_, err := p.call("tool.call", callTool("append", `{}`))
		return err
	})
	_, err := r.Run(t.Context(), spec("p"), func(agentkernel.Event) error { return nil })
	if !errors.Is(err, full) && agentkernel.CodeOf(err) != agentkernel.CodeStorage {
		t.Errorf("got %v", err)
	}
	<-r.Broken()
	if _, err := r.Spawn(t.Context(), spec("p")); agentkernel.CodeOf(err) != agentkernel.CodeStorage {
		t.Errorf("spawn on a broken store: %v", err)
	}
	if len(r.tools.lines) != 0 {
		t.Errorf("the tool ran although its intent could not be made durable: %q", r.tools.lines)
	}
}

func TestHostedProcess(t *testing.T) {
	store := newRAMStore()
	r := newRig(t, store)
	s := agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "agent"}, Tools: []string{"x"}, Allow: []string{"*"}}
	p, err := r.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	// The agent runs here, in the test, and speaks to the kernel over a connection of its own.
	agent := func(sys *calls) string {
		var out []string
		for i := range 3 {
			res, err := sys.Syscall(t.Context(), "tool.call", json.RawMessage(callTool("append", fmt.Sprintf(`{"n":%d}`, i))))
			out = append(out, fmt.Sprint(string(res), err))
		}
		return strings.Join(out, " ")
	}
	sys, err := r.attach(t, p.PID)
	if err != nil {
		t.Fatal(err)
	}
	first := agent(sys)
	if _, err := r.attach(t, p.PID); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Errorf("a second holder: %v", err)
	}
	r2 := r.boot(t, store.crash())
	if _, err := r2.Recover(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if sys, err = r2.attach(t, p.PID); err != nil {
		t.Fatal(err)
	}
	if again := agent(sys); again != first || len(r.tools.lines) != 3 {
		t.Errorf("after the crash: %s, first: %s, the tool ran %d times", again, first, len(r.tools.lines))
	}
	if _, err := sys.Syscall(t.Context(), "proc.exit", json.RawMessage(`{"code":3}`)); err != nil {
		t.Fatal(err)
	}
	if got, _ := r2.Process(t.Context(), p.PID); got.State != agentkernel.StateExited || got.ExitCode != 3 {
		t.Errorf("after exit: %+v", got)
	}
}

func TestEventsAgainFromAPosition(t *testing.T) {
	r := newRig(t, newRAMStore())
	r.backend.add("p", func(p *prog) error {
		for i := range 3 {
			p.print("%d", i)
			if _, err := p.call("log.write", fmt.Sprintf(`{"message":"m%d"}`, i)); err != nil {
				return err
			}
		}
		return nil
	})
	collect := func(run func(fn func(agentkernel.Event) error) error) []string {
		var got []string
		if err := run(func(ev agentkernel.Event) error {
			got = append(got, fmt.Sprintf("%d %s %s", ev.Seq, ev.Kind, ev.Text))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	var pid agentkernel.PID
	live := collect(func(fn func(agentkernel.Event) error) error {
		p, err := r.Run(context.Background(), spec("p"), fn)
		pid = p.PID
		return err
	})
	again := collect(func(fn func(agentkernel.Event) error) error { return r.Events(t.Context(), pid, 1, true, fn) })
	if strings.Join(live, "\n") != strings.Join(again, "\n") {
		t.Errorf("live\n%s\nagain\n%s", strings.Join(live, "\n"), strings.Join(again, "\n"))
	}
	if tail := collect(func(fn func(agentkernel.Event) error) error { return r.Events(t.Context(), pid, 5, false, fn) }); len(tail) != 4 {
		t.Errorf("from 5 on: %q", tail)
	}
}

// TestPauseOfAComputingProgram is reported when the program has come to its next call, not before; until
// then it can be killed.
func TestPauseOfAComputingProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		compute := make(chan struct{})
		r.backend.add("p", func(p *prog) error {
			<-compute
			_, err := p.call("time.now", `{}`)
			return err
		})
		pids := make(chan agentkernel.PID, 8)
		reported := make(chan agentkernel.Process, 1)
		go func() {
			p, err := r.Run(t.Context(), spec("p"), func(ev agentkernel.Event) error { pids <- ev.PID; return nil })
			if err != nil {
				t.Error(err)
			}
			reported <- p
		}()
		pid := <-pids
		pass(time.Second)
		if err := r.Signal(t.Context(), pid, agentkernel.SignalPause); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case p := <-reported:
			t.Errorf("reported as paused while it computes: %+v", p)
		default:
		}
		close(compute)
		if p := <-reported; !p.Paused {
			t.Errorf("got %+v", p)
		}
		if err := r.Signal(t.Context(), pid, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		if p, err := r.Process(t.Context(), pid); err != nil || p.State != agentkernel.StateKilled {
			t.Errorf("kill returned before the end: %+v %v", p, err)
		}
	})
}

// TestOneSandboxForAll: whoever runs next has to take the place of one that is ready as well.
func TestOneSandboxForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.Residents, c.Slots = 1, 1 })
		r.backend.places = make(chan struct{}, 1)
		r.backend.add("p", func(p *prog) error {
			for i := range 20 { // of different length, so that the one in memory is often ready before the next has run
				if _, err := p.call("time.sleep", fmt.Sprintf(`{"seconds":0.00%d}`, 1+(i*7+len(p.args)*3)%5)); err != nil {
					return err
				}
			}
			return nil
		})
		var pids []agentkernel.PID
		for i := range 20 {
			s := spec("p")
			s.Program.Args = make([]string, i%5)
			p, err := r.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, p.PID)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, pid := range pids {
			if p, err := r.Wait(ctx, pid); err != nil || p.State != agentkernel.StateExited {
				t.Fatalf("%+v, %v", p, err)
			}
		}
	})
}
