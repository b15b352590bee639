package workspace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// Overlayfs marks with these what a layer says besides its files (Linux, Documentation/filesystems/overlayfs.rst, with
// the option userxattr).
const opaqueAttr = "user.overlay.opaque"

// item is one change of a layer, with raw path.
type item struct {
	path   string
	kind   agentkernel.ChangeKind
	typ    agentkernel.FileType
	mode   uint32
	size   int64
	before *mark // nil: there was nothing
	target string

	fate    fate
	why     string
	implied bool // the process did not change it: others need it
}

// layer is what a process has made of one folder.
type layer struct {
	top  dir // overlayfs' upper directory, or the copy
	copy bool
	base base
	root dir // the folder; not open if away is set
	// away is why the folder cannot be opened, where it has gone; see [away].
	away error
	// finishing says that an Apply has begun to change the folder, and was cut off.
	finishing bool
	configs   []string // ApplyOptions.GitConfigs
}

func (l *layer) close() {
	_ = l.top.Close()
	if l.away == nil {
		_ = l.root.Close()
	}
}

// open opens the layer of a folder; nil: the process has not begun. The folder itself may be away.
func (f *folder) open(h *home) (*layer, error) {
	if f.Layer == "" {
		return nil, nil
	}
	top, err := openRoot(h.path(f.Layer+"/"+f.top()), true)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, storage(err)
	}
	b, err := readBase(h.dir, f.Base)
	if err != nil {
		_ = top.Close()
		return nil, err
	}
	l := &layer{top: top, copy: f.Copy, base: b, finishing: h.rec.Decided != nil}
	if l.root, err = f.root(); away(err) {
		l.away = err
	} else if err != nil {
		_ = top.Close()
		return nil, err
	}
	return l, nil
}

// top is the directory in a layer that holds the files.
func (f *folder) top() string {
	if f.Copy {
		return "copy"
	}
	return "upper"
}

// items lists what a layer changes, in the order of paths.
func (l *layer) items() ([]item, error) {
	var list []item
	seen := map[string]bool{}
	gone := func(p string) {
		m, ok := l.base[p]
		if !ok || seen[p] {
			return
		}
		seen[p] = true
		list = append(list, item{path: p, kind: agentkernel.FileDeleted, typ: typeOf(m.mode), before: &m})
	}
	goneBelow := func(p string, keep func(string) bool) {
		for _, q := range l.base.under(p) {
			if keep == nil || !keep(q) {
				gone(q)
			}
		}
	}
	err := l.top.walk(func(in dir, p string, st *unix.Stat_t) (bool, error) {
		if !l.copy && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 { // a whiteout
			gone(p)
			goneBelow(p, nil)
			return false, nil
		}
		it, changed, err := l.item(in, p, st)
		if err != nil {
			return false, err
		}
		seen[p] = true
		if changed {
			list = append(list, it)
		}
		switch old, ok := l.base[p]; {
		case !ok || typeOf(old.mode) != agentkernel.TypeDir:
		case typeOf(st.Mode) != agentkernel.TypeDir:
			goneBelow(p, nil)
		case !l.copy && in.opaque(path.Base(p)):
			goneBelow(p, func(q string) bool { st, err := l.top.look(q); return err == nil && st != nil && !whiteout(st) })
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	if l.copy {
		for p, m := range l.base {
			if !seen[p] && typeOf(m.mode) != agentkernel.TypeOther { // these were not copied
				gone(p)
			}
		}
	}
	slices.SortFunc(list, func(a, b item) int { return cmp.Compare(a.path, b.path) })
	return list, nil
}

func whiteout(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 }

// item looks at one name of a layer. changed: it is not what the base has.
func (l *layer) item(in dir, p string, st *unix.Stat_t) (it item, changed bool, err error) {
	it = item{path: p, kind: agentkernel.FileAdded, typ: typeOf(st.Mode), mode: st.Mode}
	if it.typ == agentkernel.TypeFile {
		it.size = st.Size
	}
	if it.typ == agentkernel.TypeSymlink {
		if it.target, err = in.link(path.Base(p)); errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
			return it, false, nil // it has just gone
		} else if err != nil {
			return it, false, err
		}
	}
	old, ok := l.base[p]
	if !ok {
		return it, true, nil
	}
	it.kind, it.before = agentkernel.FileChanged, &old
	if typeOf(old.mode) != it.typ {
		return it, true, nil
	}
	switch it.typ {
	case agentkernel.TypeDir:
		return it, false, nil
	case agentkernel.TypeSymlink:
		if l.away != nil {
			return it, true, nil
		}
		parent, name, err := l.root.parent(p)
		if err != nil {
			return it, true, nil //nolint:nilerr // the folder has changed: apply says so
		}
		defer parent.Close()
		target, err := parent.link(name)
		return it, err != nil || target != it.target, nil
	case agentkernel.TypeFile:
		if old.size != st.Size || old.mtime != st.Mtim.Nano() {
			return it, true, nil
		}
		if old.mode&0o111 != st.Mode&0o111 {
			return it, true, nil
		}
		// Whoever opens a file for writing has it copied to the layer, though he may write nothing.
		return it, !l.copy && l.away == nil && !l.sameContent(p), nil
	}
	return it, true, nil
}

// opaque says whether a directory of the layer hides what lies under it.
func (d dir) opaque(name string) bool {
	sub, err := d.subdir(name)
	if err != nil {
		return false
	}
	defer sub.Close()
	value := make([]byte, 8)
	n, err := unix.Fgetxattr(sub.fd(), opaqueAttr, value)
	return err == nil && n == 1 && value[0] == 'y'
}

// sameContent says whether the file p of the layer has the bytes that it has in the folder.
func (l *layer) sameContent(p string) bool {
	a, _, err := l.top.file(p)
	if err != nil {
		return false
	}
	defer a.Close()
	b, _, err := l.root.file(p)
	if err != nil {
		return false
	}
	defer b.Close()
	return sameBytes(a, b)
}

const compareAtOnce = 128 << 10

func sameBytes(a, b io.Reader) bool {
	x, y := make([]byte, compareAtOnce), make([]byte, compareAtOnce)
	for {
		n, errA := io.ReadFull(a, x)
		m, errB := io.ReadFull(b, y)
		if !bytes.Equal(x[:n], y[:m]) {
			return false
		}
		if errA != nil || errB != nil {
			return ended(errA) && ended(errB)
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// spareRoom is what a file system may give a file, beside as much again as it holds, without being asked: beyond that it is
// attributes, and counts.
const spareRoom = 64 << 10

// Used is what the layers of a process hold, in bytes as Limits.Disk counts: the sizes of files, and 4 KiB for each
// name. Of directories that are nested too deep nobody can tell: CodeLimit.
func (s *Store) Used(pid agentkernel.PID) (changes, beside int64, err error) {
	h, err := s.open(pid)
	if err != nil {
		return 0, 0, err
	}
	defer h.Close()
	return h.used()
}

func (h *home) used() (changes, beside int64, err error) {
	beside = entryBytes
	for i := range h.rec.Folders {
		f := &h.rec.Folders[i]
		if st, err := h.look(f.Base); f.Base != "" && err == nil && st != nil {
			beside += entryBytes + st.Size
		}
		if f.Layer == "" {
			continue
		}
		top, err := openRoot(h.path(f.Layer+"/"+f.top()), true)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return 0, 0, storage(err)
		}
		n, err := top.used()
		_ = top.Close()
		if errors.Is(err, errTooDeep) {
			return 0, 0, agentkernel.Errorf(agentkernel.CodeLimit, op, "what it wrote cannot be counted: %w", errTooDeep).
				WithHint("nest directories less deep: %d is the most", maxDepth)
		}
		if err != nil {
			return 0, 0, storage(err)
		}
		if f.Copy {
			beside += f.Held
			n -= f.Held
		}
		changes += max(n, 0)
	}
	return changes, beside, nil
}

func (d dir) used() (sum int64, err error) {
	linked := map[uint64]bool{}
	err = d.walk(func(_ dir, _ string, st *unix.Stat_t) (bool, error) {
		sum += entryBytes
		switch typeOf(st.Mode) {
		case agentkernel.TypeFile:
		case agentkernel.TypeDir: // keeps the room of names that are gone
			sum += max(0, st.Blocks*512-entryBytes)
			return true, nil
		default:
			return true, nil
		}
		if st.Nlink > 1 { // a further name of a file costs nothing but the name
			if linked[st.Ino] {
				return true, nil
			}
			linked[st.Ino] = true
		}
		spare := st.Size + spareRoom
		if st.Size == 0 { // a file system promises nothing to a file that was never written
			spare = entryBytes
		}
		sum += max(st.Size, st.Blocks*512-spare)
		return true, nil
	})
	return sum, err
}

// Changes says what a process has done. Conflict and Drift are as of now. The caller knows whether the process has ended.
func (s *Store) Changes(pid agentkernel.PID) (agentkernel.Changes, error) {
	c := agentkernel.Changes{PID: pid, Changes: []agentkernel.Change{}}
	h, err := s.open(pid)
	if err != nil {
		return c, err
	}
	defer h.Close()
	c.State, c.Applied = h.rec.State, h.rec.Applied
	for i := range h.rec.Folders {
		f := &h.rec.Folders[i]
		if f.Volume == "" {
			c.Folder, c.Hidden = f.Path, f.Hidden
		} else {
			c.Volumes = append(c.Volumes, agentkernel.Volume{Name: f.Volume, Path: f.Path, ReadOnly: f.ReadOnly, Size: f.Size})
		}
		for _, p := range f.Unlisted {
			c.Unlisted = append(c.Unlisted, agentkernel.FileName{Volume: f.Volume, Path: agentkernel.PathText(p)}.String())
		}
		if h.rec.State == agentkernel.LayerKept && !f.Applied {
			if err := f.changes(h, &c); err != nil {
				return c, err
			}
		}
	}
	if h.rec.Decided != nil {
		c.CutOff = h.rec.Decided.At
	}
	for _, d := range h.rec.Changes {
		d.Applied = d.LeftOut == "" && !h.imported() && h.rec.State != agentkernel.LayerApplied
		c.Changes = append(c.Changes, d.Change)
	}
	if h.rec.State != agentkernel.LayerKept {
		return c, nil
	}
	if len(h.rec.Changes) > 0 {
		c.Hint = h.gitHint(slices.DeleteFunc(slices.Clone(c.Changes), func(ch agentkernel.Change) bool { return ch.Withheld == "" }))
	}
	if c.Bytes, _, err = h.used(); err == nil {
		c.Drift, err = s.drift(pid, h)
	}
	if away(err) { // each change says so
		err = nil
	}
	return c, err
}

func (f *folder) changes(h *home, c *agentkernel.Changes) error {
	l, err := f.open(h)
	if err != nil || l == nil {
		return err
	}
	defer l.close()
	items, err := l.items()
	if err != nil {
		return storage(err)
	}
	if err := l.choose(items, nil); err != nil {
		return err
	}
	for _, it := range items {
		ch := l.change(f, &it)
		switch {
		case ch.LeftOut != "":
		case l.away != nil:
			ch.Conflict = agentkernel.NoFolder
		default:
			ch.Conflict, err = l.conflict(&it)
			if agentkernel.CodeOf(err) == agentkernel.CodeDenied {
				ch.Conflict = "cannot be compared: " + agentkernel.AsError(err, "", "").Message()
			} else if err != nil {
				return err
			}
		}
		c.Changes = append(c.Changes, ch)
	}
	return nil
}

// change is an item as users see it.
func (l *layer) change(f *folder, it *item) agentkernel.Change {
	ch := agentkernel.Change{Volume: f.Volume, Path: agentkernel.PathText(it.path), Kind: it.kind, Type: it.typ, Size: it.size, Target: agentkernel.PathText(it.target)}
	if it.before != nil {
		ch.Before = it.before.size
		if typeOf(it.before.mode) != agentkernel.TypeFile {
			ch.Before = 0
		}
	}
	switch it.fate {
	case leftOut:
		ch.LeftOut = it.why
	case withheld:
		ch.Withheld = it.why
	}
	if it.kind == agentkernel.FileDeleted {
		return ch
	}
	if it.typ != agentkernel.TypeSymlink {
		ch.Mode = fmt.Sprintf("%o", permissions(it.mode, it.before, it.typ))
	}
	if it.typ == agentkernel.TypeFile {
		ch.Media = l.media(it.path)
	}
	return ch
}

func (l *layer) media(p string) string {
	return mediaType(p, func() []byte {
		f, _, err := l.top.file(p)
		if err != nil {
			return nil
		}
		defer f.Close()
		return head(f)
	})
}

// head reads what is needed to guess what a file is.
func head(f *os.File) []byte {
	b := make([]byte, sniffBytes)
	n, _ := f.ReadAt(b, 0) // less is fine
	return b[:n]
}
