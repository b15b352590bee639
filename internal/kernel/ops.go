package kernel

import (
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/kernel/streams"
	"agentkernel/internal/sys"
)

// op is a system call as the kernel carries it out: one of a family, or one of its own, which change the table of processes and see it.
type op struct {
	*sys.Op
	ownOp
}

// ownOp is what the kernel's own calls do; zero for those of families.
type ownOp struct {
	// now answers at once; begin starts a call that Kernel.complete answers later, and is called again after a recovery.
	now   func(k *Kernel, p *process, f *inflight) (json.RawMessage, error)
	begin func(k *Kernel, p *process, f *inflight) error
	exits bool // it ends the process
	cell  bool // a session waits with it for its next cell
	once  bool // what it has made is not made again in a rerun, although it is pure
	// inherit puts what a rerun has of its own into the recorded answer; nil: that stays.
	inherit func(p *process, recorded json.RawMessage) json.RawMessage
}

// newOps joins the kernel's own calls and those of the families.
func newOps(families []sys.Family, ownOps []map[string]ownOp, ownRerun map[string]sys.Rerun) (map[string]*op, error) {
	table, err := sys.Table(families)
	if err != nil {
		return nil, err
	}
	all := map[string]*op{}
	for name, o := range table {
		all[name] = &op{Op: o}
	}
	for _, calls := range ownOps {
		for name, own := range calls {
			desc, ok := agentkernel.FindSyscall(name)
			if !ok || all[name] != nil {
				return nil, agentkernel.Errorf(agentkernel.CodeInternal, "kernel", "system call %s is not in the table, or is a family's too", name)
			}
			all[name] = &op{&sys.Op{Syscall: desc, Rerun: ownRerun[name]}, own}
		}
	}
	return all, nil
}

// immediate says that the call is never under way.
func (o *op) immediate() bool { return o.now != nil || o.Now != nil || o.exits }

// asksForCell says whether a session waits for its next cell with calls of a name.
func (k *Kernel) asksForCell(name string) bool {
	o := k.ops[name]
	return o != nil && o.cell
}

// newCall makes a call with what is known of it by its name.
func (k *Kernel) newCall(id int64, name string) *inflight {
	f := &inflight{id: id, op: name, label: name, handler: k.ops[name]}
	if f.handler != nil {
		f.effect = f.handler.Effect
	}
	return f
}

// opened is a call of the journal that has no result.
func (k *Kernel) opened(e *agentkernel.Entry) *inflight {
	f := k.newCall(e.Call, e.Op)
	f.seq, f.effect, f.async, f.args, f.label, f.since, f.origin = e.Seq, e.Effect, e.Async, e.Args, k.label(e), e.At, e.Origin
	return f
}

// label names a journalled call in few words, for tables and errors.
func (k *Kernel) label(e *agentkernel.Entry) string {
	if o := k.ops[e.Op]; o != nil {
		return o.Label(e.Args)
	}
	return e.Op
}

// call is what the handler of a call sees; p.mu is not held.
func (k *Kernel) call(p *process, f *inflight) *sys.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &sys.Call{PID: p.pid, ID: f.id, Op: f.handler.Op, Args: f.args, Since: f.since, Spec: &p.spec.Spec, Effect: f.effect,
		Again: f.intended() && !p.standing.Account.HasTakenOver(f.id), BoundsUSD: k.table.ledger.Bounds(&p.spec.Spec, agentkernel.AmountUSD), Budgeted: len(k.books(p)) > 0, Bound: p.run.bound, State: workingSet{k, p, f.op},
		Streams: streams.Of{Registry: k.table.streams, PID: p.pid}, Local: p.standing.Locals.Data(f.handler.Family())}
	if f.leaves() {
		c.Held = func() bool { return k.held(p, f) }
	}
	return c
}
