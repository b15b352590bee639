package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentkernel"
)

// act lets a client do something.
func (w *World) act() {
	w.mu.Lock()
	busy := 0
	for _, o := range w.ops {
		if !o.hosts {
			busy++
		}
	}
	w.mu.Unlock()
	if busy >= w.plan.clients || w.running("shutdown") {
		w.release()
		return
	}
	rows := w.disk.rows()
	open := slices.DeleteFunc(slices.Clone(rows), func(r *agentkernel.ProcessRecord) bool { return r.State.Terminal() })
	if len(rows) == 0 || len(open) < 12 && w.chance(1, 4) {
		w.create()
		return
	}
	if len(open) == 0 || w.chance(1, 8) {
		open = rows
	}
	pid := open[w.rng.IntN(len(open))].PID
	if w.recovering() && w.impatient() {
		w.release() // several who wait for the end of a recovery go on at the same moment, in any order
		return
	}
	switch {
	case w.plan.hosted && w.chance(1, 3) && w.visit(open):
	case w.chance(1, 4) && w.decide(open):
	case w.chance(1, 8) && w.money(rows):
	case w.chance(w.plan.kills, 200):
		if r := w.disk.row(pid); len(r.Spec.Ancestors) > 0 && w.chance(1, 2) { // with all that is below it
			pid = r.Spec.Ancestors[w.rng.IntN(len(r.Spec.Ancestors))]
		}
		w.signal(pid, agentkernel.SignalKill)
	default:
		w.choose(pid)
	}
}

// choose lets a client do something about a process.
func (w *World) choose(pid agentkernel.PID) {
	switch w.rng.IntN(26) {
	case 20:
		w.stop(pid, time.Duration(1+w.rng.IntN(10_000))*time.Millisecond, w.chance(1, 2))
	case 21, 22, 23:
		w.tell(pid)
	case 24:
		if w.running("halt") || w.running("thaw") {
			w.release()
			return
		}
		if w.chance(1, 2) {
			pid = 0
		}
		w.halt(pid)
	case 25:
		w.thawOne()
	case 0, 1, 2:
		w.signal(pid, agentkernel.SignalInterrupt)
	case 3, 4:
		w.signal(pid, agentkernel.SignalPause)
	case 5, 6, 7, 8:
		w.resume(pid)
	case 9, 10:
		w.recover(pid)
	case 11:
		w.recover(0)
	case 12, 13:
		w.wait(pid)
	case 14, 15:
		w.follow(pid)
	case 16:
		w.look(pid)
	case 17:
		w.list()
	case 18:
		if w.chance(1, 2) {
			w.state(pid)
		} else {
			w.read(pid)
		}
	default:
		w.leave()
	}
}

// thawOne ends one of the holds that there are. False: there is none.
func (w *World) thawOne() bool {
	holds := w.disk.heldNow()
	if len(holds) == 0 || w.running("halt") || w.running("thaw") {
		return false
	}
	w.thaw(holds[w.rng.IntN(len(holds))].Tree)
	return true
}

// decide lets a human decide about a call whose outcome nobody knows. False: there is none.
func (w *World) decide(rows []*agentkernel.ProcessRecord) bool {
	type question struct {
		pid  agentkernel.PID
		call int64
	}
	var asked []question
	for _, r := range rows {
		l := w.disk.ledger(r.PID)
		for _, call := range slices.Sorted(maps.Keys(l.calls)) {
			if l.calls[call].asked {
				asked = append(asked, question{r.PID, call})
			}
		}
	}
	if len(asked) == 0 {
		return false
	}
	q := asked[w.rng.IntN(len(asked))]
	w.resolve(q.pid, q.call, []agentkernel.Decision{agentkernel.DecisionDone, agentkernel.DecisionFail, agentkernel.DecisionRetry}[w.rng.IntN(3)])
	return true
}

// impatient says that somebody waits for the end of a recovery already.
func (w *World) impatient() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.ops, func(o *op) bool {
		return o.patient && !o.ended && !strings.HasPrefix(o.what, "recover") && o.what != "spawn"
	})
}

// resume undoes a pause.
func (w *World) resume(pid agentkernel.PID) {
	w.resumes++
	w.signal(pid, agentkernel.SignalResume)
}

// leave lets a client go away before it has its answer.
func (w *World) leave() {
	w.mu.Lock()
	var waiting []*op
	for _, o := range w.ops {
		if !o.ended {
			waiting = append(waiting, o)
		}
	}
	w.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	o := waiting[w.rng.IntN(len(waiting))]
	w.trace.note(fmt.Sprintf("%s leaves", o))
	o.cancel()
}

// create starts a process, or asks for one that was started before.
func (w *World) create() {
	if len(w.specs) > 0 && w.chance(1, 6) {
		if !w.running("spawn") { // which of two with one key makes the process is not decided by the seed
			w.spawn(w.specs[fmt.Sprintf("key%d", w.rng.IntN(len(w.specs)))])
		}
		return
	}
	w.programs++
	if w.plan.hosted && w.chance(1, 3) {
		w.spawn(w.hostedSpec())
		return
	}
	g := &generator{rng: w.rng, depth: w.rng.IntN(3), asks: w.market != nil}
	s := agentkernel.Spec{
		Program: agentkernel.Program{Name: fmt.Sprintf("p%d", w.programs), Language: agentkernel.Python, Source: g.source()},
		Backend: "replay", Tools: []string{"/srv.json"}, Allow: []string{"*"}, Priority: 1 + w.rng.IntN(20),
	}
	if w.rng.IntN(10) < w.plan.images {
		s.Backend = "images"
	}
	if w.plan.limits {
		w.limit(&s)
	}
	if w.chance(1, 3) {
		w.endow(&s)
	}
	if len(w.disk.allowances) > 0 && w.chance(1, 3) {
		s.OnBudget = []agentkernel.OnBudget{agentkernel.BudgetRaise, agentkernel.BudgetKill}[w.rng.IntN(2)]
	}
	if w.chance(1, 5) {
		s.OnUnknown = agentkernel.UnknownPause
	}
	if w.chance(1, 4) {
		s.IdempotencyKey = fmt.Sprintf("key%d", len(w.specs))
		w.specs[s.IdempotencyKey] = s
	} else if g.depth == 0 && w.chance(1, 6) { // which of a tree ends first at a deadline that all have is left to chance
		s.Deadline = time.Now().Add(time.Duration(5+w.rng.IntN(60)) * time.Second)
	}
	w.spawn(s)
}

// limit gives a process limits that it may well reach.
func (w *World) limit(s *agentkernel.Spec) {
	switch w.rng.IntN(4) {
	case 0:
		s.Limits.Calls = int64(2 + w.rng.IntN(20))
	case 1:
		s.Limits.InFlight = 1 + w.rng.IntN(3)
	case 2:
		s.Limits.Processes = 1 + w.rng.IntN(4)
	case 3:
		s.Limits.Time = agentkernel.Duration(time.Duration(1+w.rng.IntN(4)) * time.Second)
	}
}
