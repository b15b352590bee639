package confine

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// tmpWatch keeps a sandbox's TmpDir, so that it can be asked whether it is full and what lies in it, also when all in the
// sandbox has ended.
type tmpWatch struct {
	mu    sync.Mutex
	fd    int // -1: it is not kept, or no more
	full  bool
	over  bool     // it was let go
	names []string // when it was
}

// open begins, where that is possible and not done: all mounts of the process must be there.
func (t *tmpWatch) open(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fd >= 0 || t.over {
		return
	}
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/root"+TmpDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		t.fd = fd
	}
}

// look notes whether it is full now.
func (t *tmpWatch) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	var st unix.Statfs_t
	if t.fd < 0 || unix.Fstatfs(t.fd, &st) != nil {
		return
	}
	t.full = t.full || st.Type == unix.TMPFS_MAGIC && (st.Bfree == 0 || st.Ffree == 0)
}

// list names files in it: as many as one buffer holds, for the program may have made very many.
func (t *tmpWatch) list() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fd < 0 {
		return t.names
	}
	dir, err := unix.Openat(t.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(dir) }()
	var b [8 << 10]byte
	n, err := unix.ReadDirent(dir, b[:])
	if err != nil {
		return nil
	}
	_, _, names := unix.ParseDirent(b[:n], -1, nil)
	return names
}

// close lets it go, and says whether it was ever seen full.
func (t *tmpWatch) close() bool {
	t.look()
	names := t.list()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fd >= 0 {
		_ = unix.Close(t.fd)
	}
	t.fd, t.over, t.names = -1, true, names
	return t.full
}

// Built says that all walls of an adopted process stand: what lies in its TmpDir can be seen from now on.
func (p *Process) Built() { p.tmp.open(p.pid) }

// InTmp names files in TmpDir, some of them if they are many, also of a process that has ended. What the sandbox was built with
// is not among them.
func (p *Process) InTmp() []string {
	return slices.DeleteFunc(slices.Clone(p.tmp.list()), p.cell.builtInTmp)
}

// builtInTmp says whether a name in TmpDir is of the runtime.
func (c *Cell) builtInTmp(name string) bool {
	at := TmpDir + "/" + name
	of := func(path string) bool { return path == at || strings.HasPrefix(path, at+"/") }
	return slices.ContainsFunc(c.Config.kept, of) || slices.ContainsFunc(c.Config.Runtime, func(m Mount) bool { return of(m.target()) })
}
