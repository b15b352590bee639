package kernel_test

import (
	"context"
	"encoding/json"
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
	"agentkernel/internal/sys/tool"
)

// toy is a family of which the kernel knows nothing: a call whose effect its arguments decide, one that waits, one that keeps
// something, and one that goes wrong outside.
type toy struct {
	charged []string // by key
	fail    error
	delay   time.Duration
}

func (y *toy) family() sys.Family {
	op := func(name string, effect agentkernel.Effect, args ...string) agentkernel.Syscall {
		desc := agentkernel.Syscall{Name: "toy." + name, Guest: "toy." + name, Effect: effect, Capability: "toy", Result: "any"}
		for _, a := range args {
			desc.Args = append(desc.Args, agentkernel.Param{Name: a, Type: "any", Optional: true, Default: "None"})
		}
		return desc
	}
	return sys.Family{Name: "toy", Ops: []sys.Op{
		{Syscall: op("charge", agentkernel.EffectPaid, "for", "free"), Admit: y.admit, Outside: y.charge,
			Subject: func(args json.RawMessage) string { return strings.Trim(string(args), "{}") }},
		{Syscall: op("wait", agentkernel.EffectPure), Rerun: sys.Free, Begin: func(c *sys.Call) (sys.Wait, error) {
			return sys.Wait{Until: c.Since.Add(time.Minute), Result: json.RawMessage(`"waited"`)}, nil
		}},
		{Syscall: op("post", agentkernel.EffectPure, "to", "data", "priority"), Now: func(c *sys.Call) (sys.Outcome, error) {
			var a struct {
				To       agentkernel.PID
				Data     json.RawMessage
				Priority int
			}
			err := c.Decode(&a)
			return sys.Outcome{Result: sys.Null, Posts: []sys.Post{{To: a.To, Kind: "toy", Priority: a.Priority, Data: a.Data}}}, err
		}},
		{Syscall: op("recv", agentkernel.EffectPure, "timeout"), Begin: func(c *sys.Call) (w sys.Wait, err error) {
			var a struct{ Timeout *float64 }
			if err = c.Decode(&a); err == nil && a.Timeout != nil {
				w.Until, w.Err = c.Since.Add(sys.Seconds(*a.Timeout)), c.Errorf(agentkernel.CodeTimeout, "nothing came")
			}
			w.Kind = "toy"
			return w, err
		}},
		{Syscall: op("count", agentkernel.EffectPure), Rerun: sys.Own, Now: func(c *sys.Call) (out sys.Outcome, err error) {
			err = c.State.Change(func(keys map[string]json.RawMessage) error {
				n := json.RawMessage(fmt.Sprint(len(keys["toy"]) + 1))
				keys["toy"] = append(slices.Clip(keys["toy"]), '1')
				out = sys.Outcome{Result: n, State: map[string]json.RawMessage{"toy": keys["toy"]}}
				return nil
			})
			return out, err
		}},
	}}
}

func (y *toy) admit(c *sys.Call) (sys.Admission, error) {
	var a struct {
		For  string `json:"for"`
		Free bool   `json:"free"`
	}
	if err := c.Decode(&a); err != nil {
		return sys.Admission{}, err
	}
	effect := agentkernel.EffectWrite
	if a.Free {
		effect = agentkernel.EffectRead
	}
	return sys.Admission{Effect: effect, Subject: a.For, Name: "toy." + a.For, Pattern: "toy." + a.For, Value: a.For}, nil
}

func (y *toy) charge(ctx context.Context, c *sys.Call) (sys.Outcome, error) {
	if y.delay > 0 {
		select {
		case <-time.After(y.delay):
		case <-ctx.Done():
			return sys.Outcome{}, ctx.Err()
		}
	}
	y.charged = append(y.charged, c.Admitted.(string)+" "+c.Key[strings.IndexByte(c.Key, '/'):])
	return sys.Outcome{Result: json.RawMessage(`"done"`)}, y.fail
}

func (y *toy) config(c *kernel.Config) {
	c.Families = append(families.All(families.Parts{Tools: c.Tools.(*tool.Box)}), y.family())
}

// TestAFamilyFromOutside: a family is added in one place, and has all that the kernel does for calls: classes of effect decided
// per call, recovery, waits that a crash does not prolong, the working set, deny, and what becomes of a write that nobody answered.
func TestAFamilyFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &toy{}
		r := newRig(t, newRAMStore(), y.config)
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
		r2 := r.boot(t, left, y.config)
		if _, err := r2.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if got, err := r2.Wait(t.Context(), p.PID); err != nil || got.State != agentkernel.StateExited || time.Since(begun) != 20*time.Second {
			t.Fatalf("%+v %v after %s", got, err, time.Since(begun))
		}
		if want := []string{fmt.Sprintf("rent /%d/2", p.PID), fmt.Sprintf("look /%d/3", p.PID)}; !slices.Equal(y.charged, want) {
			t.Errorf("charged %q, want %q", y.charged, want)
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
			y := &toy{fail: errors.New("the line is dead")}
			r := newRig(t, newRAMStore(), y.config)
			var err error
			r.backend.add("p", func(p *prog) error { _, err = p.call("toy.charge", args); return nil })
			r.run(t, spec("p"))
			if agentkernel.CodeOf(err) != want {
				t.Errorf("%s: %v, want %s", args, err, want)
			}
			s := spec("p")
			s.Deny = []string{"toy"}
			r.run(t, s)
			if agentkernel.CodeOf(err) != agentkernel.CodeDenied || len(y.charged) > 1 {
				t.Errorf("%s denied: %v, charged %q", args, err, y.charged)
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
			y := &toy{delay: time.Hour}
			r := newRig(t, newRAMStore(), y.config)
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
