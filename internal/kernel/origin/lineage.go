package origin

import (
	"context"
	"slices"

	"agentkernel"
)

// addLineage adds what the origins of an origin made and nobody took over: that must not be made again either. A process that is not
// there any more ends the line.
func (h *Origin) addLineage(ctx context.Context, store Reader, older *agentkernel.Past, entries []agentkernel.Entry) error {
	line := []*Origin{h}
	for older != nil && !h.IsOf(older.PID) {
		rec, err := store.Process(ctx, older.PID)
		if agentkernel.CodeOf(err) == agentkernel.CodeNotFound {
			break
		} else if err != nil {
			return err
		}
		before, err := store.Entries(ctx, older.PID, 1, 0)
		if err != nil {
			return err
		}
		old := New(h.rules, older.PID, 0, before)
		for i := range entries {
			if key, ok := keyOf(&entries[i]); ok && old.index[key] != nil {
				old.index[key].taken = true
			}
		}
		h.lineage = append(h.lineage, older.PID)
		line = append(line, old)
		entries, older = slices.Concat(entries, before), rec.Spec.Past
	}
	h.inherit(line)
	return nil
}

// inherit takes what is of use from the origins behind the first of the line, from the oldest to the youngest.
func (h *Origin) inherit(line []*Origin) {
	for i, old := range slices.Backward(line) {
		for _, c := range old.strict {
			if i+1 < len(line) {
				c.handedOver(line[i+1:])
			}
		}
	}
	for _, old := range line[1:] {
		for _, c := range old.strict {
			if !c.taken {
				h.left = append(h.left, c)
				h.index[c.Key] = c
			}
		}
		for of, key := range old.stands {
			h.stands[of] = key
		}
		for pid, of := range old.imported {
			h.imported[pid] = of
		}
	}
}

// handedOver gives a call that its process took over, and of which that had not received the result when it ended, the result that its
// origin has.
func (c *Call) handedOver(older []*Origin) {
	key, named := keyOf(&c.Entry)
	if c.Result != nil || !named || c.Entry.Origin.As {
		return
	}
	for _, old := range older {
		if o := old.index[key]; o != nil && !o.Unknown() {
			c.Result = o.Result
			return
		}
	}
}

// Restore marks what the process took over in an earlier life.
func (h *Origin) Restore(entries []agentkernel.Entry) {
	if h == nil {
		return
	}
	for i := range entries {
		e := &entries[i]
		key, named := keyOf(e)
		c := h.index[key]
		switch {
		case e.Kind == agentkernel.EntryCall && named && c != nil:
			h.restore(e, c)
		case e.Kind == agentkernel.EntryResult:
			delete(h.copies, e.Call)
		case e.Kind == agentkernel.EntryPast && e.Call != 0:
			h.live = true
		case e.Kind == agentkernel.EntryResolve:
			h.Decided(e.Call, e.Decision)
		}
	}
	if h.live {
		h.Leave()
	}
}

func (h *Origin) restore(e *agentkernel.Entry, c *Call) {
	if h.rules(e.Op).Once && e.Origin.As {
		c.name = nameOf(c.Entry.Args)
		c.claim(c.likeness(nameOf(e.Args), e.Args))
		return
	}
	if h.take(c); e.Origin.As {
		return
	}
	if h.answered++; !e.Done {
		h.copies[e.Call] = c
	}
}
