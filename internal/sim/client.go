package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"agentkernel"
)

// op is one call of a client. It runs in a goroutine of its own, under a context that names it.
type op struct {
	id      int
	what    string
	pid     agentkernel.PID
	sig     agentkernel.Signal
	locks   bool    // the kernel holds a lock while it reads for it
	expect  *ledger // a look: what the journal comes to when it begins; nil: who knows
	resumes int     // see World.resumes; -1: somebody was about to resume something
	hosts   bool    // it is the host of a process, for as long as it likes
	patient bool    // it began while the kernel recovered, and may wait for the end of that
	check   func()  // what it was told, when everything rests; nil: nothing more
	cancel  context.CancelFunc
	run     func(ctx context.Context, o *op) error

	// Written by its goroutine, and read by the driver when everything rests.
	ended  bool
	err    error
	answer agentkernel.Process
	told   int // events
}

type opKey struct{}

// opOf is the op for which something is done; nil: for none.
func opOf(ctx context.Context) *op {
	o, _ := ctx.Value(opKey{}).(*op)
	return o
}

func (o *op) String() string { return fmt.Sprintf("op %d: %s", o.id, o.what) }

// start lets a client begin. It comes as far as it can before the next effect.
func (w *World) start(o *op) *op {
	w.lastOp++
	if o.id, o.resumes = w.lastOp, w.resumes; w.running("resume") || w.running("resolve") {
		o.resumes = -1
	}
	o.patient = w.recovering()
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), opKey{}, o))
	o.cancel = cancel
	w.ops = append(w.ops, o)
	w.trace.note(o.String())
	go func() {
		err := o.run(ctx, o)
		w.mu.Lock()
		defer w.mu.Unlock()
		o.ended, o.err = true, err
	}()
	return o
}

// finished takes the ops that have ended since it was called last, in the order in which they began.
func (w *World) finished() (out []*op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.ops[:0]
	for _, o := range w.ops {
		if o.ended {
			o.cancel()
			out = append(out, o)
		} else {
			left = append(left, o)
		}
	}
	w.ops = left
	return out
}

func (w *World) spawn(s agentkernel.Spec) *op {
	k := w.kernel
	return w.start(&op{what: "spawn", locks: s.IdempotencyKey != "", run: func(ctx context.Context, o *op) (err error) {
		o.answer, err = k.Spawn(ctx, s)
		o.pid = o.answer.PID
		return err
	}})
}

func (w *World) wait(pid agentkernel.PID) *op {
	k := w.kernel
	return w.start(&op{what: fmt.Sprintf("wait %d", pid), pid: pid, run: func(ctx context.Context, o *op) (err error) {
		o.answer, err = k.Wait(ctx, pid)
		return err
	}})
}

func (w *World) look(pid agentkernel.PID) *op {
	k, o := w.kernel, &op{what: fmt.Sprintf("process %d", pid), pid: pid}
	if l := w.disk.ledger(pid); l.terminal || w.disk.carries(pid) {
		now := *l
		o.expect = &now
	}
	o.run = func(ctx context.Context, o *op) (err error) {
		o.answer, err = k.Process(ctx, pid)
		return err
	}
	return w.start(o)
}

func (w *World) list() *op {
	k := w.kernel
	return w.start(&op{what: "list", run: func(ctx context.Context, _ *op) error {
		for page, err := range agentkernel.Pages(ctx, k, agentkernel.Filter{}) {
			if err != nil {
				return err
			}
			for i := range page {
				w.promises.process(w, &page[i])
			}
		}
		return nil
	}})
}

func (w *World) read(pid agentkernel.PID) *op {
	k := w.kernel
	return w.start(&op{what: fmt.Sprintf("journal %d", pid), pid: pid, run: func(ctx context.Context, _ *op) error {
		entries, err := k.Journal(ctx, pid, 1, 0)
		if err == nil && len(entries) > 0 {
			w.promises.seq(w, pid, entries[len(entries)-1].Seq, "the journal")
		}
		return err
	}})
}

func (w *World) state(pid agentkernel.PID) *op {
	k := w.kernel
	return w.start(&op{what: fmt.Sprintf("state %d", pid), pid: pid, run: func(ctx context.Context, _ *op) error {
		_, err := k.State(ctx, pid)
		return err
	}})
}

// follow reads the events of a process to its end.
func (w *World) follow(pid agentkernel.PID) *op {
	k := w.kernel
	return w.start(&op{what: fmt.Sprintf("follow %d", pid), pid: pid, run: func(ctx context.Context, o *op) error {
		r := &reader{}
		return k.Events(ctx, pid, 1, true, func(ev agentkernel.Event) error {
			o.told++
			r.take(w, pid, &ev)
			return nil
		})
	}})
}

func (w *World) signal(pid agentkernel.PID, sig agentkernel.Signal) *op {
	k := w.kernel
	if sig == agentkernel.SignalKill {
		w.promises.mayBeKilled(w, pid)
	}
	return w.start(&op{what: fmt.Sprintf("%s %d", sig, pid), pid: pid, sig: sig, run: func(ctx context.Context, _ *op) error {
		return k.Signal(ctx, pid, sig)
	}})
}

// stop asks a process to end.
func (w *World) stop(pid agentkernel.PID, grace time.Duration, tree bool) *op {
	k := w.kernel
	w.promises.mayBeKilled(w, pid)
	return w.start(&op{what: fmt.Sprintf("stop %d", pid), pid: pid, sig: agentkernel.SignalStop, run: func(ctx context.Context, _ *op) error {
		return k.Signal(ctx, pid, agentkernel.SignalStop, agentkernel.SignalOptions{Grace: agentkernel.Duration(grace), Tree: tree})
	}})
}

// tell sends a user signal: each has a number of its own.
func (w *World) tell(pid agentkernel.PID) *op {
	k := w.kernel
	w.told++
	n := w.told
	return w.start(&op{what: fmt.Sprintf("tell %d %d", pid, n), pid: pid, sig: agentkernel.SignalUser, run: func(ctx context.Context, _ *op) error {
		return k.Signal(ctx, pid, agentkernel.SignalUser, agentkernel.SignalOptions{Payload: fmt.Append(nil, n)})
	}})
}

// halt lets everything stand still, or a tree, and thaw lets it go on.
func (w *World) halt(tree agentkernel.PID) *op {
	k := w.kernel
	return w.start(&op{what: fmt.Sprintf("halt %d", tree), pid: tree, run: func(ctx context.Context, _ *op) error {
		return k.Halt(ctx, agentkernel.Hold{Tree: tree})
	}})
}

func (w *World) thaw(tree agentkernel.PID) *op {
	k := w.kernel
	w.held.drop(tree) // from now on nobody can rely on it
	return w.start(&op{what: fmt.Sprintf("thaw %d", tree), pid: tree, run: func(ctx context.Context, _ *op) error {
		return k.Thaw(ctx, agentkernel.Hold{Tree: tree})
	}})
}

// resolvedResult is what a human says that a call has answered.
const resolvedResult = `"resolved"`

func (w *World) resolve(pid agentkernel.PID, call int64, d agentkernel.Decision) *op {
	k, r := w.kernel, agentkernel.Resolution{Decision: d}
	switch d {
	case agentkernel.DecisionDone:
		r.Result = json.RawMessage(resolvedResult)
	case agentkernel.DecisionFail:
		r.Message = "resolved"
	}
	w.resumes++ // it may go on then
	return w.start(&op{what: fmt.Sprintf("resolve %d/%d %s", pid, call, d), pid: pid, run: func(ctx context.Context, _ *op) error {
		return k.Resolve(ctx, pid, call, r)
	}})
}

func (w *World) recover(pid agentkernel.PID) *op {
	k := w.kernel
	return w.start(&op{what: fmt.Sprintf("recover %d", pid), pid: pid, run: func(ctx context.Context, _ *op) error {
		_, err := k.Recover(ctx, pid)
		if err == nil && pid == 0 {
			w.disk.carriesAll()
		}
		return err
	}})
}

// shutdown closes the kernel as a caller does.
func (w *World) shutdown() *op {
	k := w.kernel
	return w.start(&op{what: "shutdown", run: func(context.Context, *op) error { return k.Close() }})
}
