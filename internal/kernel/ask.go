package kernel

import (
	"context"
	"encoding/json"
	"slices"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/watch"
)

// permit lets a call through that needs permission: a pattern allows it, or a human says yes. False: it does not go on now.
func (k *Kernel) permit(p *process, f *inflight, canonical json.RawMessage) bool {
	p.mu.Lock()
	always := p.standing.Account.Allowed
	p.mu.Unlock()
	if f.admission.Means(p.spec.Allow) || f.admission.Means(always) {
		return true
	}
	if !p.spec.Interactive {
		k.answer(p, f, canonical, outcome{}, f.admission.Ask.Denied)
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !f.dropped {
		f.asking = true
		p.inflight.Add(f)
		k.table.audience.Ask(p.question(f), p.spec.Ancestors, p.pos)
		k.pauseUnheard(p)
	}
	return false
}

// asks is what a human is asked about the process, as WaitsFor says it; "": nothing. p.mu is held.
func (p *process) asks() string {
	if i := slices.IndexFunc(p.inflight, func(f *inflight) bool { return f.asking }); i >= 0 {
		return agentkernel.YourAnswer + p.inflight[i].admission.Name
	}
	return ""
}

// resumeIfAnswered lets a process go on that was paused for its questions, when none is left; p.mu is held.
func (k *Kernel) resumeIfAnswered(p *process) {
	if p.whyPaused().Unheard && p.asks() == "" {
		k.resume(p)
	}
}

// pauseUnheard pauses a process whose question finds nobody who could answer it: that is no answer. p.mu is held.
func (k *Kernel) pauseUnheard(p *process) {
	question := p.asks()
	if question != "" && !p.state.Terminal() && k.ctx.Err() == nil && !k.table.audience.Hears(p.pid, p.spec.Ancestors) {
		k.pause(p, 0, history.Unheard(question))
	}
}

// showQuestions tells a watcher that answers questions what a process and those below it ask already, and lets those go on that waited for it.
func (k *Kernel) showQuestions(p *process, w *watch.Watcher) {
	k.askers(p, w, func(q *process) {
		for _, f := range q.inflight {
			if f.asking && w.Asks() {
				w.Catch(q.question(f), q.pos)
			}
		}
		if q.whyPaused().Unheard && w.Asks() {
			k.resume(q)
		}
	})
}

// askers does something to a process, and to all below it if the watcher answers their questions. Their mutexes are held, one at a time.
func (k *Kernel) askers(p *process, w *watch.Watcher, do func(*process)) {
	all := []*process{p}
	if w.Asks() && k.inTree(p) {
		all = append(all, k.table.below(p.pid)...)
	}
	for _, q := range all {
		q.mu.Lock()
		do(q)
		q.mu.Unlock()
	}
}

// question is what a human is asked about a call; p.mu is held.
func (p *process) question(f *inflight) agentkernel.Event {
	return agentkernel.Event{Kind: agentkernel.EventAsk, PID: p.pid, Seq: p.standing.Seq, At: f.since, Ask: f.admission.Question(f.id, f.effect)}
}

// Answer answers the question whether a call may run.
func (k *Kernel) Answer(ctx context.Context, pid agentkernel.PID, ask int64, a agentkernel.Answer) error {
	p := k.carried(ctx, pid)
	if p == nil {
		return agentkernel.Errorf(agentkernel.CodeNotFound, "answer", "process %d is not running here", pid)
	}
	defer k.unpin(p)
	if err := k.table.Refuses(); err != nil { // it asks again when it is continued
		return err
	}
	p.mu.Lock()
	f := p.inflight.Find(ask)
	if f == nil || !f.asking {
		p.mu.Unlock()
		return agentkernel.Errorf(agentkernel.CodeNotFound, "answer", "question %d is not open: it was answered, or never asked", ask).WithPID(p.pid)
	}
	f.asking = false
	if a == agentkernel.AnswerAlways {
		k.append(p, agentkernel.Entry{Kind: agentkernel.EntryAllowed, Pattern: f.admission.Pattern})
	}
	k.resumeIfAnswered(p)
	p.mu.Unlock()
	canonical, err := journal.Canonical(f.args)
	if err != nil {
		return err
	}
	if a == agentkernel.AnswerYes || a == agentkernel.AnswerAlways {
		k.make(p, f, canonical)
		return nil
	}
	k.answer(p, f, canonical, outcome{}, f.admission.Ask.Denied)
	return nil
}
