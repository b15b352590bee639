package kernel

import (
	"context"
	"fmt"
	"slices"

	"agentkernel"
)

// loadPast reads the past that a Spec names; nil: none.
func (k *Kernel) loadPast(ctx context.Context, s *agentkernel.Spec) (*past, error) {
	if s.Past == nil {
		return nil, nil
	}
	rec, err := k.store.Process(ctx, s.Past.PID)
	if err != nil {
		return nil, err
	}
	switch {
	case rec.Namespace != s.Namespace:
		return nil, agentkernel.Errorf(agentkernel.CodeDenied, "rerun", "process %d belongs to the namespace %q, not to %q", rec.PID, rec.Namespace, s.Namespace).
			WithPID(rec.PID)
	case !rec.State.Terminal():
		return nil, k.notEnded(&rec)
	}
	entries, err := k.store.Entries(ctx, rec.PID, 1, 0)
	if err != nil {
		return nil, err
	}
	h := newPast(rec.PID, s.Past.From, entries)
	return h, k.addLineage(ctx, h, rec.Spec.Past, entries)
}

// notEnded says what to do about a process that may still make calls of its own.
func (k *Kernel) notEnded(rec *agentkernel.ProcessRecord) error {
	state, hint := "running", fmt.Sprintf("agentkernel wait %d, or agentkernel kill %d", rec.PID, rec.PID)
	switch {
	case rec.Paused:
		state, hint = "paused", fmt.Sprintf("agentkernel resume %d lets it go on itself; agentkernel kill %d ends it", rec.PID, rec.PID)
	case k.lookup(rec.PID) == nil:
		state, hint = "unfinished", fmt.Sprintf("agentkernel recover %d lets it go on itself; agentkernel kill %d ends it", rec.PID, rec.PID)
	}
	return agentkernel.Errorf(agentkernel.CodeConflict, "rerun", "process %d is %s: what it did can be taken over when it has ended", rec.PID, state).
		WithPID(rec.PID).WithHint("%s", hint)
}

// addLineage adds what the pasts of a past made and nobody took over: that must not be made again either.
// A process that is not there any more ends the line.
func (k *Kernel) addLineage(ctx context.Context, h *past, older *agentkernel.Past, entries []agentkernel.Entry) error {
	for older != nil && !h.isOf(older.PID) {
		rec, err := k.store.Process(ctx, older.PID)
		if agentkernel.CodeOf(err) == agentkernel.CodeNotFound {
			return nil
		} else if err != nil {
			return err
		}
		before, err := k.store.Entries(ctx, older.PID, 1, 0)
		if err != nil {
			return err
		}
		old := newPast(older.PID, 0, before)
		for _, e := range entries {
			if key, ok := parseNote(e.Note); ok && old.index[key] != nil {
				old.index[key].taken = true
			}
		}
		for _, c := range old.strict {
			if !c.taken {
				h.left = append(h.left, c)
				h.index[c.pastKey] = c
			}
		}
		h.lineage = append(h.lineage, older.PID)
		entries, older = slices.Concat(entries, before), rec.Spec.Past
	}
	return nil
}

// restore marks what the process took over in an earlier life.
func (h *past) restore(entries []agentkernel.Entry) {
	if h == nil {
		return
	}
	for _, e := range entries {
		key, named := parseNote(e.Note)
		c := h.index[key]
		switch {
		case e.Kind == agentkernel.EntryCall && named && c != nil:
			h.take(c)
			if !e.Done {
				h.copies[e.Call] = c
			}
		case e.Kind == agentkernel.EntryResult:
			delete(h.copies, e.Call)
		case e.Kind == agentkernel.EntryPast && e.Call != 0:
			h.live = true
		}
	}
	if h.live {
		h.leave()
	}
}

// pastOf reads the past of a process that is taken up again. One that is gone ends the process: to go on would make its
// calls again.
func (k *Kernel) pastOf(ctx context.Context, p *process) (*past, *agentkernel.Error) {
	past, err := k.loadPast(ctx, &p.spec.Spec)
	if err != nil {
		e := agentkernel.AsError(err, agentkernel.CodeStorage, "rerun")
		return nil, agentkernel.Errorf(e.Code, "rerun", "the journal that answers its calls cannot be read: %w", e)
	}
	return past, nil
}

// dropReplay lets a process end although it has not repeated what its journal says.
func (p *process) dropReplay() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replay = nil
}
