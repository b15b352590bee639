package kernel

import (
	"context"
	"encoding/json"
	"sort"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/moves"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/kernel/specs"
	"agentkernel/internal/kernel/timers"
	"agentkernel/internal/kernel/watch"
	"agentkernel/internal/sys"
)

// process is one row of the process table while this kernel carries it: what stays the same however often its program is
// begun again. Parked ones number in the tens of thousands: what can be shared or read again is not kept here.
type process struct {
	pid     agentkernel.PID
	spec    *specs.Shared // see Kernel.specs
	created time.Time

	mu       sync.Mutex
	state    agentkernel.State
	run      *run                       // whoever owns the process may replace it, under mu
	rc       *runContext                // nil: nothing runs for it
	inflight calls                      // calls without a result
	standing history.Standing           // of its journal
	work     map[string]json.RawMessage // working set, nil until first used
	pos      agentkernel.Position       // last append
	losses   *losses                    // nil: none
	// The small ones stand together: a hundred thousand processes may be parked.
	owned      bool // a goroutine drives the sandbox (runs or parks it)
	paused     bool
	imaged     bool // the store may have an image of it
	recoveries int32
	pauseNote  string
	migration  *moves.Session // a session that moves; nil: it does not
	ending     *ending        // nil until it ends
	watchers   []*watch.Watcher
	wall       *timers.Timer       // of the limit; nil: it is not set
	parked     *agentkernel.Parked // as its row says; nil: the row says that it is in memory
	share      room.Share          // of what the kernel holds for all
	filesFree  chan struct{}       // closed when the process has ended and nothing writes to its files; nil: it has none
}

// arrival is the result of an async call.
type arrival struct {
	agentkernel.Reply
	seq int64 // the entry that has it
}

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
	// dropped says that its program has moved to another backend, and will issue it again: it was not in the journal yet.
	dropped   bool
	admission *sys.Admission          // nil: its family was not asked
	peer      string                  // see history.Peer; "": it has not gone out
	child     agentkernel.PID         // whose end it waits for; 0: of none
	origin    *agentkernel.OriginCall // for the journal; nil: none
	bind      *agentkernel.Key        // is the process's when the call is answered; nil: none
	mail      string                  // the kind of post that answers it; "": none does
	timer     *timers.Timer           // answers it; nil: none does
	cancel    context.CancelFunc      // of the handler outside the kernel
	done      chan agentkernel.Reply  // hosted: whoever waits for the result
}

// intended says that the journal has the intent of the call.
func (f *inflight) intended() bool { return f.seq != 0 }

// Priority is the one that its Spec gives it.
func (p *process) Priority() int { return p.spec.Priority }

// snapshot is what the world sees of p; p.mu is held.
func (p *process) snapshot() agentkernel.Process {
	s := agentkernel.Process{
		PID: p.pid, Parent: p.spec.Parent, Namespace: p.spec.Namespace, Name: p.spec.Program.Name,
		Backend: p.backendName(), Language: p.spec.Program.Language, Replayable: p.replayable(), Priority: p.spec.Priority, State: p.state, Paused: p.paused && !p.state.Terminal(),
		PauseNote: p.pauseNote, StopBy: p.standing.Account.StopBy, Resident: p.run.box != nil,
		Created: p.created, Usage: p.usage(), Fingerprint: p.run.fingerprint, Recoveries: int(p.recoveries),
	}
	if p.run.moved != nil {
		s.Moved = &p.run.moved.Move
	}
	if e := p.ending; e != nil {
		s.ExitCode, s.Result, s.Error, s.UnderWay, s.Left, s.Ended = e.exitCode, e.result, e.err, e.underWay, e.left, e.at
	}
	for _, f := range p.inflight {
		label := f.label
		if f.asking {
			label = agentkernel.YourAnswer + f.admission.Name
		}
		s.WaitsFor = append(s.WaitsFor, label)
	}
	sort.Strings(s.WaitsFor)
	if p.state == agentkernel.StateWaiting && p.run.lastRun != 0 {
		s.WaitsSince = time.Unix(0, p.run.lastRun).UTC().Truncate(time.Microsecond)
	}
	return s
}

// usage is what the process has used in all its runs; p.mu is held.
func (p *process) usage() agentkernel.Usage {
	a := &p.standing.Account
	return agentkernel.Usage{Syscalls: max(a.Calls, p.run.calls), ToolCalls: a.ToolCalls, Waits: p.run.waits, Running: p.run.running, Output: a.Output, BytesIn: a.BytesIn}
}

// now is snapshot for who asks at this moment: the turn that is under way counts; p.mu is held.
func (p *process) now(clock time.Duration) agentkernel.Process {
	s := p.snapshot()
	if p.run.turning != 0 && !p.paused {
		s.Usage.Running += clock - p.run.turning
	}
	return s
}

// backendName is the backend that has the program now; p.mu is held.
func (p *process) backendName() string {
	if p.run.backend == nil {
		return p.spec.Backend // hosted, or one that is not there any more
	}
	return p.run.backend.Name
}

// record is the row that the store keeps; p.mu is held.
func (p *process) record() *agentkernel.ProcessRecord {
	r := &agentkernel.ProcessRecord{Process: p.snapshot(), Spec: p.spec.Spec, Calls: p.run.calls}
	r.Resident, r.WaitsFor, r.WaitsSince, r.Walls = false, nil, time.Time{}, p.walls()
	if !r.State.Terminal() {
		r.State = agentkernel.StateUnfinished
		r.Parked = p.parked
	}
	return r
}

// walls are those around the sandbox of a process, or around the last one that it had; p.mu is held.
func (p *process) walls() []agentkernel.Wall {
	if box, ok := p.run.box.(agentkernel.Walled); ok {
		return box.Walls()
	}
	return p.run.lastWalls
}

// sandbox is what the program runs in; nil: in none.
func (p *process) sandbox() agentkernel.Sandbox {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run.box
}

// takeBox takes the sandbox off a process and keeps in mind what stood around it; p.mu is held.
func (p *process) takeBox() agentkernel.Sandbox {
	box := p.run.box
	p.run.lastWalls, p.run.box = p.walls(), nil
	return box
}

// setNeed says what the sandbox needs next; p.mu is held.
func (p *process) setNeed(n need, call int64, reply *agentkernel.Reply) {
	p.run.need, p.run.current, p.run.reply = n, call, reply
}

// deliverable says whether the sandbox could run on now; p.mu is held.
func (p *process) deliverable() bool {
	if p.paused || p.state.Terminal() || p.run.backend == nil {
		return false
	}
	switch p.run.need {
	case needStart, needGo:
		return true
	case needAny:
		return p.run.hasOutput || p.hasResult()
	}
	return p.run.reply != nil
}

// untaken is how many results of async calls wait for the program to take them; p.mu is held.
func (p *process) untaken() int {
	n := len(p.run.arrived)
	if p.run.replay != nil {
		for _, call := range p.run.replay.Order {
			if call <= p.run.calls { // others are of calls to which it has not come again
				n++
			}
		}
	}
	return n
}

func (p *process) hasResult() bool {
	return len(p.run.arrived) > 0 || p.run.replay != nil && len(p.run.replay.Order) > 0 || p.run.origin.Waits()
}
