package workspace

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// Open opens one file of a process, see agentkernel.Workspaces.OpenFile.
func (s *Store) Open(pid agentkernel.PID, name agentkernel.FileName) (agentkernel.File, error) {
	h, err := s.open(pid)
	if err != nil {
		return agentkernel.File{}, err
	}
	defer h.Close()
	f := h.find(name.Volume)
	if f == nil && !h.imported() {
		what := "workspace"
		if name.Volume != "" {
			what = "volume " + name.Volume
		}
		return agentkernel.File{}, invalid("process %d has no %s", pid, what).WithPID(pid)
	}
	file, err := h.openFile(pid, f, name)
	if err != nil {
		if e, ok := errors.AsType[*agentkernel.Error](err); ok {
			return agentkernel.File{}, e
		}
		return agentkernel.File{}, noFile(pid, name, err)
	}
	st, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return agentkernel.File{}, storage(err)
	}
	return agentkernel.File{Size: st.Size(), Media: mediaType(name.Path, func() []byte { return head(file) }), Content: file}, nil
}

func noFile(pid agentkernel.PID, name agentkernel.FileName, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return agentkernel.Errorf(agentkernel.CodeNotFound, op, "process %d has no file %s", pid, name).WithPID(pid).WithHint("agentkernel artifacts %d lists them", pid)
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return invalid("%s is, or lies behind, a symbolic link, which is not followed", name).WithPID(pid)
	case errors.Is(err, unix.EACCES):
		return agentkernel.Errorf(agentkernel.CodeDenied, op, "%s cannot be read: %w", name, err).WithPID(pid)
	}
	return storage(err)
}

func (h *home) openFile(pid agentkernel.PID, f *folder, name agentkernel.FileName) (*os.File, error) {
	p := agentkernel.RawPath(path.Clean(name.Path))
	switch {
	case f == nil:
		return h.openImported(pid, name)
	case f.ReadOnly:
		return f.openNow(p)
	case h.rec.State == agentkernel.LayerApplied || f.Applied:
		return h.openApplied(pid, f, name)
	case h.rec.State == agentkernel.LayerDiscarded:
		return nil, h.kept(pid)
	}
	l, err := f.open(h)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return f.openNow(p)
	}
	defer l.close()
	if name.Before {
		if h.hasApplied(name) {
			return nil, notKept(pid, name)
		}
		return l.before(p)
	}
	switch where, err := l.where(p); {
	case err != nil:
		return nil, err
	case where == inLayer:
		file, _, err := l.top.file(p)
		return file, err
	case where == gone:
		return nil, unix.ENOENT
	}
	return l.before(p)
}

func notKept(pid agentkernel.PID, name agentkernel.FileName) error {
	return conflict("the changes of process %d were applied: what %s was before is not kept", pid, name).WithPID(pid)
}

// hasApplied says whether a change was applied while others wait.
func (h *home) hasApplied(name agentkernel.FileName) bool {
	return slices.ContainsFunc(h.rec.Changes, func(d done) bool {
		return d.Volume == name.Volume && d.Path == path.Clean(name.Path) && d.LeftOut == ""
	})
}

// openNow opens a file of the folder as it is.
func (f *folder) openNow(p string) (*os.File, error) {
	root, err := f.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, _, err := root.file(p)
	return file, err
}

// openApplied opens a file that was applied, if it still is what was.
func (h *home) openApplied(pid agentkernel.PID, f *folder, name agentkernel.FileName) (*os.File, error) {
	for i := range h.rec.Changes {
		d := &h.rec.Changes[i]
		if d.Volume != f.Volume || d.Path != name.Path {
			continue
		}
		switch {
		case d.LeftOut != "" || d.Kind == agentkernel.FileDeleted && !name.Before:
			return nil, unix.ENOENT
		case d.Type != agentkernel.TypeFile && !name.Before:
			return nil, invalid("%s is not a file", name)
		case name.Before:
			return nil, notKept(pid, name)
		}
		file, err := f.openNow(agentkernel.RawPath(name.Path))
		if err != nil {
			return nil, err
		}
		st, err := file.Stat()
		if err == nil && st.Size() == d.Size && st.ModTime().UnixNano() == d.MTime {
			return file, nil
		}
		_ = file.Close()
		return nil, conflict("%s was applied to %s and has changed there since", name, f.Path).WithPID(pid)
	}
	return nil, unix.ENOENT
}

// before opens a file of the folder, if it is as it was.
func (l *layer) before(p string) (*os.File, error) {
	m, ok := l.base[p]
	if !ok {
		return nil, unix.ENOENT
	}
	if l.away != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeOf(l.away), op, "%s was in the folder, and the process did not change it: %w",
			agentkernel.PathText(p), agentkernel.AsError(l.away, "", "").Err)
	}
	file, st, err := l.root.file(p)
	if err != nil {
		return nil, err
	}
	if !m.same(st) {
		_ = file.Close()
		return nil, conflict("%s has changed in the folder since the process was created", agentkernel.PathText(p))
	}
	return file, nil
}

type place int

const (
	inFolder place = iota // the layer says nothing about it
	inLayer
	gone
)

// where says which of the two has a path.
func (l *layer) where(p string) (place, error) {
	parts := strings.Split(p, "/")
	hidden := l.copy
	for i := range parts {
		at := strings.Join(parts[:i+1], "/")
		st, err := l.top.look(at)
		switch {
		case err != nil:
			return gone, err
		case st == nil && hidden:
			return gone, nil
		case st == nil:
			return inFolder, nil
		case !l.copy && whiteout(st):
			return gone, nil
		case i < len(parts)-1 && typeOf(st.Mode) != agentkernel.TypeDir:
			return gone, nil
		}
		if i < len(parts)-1 && !hidden {
			old, known := l.base[at]
			parent, name, err := l.top.parent(at)
			if err != nil {
				return gone, err
			}
			hidden = !known || typeOf(old.mode) != agentkernel.TypeDir || parent.opaque(name)
			_ = parent.Close()
		}
	}
	return inLayer, nil
}
