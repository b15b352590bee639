package workspace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// mark is what stat(2) says of a file when a process was created. Of directories only the type counts.
type mark struct {
	mode  uint32
	size  int64
	mtime int64 // nanoseconds
	ctime int64
	ino   uint64
}

func markOf(st *unix.Stat_t) mark {
	m := mark{mode: st.Mode, ino: st.Ino}
	if typeOf(st.Mode) != agentkernel.TypeDir {
		m.size, m.mtime, m.ctime = st.Size, st.Mtim.Nano(), st.Ctim.Nano()
	}
	return m
}

// same says whether a file is still what it was. A directory is the same as long as it is one.
func (m mark) same(st *unix.Stat_t) bool {
	if typeOf(m.mode) == agentkernel.TypeDir {
		return typeOf(st.Mode) == agentkernel.TypeDir
	}
	return m == markOf(st)
}

// base is what a folder held: marks by path.
type base map[string]mark

// under gives the paths below p, deepest first.
func (b base) under(p string) []string {
	var list []string
	for q := range b {
		if len(q) > len(p) && q[len(p)] == '/' && q[:len(p)] == p {
			list = append(list, q)
		}
	}
	slices.SortFunc(list, func(x, y string) int { return bytes.Compare([]byte(y), []byte(x)) })
	return list
}

// survey notes everything in a folder, which holds most files and directories at most. What lies on another file system
// is not seen, here and by programs; nor is what lies in directories that cannot be looked through, which it lists.
func survey(root dir, most int) (b base, unlisted []string, err error) {
	b = base{}
	s := &search{hidden: map[string]bool{}}
	root.unlisted = s.cannotList
	err = root.walk(func(_ dir, p string, st *unix.Stat_t) (bool, error) {
		if len(b) == most {
			return false, errTooMany
		}
		b[p] = markOf(st)
		return true, nil
	})
	if len(s.unlisted) > 0 { // with one whose path is too long others are left out
		maps.DeleteFunc(b, func(p string, _ mark) bool { return s.covered(path.Dir(p)) })
	}
	return b, s.outermost(s.unlisted), err
}

// others are the parts of a folder that tell nothing of how it has changed since its base was made.
type others struct {
	temp     string                               // how names begin under which an apply has staged something
	unlisted []string                             // directories of which the base has nothing
	applied  func(p string, st *unix.Stat_t) bool // says that an apply has made p what it is; a nil st: nothing
}

// drift lists up to limit paths at which the folder is not what the base says. Of a directory that cannot be looked through any
// more it has the one path.
func (b base) drift(root dir, o others, limit int) (list []string, err error) {
	seen := 0
	add := func(p string, st *unix.Stat_t) {
		if len(list) < limit && !o.applied(p, st) {
			list = append(list, agentkernel.PathText(p))
		}
	}
	shut := map[string]bool{}
	root.unlisted = func(p string) error {
		shut[p] = true
		return nil
	}
	err = root.walk(func(_ dir, p string, st *unix.Stat_t) (bool, error) {
		m, known := b[p]
		if !known && strings.HasPrefix(path.Base(p), o.temp) {
			return false, nil
		}
		if known {
			seen++
		}
		if !known || !m.same(st) {
			add(p, st)
		}
		return !slices.Contains(o.unlisted, p+"/"), nil
	})
	if err != nil || seen == len(b) || len(list) >= limit {
		slices.Sort(list)
		return list, err
	}
	for p := range b {
		if at := within(shut, p); at != "" {
			if shut[at] {
				shut[at] = false
				add(at, nil)
			}
			continue
		}
		if st, err := root.look(p); err != nil {
			return nil, err
		} else if st == nil {
			add(p, nil)
		}
	}
	slices.Sort(list)
	return list, nil
}

// within is the one of these directories in which p lies; "": it lies in none.
func within(dirs map[string]bool, p string) string {
	for at := path.Dir(p); len(dirs) > 0 && at != "."; at = path.Dir(at) {
		if _, ok := dirs[at]; ok {
			return at
		}
	}
	return ""
}

const baseHead = "agentkernel base 1\n"

// write makes the file of a base, durable when it returns: sorted by path; of each the path behind its length and five
// numbers, all as variable-length integers (encoding/binary); the number of entries and a checksum at the end.
func (b base) write(at dir, name string) error {
	buf := []byte(baseHead)
	paths := make([]string, 0, len(b))
	for p := range b {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		m := b[p]
		buf = binary.AppendUvarint(buf, uint64(len(p)))
		buf = append(buf, p...)
		buf = binary.AppendUvarint(buf, uint64(m.mode))
		buf = binary.AppendVarint(buf, m.size)
		buf = binary.AppendVarint(buf, m.mtime)
		buf = binary.AppendVarint(buf, m.ctime)
		buf = binary.AppendUvarint(buf, m.ino)
	}
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(b)))
	buf = binary.BigEndian.AppendUint32(buf, crc32.ChecksumIEEE(buf))
	return writeFile(at, name, buf)
}

// readBase reads what write has written; CodeCorrupt.
func readBase(at dir, name string) (base, error) {
	raw, err := readFile(at, name)
	if err != nil {
		return nil, err
	}
	corrupt := agentkernel.Errorf(agentkernel.CodeCorrupt, op, "%s is not what was written", path.Join(at.Name(), name))
	const tail = 12
	if len(raw) < len(baseHead)+tail || string(raw[:len(baseHead)]) != baseHead ||
		crc32.ChecksumIEEE(raw[:len(raw)-4]) != binary.BigEndian.Uint32(raw[len(raw)-4:]) {
		return nil, corrupt
	}
	n := binary.BigEndian.Uint64(raw[len(raw)-tail:])
	r := bufio.NewReader(bytes.NewReader(raw[len(baseHead) : len(raw)-tail]))
	b := make(base, min(n, MaxFiles))
	for range n {
		p, m, err := readMark(r)
		if err != nil {
			return nil, corrupt
		}
		b[p] = m
	}
	return b, nil
}

func readMark(r *bufio.Reader) (p string, m mark, err error) {
	n, err := binary.ReadUvarint(r)
	if err != nil || n > maxDepth*unix.NAME_MAX {
		return "", m, errors.Join(err, io.ErrUnexpectedEOF)
	}
	name := make([]byte, n)
	if _, err := io.ReadFull(r, name); err != nil {
		return "", m, err
	}
	var errs [5]error
	var mode uint64
	mode, errs[0] = binary.ReadUvarint(r)
	m.mode = uint32(mode) //nolint:gosec // it was one
	m.size, errs[1] = binary.ReadVarint(r)
	m.mtime, errs[2] = binary.ReadVarint(r)
	m.ctime, errs[3] = binary.ReadVarint(r)
	m.ino, errs[4] = binary.ReadUvarint(r)
	return string(name), m, errors.Join(errs[:]...)
}

// writeFile replaces a file of the store in one step, durably.
func writeFile(at dir, name string, data []byte) (err error) {
	f, err := os.CreateTemp(at.Name(), name+".*.tmp")
	if err != nil {
		return storage(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return storage(err)
	}
	if err := os.Rename(f.Name(), path.Join(at.Name(), name)); err != nil {
		return storage(err)
	}
	return storage(at.Sync())
}

func readFile(at dir, name string) ([]byte, error) {
	raw, err := os.ReadFile(path.Join(at.Name(), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return raw, storage(err)
}

func storage(err error) error {
	if err == nil {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeStorage, op, "%w", err)
}
