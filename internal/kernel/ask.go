package kernel

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/watch"
)

// permit lets a call through that needs permission: a pattern allows it, or a human says yes. False: it does not go on now.
func (k *Kernel) permit(p *process, f *inflight, canonical json.RawMessage) bool {
	if k.allowed(p, f) {
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
		k.publish(p, agentkernel.Event{Kind: agentkernel.EventAsk, Ask: f.question()})
		k.pauseUnheard(p)
	}
	return false
}

// asks is what a human is asked about the process, as WaitsFor says it; "": nothing. p.mu is held.
func (p *process) asks() string {
	for _, f := range p.inflight {
		if f.asking {
			return agentkernel.YourAnswer + f.admission.Name
		}
	}
	return ""
}

// unheard says that the process was paused since nobody could answer what it asks; p.mu is held.
func (p *process) unheard() bool {
	return p.paused() && strings.HasPrefix(p.pauseNote(), agentkernel.YourAnswer)
}

// heard lets a process go on that was paused for its questions, when none is left; p.mu is held.
func (k *Kernel) heard(p *process) {
	if p.unheard() && p.asks() == "" {
		k.resume(p)
	}
}

// pauseUnheard pauses a process whose question finds nobody who could answer it: that is no answer. p.mu is held.
func (k *Kernel) pauseUnheard(p *process) {
	if p.state.Terminal() || k.ctx.Err() != nil || slices.ContainsFunc(p.watchers, (*watch.Watcher).Asks) {
		return
	}
	if question := p.asks(); question != "" {
		k.pause(p, 0, question)
	}
}

// allowed says whether a pattern of the Spec, or an answer "always", allows the call.
func (k *Kernel) allowed(p *process, f *inflight) bool {
	p.mu.Lock()
	approved := p.standing.Account.Allowed
	p.mu.Unlock()
	return f.matches(p.spec.Allow) || f.matches(approved)
}

// matches says whether one of the patterns means the call.
func (f *inflight) matches(patterns []string) bool {
	return f.admission != nil && f.admission.Matches != nil && slices.ContainsFunc(patterns, f.admission.Matches)
}

// question is what a human is asked about a call; the process's mutex is held.
func (f *inflight) question() *agentkernel.Ask {
	args := f.admission.Ask.Args
	if canonical, err := journal.Canonical(args); err == nil { // else it was refused before
		args = canonical
	}
	return &agentkernel.Ask{ID: f.id, Call: f.admission.Name, Pattern: f.admission.Pattern, Effect: f.effect, Args: args}
}

// Answer answers the question whether a call may run.
func (k *Kernel) Answer(ctx context.Context, pid agentkernel.PID, ask int64, a agentkernel.Answer) error {
	p := k.carried(ctx, pid)
	if p == nil {
		return agentkernel.Errorf(agentkernel.CodeNotFound, "answer", "process %d is not running here", pid)
	}
	defer k.release(p)
	if err := k.table.Refuses(); err != nil { // it asks again when it is continued
		return err
	}
	p.mu.Lock()
	f := p.inflight.Find(ask)
	if f == nil || !f.asking {
		p.mu.Unlock()
		return agentkernel.Errorf(agentkernel.CodeNotFound, "answer", "nothing was asked under number %d", ask).WithPID(p.pid)
	}
	f.asking = false
	if a == agentkernel.AnswerAlways {
		k.append(p, agentkernel.Entry{Kind: agentkernel.EntryAllowed, Pattern: f.admission.Pattern})
	}
	k.heard(p)
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
