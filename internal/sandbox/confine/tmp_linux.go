package confine

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// tmpWatch keeps a sandbox's TmpDir, so that it can be asked whether it is full, also when all in the sandbox has ended.
type tmpWatch struct {
	fd   int
	full bool
}

// openTmp gives nil where it cannot be had.
func openTmp(pid int) *tmpWatch {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/root"+TmpDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &tmpWatch{fd: fd}
}

// look notes whether it is full now.
func (t *tmpWatch) look() {
	var st unix.Statfs_t
	if t == nil || unix.Fstatfs(t.fd, &st) != nil {
		return
	}
	t.full = t.full || st.Type == unix.TMPFS_MAGIC && (st.Bfree == 0 || st.Ffree == 0)
}

// close lets it go, and says whether it was ever seen full.
func (t *tmpWatch) close() bool {
	if t == nil {
		return false
	}
	t.look()
	_ = unix.Close(t.fd)
	return t.full
}
