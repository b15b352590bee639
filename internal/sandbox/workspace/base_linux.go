package workspace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
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

var errTooMany = errors.New("too many files")

// survey notes everything in a folder, which holds most files and directories at most. What lies on another file system
// is not seen, here and by programs.
func survey(root dir, most int) (base, error) {
	b := base{}
	err := root.walk(func(_ dir, p string, st *unix.Stat_t) (bool, error) {
		if len(b) == most {
			return false, errTooMany
		}
		b[p] = markOf(st)
		return true, nil
	})
	return b, err
}

// drift lists up to limit paths at which the folder is not what the base says. What an apply has staged there, under names that begin
// with temp, is not of the folder.
func (b base) drift(root dir, temp string, limit int) (list []string, err error) {
	seen := 0
	err = root.walk(func(_ dir, p string, st *unix.Stat_t) (bool, error) {
		m, known := b[p]
		if !known && strings.HasPrefix(path.Base(p), temp) {
			return false, nil
		}
		if known {
			seen++
		}
		if (!known || !m.same(st)) && len(list) < limit {
			list = append(list, agentkernel.PathText(p))
		}
		return true, nil
	})
	if err != nil || seen == len(b) || len(list) >= limit {
		slices.Sort(list)
		return list, err
	}
	for p := range b {
		if st, err := root.look(p); err != nil {
			return nil, err
		} else if st == nil && len(list) < limit {
			list = append(list, agentkernel.PathText(p))
		}
	}
	slices.Sort(list)
	return list, nil
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
