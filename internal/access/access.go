// Package access says how a user comes to read and write a file that the system keeps from them. It must change nothing.
package access

import (
	"os"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"agentkernel/internal/shellword"
)

// Denied are those of the paths that are there, and that this user may not read and write.
func Denied(paths ...string) (denied []string) {
	for _, path := range paths {
		want := uint32(unix.R_OK | unix.W_OK)
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			want |= unix.X_OK
		}
		if err := unix.Access(path, want); err == unix.EACCES || err == unix.EPERM {
			denied = append(denied, path)
		}
	}
	return denied
}

// Hint is what gives this user the first of the paths that is denied: of a file of their own its mode is changed, of another's the owner is
// named. "": nothing is denied, or the owner is not known.
func Hint(paths ...string) string {
	for _, path := range Denied(paths...) {
		st, err := os.Stat(path)
		if err != nil {
			continue
		}
		owner, ok := st.Sys().(*syscall.Stat_t)
		if !ok {
			continue
		}
		if int(owner.Uid) == os.Geteuid() {
			mode := "u+rw"
			if st.IsDir() {
				mode = "u+rwx"
			}
			return "chmod " + mode + " " + shellword.Join([]string{path})
		}
		name := strconv.Itoa(int(owner.Uid))
		if u, err := user.LookupId(name); err == nil {
			name = u.Username
		}
		return "run as " + name + ", who owns it"
	}
	return ""
}
