package kernel_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// What a hostile program can do to its kernel through the one way out that it has. docs/security.md lists the
// attacks; each test here is one that has to fail.

func inFlight(n int) func(*agentkernel.Spec) {
	return func(s *agentkernel.Spec) { s.Limits.InFlight = n }
}

func hostileSpec(change ...func(*agentkernel.Spec)) agentkernel.Spec {
	s := spec("p")
	for _, c := range change {
		c(&s)
	}
	return s
}

func TestCallsUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		refused, rest := 0, 0
		var most int
		r.backend.add("p", func(p *prog) error {
			var ids []int64
			for range 20_000 {
				ids = append(ids, p.async("time.sleep", `{"seconds":5}`))
			}
			for range 5_000 {
				ids = append(ids, p.async("tool.call", callTool("echo", `{}`)))
			}
			most = runtime.NumGoroutine()
			if _, err := p.call("state.set", `{"key":"a","value":1}`); err != nil {
				return fmt.Errorf("a call that is never under way was refused: %w", err)
			}
			if _, err := p.call("time.sleep", `{"seconds":1}`); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
				return fmt.Errorf("a sync call beside too many: %w", err)
			}
			for _, id := range ids {
				switch _, err := p.wait(id); agentkernel.CodeOf(err) {
				case "":
					rest++
				case agentkernel.CodeLimit:
					refused++
				default:
					return err
				}
			}
			_, err := p.call("time.sleep", `{"seconds":1}`)
			return err
		})
		s := hostileSpec()
		s.Limits.Repeats = agentkernel.AnyRepeats
		p, _ := r.run(t, s)
		if p.State != agentkernel.StateExited || rest != 1000 || refused != 24_000 {
			t.Errorf("%d calls ran and %d were refused: %+v %v", rest, refused, p, p.Error)
		}
		if most > 2000 {
			t.Errorf("%d goroutines", most)
		}
	})
}

// TestRefusedCallsAreRefusedAgain cuts the power at each operation of a program whose fourth call at a time
// is refused: what was refused before the crash is refused after it, and what ran is not run again.
func TestRefusedCallsAreRefusedAgain(t *testing.T) {
	program := func(p *prog) error {
		for round := range 3 {
			var ids []int64
			for n := range 5 {
				ids = append(ids, p.async("tool.call", callTool("append", fmt.Sprintf(`{"n":"%d.%d"}`, round, n))))
			}
			for n, id := range ids {
				_, err := p.wait(id)
				p.print("%d.%d:%s ", round, n, agentkernel.CodeOf(err))
			}
			if _, err := p.call("time.sleep", `{"seconds":2}`); err != nil {
				return err
			}
		}
		return nil
	}
	total := 1
	for at := 0; at <= total; at++ {
		synctest.Test(t, func(t *testing.T) {
			store := newRAMStore()
			store.crashAt = at
			r := newRig(t, store, parkSoon)
			r.tools.delay = func() { pass(time.Second) }
			r.backend.add("p", program)
			_, _ = r.Run(t.Context(), hostileSpec(inFlight(3)), func(agentkernel.Event) error { return nil })
			if at == 0 {
				total = store.ops
			}
			synctest.Wait()
			r2 := r.boot(t, store.crash(), parkSoon)
			if _, err := r2.Recover(t.Context(), 0); err != nil {
				t.Fatalf("crash at %d: %v", at, err)
			}
			if rows, err := r2.List(t.Context(), agentkernel.Filter{}); err != nil || len(rows) == 0 {
				return // it was cut off before it existed
			}
			p, err := r2.Wait(t.Context(), 1)
			if err != nil || p.State != agentkernel.StateExited {
				t.Fatalf("crash at %d: %+v, %v %v", at, p, p.Error, err)
			}
			pass(2 * time.Second) // what the dead kernel had begun comes to its end
			out := output(t, r2, 1)
			for round := range 3 {
				for n := range 5 {
					checkRefusal(t, r2, at, fmt.Sprintf("%d.%d", round, n), n >= 3, out)
				}
			}
		})
	}
}

func checkRefusal(t *testing.T, r *rig, at int, name string, refused bool, out string) {
	t.Helper()
	ran := 0
	r.tools.mu.Lock()
	defer r.tools.mu.Unlock()
	for _, l := range r.tools.lines {
		if l == fmt.Sprintf(`{"n":%q}`, name) {
			ran++
		}
	}
	switch {
	case refused && (ran > 0 || !strings.Contains(out, name+":limit_exceeded ")):
		t.Errorf("crash at %d: call %s ran %d times although too many were under way: %s", at, name, ran, out)
	case !refused && ran > 1:
		t.Errorf("crash at %d: call %s ran %d times", at, name, ran)
	case !refused && ran == 0 && !strings.Contains(out, name+":outcome_unknown "):
		t.Errorf("crash at %d: call %s was lost: %s", at, name, out)
	}
}

// output is all that a process has printed.
func output(t *testing.T, r *rig, pid agentkernel.PID) string {
	t.Helper()
	var out strings.Builder
	err := r.Events(t.Context(), pid, 1, false, func(ev agentkernel.Event) error {
		out.WriteString(ev.Text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestChildCannotRaiseALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", func(p *prog) error {
			pid, err := p.call("proc.spawn", `{"source":"child","limits":{"in_flight":500,"calls":1000000,"memory":99999999999,"journal":99999999999999}}`)
			if err != nil {
				return err
			}
			p.result, err = p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid))
			return err
		})
		r.backend.add("child", func(p *prog) error {
			a, b := p.async("time.sleep", `{"seconds":1}`), p.async("time.sleep", `{"seconds":1}`)
			_, err := p.wait(b)
			p.print("%s", agentkernel.CodeOf(err))
			_, err = p.wait(a)
			return err
		})
		p, _ := r.run(t, hostileSpec(inFlight(1)))
		if p.State != agentkernel.StateExited || !strings.Contains(string(p.Result), `"stdout":"limit_exceeded"`) {
			t.Errorf("%s %v", p.Result, p.Error)
		}
	})
}

func TestHostedCallsUnderWayAreBounded(t *testing.T) {
	r := newRig(t, newRAMStore())
	s := agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "agent"}, Limits: agentkernel.Limits{InFlight: 2}}
	p, err := r.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	sys, err := r.attach(t, p.PID)
	if err != nil {
		t.Fatal(err)
	}
	const calls = 3
	errs := make(chan error, calls)
	for range calls {
		go func() {
			_, err := sys.Syscall(t.Context(), "time.sleep", json.RawMessage(`{"seconds":3600}`))
			errs <- err
		}()
	}
	if err := <-errs; agentkernel.CodeOf(err) != agentkernel.CodeLimit {
		t.Errorf("the third call: %v", err)
	}
	if err := r.Signal(t.Context(), p.PID, agentkernel.SignalKill); err != nil {
		t.Fatal(err)
	}
	for range calls - 1 {
		if err := <-errs; agentkernel.CodeOf(err) != agentkernel.CodeKilled {
			t.Errorf("the others: %v", err)
		}
	}
}

// TestMalformedArgumentsAreCountedAndRepeat: arguments that are no JSON are a call like any other: they
// count against the limit of calls, and a replay knows them.
func TestMalformedArgumentsAreCountedAndRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		bad := 0
		r.backend.add("p", func(p *prog) error {
			for {
				if _, err := p.call("state.set", `{"key":`); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
					return err
				}
				bad++
			}
		})
		s := hostileSpec()
		s.Limits.Calls = 50
		p, _ := r.run(t, s)
		if p.State != agentkernel.StateKilled || p.Error.Op != "limit.calls" || bad != 50 {
			t.Errorf("after %d malformed calls: %+v %v", bad, p.State, p.Error)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		store := newRAMStore()
		r := newRig(t, store)
		r.backend.add("p", func(p *prog) error {
			_, err := p.call("state.set", `{"key":`)
			p.print("%s\n", agentkernel.CodeOf(err))
			_, err = p.call("time.sleep", `{"seconds":100}`)
			return err
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Millisecond)
		r2 := r.boot(t, store.crash())
		if _, err := r2.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if p, err = r2.Wait(t.Context(), p.PID); err != nil || p.State != agentkernel.StateExited {
			t.Errorf("recovered: %+v %v %v", p.State, p.Error, err)
		}
	})
}

// TestResultsThatNobodyTakes: results wait in the kernel's memory until the program takes them; together
// they may be no larger than what the program itself may hold.
func TestResultsThatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		big := strings.Repeat("x", 1<<20)
		var codes []agentkernel.Code
		r.backend.add("p", func(p *prog) error {
			var ids []int64
			for range 10 {
				ids = append(ids, p.async("tool.call", callTool("fetch", `{}`)))
			}
			if _, err := p.call("time.sleep", `{"seconds":60}`); err != nil {
				return err
			}
			for _, id := range ids {
				_, err := p.wait(id)
				codes = append(codes, agentkernel.CodeOf(err))
			}
			return nil
		})
		r.tools.answer = func(agentkernel.ToolCall) json.RawMessage { return json.RawMessage(`"` + big + `"`) }
		s := hostileSpec()
		s.Limits.Memory = 4 << 20
		p, _ := r.run(t, s)
		lost := 0
		for _, c := range codes {
			if c == agentkernel.CodeLimit {
				lost++
			}
		}
		if p.State != agentkernel.StateExited || len(codes) != 10 || lost != 7 {
			t.Errorf("%d of %d results were dropped: %v %v", lost, len(codes), codes, p.Error)
		}
	})
}

// TestArgumentsUnderWay: arguments of calls under way are in the kernel's memory, too.
func TestArgumentsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		arg := callTool("append", `{"x":"`+strings.Repeat("x", 1<<20)+`"}`)
		refused := 0
		r.backend.add("p", func(p *prog) error {
			var ids []int64
			for range 100 {
				ids = append(ids, p.async("tool.call", arg))
			}
			for _, id := range ids {
				if _, err := p.wait(id); agentkernel.CodeOf(err) == agentkernel.CodeLimit {
					refused++
				}
			}
			return nil
		})
		r.tools.delay = func() { pass(time.Second) }
		s := hostileSpec()
		s.Limits.Memory, s.Limits.Repeats = 8<<20, agentkernel.AnyRepeats
		p, _ := r.run(t, s)
		if p.State != agentkernel.StateExited || refused < 98 {
			t.Errorf("%d of 100 were refused: %v", refused, p.Error)
		}
		if n := r.HeldForAll(); n != 0 {
			t.Errorf("%d bytes are held for nobody", n)
		}
	})
}

// TestArgumentsOfAllPrograms: each program may have what its own memory limit allows, and all together what the machine can
// spare.
func TestArgumentsOfAllPrograms(t *testing.T) {
	kernel.SetMostHeld(t, 20<<20)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		arg := callTool("append", `{"x":"`+strings.Repeat("x", 1<<20)+`"}`)
		var refused atomic.Int64
		r.backend.add("p", func(p *prog) error {
			id := p.async("tool.call", arg)
			if _, err := p.wait(id); agentkernel.CodeOf(err) == agentkernel.CodeLimit {
				refused.Add(1)
			}
			return nil
		})
		r.tools.delay = func() { pass(time.Second) }
		s := hostileSpec()
		s.Limits.Memory = 8 << 20
		var pids []agentkernel.PID
		for range 8 {
			p, err := r.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, p.PID)
		}
		for _, pid := range pids {
			if p, err := r.Wait(t.Context(), pid); err != nil || p.State != agentkernel.StateExited {
				t.Errorf("%+v %v", p, err)
			}
		}
		if n := refused.Load(); n < 2 { // who asks at the same moment may slip through
			t.Errorf("%d of 8 were refused; there is room for 4", n)
		}
	})
}
