package workspace

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// shownConflicts is how many conflicts a message lists.
const shownConflicts = 10

// refusal says why nothing is applied; nil: it may be.
func (a *applying) refusal() error {
	var list []string
	n := 0
	for _, w := range a.plans {
		if err := w.fits(); err != nil {
			return err
		}
		for i := range w.items {
			it := &w.items[i]
			if !it.goes() || it.implied {
				continue
			}
			why, err := w.conflict(it)
			if err != nil {
				return err
			}
			if a.o.Force && why != "" {
				why, err = w.cannotForce(it)
			}
			if err != nil {
				return err
			}
			if why == "" {
				continue
			}
			if n++; n <= shownConflicts {
				list = append(list, agentkernel.FileName{Volume: w.f.Volume, Path: agentkernel.PathText(it.path)}.String()+" "+why)
			}
		}
	}
	if n == 0 {
		return nil
	}
	if n > len(list) {
		list = append(list, fmt.Sprintf("and %d more", n-len(list)))
	}
	return a.conflicts(strings.Join(list, "; "))
}

func (a *applying) conflicts(list string) error {
	where, pid := a.h.where(), a.pid
	if a.h.rec.Decided != nil {
		return conflict("an apply of process %d was cut off and cannot be finished: some of the changes are in %s, which has changed since: %s", pid, where, list).
			WithPID(pid).WithHint("agentkernel diff %[1]d --patch compares both; agentkernel apply %[1]d --force writes the rest; agentkernel discard %[1]d throws it away", pid)
	}
	e := conflict("%s has changed since process %d was created; nothing was written: %s", where, pid, list).WithPID(pid)
	if a.o.Force {
		return e.WithHint("move that away and apply again")
	}
	return e.WithHint("agentkernel diff %d --patch compares both; agentkernel apply %d --force replaces them", pid, pid)
}

// cannotForce says why a conflict cannot be resolved by force: a directory that holds what the process has not seen is
// not thrown away.
func (l *layer) cannotForce(it *item) (string, error) {
	if it.kind == agentkernel.FileDeleted || it.typ == agentkernel.TypeDir {
		return "", nil
	}
	st, err := l.root.look(it.path)
	if err != nil || st == nil {
		return "", err
	}
	return l.newcomers(it, st), nil
}

// fits refuses changes that make a volume larger than it may be.
func (w *writer) fits() error {
	if w.f.Size == 0 {
		return nil
	}
	held, err := w.root.used()
	if err != nil {
		return unreadable("folder", w.f.Path, err)
	}
	for i := range w.items {
		it := &w.items[i]
		if !it.goes() {
			continue
		}
		if it.before != nil {
			held -= cost(typeOf(it.before.mode), it.before.size)
		}
		if it.kind != agentkernel.FileDeleted {
			held += cost(it.typ, it.size)
		}
	}
	if held <= w.f.Size {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeLimit, op, "the volume %s would hold %d bytes; it may hold %d; nothing was written", w.f.Volume, held, w.f.Size)
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
	case other && l.finishing && it.kind == agentkernel.FileDeleted: // it has gone with its directory
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
		return "", unreadable("folder", l.root.Name(), err)
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
	case st == nil && l.finishing && typeOf(it.before.mode) != it.typ: // what was there has made room already
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
			return "has got something new: " + agentkernel.PathText(name)
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
	case agentkernel.TypeFile: // with the same bytes it may still have become a program, or none
		runs := permissions(it.mode, it.before, it.typ) & 0o111
		return st.Size == it.size && st.Mode&0o111 == runs && l.sameContent(it.path)
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
