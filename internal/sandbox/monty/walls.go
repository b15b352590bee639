package monty

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
)

// engineInside is where a worker behind walls sees its engine.
const engineInside = "/monty"

// walls starts workers, behind the operating system's walls where they can stand. The first worker decides that
// for all: if walls fail it, and it runs without, all run without, and that is said wherever anybody asks. Once
// walls have stood they are no longer given up: whoever could make them fail could choose to be without.
type walls struct {
	cfg    *Config
	behind start // startWalled

	mu       sync.Mutex // held while the first worker starts
	decision atomic.Pointer[decision]
	hung     atomic.Pointer[hang] // nil: the engine answers, as far as is known

	finding sync.Mutex
	engine  string // that runtime is of: path, size and time
	runtime []confine.Mount
}

// hang is that the engine started and said nothing.
type hang struct {
	err error
	at  time.Time
}

// hungFor is how long an engine that hung is not tried again. Whoever tries it waits for seconds.
const hungFor = time.Minute

// hangs keeps in mind that the engine hangs, so that no other program waits to learn it.
func (w *walls) hangs(err error) { w.hung.Store(&hang{err, w.cfg.Clock.Now()}) }

// hungNow is the error of an engine of which a worker has not answered in time.
func (w *walls) hungNow(engine string) error {
	err := agentkernel.Errorf(agentkernel.CodeUnavailable, "monty", "the engine %s hangs at its start: %w within %s", engine, errLate, housekeeping).
		WithHint("agentkernel doctor; `agentkernel setup --force` installs the engine again, where no setting names another")
	w.hangs(err)
	return err
}

// stillHung is the error of an engine that hung a short while ago.
func (w *walls) stillHung() error {
	if h := w.hung.Load(); h != nil && w.cfg.Clock.Now().Sub(h.at) < hungFor {
		return h.err
	}
	return nil
}

// decision is why there are no walls; nil: there are.
type decision struct{ problem *agentkernel.Error }

func newWalls(cfg *Config) *walls {
	w := &walls{cfg: cfg}
	w.behind = w.startWalled
	switch {
	case cfg.NoWalls != nil:
		w.decision.Store(&decision{cfg.NoWalls})
	case cfg.Walls == nil:
		w.decision.Store(&decision{agentkernel.Errorf(agentkernel.CodeUnavailable, "monty", "this kernel was made without a spawner")})
	}
	return w
}

// start starts a worker and sends it its settings; worker.settle waits for its answer.
func (w *walls) start(ctx context.Context, engine string, conf settings, ended func(*worker)) (*worker, error) {
	if err := w.stillHung(); err != nil {
		return nil, err
	}
	d := w.decision.Load()
	if d == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := w.stillHung(); err != nil { // it was found while we waited
			return nil, err
		}
		if d = w.decision.Load(); d == nil {
			return w.first(ctx, engine, conf, ended)
		}
	}
	if d.problem != nil {
		return startWorker(ctx, w.cfg, engine, conf, w.plainFor(d.problem), ended)
	}
	return startWorker(ctx, w.cfg, engine, conf, w.behind, ended)
}

// first starts the worker that decides, and waits until it has answered. mu is held.
func (w *walls) first(ctx context.Context, engine string, conf settings, ended func(*worker)) (*worker, error) {
	try := func(start start) (*worker, error) {
		wk, err := startWorker(ctx, w.cfg, engine, conf, start, ended)
		if err == nil {
			err = wk.settle(ctx)
		}
		return wk, err // after an error it is dead and put away
	}
	var problem *agentkernel.Error
	for range wallTries {
		worker, err := try(w.behind)
		if err == nil {
			w.decision.Store(&decision{})
			return worker, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		problem = agentkernel.AsError(err, agentkernel.CodeUnavailable, "monty")
		if worker == nil && confine.Passing(err) { // the next program may be luckier, behind walls
			return nil, problem
		}
		if worker == nil { // none was begun: the machine says no
			break
		}
		late, killed := worker.stopped()
		if late { // it took ten seconds
			return nil, w.hungNow(engine)
		}
		if killed {
			problem = notNow(problem)
		}
	}
	if errors.Is(problem, errNotNow) {
		return nil, problem
	}
	worker, err := try(w.plainFor(problem))
	if errors.Is(err, errLate) {
		return nil, w.hungNow(engine)
	}
	if worker == nil && confine.Passing(err) {
		return nil, err
	}
	if err != nil { // then it is not for the walls
		return nil, broken(engine, err)
	}
	w.decision.Store(&decision{problem})
	w.cfg.Logger.Warn("Monty's workers run without the operating system's walls", "why", problem.Message(), "fix", problem.Hint)
	return worker, nil
}

// wallTries is how often the first worker is tried behind walls. One that is killed or does not answer says nothing about
// them: memory may be short, or the machine busy.
const wallTries = 3

var errNotNow = errors.New("try again")

// notNow is the error of a worker that was stopped from outside before it could show whether walls stand.
func notNow(e *agentkernel.Error) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "monty", "the first worker of the engine was stopped before it could work: %s (%w)", e.Message(), errNotNow).
		WithHint("try again; if it stays so, look for what kills it (memory, a watchdog: dmesg says): agentkernel doctor")
}

// broken is the error of an engine of which no worker starts.
func broken(engine string, err error) error {
	e := agentkernel.AsError(err, agentkernel.CodeUnavailable, "monty")
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "monty", "the engine %s does not work: %s", engine, e.Message()).
		WithHint("agentkernel doctor; `agentkernel setup --force` installs the engine again, where no setting names another")
}

// runtimeOf is what an engine needs to see: itself and its libraries.
func (w *walls) runtimeOf(engine string) ([]confine.Mount, error) {
	w.finding.Lock()
	defer w.finding.Unlock()
	st, err := os.Stat(engine)
	if err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "monty worker", "the engine is gone: %w", err).WithHint("agentkernel setup")
	}
	id := fmt.Sprint(engine, st.Size(), st.ModTime().UnixNano())
	if w.engine == id {
		return w.runtime, nil
	}
	mounts, err := confine.RuntimeOf(engine)
	if err != nil {
		return nil, err
	}
	mounts[0].Target = engineInside
	w.engine, w.runtime = id, mounts
	return mounts, nil
}
