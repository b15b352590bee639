package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/retention"
	"agentkernel/internal/sys"
	"agentkernel/internal/sys/families"
	"agentkernel/internal/sys/systest/toy"
	"agentkernel/internal/sys/tool"
)

// with registers the toy family.
func with(y *toy.World) func(*kernel.Config) {
	return func(c *kernel.Config) {
		c.Families = append(families.All(families.Parts{Tools: c.Tools.(*tool.Box)}), y.Family())
	}
}

// TestAFamilyFromOutside: a family is added in one place, and has all that the kernel does for calls: classes of effect decided
// per call, recovery, waits that a crash does not prolong, the working set, deny, and what becomes of a write that nobody answered.
func TestAFamilyFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &toy.World{}
		r := newRig(t, newRAMStore(), with(y))
		var counts []string
		r.backend.add("p", func(p *prog) error {
			n, err := p.call("toy.count", `{}`)
			if err != nil {
				return err
			}
			counts = append(counts, string(n))
			for _, args := range []string{`{"for":"rent"}`, `{"for":"look","free":true}`} {
				if _, err := p.call("toy.charge", args); err != nil {
					return err
				}
			}
			waited, err := p.call("toy.wait", `{}`)
			p.print("%s", waited)
			return err
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		pass(40 * time.Second)
		if now, err := r.Process(t.Context(), p.PID); err != nil || !slices.Equal(now.WaitsFor, []string{"toy.wait"}) {
			t.Fatalf("it waits for %q %v", now.WaitsFor, err)
		}
		_ = r.store.Flush(t.Context(), 0)
		left := r.store.crash()
		_ = r.Close() // it would wake its program, too, before it notices that its store is gone
		r2 := r.boot(t, left, with(y))
		if _, err := r2.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if got, err := r2.Wait(t.Context(), p.PID); err != nil || got.State != agentkernel.StateExited || time.Since(begun) != 20*time.Second {
			t.Fatalf("%+v %v after %s", got, err, time.Since(begun))
		}
		if want := []string{fmt.Sprintf("rent /%d/2", p.PID), fmt.Sprintf("look /%d/3", p.PID)}; !slices.Equal(y.Charged(), want) {
			t.Errorf("charged %q, want %q", y.Charged(), want)
		}
		if counts = slices.Compact(counts); !slices.Equal(counts, []string{"1"}) { // it may have been parked, too
			t.Errorf("the working set was changed again by the replay: %q", counts)
		}
		entries, err := r2.Journal(t.Context(), p.PID, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		effects := map[string]agentkernel.Effect{}
		for _, e := range entries {
			if e.Kind == agentkernel.EntryCall && e.Op == "toy.charge" {
				effects[string(e.Args)] = e.Effect
			}
		}
		if effects[`{"for":"rent"}`] != agentkernel.EffectWrite || effects[`{"for":"look","free":true}`] != agentkernel.EffectRead {
			t.Errorf("effects in the journal: %v", effects)
		}
	})
}

func TestAFamilyThatFails(t *testing.T) {
	for args, want := range map[string]agentkernel.Code{
		`{"for":"rent"}`:             agentkernel.CodeOutcomeUnknown,
		`{"for":"look","free":true}`: agentkernel.CodeUnavailable,
		`{"for":7}`:                  agentkernel.CodeInvalid,
		`{"to":"x"}`:                 agentkernel.CodeInvalid,
	} {
		synctest.Test(t, func(t *testing.T) {
			y := &toy.World{Fail: errors.New("the line is dead")}
			r := newRig(t, newRAMStore(), with(y))
			var err error
			r.backend.add("p", func(p *prog) error { _, err = p.call("toy.charge", args); return nil })
			r.run(t, spec("p"))
			if agentkernel.CodeOf(err) != want {
				t.Errorf("%s: %v, want %s", args, err, want)
			}
			s := spec("p")
			s.Deny = []string{"toy"}
			r.run(t, s)
			if agentkernel.CodeOf(err) != agentkernel.CodeDenied || len(y.Charged()) > 1 {
				t.Errorf("%s denied: %v, charged %q", args, err, y.Charged())
			}
		})
	}
}

// TestAFamilyThatIsGone: a kernel that does not have the family of a call that was under way says so, and that it does not know
// what became of a write.
func TestAFamilyThatIsGone(t *testing.T) {
	for _, c := range []struct {
		op, args string
		want     agentkernel.Code
	}{
		{"toy.wait", `{}`, agentkernel.CodeVersion},
		{"toy.charge", `{"for":"look","free":true}`, agentkernel.CodeVersion},
		{"toy.charge", `{"for":"rent"}`, agentkernel.CodeOutcomeUnknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			y := &toy.World{Delay: time.Hour}
			r := newRig(t, newRAMStore(), with(y))
			var err error
			r.backend.add("p", func(p *prog) error { _, err = p.call(c.op, c.args); return nil })
			p, spawned := r.Spawn(t.Context(), spec("p"))
			if spawned != nil {
				t.Fatal(spawned)
			}
			pass(time.Second)
			_ = r.store.Flush(t.Context(), 0)
			r2 := r.boot(t, r.store.crash())
			if _, err := r2.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if got, waited := r2.Wait(t.Context(), p.PID); waited != nil || agentkernel.CodeOf(err) != c.want {
				t.Errorf("%s %s: %s %v, the call: %v", c.op, c.args, got.State, waited, err)
			}
		})
	}
}

// TestWhatIsNoFamily: the kernel does not start with calls that it could not carry out.
func TestWhatIsNoFamily(t *testing.T) {
	now := func(*sys.Call) (sys.Outcome, error) { return sys.Outcome{}, nil }
	out := func(context.Context, *sys.Call) (sys.Outcome, error) { return sys.Outcome{}, nil }
	pure := func(name string) agentkernel.Syscall {
		return agentkernel.Syscall{Name: name, Effect: agentkernel.EffectPure}
	}
	for name, f := range map[string]sys.Family{
		"of another family":   {Name: "x", Ops: []sys.Op{{Syscall: pure("y.z"), Now: now}}},
		"there are two":       {Name: "x", Ops: []sys.Op{{Syscall: pure("x.z"), Now: now}, {Syscall: pure("x.z"), Now: now}}},
		"no handler":          {Name: "x", Ops: []sys.Op{{Syscall: pure("x.z")}}},
		"two handlers":        {Name: "x", Ops: []sys.Op{{Syscall: pure("x.z"), Now: now, Outside: out}}},
		"pure outside":        {Name: "x", Ops: []sys.Op{{Syscall: pure("x.z"), Outside: out}}},
		"a write at once":     {Name: "x", Ops: []sys.Op{{Syscall: agentkernel.Syscall{Name: "x.z", Effect: agentkernel.EffectWrite}, Now: now}}},
		"the kernel's own":    {Name: "proc", Ops: []sys.Op{{Syscall: pure("proc.self"), Now: now}}},
		"without a name":      {Ops: []sys.Op{{Syscall: pure("z"), Now: now}}},
		"the name of another": {Name: "time", Ops: []sys.Op{{Syscall: pure("time.now"), Now: now}}},
		"":                    {Name: "x", Ops: []sys.Op{{Syscall: pure("x.z"), Now: now}}}, // that is one
	} {
		store := newRAMStore()
		cfg := kernel.Config{Store: store, Retention: retention.New(retention.Config{Store: store}), Tools: toolsOf(nil), Families: append(families.All(families.Parts{}), f)}
		k, err := kernel.New(cfg)
		if (err == nil) != (name == "") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = k.Close()
		}
	}
}

// TestFailureAtTheDeadline: what the other side has answered is the truth, however late it is by then; without an answer a
// write is unknown, and anything else timed out.
func TestFailureAtTheDeadline(t *testing.T) {
	for _, c := range []struct {
		effect        agentkernel.Effect
		settled, late bool
		want          string
	}{
		{agentkernel.EffectWrite, true, true, "tool_error: it is full"},
		{agentkernel.EffectWrite, true, false, "tool_error: it is full"},
		{agentkernel.EffectWrite, false, true, "outcome_unknown: "},
		{agentkernel.EffectWrite, false, false, "outcome_unknown: "},
		{agentkernel.EffectRead, true, true, "tool_error: it is full"},
		{agentkernel.EffectRead, false, true, "timeout: slow.call did not answer in time"},
		{agentkernel.EffectRead, false, false, "tool_error: it is full"},
	} {
		synctest.Test(t, func(t *testing.T) {
			outside := func(ctx context.Context, _ *sys.Call) (sys.Outcome, error) {
				if c.late {
					<-ctx.Done()
				}
				return sys.Outcome{Settled: c.settled}, agentkernel.Errorf(agentkernel.CodeTool, "slow.call", "it is full")
			}
			f := sys.Family{Name: "slow", Ops: []sys.Op{{Syscall: agentkernel.Syscall{Name: "slow.call", Effect: c.effect},
				Admit: func(*sys.Call) (sys.Admission, error) { return sys.Admission{}, nil }, Outside: outside}}}
			r := newRig(t, newRAMStore(), func(cfg *kernel.Config) {
				cfg.Families = append(families.All(families.Parts{Tools: cfg.Tools.(*tool.Box)}), f)
			})
			r.backend.add("p", func(p *prog) error {
				_, err := p.call("slow.call", `{}`)
				p.print("%s", told(err))
				return nil
			})
			if _, out := r.run(t, spec("p")); !strings.HasPrefix(out, c.want) {
				t.Errorf("%s, settled %v, late %v: %q, want %q", c.effect, c.settled, c.late, out, c.want)
			}
		})
	}
}
