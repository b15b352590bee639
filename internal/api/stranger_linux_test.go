package api

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// connectAsStranger connects to ln as a user that it must refuse. Root becomes someone else on one thread;
// anybody else cannot, so the listener belongs to someone else then.
func connectAsStranger(t *testing.T, ln *peerListener) net.Conn {
	t.Helper()
	path := ln.Addr().String()
	if os.Geteuid() != 0 {
		ln.euid++
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	// Take away what protects the socket besides the check.
	for _, p := range []string{path, filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		if err := os.Chmod(p, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	type result struct {
		conn net.Conn
		err  error
	}
	ch := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread must not serve anybody else
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 12345, 12345, 12345); errno != 0 {
			ch <- result{nil, errno}
			return
		}
		conn, err := net.Dial("unix", path)
		ch <- result{conn, err}
	}()
	r := <-ch
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.conn
}

func TestStrangersAreRefused(t *testing.T) {
	ln, err := listenPrivate(filepath.Join(t.TempDir(), "k.sock"))
	if err != nil {
		t.Fatal(err)
	}
	stranger := connectAsStranger(t, ln)
	accepted := make(chan error, 1)
	go func() {
		_, err := ln.Accept()
		accepted <- err
	}()
	expectRefusal(t, stranger)
	_ = ln.Close()
	if err := <-accepted; err == nil {
		t.Error("the stranger was let in")
	}
}
