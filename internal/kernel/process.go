package kernel

import (
	"context"
	"encoding/json"
	"sort"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// need is what a process's sandbox needs before it can run on.
type need uint8

const (
	needStart need = iota // nothing: it has not run yet
	needAck               // to be told that its async call is under way
	needReply             // the result of the sync call process.current
	needAny               // any result of its async calls, or that it stirs
	needGo                // nothing: it was stopped while it computed
)

// process is one row of the process table while this kernel carries it. Parked ones number in the tens of
// thousands: what can be shared or read again is not kept here.
type process struct {
	pid     agentkernel.PID
	spec    *sharedSpec // see Kernel.specs
	created time.Time
	backend *backend // nil: hosted. Whoever drives the process may change it, under mu
	// fingerprint is the engine with which the program began or its image was made.
	fingerprint string
	moved       *moved // nil: it is where it began

	mu         sync.Mutex
	life       *life // see context; nil: nothing runs for it
	over       bool  // nothing may run for it any more
	state      agentkernel.State
	paused     bool
	pauseNote  string
	pauses     history.Pauses
	owned      bool // a goroutine drives the sandbox (runs or parks it)
	box        agentkernel.Sandbox
	stood      []agentkernel.Wall // around the sandbox that it had last; see walls
	reemit     bool               // the sandbox was loaded from an image and will say its turn again
	imaged     bool               // the store may have an image of it
	need       need
	stirs      bool                       // needAny: its sandbox has something to say without a result
	current    int64                      // needAck, needReply: the call
	reply      *agentkernel.Reply         // the reply that needAck or needReply asks for, once known
	replySeq   int64                      // the entry that has it
	arrived    []arrival                  // results of async calls not yet delivered, in journal order
	inflight   calls                      // calls without a result
	unresolved *history.Unresolved        // writes about which a human decides; nil: none
	past       *past                      // of a rerun; nil: none
	sealed     *sealed                    // repeats a recording and does nothing else; nil: an ordinary process
	noted      bool                       // its journal has an EntryTools
	replay     *replay                    // what the journal still knows better than the program; nil when live
	bound      *binding                   // the tools that the program imported
	servers    map[string]string          // server to the incarnation that answered last
	work       map[string]json.RawMessage // working set, nil until first used
	seq        int64                      // last journal entry
	calls      int64                      // number of the last call that the program, which may be repeating itself, has made
	account    history.Account            // of its journal
	pos        agentkernel.Position       // last append
	cause      *agentkernel.Error         // why the kernel is ending the sandbox: a limit, a signal
	piece      int64                      // a session's: the proc.next whose piece it runs, or ran last; 0: none
	coming     *coming                    // a session that moves; nil: it does not
	stays      int64                      // a session's: the proc.next for whose piece it could not move
	giveUp     *agentkernel.Error         // why the kernel is ending the sandbox of a piece, and not the session
	lastRun    int64                      // when it last left its slot, for eviction: nanoseconds of the kernel's clock
	turning    time.Time                  // since when it has been in a turn; zero: it is not, or in one that the kernel does not time
	running    time.Duration              // in its sandboxes
	waits      int64                      // how often it had to wait
	recoveries int
	losses     losses
	ending     *ending // nil until it ends
	watchers   []*watcher
	wall       *time.Timer
	filesFree  chan struct{} // closed when the process has ended and nothing writes to its files; nil: it has none
	attached   bool          // a hosted program's Syscaller is held
}

// arrival is the result of an async call.
type arrival struct {
	agentkernel.Reply
	seq int64 // the entry that has it
}

// inflight is a call that has no result yet.
type inflight struct {
	id     int64
	seq    int64 // the entry of its intent; 0: none
	op     string
	effect agentkernel.Effect
	async  bool
	args   json.RawMessage // in the guest's order
	label  string          // for ps and errors: "tool.call filesystem.write_file"
	since  time.Time       // when it was first issued, also in an earlier kernel
	again  bool            // made once more by a human's decision: what the first time did is not known
	tool   *agentkernel.Tool
	asking bool
	// dropped says that its program has moved to another backend, and will issue it again: it was not in the journal yet.
	dropped bool
	note    string                     // for the journal, beside the call
	bind    *agentkernel.Key           // is the process's when the call is answered; nil: none
	change  map[string]json.RawMessage // keys of the working set that the call changed
	timer   *time.Timer
	cancel  context.CancelFunc     // of the handler outside the kernel
	done    chan agentkernel.Reply // hosted: whoever waits for the result
}

// intended says that the journal has the intent of the call.
func (f *inflight) intended() bool { return f.seq != 0 }

// describe notes what a call turned out to be; others may be looking at it already.
func (p *process) describe(f *inflight, t *agentkernel.Tool, label string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.label = label
	if t == nil {
		return
	}
	f.tool = t
	if !f.intended() { // the class of a journalled intent stands
		f.effect = t.Effect
	}
}

// snapshot is what the world sees of p; p.mu is held.
func (p *process) snapshot() agentkernel.Process {
	s := agentkernel.Process{
		PID: p.pid, Parent: p.spec.Parent, Namespace: p.spec.Namespace, Name: p.spec.Program.Name,
		Backend: p.backendName(), Language: p.spec.Program.Language, Replayable: p.replayable(), Priority: p.spec.Priority, State: p.state, Paused: p.paused && !p.state.Terminal(),
		PauseNote: p.pauseNote, Resident: p.box != nil,
		Created: p.created, Usage: p.usage(), Fingerprint: p.fingerprint, Recoveries: p.recoveries,
	}
	if p.moved != nil {
		s.Moved = &p.moved.Move
	}
	if e := p.ending; e != nil {
		s.ExitCode, s.Result, s.Error, s.UnderWay, s.Ended = e.exitCode, e.result, e.err, e.underWay, e.at
	}
	for _, f := range p.inflight {
		label := f.label
		if f.asking {
			label = agentkernel.YourAnswer + f.tool.Server + "." + f.tool.Name
		}
		s.WaitsFor = append(s.WaitsFor, label)
	}
	sort.Strings(s.WaitsFor)
	return s
}

// usage is what the process has used in all its runs; p.mu is held.
func (p *process) usage() agentkernel.Usage {
	a := &p.account
	return agentkernel.Usage{Syscalls: max(a.Calls, p.calls), ToolCalls: a.ToolCalls, Waits: p.waits, Running: p.running, Output: a.Output, BytesIn: a.BytesIn}
}

// now is snapshot for who asks at this moment: the turn that is under way counts; p.mu is held.
func (p *process) now(at time.Time) agentkernel.Process {
	s := p.snapshot()
	if !p.turning.IsZero() && !p.paused {
		s.Usage.Running += at.Sub(p.turning)
	}
	return s
}

// backendName is the backend that has the program now; p.mu is held.
func (p *process) backendName() string {
	if p.backend == nil {
		return p.spec.Backend // hosted, or one that is not there any more
	}
	return p.backend.Name
}

// record is the row that the store keeps; p.mu is held.
func (p *process) record() *agentkernel.ProcessRecord {
	r := &agentkernel.ProcessRecord{Process: p.snapshot(), Spec: p.spec.Spec, Calls: p.calls}
	r.Resident, r.WaitsFor, r.Walls = false, nil, p.walls()
	if !r.State.Terminal() {
		r.State = agentkernel.StateUnfinished
	}
	return r
}

// walls are those around the sandbox of a process, or around the last one that it had; p.mu is held.
func (p *process) walls() []agentkernel.Wall {
	if box, ok := p.box.(agentkernel.Walled); ok {
		return box.Walls()
	}
	return p.stood
}

// takeBox takes the sandbox off a process and keeps in mind what stood around it; p.mu is held.
func (p *process) takeBox() agentkernel.Sandbox {
	box := p.box
	p.stood, p.box = p.walls(), nil
	return box
}

// setNeed says what the sandbox needs next; p.mu is held.
func (p *process) setNeed(n need, call int64, reply *agentkernel.Reply) {
	p.need, p.current, p.reply = n, call, reply
}

// deliverable says whether the sandbox could run on now; p.mu is held.
func (p *process) deliverable() bool {
	if p.paused || p.state.Terminal() || p.backend == nil {
		return false
	}
	switch p.need {
	case needStart, needGo:
		return true
	case needAny:
		return p.stirs || p.hasResult()
	}
	return p.reply != nil
}

// untaken is how many results of async calls wait for the program to take them; p.mu is held.
func (p *process) untaken() int {
	n := len(p.arrived)
	if p.replay != nil {
		for _, call := range p.replay.Order {
			if call <= p.calls { // others are of calls to which it has not come again
				n++
			}
		}
	}
	return n
}

func (p *process) hasResult() bool {
	return len(p.arrived) > 0 || p.replay != nil && len(p.replay.Order) > 0 || p.past != nil && len(p.past.ready) > 0
}
