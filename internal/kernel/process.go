package kernel

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/moves"
	"agentkernel/internal/kernel/numbered"
	"agentkernel/internal/kernel/progress"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/kernel/running"
	"agentkernel/internal/kernel/specs"
	"agentkernel/internal/kernel/steps"
	"agentkernel/internal/kernel/timers"
	"agentkernel/internal/kernel/watch"
	"agentkernel/internal/kernel/workingset"
)

// process is one row of the process table while this kernel carries it: what stays the same however often its program is
// begun again. Parked ones number in the tens of thousands: what can be shared or read again is not kept here.
type process struct {
	pid     agentkernel.PID
	spec    *specs.Shared // see Kernel.specs
	created time.Time

	mu       sync.Mutex
	state    agentkernel.State
	run      *run                     // whoever owns the process may replace it, under mu
	rc       *running.Context         // nil: nothing runs for it
	inflight numbered.List[*inflight] // calls without a result
	standing history.Standing         // of its journal
	work     *workingset.Set          // nil until first used
	pos      agentkernel.Position     // last append
	losses   *progress.Losses         // of sandboxes that something from outside has killed; nil: none
	// The small ones stand together: a hundred thousand processes may be parked.
	owned      bool // a goroutine drives the sandbox (runs or parks it)
	imaged     bool // the store may have an image of it
	recoveries atomic.Int32
	pausing    *history.Pausing  // nil: it is not paused
	halted     *agentkernel.Hold // that is over it; nil: there is none. See heed
	migration  *moves.Session    // a session that moves; nil: it does not
	ending     *ends.Ending      // nil until it ends
	watchers   []*watch.Watcher
	wall       *timers.Timer       // of the limit; nil: it is not set
	parked     *agentkernel.Parked // as its row says; nil: the row says that it is in memory
	share      room.Share          // of what the kernel holds for all
	filesFree  chan struct{}       // closed when the process has ended and nothing writes to its files; nil: it has none
}

// paused says that somebody, or the kernel, has paused the process; p.mu is held.
func (p *process) paused() bool { return p.pausing != nil }

// whyPaused is why it is paused; zero: it is not. p.mu is held.
func (p *process) whyPaused() (why history.Pause) {
	if p.pausing != nil {
		why = p.pausing.Pause
	}
	return why
}

// standsStill says that the program does not go on whatever comes; p.mu is held.
func (p *process) standsStill() bool { return p.halted != nil || p.paused() }

// Priority is the one that its Spec gives it.
func (p *process) Priority() int { return p.spec.Priority }

// Flow is the tenant with whose processes it shares slots.
func (p *process) Flow() string { return p.spec.Namespace }

// seen is the snapshot of a process whose lock is free.
func (p *process) seen() agentkernel.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshot()
}

// snapshot is what the world sees of p; p.mu is held.
func (p *process) snapshot() agentkernel.Process {
	s := agentkernel.Process{
		PID: p.pid, Parent: p.spec.Parent, Namespace: p.spec.Namespace, Name: p.spec.Program.Name,
		Backend: p.backendName(), Language: p.spec.Program.Language, Replayable: p.replayable(), Priority: p.spec.Priority,
		State: p.state, Paused: p.paused() && !p.state.Terminal(), PauseNote: p.whyPaused().Note,
		StopBy: p.standing.Account.StopBy, Deadline: p.spec.Deadline, Resident: p.run.box != nil,
		Created: p.created, Usage: p.usage(), Fingerprint: p.run.fingerprint, Recoveries: int(p.recoveries.Load()),
	}
	if p.run.moved != nil {
		s.Moved = &p.run.moved.Move
	}
	if e := p.ending; e != nil {
		s.ExitCode, s.Result, s.Error, s.UnderWay, s.Left, s.Ended = e.ExitCode, e.Result, e.Err, e.UnderWay, e.Left, e.At
	}
	if p.halted != nil && !p.state.Terminal() {
		s.Halted = p.halted.Over()
	}
	for _, f := range p.inflight {
		s.WaitsFor = append(s.WaitsFor, f.waitsFor())
	}
	if p.spec.Backend == specs.Hosted && p.run.need == needStart && !p.state.Terminal() {
		s.WaitsFor = append(s.WaitsFor, agentkernel.ItsHost)
	}
	if p.rc != nil && p.rc.Binds.Load() && p.state == agentkernel.StateRunning { // it begins when they are there
		s.WaitsFor = append(s.WaitsFor, agentkernel.ItsServers)
	}
	sort.Strings(s.WaitsFor)
	if p.state == agentkernel.StateWaiting && p.run.lastRun != 0 {
		s.WaitsSince = time.Unix(0, p.run.lastRun).UTC().Truncate(time.Microsecond)
	}
	return s.WithCause()
}

// usage is what the process has used in all its runs; p.mu is held.
func (p *process) usage() agentkernel.Usage {
	a := &p.standing.Account
	return agentkernel.Usage{Syscalls: max(a.Calls, p.run.calls), ToolCalls: a.ToolCalls, Waits: p.run.waits,
		Running: p.run.running, Output: a.Output, BytesIn: a.BytesIn}
}

// now is snapshot for who asks at this moment: the turn that is under way counts; p.mu is held.
func (p *process) now(clock time.Duration) agentkernel.Process {
	s := p.snapshot()
	if p.state == agentkernel.StateWaiting {
		s.WakeAt = p.wakesAt()
	}
	s.Usage.Running = p.ran(clock)
	return s
}

// ran is how long the program ran until a time of the clock; p.mu is held.
func (p *process) ran(clock time.Duration) time.Duration {
	if p.run.turning != 0 && !p.standsStill() {
		return p.run.running + clock - p.run.turning
	}
	return p.run.running
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
	r.Resident, r.Halted, r.WaitsFor, r.WaitsSince, r.Walls = false, "", nil, time.Time{}, p.walls()
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

// began notes that a session has got a cell; p.mu is held.
func (p *process) began(f *inflight, failure *agentkernel.Error) {
	if f.asksForCell() && failure == nil {
		p.run.cell = f.id
	}
}

// dropUnissued forgets the calls behind number `after` that the program will issue again: those of which the journal has
// nothing, since a server or a human is asked about them first, and those that only wait to be taken from the origin. What
// is under way stays so, and the program meets it when it comes to the call; p.mu is held.
func (p *process) dropUnissued(after int64) {
	for _, f := range slices.Clone(p.inflight) {
		if f.id <= after || f.intended() && !p.run.origin.Holds(f.id) {
			continue
		}
		f.dropped = true
		f.stop()
		p.inflight.Remove(f.id)
	}
}

func (k *Kernel) newProcess(pid agentkernel.PID, s *specs.Shared, b *backends.Backend) *process {
	p := &process{pid: pid, spec: s, run: &run{backend: b}, state: steps.Created}
	p.standing.Locals = k.table.locals.Empty()
	if s.HasFiles() {
		p.filesFree = make(chan struct{})
	}
	return p
}

// dropReplay lets a process end although it has not repeated what its journal says.
func (p *process) dropReplay() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run.replay = p.run.replay.Drop()
}

// step moves a process to another state or another owner; p.mu is held. A step that the table does not have is a defect of
// the kernel, and to continue would corrupt the process.
func (p *process) step(s *steps.Step) {
	state, owned, err := s.Take(p.state, p.owned)
	if err != nil {
		panic(fmt.Sprintf("kernel: pid %d: %v", p.pid, err))
	}
	p.state, p.owned = state, owned
}

// release ends the caller's ownership, unless the end of the process has done so; p.mu is held.
func (p *process) release() {
	if p.owned {
		p.step(steps.Release)
	}
}
