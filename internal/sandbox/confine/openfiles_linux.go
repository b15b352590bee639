package confine

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// openFiles is what a sandbox's processes have open, and what Linux keeps for it.
type openFiles struct {
	descriptors int
	locks       int64 // of files, whatever these are
	watches     int64 // what epolls wait for
	lists       int64 // names in directories, bytes, which no cgroup counts
	buffers     int64 // what lies unread in pipes and sockets, and texts that files keep, bytes
}

func (o *openFiles) add(p openFiles) {
	o.descriptors += p.descriptors
	o.locks += p.locks
	o.watches += p.watches
	o.lists += p.lists
	o.buffers += p.buffers
}

// orMore is the larger of each.
func (o openFiles) orMore(p openFiles) openFiles {
	return openFiles{max(o.descriptors, p.descriptors), max(o.locks, p.locks), max(o.watches, p.watches), max(o.lists, p.lists), max(o.buffers, p.buffers)}
}

// memory is what Linux keeps for all that, in bytes.
func (o openFiles) memory() int64 {
	return int64(o.descriptors)*descriptorBytes + o.locks*lockBytes + o.lists + o.buffers
}

// filesLatest is the longest time between two looks at descriptors. Of as many as a sandbox may have, a look takes some tenths of a second.
const filesLatest = 5 * time.Second

// filesLook looks at the descriptors of a sandbox's processes.
type filesLook struct {
	most     openFiles // beyond any of it a look stops; of lists and buffers together as many bytes as most.lists
	buffered bool      // buffers are counted, since no cgroup does
	init     int       // the sandbox's own pid 1, which cannot be looked into and holds nothing; 0: there is none
	lists    *dirLists
	rest     time.Time         // until then nobody looks: it would take too much of the time
	took     time.Duration     // the last look
	grows    bool              // what is taken from others, or memory, was seen to grow fast by it
	blind    int               // looks in a row that met a process that cannot be looked into
	last     map[int]openFiles // by process, as of the last look
	sum      openFiles         // as of the last look, or of this one
	known    bool              // all that was to be read of a process was read, or has gone
	flying   bool              // a descriptor was on its way between sockets in this look, or may have been
	rests    int               // looks in which none was, since what was seen before them was forgotten
	texts    recent            // what a file of fdinfo that is on its way may hold
	files    sameFiles         // seen in this look
	streams  map[fileKey]bool  // pipes and sockets that were
	again    int64             // watches that were read once more in this look, in another process
	info     []byte            // room to read
}

func newFilesLook(c Config, init int, counted bool, watches int64) *filesLook {
	return &filesLook{
		most:     openFiles{descriptors: c.Limits.Descriptors(), locks: MostLocks, watches: watches, lists: c.Limits.Memory},
		buffered: !counted, init: init, lists: newDirLists(c), info: make([]byte, 16<<10),
	}
}

// due says whether it is time to look again.
func (l *filesLook) due() bool { return !time.Now().Before(l.rest) }

// of adds up what the processes have open. Of what cannot be read, as when there is no memory for the text, as much counts as there was.
func (l *filesLook) of(all []seen) openFiles {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun, used, before, last, blind := time.Now(), threadTime(), l.sum, l.last, false
	l.sum, l.files, l.streams, l.last, l.again = openFiles{}, sameFiles{}, map[fileKey]bool{}, make(map[int]openFiles, len(all)), 0
	l.flying = false
	for _, p := range all {
		l.known = true
		one, err := l.process(p)
		if blind = blind || err != nil && p.pid != l.init; !l.known {
			one = one.orMore(last[p.pid])
		}
		l.last[p.pid] = one
		l.flying = l.flying || !l.known && p.pid != l.init
		if l.sum.add(one); l.over(openFiles{}) {
			l.flying = true
			break
		}
	}
	l.forget()
	if l.blind++; !blind {
		l.blind = 0
	}
	l.took, l.grows = time.Since(begun), l.fast(before)
	rest := threadTime() - used // of a processor: on a busy machine a look takes longer, and may come no later for that
	if !l.grows && !blind {
		rest *= watchShare
	}
	l.rest = time.Now().Add(min(rest, filesLatest))
	return l.sum
}

// fast says whether something has grown so much since a look that the next one has to come soon.
func (l *filesLook) fast(before openFiles) bool {
	return l.sum.watches-before.watches > l.most.watches/16 || l.sum.locks-before.locks > l.most.locks/16 ||
		l.sum.lists+l.sum.buffers-before.lists-before.buffers > l.most.lists/16
}

// threadTime is what the calling thread has used of the processors.
func threadTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// over says whether with more there is too much of anything.
func (l *filesLook) over(more openFiles) bool {
	more.add(l.sum)
	return more.descriptors > l.most.descriptors || more.locks > l.most.locks || more.watches > l.most.watches || more.lists+more.buffers > l.most.lists
}

// process looks at one process. The error says that it lives and cannot be looked into: it runs a file that it may not read, say
// (PR_SET_DUMPABLE in prctl(2)).
func (l *filesLook) process(p seen) (one openFiles, err error) {
	fds, err := os.Open(p.dir + "/fd")
	if err != nil {
		return l.missed(p, err)
	}
	defer func() { _ = fds.Close() }()
	names, err := fds.Readdirnames(-1) // what is closed meanwhile is not missed
	if err != nil {
		return l.missed(p, err)
	}
	tid, _ := strconv.Atoi(filepath.Base(p.dir))
	if known, _ := l.files.add(fileKey{of: tables}, openFile{tid, wholeTable}); known {
		return one, nil // as of clone(2) with CLONE_FILES
	}
	one.descriptors = len(names)
	infos, err := unix.Open(p.dir+"/fdinfo", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return l.missed(p, err)
	}
	defer func() { _ = unix.Close(infos) }()
	d := descriptor{process: p, tid: tid, pidfd: -1, fds: int(fds.Fd()), infos: infos} //nolint:gosec // a descriptor
	defer d.close()
	for _, d.name = range names {
		if l.over(one) {
			break
		}
		if err := l.descriptor(&d, &one); err != nil && !hasGone(err) {
			l.known = false
		}
	}
	return one, nil
}

// missed is what process returns for one whose descriptors cannot be listed.
func (l *filesLook) missed(p seen, err error) (one openFiles, _ error) {
	l.known = hasGone(err) || isZombie(p.status) // which holds nothing any more, and only root may look into
	if err = unlessGone(p.dir, err); err != nil && p.pid != l.init {
		one.descriptors = int(number(p.status, "FDSize"))
	}
	return one, err
}

// isZombie says whether a process has ended and was not waited for yet.
func isZombie(status string) bool {
	return strings.Contains(status, "\nState:\tZ") || strings.Contains(status, "\nState:\tX")
}

// hasGone says whether a process or descriptor was not there any more.
func hasGone(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

// descriptor is one of a process, and how to get at it.
type descriptor struct {
	process    seen
	tid        int    // a thread of the process that has its files
	name       string // its number
	fds, infos int    // directories of /proc
	pidfd      int    // -1: not opened yet
}

func (d *descriptor) close() {
	if d.pidfd >= 0 {
		_ = unix.Close(d.pidfd)
	}
}

// descriptor adds what one holds.
func (l *filesLook) descriptor(d *descriptor, one *openFiles) error {
	var st unix.Stat_t
	// Other errors last as long as the file is open: some file systems do not answer to root, or their server has gone.
	if err := unix.Fstatat(d.fds, d.name, &st, 0); hasGone(err) || shortageOf(err) != 0 {
		return err
	}
	number, _ := strconv.Atoi(d.name)
	file, key := openFile{d.tid, number}, fileKey{dev: st.Dev, ino: st.Ino}
	own := key // what a fork does not inherit
	own.pid = d.process.pid
	kind := st.Mode & unix.S_IFMT
	once := own // read for each process, since locks are its own, and not for each duplicate, which has a line for each of them
	if once.of = opened; l.files.known(once, file) {
		return nil
	}
	info, err := l.read(d)
	if err != nil {
		return err
	}
	if info.ownLocks > 0 && l.files.first(own, file) {
		one.locks += info.ownLocks
	}
	if info.fileLocks > 0 && l.files.first(key, file) {
		one.locks += info.fileLocks
	}
	l.watched(info.watches, key, file, one)
	switch kind {
	case unix.S_IFDIR:
		path := d.process.dir + "/fd/" + d.name
		if key.of = directories; !l.lists.layered(path, &st) {
			one.lists += dirBytes
		} else if l.files.first(key, file) {
			one.lists += l.lists.list(path, &st, l.most.lists-l.sum.lists-one.lists)
		}
	case unix.S_IFIFO, unix.S_IFSOCK:
		if l.streams[key] {
			return nil
		}
		l.streams[key] = true
		l.flying = l.flying || info.inFlight > 0
		one.lists += info.inFlight * l.lists.largest // it may be a directory, and as large as any that was seen
		if l.buffered {
			n, err := l.unread(d, number, kind == unix.S_IFIFO)
			if n > 0 { // what is on its way in it may be sockets, and full
				n += info.inFlight * max(socketBytes, l.texts.most)
			}
			one.buffers += n
			return err
		}
	case unix.S_IFREG:
		if l.buffered {
			l.text(d, &st, key, file, one)
		}
	}
	return nil
}

// readAgain is how often a look may read as many watches as a sandbox may have, for locks of processes that inherited them; more
// of them count, so that the look ends.
const readAgain = 4

// watched adds what an epoll waits for, once for all who have it.
func (l *filesLook) watched(n int64, key fileKey, f openFile, one *openFiles) {
	if n == 0 {
		return
	}
	if key.of = watches; l.files.known(key, f) {
		if l.again += n; l.again <= readAgain*l.most.watches {
			return
		}
	}
	one.watches += n
	if l.buffered {
		one.buffers += n * watchBytes
	}
}

// What a file keeps of the text that was read from it, however little of it, until it is closed (struct seq_file).
const (
	textBytes = 64 << 10 // of /proc or /sys: a process's memory maps have the longest line, the host's /proc/stat the longest text
	infoBytes = 8 << 20  // of fdinfo: a line for each of MostWatches, in the power of two that holds them
)

// text adds what a file of /proc keeps. How much of it was read cannot be seen, nor how long it was then.
func (l *filesLook) text(d *descriptor, st *unix.Stat_t, key fileKey, f openFile, one *openFiles) {
	path := d.process.dir + "/fd/" + d.name
	if !l.lists.generated(path, st) {
		return
	}
	if key.of = texts; l.files.known(key, f) {
		return
	}
	to, err := os.Readlink(path)
	if err == nil && filepath.Base(filepath.Dir(to)) != "fdinfo" {
		one.buffers += textBytes
		return
	}
	if err != nil && hasGone(err) {
		return
	}
	l.texts.saw(infoBytes)
	one.buffers += infoBytes
}

// recent is the largest that was seen of what may be on its way between sockets since then.
type recent struct{ most, later int64 }

func (r *recent) saw(n int64) { r.most, r.later = max(r.most, n), max(r.later, n) }

// forget keeps what was seen since the last time.
func (r *recent) forget() { r.most, r.later = r.later, 0 }

// forgetAfter is in how many looks nothing has to be on its way: one may just miss what is sent or received meanwhile.
const forgetAfter = 20

// forget has what was seen long ago, and is neither open nor on its way, count no more.
func (l *filesLook) forget() {
	if l.flying {
		return
	}
	if l.rests++; l.rests >= forgetAfter {
		l.rests = 0
		l.texts.forget()
	}
}

// unread is what lies in a pipe or socket.
func (l *filesLook) unread(d *descriptor, number int, pipe bool) (int64, error) {
	if d.pidfd < 0 {
		var err error
		if d.pidfd, err = unix.PidfdOpen(d.process.pid, 0); err != nil {
			return 0, err
		}
	}
	return unread(d.pidfd, number, pipe), nil
}

// fdInfo is what proc_pid_fdinfo(5) says of a descriptor.
type fdInfo struct {
	ownLocks  int64 // fcntl(2): of this process alone
	fileLocks int64 // of the open file, whoever has it
	watches   int64 // what waits in an epoll
	inFlight  int64 // descriptors on their way in a socket
}

// Of lines of fdinfo.
var (
	lockLine     = []byte("lock:")
	posixWord    = []byte(" POSIX ")
	watchLine    = []byte("tfd:")
	inFlightLine = []byte("scm_fds:")
)

func (l *filesLook) read(d *descriptor) (info fdInfo, err error) {
	fd, err := unix.Openat(d.infos, d.name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return info, err
	}
	defer func() { _ = unix.Close(fd) }()
	for rest := 0; ; { // of a line that was not read to its end
		n, err := unix.Read(fd, l.info[rest:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return info, err
		}
		text := l.info[:rest+n]
		for {
			line, after, whole := bytes.Cut(text, []byte{'\n'})
			if !whole {
				break
			}
			info.line(line)
			text = after
		}
		if rest = copy(l.info, text); rest == len(l.info) {
			rest = 0 // no line is so long
		}
	}
}

func (i *fdInfo) line(line []byte) {
	switch {
	case bytes.HasPrefix(line, lockLine):
		if bytes.Contains(line, posixWord) {
			i.ownLocks++
		} else {
			i.fileLocks++
		}
	case bytes.HasPrefix(line, watchLine):
		i.watches++
	case bytes.HasPrefix(line, inFlightLine):
		n, _ := strconv.ParseInt(string(bytes.TrimSpace(line[len(inFlightLine):])), 10, 64)
		i.inFlight += n
	}
}

// fileKey is a file, and what of it is compared.
type fileKey struct {
	dev, ino uint64
	pid      int // 0: of all processes
	of       compared
}

// compared is what is counted once of an open file.
type compared int

const (
	locks compared = iota
	directories
	watches
	texts
	tables // of descriptors
	opened // at all
)

// openFile is a descriptor of a thread.
type openFile struct{ tid, fd int }

// wholeTable stands for all descriptors of a thread.
const wholeTable = -1

// sameFiles tells descriptors of one open file, which were inherited or duplicated, from those of a file that was opened several
// times: a program can make all else of them the same. By file, they are in the order of kcmp(2).
type sameFiles map[fileKey][]openFile

// first says whether no descriptor of the same open file was seen before.
func (s sameFiles) first(key fileKey, f openFile) bool {
	known, stale := s.add(key, f)
	return !known && !stale // what the one held that has gone was counted, and f takes its place
}

// known says that a descriptor of the same open file was seen before.
func (s sameFiles) known(key fileKey, f openFile) bool {
	known, _ := s.add(key, f)
	return known
}

// add adds a descriptor if none of the same open file is known. stale: one that was has gone, which may have been of the same.
func (s sameFiles) add(key fileKey, f openFile) (known, stale bool) {
	list := s[key]
	low, high := 0, len(list)
	for low < high {
		mid := (low + high) / 2
		switch order, err := compare(list[mid], f); {
		case hasGone(err) || errors.Is(err, unix.EBADF):
			if _, err := compare(f, f); err != nil {
				return true, stale // it is f that has gone
			}
			list = append(list[:mid], list[mid+1:]...)
			low, high, stale = 0, len(list), true
		case err != nil: // nobody can say
			return false, false
		case order == 0:
			return true, stale
		case order == 1:
			low = mid + 1
		default:
			high = mid
		}
	}
	list = append(list, openFile{})
	copy(list[low+1:], list[low:])
	list[low] = f
	s[key] = list
	return false, stale
}

// compare is 0 if two descriptors are of one open file, or two tables of descriptors are one, 1 if the first comes before the second, else 2.
func compare(a, b openFile) (int, error) {
	const kcmpFile, kcmpFiles = 0, 2
	kind := uintptr(kcmpFile)
	if a.fd == wholeTable {
		kind, a.fd, b.fd = kcmpFiles, 0, 0
	}
	n, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a.tid), uintptr(b.tid), kind, uintptr(a.fd), uintptr(b.fd), 0) //nolint:gosec // numbers
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil //nolint:gosec // small
}

// canCompare says whether compare works here.
func canCompare() bool {
	own := openFile{os.Getpid(), 0}
	_, err := compare(own, own)
	return err == nil || errors.Is(err, unix.EBADF) // it is not open
}
