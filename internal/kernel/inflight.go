package kernel

import (
	"context"
	"encoding/json"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/reserve"
	"agentkernel/internal/kernel/timers"
	"agentkernel/internal/sys"
)

// inflight is a call that has no result yet.
type inflight struct {
	id  int64
	seq int64 // the entry of its intent; 0: none
	op  string
	// handler is what the kernel does for it; nil: there is no such call.
	handler *op
	effect  agentkernel.Effect
	args    json.RawMessage // in the guest's order
	label   string          // for ps and errors: "tool.call filesystem.write_file"
	since   time.Time       // when it was first issued, also in an earlier kernel
	async   bool
	again   bool // made once more by a human's decision: what the first time did is not known
	asking  bool // a human is asked whether it may be made
	// dropped says of one that was not in the journal yet that it was interrupted, or that its program has moved to another
	// backend, and will issue it again.
	dropped   bool
	admission *sys.Admission          // nil: its family was not asked
	ours      bool                    // what it holds in the journal is for this admission
	peer      string                  // see history.Peer; "": it has not gone out
	child     agentkernel.PID         // whose end it waits for; 0: of none
	origin    *agentkernel.OriginCall // the call of the origin that it stands for; nil: none
	bind      *agentkernel.Key        // is the process's when the call is answered; nil: none
	mail      string                  // the kind of post that answers it; "": none does
	timer     *timers.Timer           // answers it; nil: none does
	cancel    context.CancelFunc      // of the handler outside the kernel
	done      chan agentkernel.Reply  // hosted: whoever waits for the result
	place     string                  // hosted: where it stands in its program
	later     func()                  // makes the call, which waits until its process goes on; nil: it does not
}

// leaves says that the call leaves the kernel.
func (f *inflight) leaves() bool { return f.handler != nil && f.handler.Outside != nil }

// intended says that the journal has the intent of the call.
func (f *inflight) intended() bool { return f.seq != 0 }

// inDoubt says of a call without a result that it is a write which may have been made; p.mu is held.
func (p *process) inDoubt(f *inflight) bool {
	return f.intended() && f.effect == agentkernel.EffectWrite && !p.standing.Account.Amounts.Unsent(f.id)
}

// arrival is the result of an async call.
type arrival struct {
	agentkernel.Reply
	seq int64 // the entry that has it
}

// asksForCell says that a session waits with the call for its next cell.
func (f *inflight) asksForCell() bool { return f.handler != nil && f.handler.cell }

// brief names a call in the words of a sentence.
func (f *inflight) brief() string {
	if f.handler == nil {
		return f.label
	}
	return f.handler.Brief(f.label)
}

// waitsFor is the call as tables show what a process waits for.
func (f *inflight) waitsFor() string {
	if f.asking {
		return agentkernel.YourAnswer + f.admission.Name
	}
	return f.label + f.admission.Waits()
}

// Number is that of the call.
func (f *inflight) Number() int64 { return f.id }

// opening is how many of the calls under way open a stream; p.mu is held.
func (p *process) opening() (n int) {
	for _, f := range p.inflight {
		if f.handler != nil && f.handler.Opens {
			n++
		}
	}
	return n
}

// gone says that nobody waits for a call any more; p.mu is held.
func (p *process) gone(f *inflight) bool {
	return p.state.Terminal() || f.dropped || f.intended() && p.inflight.Find(f.id) != f
}

// left is how a call settles whose result nobody waits for any more, beside what a batch has settled already; p.mu is held.
func (p *process) left(f *inflight, settled []agentkernel.Entry) agentkernel.Amounts {
	return reserve.Left(f.id, f.ours, f.admission, p.standing.Account.Amounts, settled)
}

// stop ends what goes on for a call whose result nobody waits for any more.
func (f *inflight) stop() {
	f.timer.Stop()
	if f.cancel != nil {
		f.cancel()
	}
}
