package workspace

import (
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// sweep removes what an Apply that was cut off, or has failed, has left beside the places of its changes.
func (a *applying) sweep() error {
	for _, w := range a.plans {
		seen := map[string]bool{}
		for i := range w.items {
			at := path.Dir(w.items[i].path)
			if seen[at] {
				continue
			}
			seen[at] = true
			if err := w.sweepDir(at); err != nil {
				return unreadable("folder", w.f.Path, err)
			}
		}
		w.staged, w.trees = nil, map[string]string{}
	}
	return nil
}

func (w *writer) sweepDir(at string) error {
	f, err := w.root.below(at, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EACCES) {
		return nil // nothing of ours got there
	}
	if err != nil {
		return err
	}
	d := dir{File: f}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, w.temp) {
			if err := d.removeTree(name, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeTree removes a name in d with all that is in it, and follows no link.
func (d dir) removeTree(name string, depth int) error {
	err := unix.Unlinkat(d.fd(), name, 0)
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) || depth > maxDepth {
		return unlessGone(err)
	}
	f, err := d.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return unlessGone(err)
	}
	sub := dir{File: f}
	defer sub.Close()
	names, err := sub.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := sub.removeTree(n, depth+1); err != nil {
			return err
		}
	}
	return unlessGone(unix.Unlinkat(d.fd(), name, unix.AT_REMOVEDIR))
}

// unlessGone takes for success that something is not there.
func unlessGone(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// addMissing adds the directories that items need where somebody has taken them away, or put something else there.
func (w *writer) addMissing() error {
	byPath := index(w.items)
	add := map[string]item{}
	for i := range w.items {
		it := &w.items[i]
		if !it.goes() || it.kind == agentkernel.FileDeleted {
			continue
		}
		for p := path.Dir(it.path); p != "." && byPath[p] == nil; p = path.Dir(p) {
			st, err := w.root.look(p)
			if err != nil {
				return storage(err)
			}
			if st != nil && typeOf(st.Mode) == agentkernel.TypeDir {
				break
			}
			add[p] = item{path: p, kind: agentkernel.FileAdded, typ: agentkernel.TypeDir, mode: 0o755, implied: true}
		}
	}
	for _, it := range add {
		w.items = append(w.items, it)
	}
	slices.SortFunc(w.items, func(a, b item) int { return strings.Compare(a.path, b.path) })
	return nil
}

// becomeBase notes in b what was put in place. Its file in the layer gets the same time, so that it is no change any more.
func (s *staged) becomeBase(w *writer, b base) error {
	it := s.item
	if it.kind == agentkernel.FileDeleted {
		delete(b, it.path)
		return nil
	}
	b[it.path] = s.mark
	if it.implied || it.typ != agentkernel.TypeFile {
		return nil
	}
	parent, name, err := w.top.parent(it.path)
	if err != nil {
		return err
	}
	defer parent.Close()
	t := unix.NsecToTimespec(s.mark.mtime)
	return unix.UtimesNanoAt(parent.fd(), name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
}
