package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// Apply writes the changes of a process to its folders. First all is looked at, then it is written: what was removed,
// directories, files, links. An Apply that was cut off is done again: what is in place already is no conflict.
func (s *Store) Apply(ctx context.Context, pid agentkernel.PID, o agentkernel.ApplyOptions) (agentkernel.Applied, error) {
	out := agentkernel.Applied{PID: pid}
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
	plans, err := h.plans(o)
	defer func() {
		for _, p := range plans {
			p.close()
		}
	}()
	if err == nil {
		err = h.refusal(pid, plans, o)
	}
	if err != nil {
		return out, err
	}
	for _, p := range plans {
		if err := p.carryOut(ctx, h, o, &out); err != nil {
			return out, err
		}
	}
	if f := h.find(""); f != nil {
		out.Folder = f.Path
	}
	if h.waits(o) {
		return out, h.closeVolumes()
	}
	h.rec.Applied = time.Now().UTC().Truncate(time.Microsecond)
	return out, h.close(agentkernel.LayerApplied)
}

// plan is what Apply does to one folder.
type plan struct {
	*layer
	f     *folder
	items []item
	force bool
}

// waits says whether something is still to be applied after this.
func (h *home) waits(o agentkernel.ApplyOptions) bool { return o.Volumes && h.find("") != nil }

// concerns says whether Apply deals with a folder.
func (f *folder) concerns(o agentkernel.ApplyOptions) bool {
	return !f.ReadOnly && !f.Applied && (f.Volume != "" || !o.Volumes)
}

func (h *home) plans(o agentkernel.ApplyOptions) (list []*plan, err error) {
	for i := range h.rec.Folders {
		f := &h.rec.Folders[i]
		if !f.concerns(o) {
			continue
		}
		l, err := f.open(h)
		if err != nil {
			return list, err
		}
		if l == nil {
			continue
		}
		p := &plan{layer: l, f: f}
		list = append(list, p)
		if p.items, err = l.items(); err != nil {
			return list, storage(err)
		}
	}
	return list, nil
}

// shownConflicts is how many conflicts a message lists.
const shownConflicts = 10

// refusal says why nothing is applied; nil: it may be.
func (h *home) refusal(pid agentkernel.PID, plans []*plan, o agentkernel.ApplyOptions) error {
	var list []string
	n := 0
	for _, p := range plans {
		if err := p.fits(); err != nil {
			return err
		}
		for i := range p.items {
			it := &p.items[i]
			if leftOut(it) != "" {
				continue
			}
			why, err := p.conflict(it)
			if err != nil {
				return err
			}
			if why == "" || o.Force {
				continue
			}
			if n++; n <= shownConflicts {
				list = append(list, agentkernel.FileName{Volume: p.f.Volume, Path: shown(it.path)}.String()+" "+why)
			}
		}
	}
	if n == 0 {
		return nil
	}
	if n > len(list) {
		list = append(list, fmt.Sprintf("and %d more", n-len(list)))
	}
	return conflict("%s has changed since process %d was created; nothing was written: %s", h.where(), pid, strings.Join(list, "; ")).
		WithPID(pid).WithHint("agentkernel diff %d shows both; agentkernel apply %d --force replaces them", pid, pid)
}

// fits refuses changes that make a volume larger than it may be.
func (p *plan) fits() error {
	if p.f.Size == 0 {
		return nil
	}
	held, err := p.root.used()
	if err != nil {
		return unreadable("folder", p.f.Path, err)
	}
	for i := range p.items {
		it := &p.items[i]
		if it.before != nil {
			held -= cost(typeOf(it.before.mode), it.before.size)
		}
		if it.kind != agentkernel.FileDeleted {
			held += cost(it.typ, it.size)
		}
	}
	if held <= p.f.Size {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeLimit, op, "the volume %s would hold %d bytes; it may hold %d; nothing was written", p.f.Volume, held, p.f.Size)
}

func cost(t agentkernel.FileType, size int64) int64 {
	if t == agentkernel.TypeFile {
		return entryBytes + size
	}
	return entryBytes
}

// conflict says how the folder differs at an item from what it was; "": it does not, or it is what the item makes it.
func (l *layer) conflict(it *item) (string, error) {
	parent, name, err := l.root.parent(it.path)
	other := errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EXDEV)
	switch missing := errors.Is(err, unix.ENOENT); {
	case (other || missing) && !l.known(it.path): // the directory is an item itself, and is looked at as such
		return "", nil
	case other:
		return "has another kind of thing above it now", nil
	case missing && it.kind == agentkernel.FileDeleted:
		return "", nil
	case missing:
		return "has lost the folder that it was in", nil
	case err != nil:
		return "", unreadable("folder", l.root.Name(), err)
	}
	defer parent.Close()
	st, err := parent.stat(name)
	if err != nil {
		return "", err
	}
	return l.differs(it, st), nil
}

// known says whether the directory of p was there before the process.
func (l *layer) known(p string) bool {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return true
	}
	m, ok := l.base[p[:i]]
	return ok && typeOf(m.mode) == agentkernel.TypeDir
}

// differs compares what is at an item's place now, nil: nothing, with what was there.
func (l *layer) differs(it *item, st *unix.Stat_t) string {
	switch {
	case st == nil && (it.before == nil || it.kind == agentkernel.FileDeleted):
		return ""
	case st == nil:
		return "was deleted meanwhile"
	case it.before != nil && it.before.same(st):
		if typeOf(st.Mode) == agentkernel.TypeDir && it.typ != agentkernel.TypeDir || it.kind == agentkernel.FileDeleted {
			return l.newcomers(it, st)
		}
		return ""
	case l.inPlace(it, st):
		return ""
	case it.before == nil:
		return "was created meanwhile"
	}
	return "was changed meanwhile"
}

// newcomers says whether a directory that is to go has got something new.
func (l *layer) newcomers(it *item, st *unix.Stat_t) string {
	if typeOf(st.Mode) != agentkernel.TypeDir {
		return ""
	}
	d, err := l.root.below(it.path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return "cannot be read"
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return "cannot be read"
	}
	for _, name := range names {
		if _, ok := l.base[it.path+"/"+name]; !ok {
			return "has got something new: " + shown(name)
		}
	}
	return ""
}

// inPlace says whether the folder has already what an item would put there.
func (l *layer) inPlace(it *item, st *unix.Stat_t) bool {
	if it.kind == agentkernel.FileDeleted || typeOf(st.Mode) != it.typ {
		return false
	}
	switch it.typ {
	case agentkernel.TypeDir:
		return true
	case agentkernel.TypeFile:
		return st.Size == it.size && l.sameContent(it.path)
	case agentkernel.TypeSymlink:
		parent, name, err := l.root.parent(it.path)
		if err != nil {
			return false
		}
		defer parent.Close()
		target, err := parent.link(name)
		return err == nil && target == it.target
	}
	return false
}

// carryOut applies one folder's items.
func (p *plan) carryOut(ctx context.Context, h *home, o agentkernel.ApplyOptions, out *agentkernel.Applied) error {
	w := &writer{plan: p, temp: ".agentkernel-" + h.rec.Token + ".tmp"}
	p.force = o.Force
	order := slices.Clone(p.items)
	slices.SortStableFunc(order, func(a, b item) int {
		if c := rank(&a) - rank(&b); c != 0 {
			return c
		}
		if rank(&a) == 0 {
			return strings.Compare(b.path, a.path) // what is in a directory before the directory
		}
		return strings.Compare(a.path, b.path)
	})
	for i := range order {
		it := &order[i]
		if err := ctx.Err(); err != nil {
			return agentkernel.Errorf(agentkernel.CodeCanceled, op, "cut off: %d of %d changes are in %s; apply again for the others: %w", i, len(order), p.f.Path, err)
		}
		why := leftOut(it)
		if why == "" {
			var err error
			if why, err = w.apply(it); err != nil {
				return w.failed(it, i, len(order), err)
			}
		}
		ch := p.change(p.f, it)
		if ch.LeftOut = why; why != "" {
			out.LeftOut = append(out.LeftOut, ch)
		} else {
			count(out, it)
		}
		h.rec.Changes = append(h.rec.Changes, done{Change: ch, MTime: w.mtime})
	}
	if err := unix.Syncfs(p.root.fd()); err != nil {
		return storage(err)
	}
	return nil
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
