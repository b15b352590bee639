package usertest

import (
	"net"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Listen listens as Someone. It skips the test where that cannot be.
func Listen(t *testing.T, network, addr string) net.Listener {
	t.Helper()
	return ListenAs(t, Someone, network, addr)
}

// ListenAs is Listen of another user.
func ListenAs(t *testing.T, uid int, network, addr string) (l net.Listener) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make another user's sockets")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread is the other user's, and ends with this
		_, err := unix.SetfsuidRetUid(uid)
		if err == nil {
			l, err = net.Listen(network, addr)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
