package process

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// line is the kernel's end of what connects it with one child: the channel and the two pipes. It uses bare
// descriptors in blocking calls: a thread that waits in poll hears of a message sooner than the runtime's poller does.
// hangUp ends every wait, from any goroutine.
type line struct {
	sock     int
	pipes    [2]int // stdout, stderr; -1 when it has ended
	frames   frames
	foreign  func(stream int, data []byte) error // takes what came through a pipe
	scratch  []byte
	mu       sync.Mutex
	closed   bool
	polled   [4]unix.PollFd
	bell     *bell  // rung when the program has been stopped: next and send break off
	rest     []byte // of a frame that send broke off
	received bool   // the guest has said something
}

// farEnds are the child's ends of a line.
type farEnds struct{ sock, out, err int }

func (f farEnds) close() {
	for _, fd := range []int{f.sock, f.out, f.err} {
		_ = unix.Close(fd)
	}
}

// newLine makes a line of which a frame may have at most max bytes.
func newLine(maxFrame int) (l *line, far farEnds, err error) {
	var fds []int
	defer func() {
		if err != nil {
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
		}
	}()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, far, os.NewSyscallError("socketpair", err)
	}
	fds = append(fds, pair[:]...)
	for range 2 {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return nil, far, os.NewSyscallError("pipe2", err)
		}
		fds = append(fds, p[:]...)
		if err := unix.SetNonblock(p[0], true); err != nil {
			return nil, far, os.NewSyscallError("fcntl", err)
		}
	}
	b, err := newBell()
	if err != nil {
		return nil, far, err
	}
	l = &line{sock: fds[0], pipes: [2]int{fds[2], fds[4]}, bell: b}
	l.frames = frames{max: maxFrame, fill: l.fill}
	return l, farEnds{sock: fds[1], out: fds[3], err: fds[5]}, nil
}

// next gives the next frame of the guest. What comes through the pipes meanwhile goes to foreign. errHeld: the bell rang
// first; what has come is kept.
func (l *line) next() (kind byte, payload []byte, err error) {
	kind, payload, err = l.frames.next()
	l.received = l.received || err == nil
	return kind, payload, err
}

// fill reads from the socket, which goes before the pipes when both have something. Of a pipe it reads no more than
// was there before it saw that the socket was empty: the rest may have been written after a frame that comes now.
func (l *line) fill(into []byte) (int, error) {
	var unread [2]int
	for {
		p := &l.polled
		p[0] = unix.PollFd{Fd: int32(l.sock), Events: unix.POLLIN}
		for i, fd := range l.pipes {
			p[i+1] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		}
		p[3] = unix.PollFd{Fd: int32(l.bell.fd), Events: unix.POLLIN} //nolint:gosec // a descriptor
		wait := -1
		if unread != [2]int{} {
			wait = 0
		}
		if _, err := unix.Poll(p[:], wait); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, os.NewSyscallError("poll", err)
		} else if err != nil {
			continue
		}
		if p[3].Revents != 0 {
			return 0, errHeld
		}
		if p[0].Revents != 0 {
			n, err := unix.Read(l.sock, into)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case errors.Is(err, unix.ECONNRESET):
				return 0, io.EOF
			case err != nil:
				return 0, os.NewSyscallError("read", err)
			case n == 0:
				return 0, io.EOF
			}
			return n, nil
		}
		for i := range l.pipes {
			if p[i+1].Revents == 0 {
				continue
			}
			if unread[i] == 0 { // seen for the first time: count, and look at the socket once more
				unread[i] = max(1, l.unread(i)) // 1: it has ended
				continue
			}
			if _, err := l.readPipe(i, unread[i]); err != nil {
				return 0, err
			}
			unread[i] = 0
		}
	}
}

// unread is how many bytes lie in a pipe.
func (l *line) unread(i int) int {
	n, _ := unix.IoctlGetUint32(l.pipes[i], unix.TIOCINQ) // as FIONREAD; a pipe knows it
	return int(n)
}

// readPipe reads at most so many bytes once from a pipe; it says how many there were. The error is that of foreign.
func (l *line) readPipe(i, most int) (int, error) {
	if l.pipes[i] < 0 {
		return 0, nil
	}
	if l.scratch == nil {
		l.scratch = make([]byte, pieceSize)
	}
	for {
		n, err := unix.Read(l.pipes[i], l.scratch[:min(most, pieceSize)])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return 0, nil
		case err != nil || n == 0: // nobody can write to it any more
			l.dropPipe(i)
			return 0, nil //nolint:nilerr // a pipe that broke is one that ended
		}
		return n, l.foreign(i, l.scratch[:n])
	}
}

func (l *line) dropPipe(i int) {
	_ = unix.Close(l.pipes[i])
	l.pipes[i] = -1
}

// pieceSize is the most that is read from a pipe at a time, as much as it holds by default.
const pieceSize = 64 << 10

// drain takes what lies in the pipes now. What comes into them while it reads stays: the guest goes on as soon as it sees them
// empty, and a child may write after its next frame.
func (l *line) drain() error {
	lie := [2]int{l.unread(0), l.unread(1)}
	for i := range l.pipes {
		for lie[i] > 0 {
			n, err := l.readPipe(i, lie[i])
			if err != nil {
				return err
			}
			if n == 0 { // nobody can write to it any more
				break
			}
			lie[i] -= n
		}
	}
	return nil
}

// send writes a whole frame. errHeld: the bell rang while the guest did not read; flush sends the rest.
func (l *line) send(frame []byte) error {
	for len(frame) > 0 {
		n, err := unix.SendmsgN(l.sock, frame, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			if held, err := l.awaitRoom(); err != nil {
				return err
			} else if held {
				l.rest = frame
				return errHeld
			}
			continue
		case err != nil:
			return os.NewSyscallError("send", err)
		}
		frame = frame[n:]
	}
	return nil
}

// awaitRoom waits until the guest has read something, or the bell rings: held.
func (l *line) awaitRoom() (held bool, err error) {
	ready, err := poll([]unix.PollFd{{Fd: int32(l.sock), Events: unix.POLLOUT}, {Fd: int32(l.bell.fd), Events: unix.POLLIN}}, -1) //nolint:gosec // descriptors
	return err == nil && ready[len(ready)-1].Fd == int32(l.bell.fd), err                                                          //nolint:gosec // a descriptor
}

// flush sends what send left.
func (l *line) flush() error {
	frame := l.rest
	l.rest = nil
	return l.send(frame)
}

// hangUp ends the conversation: whoever waits in next or send fails. The descriptors stay.
func (l *line) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		_ = unix.Shutdown(l.sock, unix.SHUT_RDWR)
	}
}

// close gives the descriptors back. Nobody may be in next or send.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	l.frames.release()
	_ = unix.Close(l.sock)
	l.bell.close()
	for _, fd := range l.pipes {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
