package history

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"agentkernel"
	"agentkernel/internal/fastpath"
	"agentkernel/internal/kernel/advice"
)

// Resume folds the journal of a process from a base on. entries is what it read for that: all of the journal if whole is set.
// lost says that something cannot be read, or is not there: then nothing of it can be continued. at is the locals where a base
// stands; nil: there are none. A base whose locals cannot be read is not used: the journal has all of them.
func Resume(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID, base Base, whole bool, full func(bytes int64) bool,
	at func(*Base) (Locals, error)) (h *History, entries []agentkernel.Entry, lost, err error) {
	from := int64(1)
	if base.Seq > 0 && !base.Whole() && !whole {
		from = base.Seq
	}
	entries, lost, err = Tail(ctx, store, pid, from, full)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(entries) == 0 || entries[len(entries)-1].Seq < base.Seq {
		h, entries, lost, err = Resume(ctx, store, pid, Base{}, whole, full, at)
		if err != nil {
			return nil, nil, nil, err
		}
		return h, entries, cmp.Or(lost, shorterThanImage(pid, h.Seq, base.Seq)), nil
	}
	for _, seq := range base.Refs {
		if seq >= from {
			continue
		}
		one, gone, err := Entries(ctx, store, pid, seq, 1)
		if err != nil {
			return nil, nil, nil, err
		}
		entries, lost = append(entries, one...), cmp.Or(lost, gone)
	}
	slices.SortFunc(entries, func(a, b agentkernel.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	var kept Locals
	if at != nil {
		if kept, err = at(&base); err != nil && base.Seq > 0 {
			return Resume(ctx, store, pid, Base{}, whole, full, at)
		}
	}
	h = FoldInto(kept, base, entries)
	if h.Stale() {
		return Resume(ctx, store, pid, Base{}, whole, full, at)
	}
	return h, entries, lost, nil
}

func shorterThanImage(pid agentkernel.PID, last, image int64) error {
	if last >= image {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeCorrupt, "recover", "the journal of process %d ends with entry %d, and its image was made after entry %d", pid, last, image).
		WithPID(pid).WithHint(advice.Restore)
}

// Told is of how many parked processes a recovery tells at most: it leaves them where they are.
const Told = 1000

// Parked is how many processes are parked, whichever kernel carries them.
func Parked(ctx context.Context, store agentkernel.StoreReader) (int, error) {
	all, err := store.Count(ctx, agentkernel.Filter{Unfinished: true})
	if err != nil {
		return 0, err
	}
	active, err := store.Count(ctx, agentkernel.Filter{Active: true})
	return all - active, err
}

// Unfinished lists the processes that have not ended and are not parked, of all trees (0) or of the one below pid, parents
// first: a child's PID is greater than its parent's. CodeConflict: nothing of the tree is left.
func Unfinished(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID) (pids []agentkernel.PID, err error) {
	if quick, ok := store.(fastpath.Actives); ok && pid == 0 {
		return quick.Active(ctx)
	}
	var found []agentkernel.ProcessRecord
	if pid == 0 {
		found, err = store.Processes(ctx, agentkernel.Filter{Active: true})
	} else if found, err = Tree(ctx, store, pid); err == nil && len(found) == 0 {
		err = agentkernel.Errorf(agentkernel.CodeConflict, "recover", "process %d has ended already, and all below it", pid).WithPID(pid)
	}
	for i := range found {
		pids = append(pids, found[i].PID)
	}
	slices.Sort(pids)
	return pids, err
}

// Tree gives a process and all that descend from it, but for those that have ended.
func Tree(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID) (tree []agentkernel.ProcessRecord, err error) {
	root, _, err := Row(ctx, store, pid)
	if err != nil {
		return nil, err
	}
	if !root.State.Terminal() {
		tree = append(tree, root)
	}
	active, err := store.Processes(ctx, agentkernel.Filter{Active: true}) // those of a tree are never parked
	for i := range active {
		if Descends(&active[i].Spec, pid) {
			tree = append(tree, active[i])
		}
	}
	return tree, err
}

// Descends says whether a Spec is of a process somewhere below pid.
func Descends(s *agentkernel.Spec, pid agentkernel.PID) bool {
	return s.Parent == pid || slices.Contains(s.Ancestors, pid)
}

// UsableImage is the base of the newest image of a process, if the engine with this fingerprint can load it. An image of another one, or
// one that is damaged, is not used: the journal has everything.
func UsableImage(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID, fingerprint string, log *slog.Logger) Base {
	base, err := OfImage(ctx, store, pid, fingerprint)
	switch agentkernel.CodeOf(err) {
	case "", agentkernel.CodeNotFound:
	case agentkernel.CodeVersion:
		log.Info("image not used, replaying the journal instead", "pid", pid, "err", err)
	default:
		log.Warn("image not used, replaying the journal instead", "pid", pid, "err", err)
	}
	return base
}

// OfImage reads the base of an image of a process. CodeNotFound: there is no image; CodeVersion: it is of another engine than
// the one with this fingerprint.
func OfImage(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID, fingerprint string) (Base, error) {
	image, err := store.Image(ctx, pid)
	if err != nil {
		return Base{}, err
	}
	if image.Fingerprint != fingerprint {
		var none Base
		if old, err := ParseBase(image.Kernel, image.Seq); err == nil && old.Version == 0 {
			none.Allowed = old.Allowed // no journal has it
		}
		return none, agentkernel.Errorf(agentkernel.CodeVersion, "recover", "it is of another engine: %s", image.Fingerprint)
	}
	base, err := ParseBase(image.Kernel, image.Seq)
	if err != nil {
		return Base{}, err
	}
	return base, nil
}
