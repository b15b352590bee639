package confine

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// load is what a sandbox's processes were seen to have, where no cgroup counts it. Beside their own memory that is what
// Linux keeps for them and does not list as theirs: page tables, buffers of pipes and sockets, open files, pieces of
// their address spaces. docs/security.md lists what is left.
type load struct {
	most   int64 // the limit: what is beyond it need not be counted
	looks  int
	spaces map[int]space // as of the last look at each, by process
}

// mostBlind is how many looks in a row may meet such a process: one that ends, or is being started, is seen so for a moment.
const mostBlind = 5

// What things of Linux take at most, in bytes.
const (
	descriptorBytes = 2 << 10   // a socket, with its file and its name
	socketBytes     = 384 << 10 // unread in a socket whose buffer has its usual size: net.core.wmem_default and a last piece
	watchBytes      = 256       // a descriptor that an epoll waits for
	lockBytes       = 192       // a lock of a file
	taskBytes       = 32 << 10  // a process or thread, with its stack in Linux
	mapBytes        = 256       // a piece of an address space, with its place in the tree of them
	chainBytes      = 64        // struct anon_vma_chain: such a piece has one for each process that it was forked through
)

// pipeBytes are the pages that a pipe keeps for the next write when what was in them was read.
var pipeBytes = 2 * int64(os.Getpagesize())

// mapsEvery is in how many looks the pieces of address spaces are counted once: it takes as long as all else. Until then a
// new process counts with as many as its parent.
const mapsEvery = 10

// seen is one process.
type seen struct {
	pid    int
	parent int
	dir    string // in /proc
	status string // what that says
}

// seeAll looks at the processes of a tree.
func seeAll(tree []int) []seen {
	all := make([]seen, len(tree))
	for i, pid := range tree {
		dir, status := living(pid)
		all[i] = seen{pid, int(number(status, "PPid")), dir, status}
	}
	return all
}

// space is an address space.
type space struct {
	pieces int64
	stack  string // where its stack begins: a fork has its parent's, and each exec another
}

// of counts a tree of processes, with what they have open: its memory, and its processes and threads.
func (l *load) of(all []seen, open openFiles) (memory int64, tasks int) {
	var resident int64
	kernel := usedTmp(all[0].pid) + open.memory()
	for _, p := range all {
		resident += kibibytes(p.status, "RssAnon", "RssShmem", "VmSwap")
		kernel += kibibytes(p.status, "VmPTE", "HugetlbPages")
		tasks += int(number(p.status, "Threads"))
	}
	kernel += int64(tasks) * taskBytes
	l.looks++
	now, most := l.looks%mapsEvery == 1, (l.most-kernel)/mapBytes
	pieces := l.pieces(all, most, now)
	if resident+kernel+pieces > l.most { // what forks share was counted for each: look closer
		resident = 0
		for _, p := range all {
			resident += proportional(p.dir)
		}
	}
	if without := resident + kernel; !now && without <= l.most && without+pieces > l.most { // they may be fewer by now
		pieces = l.pieces(all, most, true)
	}
	return resident + kernel + pieces, tasks
}

// living is the directory in /proc of a process, or, if its first thread has ended alone, of one that runs and so still
// has the memory and the files, and what its status says.
func living(pid int) (dir, status string) {
	dir = "/proc/" + strconv.Itoa(pid)
	first, _ := readSmall(dir + "/status") // it is gone: it has nothing
	if bytes.Contains(first, []byte("\nRssAnon:")) {
		return dir, string(first)
	}
	threads, _ := os.ReadDir(dir + "/task")
	for _, t := range threads {
		one := dir + "/task/" + t.Name()
		if b, _ := readSmall(one + "/status"); bytes.Contains(b, []byte("\nRssAnon:")) {
			return one, string(b)
		}
	}
	return dir, string(first)
}

// proportional is a process's own memory, with what is shared divided among those who share it.
func proportional(dir string) int64 {
	b, err := readSmall(dir + "/smaps_rollup")
	if err != nil || len(b) == 0 {
		b, _ = readSmall(dir + "/status")
		return kibibytes(string(b), "RssAnon", "RssShmem", "VmSwap")
	}
	return kibibytes(string(b), "Pss_Anon", "Pss_Shmem", "SwapPss")
}

// usedTmp is what lies in the sandbox's /tmp, which is memory.
func usedTmp(pid int) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs("/proc/"+strconv.Itoa(pid)+"/root"+TmpDir, &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		return 0
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize //nolint:gosec // a size
}

// kinship is what processes share that may be forks of one another: a parent and an image.
type kinship struct {
	parent int
	stack  string
}

// pieces is what the pieces of all address spaces take. A piece that was forked has a link to each of its origins, as long as
// they or their forks live, so that a chain of forks takes the square of its length. Of the children of a process each may stand
// behind all others, as an orphan that it took over (it is pid 1, or a subreaper): how they were forked nobody can see any more.
// They are counted now, or as of the last time.
func (l *load) pieces(all []seen, most int64, count bool) (sum int64) {
	now := make(map[int]space, len(all))
	kin := map[kinship]int64{} // how many there are
	for _, p := range all {    // parents come first
		parent := now[p.parent]
		s, known := l.spaces[p.pid]
		if !known && parent.pieces > 0 {
			s, known = parent, true
		}
		if !known || count {
			s = spaceOf(p.dir, most)
		}
		now[p.pid] = s
		kin[kinship{p.parent, s.stack}]++
	}
	l.spaces = now
	depth := make(map[int]int64, len(all))
	for _, p := range all {
		s := now[p.pid]
		depth[p.pid] = kin[kinship{p.parent, s.stack}]
		if s.stack == now[p.parent].stack {
			depth[p.pid] += depth[p.parent]
		}
		sum += s.pieces * (mapBytes + chainBytes*depth[p.pid])
	}
	return sum
}

// spaceOf looks at an address space; beyond most pieces it stops to count.
func spaceOf(dir string, most int64) (s space) {
	const startStack = 28 - 3 // of proc_pid_stat(5), whose third field is the first after the name
	if f := fieldsOf(dir + "/stat"); len(f) > startStack {
		s.stack = f[startStack]
	}
	f, err := os.Open(dir + "/maps")
	if err != nil {
		return s
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 64<<10)
	for s.pieces <= most {
		n, err := f.Read(b)
		s.pieces += int64(bytes.Count(b[:n], []byte{'\n'}))
		if err != nil || n == 0 {
			break
		}
	}
	return s
}

// openNames lists what a process has open, by number. The error says that it lives and cannot be looked into: it runs a
// file that it may not read, say (PR_SET_DUMPABLE in prctl(2)).
func openNames(dir string) ([]string, error) {
	f, err := os.Open(dir + "/fd")
	if err != nil {
		return nil, unlessGone(dir, err)
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(-1) // what is closed meanwhile is not missed
	return names, unlessGone(dir, err)
}

// unlessGone is err if the process still runs.
func unlessGone(dir string, err error) error {
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	if status, _ := readSmall(dir + "/status"); !bytes.Contains(status, []byte("\nRssAnon:")) {
		return nil
	}
	return err
}

// unread is what lies in a pipe or socket of another process, at most, and what a pipe keeps. One that cannot be looked at counts as full.
func unread(pidfd, fd int, pipe bool) int64 {
	own, err := unix.PidfdGetfd(pidfd, fd, 0)
	if errors.Is(err, unix.ESRCH) {
		return 0 // it is gone
	}
	if err != nil {
		return socketBytes
	}
	defer func() { _ = unix.Close(own) }()
	if pipe {
		size, err := unix.FcntlInt(uintptr(own), unix.F_GETPIPE_SZ, 0) //nolint:gosec // a descriptor
		if n, _ := unix.IoctlGetInt(own, unix.TIOCINQ); n == 0 || err != nil {
			return pipeBytes
		}
		return int64(size) + pipeBytes
	}
	ready := []unix.PollFd{{Fd: int32(own), Events: unix.POLLIN}} //nolint:gosec // a descriptor
	if n, err := unix.Poll(ready, 0); n == 0 && err == nil {
		return 0
	}
	return socketBytes
}

// kibibytes adds up lines of text like "VmPTE: 44 kB".
func kibibytes(text string, keys ...string) (sum int64) {
	for _, key := range keys {
		sum += number(text, key) << 10
	}
	return sum
}

// number is that of a line like "Threads: 1"; 0 if there is none.
func number(text, key string) int64 {
	_, after, _ := cutLine(text, key+":")
	word, _, _ := strings.Cut(after, " ")
	n, _ := strconv.ParseInt(word, 10, 64)
	return n
}
