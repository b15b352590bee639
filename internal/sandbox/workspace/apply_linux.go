package workspace

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// Apply writes the changes of a process to its folders, see the package's comment. One that was cut off behind its
// decision is finished first.
func (s *Store) Apply(ctx context.Context, pid agentkernel.PID, o agentkernel.ApplyOptions) (agentkernel.Applied, error) {
	out := agentkernel.Applied{PID: pid}
	names, err := parseNames(o.Paths)
	if err != nil {
		return out, err
	}
	o.Paths = texts(names) // they are noted
	if err := s.take(pid); err != nil {
		return out, err
	}
	defer s.release(pid)
	h, err := s.open(pid)
	if err != nil {
		return out, err
	}
	defer h.Close()
	if err := h.kept(pid); err != nil {
		return out, err
	}
	free, err := s.alone(ctx, h)
	if err != nil {
		return out, err
	}
	defer free()
	a := &applying{s: s, h: h, pid: pid, out: &out}
	if f := h.find(""); f != nil {
		out.Folder = f.Path
	}
	if h.rec.Decided != nil {
		done, err := a.finish(ctx, &o)
		if err != nil || done {
			return out, err
		}
	}
	return out, a.run(ctx, o, names)
}

// parseNames reads ApplyOptions.Paths; nil: none.
func parseNames(paths []string) (names []agentkernel.FileName, err error) {
	for _, p := range paths {
		name, err := agentkernel.ParseFileName(p)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

func texts(names []agentkernel.FileName) (list []string) {
	for _, n := range names {
		list = append(list, n.String())
	}
	return list
}

// decision is what an Apply has noted before it changed the first thing in a folder: all new files are on the disk.
// Until it is done it is finished before anything else.
type decision struct {
	At      time.Time                `json:"at"`
	Options agentkernel.ApplyOptions `json:"options"`
}

// applying is one Apply.
type applying struct {
	s     *Store
	h     *home
	pid   agentkernel.PID
	out   *agentkernel.Applied
	plans []*writer
	o     agentkernel.ApplyOptions
}

// finish does what an Apply that was cut off has decided. done: that is all that is asked for now.
func (a *applying) finish(ctx context.Context, o *agentkernel.ApplyOptions) (done bool, err error) {
	first := a.h.rec.Decided.Options
	same := first.Volumes == o.Volumes && slices.Equal(first.Paths, o.Paths)
	first.Force = first.Force || o.Force
	names, err := parseNames(first.Paths)
	if err == nil {
		err = a.run(ctx, first, names)
	}
	return same || a.h.rec.State != agentkernel.LayerKept, err
}

// run looks, stages, decides and commits.
func (a *applying) run(ctx context.Context, o agentkernel.ApplyOptions, names []agentkernel.FileName) (err error) {
	a.o, a.plans = o, nil
	defer a.closePlans()
	if err := a.plan(names); err != nil {
		return err
	}
	if err := a.sweep(); err != nil {
		return err
	}
	if err := a.refusal(); err != nil {
		return err
	}
	n := 0
	for _, w := range a.plans {
		n += len(going(w.items))
	}
	if n > 0 {
		if err := a.stage(ctx); err != nil {
			if e := a.sweep(); e != nil {
				a.s.cfg.Logger.Warn("files that were not put in place are still in the folder", "pid", a.pid, "err", e)
			}
			return err
		}
		a.s.step("decide")
		a.h.rec.Decided = &decision{At: now(), Options: o}
		if err := a.h.save(); err != nil {
			return err
		}
		if err := a.commit(); err != nil {
			return err
		}
	}
	return a.settle()
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// concerns says whether an Apply deals with a folder.
func (f *folder) concerns(o agentkernel.ApplyOptions) bool {
	return !f.ReadOnly && !f.Applied && (f.Volume != "" || !o.Volumes)
}

func (a *applying) closePlans() {
	for _, w := range a.plans {
		w.close()
	}
	a.plans = nil
}

// look reads the layers.
func (a *applying) look() error {
	for i := range a.h.rec.Folders {
		f := &a.h.rec.Folders[i]
		if !f.concerns(a.o) {
			continue
		}
		l, err := f.open(a.h)
		if err != nil {
			return err
		}
		if l == nil {
			continue
		}
		if l.away != nil {
			l.close()
			return notApplied(a.pid, l.away)
		}
		l.configs = a.o.GitConfigs
		w := newWriter(a, l, f)
		a.plans = append(a.plans, w)
		if w.items, err = l.items(); err != nil {
			return storage(err)
		}
	}
	return nil
}

// plan decides what is applied.
func (a *applying) plan(names []agentkernel.FileName) error {
	if err := a.look(); err != nil {
		return err
	}
	for _, w := range a.plans {
		if err := w.choose(w.items, namesIn(w.f, names)); err != nil {
			return err
		}
		if a.o.Force {
			if err := w.addMissing(); err != nil {
				return err
			}
		}
	}
	return a.allFound(names)
}

// planDecided is plan for an Apply that was cut off behind its decision.
func (a *applying) planDecided() error {
	a.o = a.h.rec.Decided.Options
	names, err := parseNames(a.o.Paths)
	if err != nil {
		return err
	}
	return a.plan(names)
}

// hasApplied says of paths of a folder at which it is not what it was whether the plan of an Apply that was cut off has
// made them so: st is what is there, nil: nothing.
func (a *applying) hasApplied(f *folder) func(p string, st *unix.Stat_t) bool {
	i := slices.IndexFunc(a.plans, func(w *writer) bool { return w.f == f })
	if i < 0 {
		return func(string, *unix.Stat_t) bool { return false }
	}
	w := a.plans[i]
	items := going(w.items)
	return func(p string, st *unix.Stat_t) bool {
		it := items[p]
		return it != nil && w.differs(it, st) == ""
	}
}

// namesIn are the paths in a folder that were named; nil: none was, anywhere.
func namesIn(f *folder, names []agentkernel.FileName) (in []string) {
	for _, n := range names {
		if n.Volume == f.Volume {
			in = append(in, n.Path)
		}
	}
	if in == nil && names != nil {
		in = []string{}
	}
	return in
}

// allFound refuses names of what the process has not changed.
func (a *applying) allFound(names []agentkernel.FileName) error {
	for _, n := range names {
		found := slices.ContainsFunc(a.plans, func(w *writer) bool {
			return w.f.Volume == n.Volume && slices.ContainsFunc(w.items, func(it item) bool {
				p := agentkernel.PathText(it.path)
				return p == n.Path || strings.HasPrefix(p, n.Path+"/")
			})
		})
		if !found {
			return invalid("process %d has no change at %s that waits", a.pid, n).WithPID(a.pid).WithHint("agentkernel diff %d lists them", a.pid)
		}
	}
	return nil
}

// stage writes all that is new beside its place. When it returns, that is on the disk, and nothing else has changed.
func (a *applying) stage(ctx context.Context) error {
	for _, w := range a.plans {
		for _, it := range w.order() {
			if err := ctx.Err(); err != nil {
				return agentkernel.Errorf(agentkernel.CodeCanceled, op, "cut off: nothing in %s has changed: %w", w.f.Path, err)
			}
			a.s.step("stage")
			if err := w.stage(it); err != nil {
				return w.failed(it, "nothing was written", err)
			}
		}
		a.s.step("sync")
		if err := a.s.syncfs(w.root.fd()); err != nil {
			return storage(err)
		}
	}
	return a.refusal() // it may have taken a while
}

// commit puts all in place. Each step is a rename or the removal of one thing.
func (a *applying) commit() error {
	for _, w := range a.plans {
		for i := range w.staged {
			a.s.step("commit")
			if err := w.commit(&w.staged[i]); err != nil {
				return w.failed(w.staged[i].item, w.progress(i), err)
			}
		}
		a.s.step("sync")
		if err := a.s.syncfs(w.root.fd()); err != nil {
			return storage(err)
		}
	}
	return nil
}

// settle notes what is in the folders now, and throws away what nothing waits in any more.
func (a *applying) settle() error {
	var gone []string
	h := a.h
	for _, w := range a.plans {
		for i := range w.staged {
			s := &w.staged[i]
			if s.item.implied {
				continue
			}
			count(a.out, s.item)
			h.rec.Changes = append(h.rec.Changes, done{Change: w.change(w.f, s.item), MTime: s.mtime()})
		}
		waits := 0
		for i := range w.items {
			switch it := &w.items[i]; it.fate {
			case leftOut:
				a.out.LeftOut = append(a.out.LeftOut, w.change(w.f, it))
			case withheld:
				a.out.Withheld = append(a.out.Withheld, w.change(w.f, it))
				waits++
			case unnamed:
				a.out.Waiting++
				waits++
			}
		}
		old, err := a.s.rebase(w, waits)
		if err != nil {
			return err
		}
		gone = append(gone, old...)
	}
	for i := range h.rec.Folders { // what no layer was begun for
		if f := &h.rec.Folders[i]; f.concerns(a.o) && f.Layer == "" {
			f.Applied = true
		}
	}
	slices.SortStableFunc(h.rec.Changes, func(x, y done) int { return cmp.Or(cmp.Compare(x.Volume, y.Volume), cmp.Compare(x.Path, y.Path)) })
	a.out.Hint = h.gitHint(a.out.Withheld)
	h.rec.Decided = nil
	if !slices.ContainsFunc(h.rec.Folders, func(f folder) bool { return !f.ReadOnly && !f.Applied }) {
		h.rec.State, h.rec.Applied = agentkernel.LayerApplied, now()
	}
	a.s.step("settle")
	return h.saveWithout(gone)
}

// rebase makes what was applied part of what was there before, so that only the rest is a change. If nothing waits, all of
// the layer goes.
func (s *Store) rebase(w *writer, waits int) (gone []string, err error) {
	f := w.f
	if waits == 0 {
		for _, it := range w.items {
			if it.fate == leftOut {
				w.h.rec.Changes = append(w.h.rec.Changes, done{Change: w.change(f, &it)})
			}
		}
		gone = []string{f.Layer, f.Base}
		f.Layer, f.Base, f.Applied = "", "", true
		return gone, nil
	}
	if len(w.staged) == 0 {
		return nil, nil
	}
	b := maps.Clone(w.base)
	for i := range w.staged {
		if err := w.staged[i].becomeBase(w, b); err != nil {
			return nil, storage(err)
		}
	}
	gone = []string{f.Base}
	f.Base = "base." + newToken()
	return gone, b.write(w.h.dir, f.Base)
}

// order are the changes that are applied: what is removed, the deepest first; then what is put there, by path; links last.
func (w *writer) order() []*item {
	var list []*item
	for i := range w.items {
		if w.items[i].goes() {
			list = append(list, &w.items[i])
		}
	}
	slices.SortStableFunc(list, func(a, b *item) int {
		if c := rank(a) - rank(b); c != 0 {
			return c
		}
		if rank(a) == 0 {
			return cmp.Compare(b.path, a.path) // what is in a directory before the directory
		}
		return cmp.Compare(a.path, b.path)
	})
	return list
}

func rank(it *item) int {
	switch {
	case it.kind == agentkernel.FileDeleted:
		return 0
	case it.typ == agentkernel.TypeSymlink:
		return 2
	}
	return 1
}

func count(out *agentkernel.Applied, it *item) {
	switch it.kind {
	case agentkernel.FileAdded:
		out.Added++
	case agentkernel.FileChanged:
		out.Changed++
	case agentkernel.FileDeleted:
		out.Deleted++
	}
	out.Bytes += it.size
}
