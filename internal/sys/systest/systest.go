// Package systest makes the calls of a family in tests, without a kernel: as one process would, one after the other.
package systest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/sys"
)

// Process is what the calls of a test come from. Its fields may be changed between two calls.
type Process struct {
	Spec  agentkernel.Spec
	Bound *sys.Binding
	Keys  map[string]json.RawMessage // its working set
	Since time.Time                  // when the next call is first made
	Again bool                       // it was made before
	// As in sys.Call.
	Budgeted, BoundsUSD bool
	Local               any // what the family keeps of it
	// Streams are those that it has open; nil: none.
	Streams sys.Streams

	ops   map[string]*sys.Op
	calls int64
}

// New is a process that can make the calls of a family.
func New(t testing.TB, f sys.Family) *Process {
	t.Helper()
	ops, err := sys.Table([]sys.Family{f})
	if err != nil {
		t.Fatal(err)
	}
	return &Process{ops: ops, Keys: map[string]json.RawMessage{}, Since: time.Unix(1_700_000_000, 0)}
}

// Change is that of a working set.
func (p *Process) Change(use sys.Use) error {
	var size int64
	for k, v := range p.Keys {
		size += int64(len(k) + len(v))
	}
	changed, err := use(p.Keys, size)
	if err != nil {
		return err
	}
	for k, v := range changed {
		if p.Keys[k] = v; v == nil {
			delete(p.Keys, k)
		}
	}
	return nil
}

func (p *Process) call(t testing.TB, name, args string) *sys.Call {
	t.Helper()
	op := p.ops[name]
	if op == nil {
		t.Fatalf("the family has no call %s", name)
	}
	p.calls++
	streams := p.Streams
	if streams == nil {
		streams = noStreams{}
	}
	return &sys.Call{PID: 1, ID: p.calls, Op: op, Args: json.RawMessage(args), Since: p.Since, Spec: &p.Spec, Effect: op.Effect,
		Again: p.Again, Budgeted: p.Budgeted, BoundsUSD: p.BoundsUSD, Bound: p.Bound, State: p, Key: "key",
		Local: p.Local, Streams: streams}
}

// noStreams are those of a process that has none.
type noStreams struct{}

func (noStreams) Next(context.Context, string) (sys.Outcome, bool, error) {
	return sys.Outcome{}, false, nil
}
func (noStreams) Close(string) (*sys.Settlement, bool) { return nil, false }
func (noStreams) Waiting(string) string                { return "" }
func (noStreams) Reserve(string) agentkernel.Amounts   { return nil }

// Now makes a call that is answered at once.
func (p *Process) Now(t testing.TB, name, args string) (sys.Outcome, error) {
	t.Helper()
	c := p.call(t, name, args)
	return c.Op.Now(c)
}

// Begin begins a call that waits.
func (p *Process) Begin(t testing.TB, name, args string) (sys.Wait, error) {
	t.Helper()
	c := p.call(t, name, args)
	return c.Op.Begin(c)
}

// Admit asks the family what is to become of a call, looks outside where it wants to, and waits for the call's turn.
func (p *Process) Admit(t testing.TB, name, args string) (sys.Admission, error) {
	t.Helper()
	_, a, err := p.admitted(t, name, args)
	return a, err
}

func (p *Process) admitted(t testing.TB, name, args string) (*sys.Call, sys.Admission, error) {
	t.Helper()
	c := p.call(t, name, args)
	if c.Op.Admit == nil {
		return c, sys.Admission{}, nil
	}
	a, err := c.Op.Admit(c)
	if err == nil && a.Later != nil {
		a, err = a.Later(t.Context())
	}
	if err == nil && a.Turn != nil && !a.Turn.Ready() {
		err = a.Turn.Wait(t.Context())
	}
	if a.Effect != "" {
		c.Effect = a.Effect
	}
	c.Admitted = a.Value
	return c, a, err
}

// Outside makes a call that leaves the kernel, as if it were permitted.
func (p *Process) Outside(ctx context.Context, t testing.TB, name, args string) (sys.Outcome, error) {
	t.Helper()
	c, _, err := p.admitted(t, name, args)
	if err != nil {
		return sys.Outcome{Settled: true}, err
	}
	return c.Op.Outside(ctx, c)
}
