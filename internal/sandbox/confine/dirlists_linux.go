package confine

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// dirLists is what Linux keeps of the directories that a sandbox's processes have open: of one in an overlay that was read there is a list of
// all its names, and one for each time it was opened if the directory was changed in between (struct ovl_cache_entry of
// fs/overlayfs/readdir.c), of others the names of a block (struct fname of fs/ext4/dir.c). No cgroup counts that.
type dirLists struct {
	overlay bool                  // there is one
	known   map[[2]uint64]dirList // by device and inode
	devices map[uint64]int64      // the kind of file system, by number
	largest int64                 // that was seen, for ever: one that cannot be read any more stays what it was
	asked   int
}

// dirList is the list of a directory as it was when it was counted.
type dirList struct {
	changed unix.Timespec
	bytes   int64
}

const (
	nameBytes = 88       // of each name, besides its letters
	dirBytes  = 24 << 10 // of a directory that is in no overlay
	// unreadableBytes is what a byte of a directory's size may mean where its names cannot be counted: a file system may have two for a name.
	unreadableBytes = 48
	mostKnown       = 1 << 12
)

func newDirLists(c Config) *dirLists {
	return &dirLists{overlay: len(c.scratch()) > 0, known: map[[2]uint64]dirList{}, devices: map[uint64]int64{}, largest: dirBytes}
}

// listsEvery is in how many looks few processes are looked at once, where a cgroup counts what they have in memory.
const listsEvery = 10

// worth says whether it is time to look at a sandbox whose memory a cgroup counts: few processes cannot have so many directories open, and
// take a while to make locks.
func (l *dirLists) worth(gr *group, limits Limits) bool {
	l.asked++
	return l.overlay || l.asked%listsEvery == 0 || gr.tasks()*int64(limits.OpenFiles)*dirBytes > limits.Memory
}

// layered says whether a directory lies in an overlay.
func (l *dirLists) layered(path string, st *unix.Stat_t) bool {
	if !l.overlay {
		return false
	}
	kind := l.kind(path, st)
	return kind == unix.OVERLAYFS_SUPER_MAGIC || kind == otherFile
}

// generated says whether Linux makes the text of a file when it is read.
func (l *dirLists) generated(path string, st *unix.Stat_t) bool {
	switch l.kind(path, st) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, otherFile:
		return true
	}
	return false
}

// otherFile is the kind where another file was at the path than that which was looked at: a program changes its descriptors meanwhile, to have
// one taken for another. It is of any kind then.
const otherFile = -1

// kind is that of the file system in which a file lies; 0: nobody can say. All that a sandbox sees is mounted when its program begins.
func (l *dirLists) kind(path string, st *unix.Stat_t) int64 {
	if kind, known := l.devices[st.Dev]; known {
		return kind
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(fd) }()
	var is unix.Stat_t
	var fs unix.Statfs_t
	if unix.Fstat(fd, &is) != nil || unix.Fstatfs(fd, &fs) != nil {
		return 0
	}
	l.devices[is.Dev] = fs.Type
	if is.Dev != st.Dev {
		return otherFile
	}
	return fs.Type
}

// list is what the list of an open directory of an overlay takes; beyond most it stops to count.
func (l *dirLists) list(path string, st *unix.Stat_t, most int64) int64 {
	id := [2]uint64{st.Dev, st.Ino}
	if k, ok := l.known[id]; ok && k.changed == st.Ctim {
		return k.bytes
	}
	n, whole := countNames(path, st, most)
	if n < 0 {
		return l.unread(st)
	}
	n = max(n, dirBytes) // of a directory that is in its upper layer alone
	l.largest = max(l.largest, n)
	if len(l.known) >= mostKnown {
		clear(l.known)
	}
	if whole {
		l.known[id] = dirList{st.Ctim, n}
	}
	return n
}

// unread is what the list of a directory may take that cannot be read: as much as the largest.
func (l *dirLists) unread(st *unix.Stat_t) int64 {
	l.largest = max(l.largest, st.Size*unreadableBytes)
	return l.largest
}

// countNames reads a directory and says what the list of its names takes; -1: it cannot be read, or is not that of st. whole: it was read to its end,
// and not as far as most, as it was then.
func countNames(path string, st *unix.Stat_t, most int64) (sum int64, whole bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false
	}
	defer func() { _ = unix.Close(fd) }()
	var is unix.Stat_t
	if unix.Fstat(fd, &is) != nil || is.Dev != st.Dev || is.Ino != st.Ino {
		return -1, false
	}
	const length, name = 16, 19 // offsets in struct linux_dirent64
	for b := make([]byte, 64<<10); sum <= most; {
		n, err := unix.Getdents(fd, b)
		if err != nil {
			return -1, false
		}
		if n == 0 {
			return sum, is.Ctim == st.Ctim
		}
		for entry := b[:n]; len(entry) > name; {
			size := int(binary.NativeEndian.Uint16(entry[length:]))
			if size < name || size > len(entry) {
				return -1, false
			}
			sum += allocated(int64(nameBytes + size - name))
			entry = entry[size:]
		}
	}
	return sum, false
}

// allocated is what Linux takes for so many bytes.
func allocated(n int64) int64 {
	for _, size := range []int64{96, 128, 192, 256} {
		if n <= size {
			return size
		}
	}
	return 512
}
