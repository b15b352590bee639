package process

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// bell wakes whoever polls it, from any goroutine.
type bell struct {
	mu sync.Mutex
	fd int
}

func newBell() (*bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &bell{fd: fd}, nil
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fd >= 0 {
		_, _ = unix.Write(b.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // full: it rings
	}
}

// still makes it silent again.
func (b *bell) still() {
	var n [8]byte
	_, _ = unix.Read(b.fd, n[:]) // silent already
}

func (b *bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fd >= 0 {
		_ = unix.Close(b.fd)
		b.fd = -1
	}
}

// poll waits until one of the descriptors is ready, at most timeout milliseconds (-1: for ever), and gives those that
// are; nil: none.
func poll(fds []unix.PollFd, timeout int) ([]unix.PollFd, error) {
	for {
		n, err := unix.Poll(fds, timeout)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, os.NewSyscallError("poll", err)
		case n == 0:
			return nil, nil
		}
		var ready []unix.PollFd
		for _, p := range fds {
			if p.Revents != 0 {
				ready = append(ready, p)
			}
		}
		return ready, nil
	}
}

// idleWatch waits in place of Next, and reads nothing.
type idleWatch struct {
	stop *bell
	done chan struct{}
}

// watchIdle calls wake once when one of the descriptors is ready. end must be called before they are closed.
func watchIdle(fds []unix.PollFd, wake func()) *idleWatch {
	stop, err := newBell()
	if err != nil { // no descriptor is left: then the next result goes on with it
		return nil
	}
	i := &idleWatch{stop: stop, done: make(chan struct{})}
	fds = append(fds, unix.PollFd{Fd: int32(stop.fd), Events: unix.POLLIN}) //nolint:gosec // a descriptor
	go func() {
		defer close(i.done)
		ready, err := poll(fds, -1)
		if err != nil || ready[len(ready)-1].Fd == int32(stop.fd) { //nolint:gosec // a descriptor
			return
		}
		wake()
	}()
	return i
}

// end stops the watching. It waits until wake is not being called any more, so the caller holds no lock that wake
// needs.
func (i *idleWatch) end() {
	if i == nil {
		return
	}
	i.stop.ring()
	<-i.done
	i.stop.close()
}
