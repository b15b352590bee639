package kernel

import (
	"context"
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/watch"
)

// permit lets a call through that needs permission: a pattern allows it, or a human says yes. False: it does not go on now.
func (k *Kernel) permit(p *process, f *inflight, canonical json.RawMessage) bool {
	if k.allowed(p, f) {
		return true
	}
	p.mu.Lock()
	if f.dropped {
		p.mu.Unlock()
		return false
	}
	asker := hasAsker(p.watchers)
	asks := p.spec.Interactive && (asker || p.recoveries > 0)
	if asks {
		f.asking = true
		p.inflight.add(f)
		k.publish(p, agentkernel.Event{Kind: agentkernel.EventAsk, Ask: f.question()})
	}
	if asks && !asker { // it was paused when its kernel ended, and whoever resumed it cannot answer: another may
		k.pause(p, 0, "")
	}
	p.mu.Unlock()
	if !asks {
		k.answer(p, f, canonical, outcome{}, f.admission.Ask.Denied)
	}
	return false
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
	if f.admission == nil || f.admission.Matches == nil {
		return false
	}
	for _, pattern := range patterns {
		if f.admission.Matches(pattern) {
			return true
		}
	}
	return false
}

func hasAsker(ws []*watch.Watcher) bool {
	for _, w := range ws {
		if w.Asks() {
			return true
		}
	}
	return false
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
	return k.answered(p, ask, a)
}

func (k *Kernel) answered(p *process, ask int64, a agentkernel.Answer) error {
	p.mu.Lock()
	f := p.inflight.find(ask)
	if f == nil || !f.asking {
		p.mu.Unlock()
		return agentkernel.Errorf(agentkernel.CodeNotFound, "answer", "nothing was asked under number %d", ask).WithPID(p.pid)
	}
	f.asking = false
	if a == agentkernel.AnswerAlways {
		k.append(p, agentkernel.Entry{Kind: agentkernel.EntryAllowed, Note: f.admission.Pattern})
	}
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
