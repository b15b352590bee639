package process

import (
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// A program that is not forked from a zygote reaches the kernel in two ways, both by inherited descriptors, since
// there are no sockets that could be connected in a sandbox:
//
// Descriptor 3 is the door, which every process of the sandbox has: whoever wants to speak makes a pair of stream
// sockets and sends one of them through the door (SCM_RIGHTS, with one byte). From there on it has a line of its own,
// on which it calls and is answered in the frames of this package. So nobody reads another's answers.
//
// Descriptor 4 is such a line, ready made, for a guest library inside the program itself. On it alone the program's
// own result or failure can be told.
const (
	doorFD   = 3
	streamFD = 4
)

const (
	maxLines     = 64      // that one sandbox has open
	maxDoorFrame = 1 << 20 // bytes of one message on a line that came through the door
	maxBacklog   = 4 << 20 // bytes of answers that nobody takes; then nothing more is read from that line
)

// door is the kernel's side of all that.
type door struct {
	sock   int
	lines  map[int]*talk // by descriptor
	order  []int         // of lines, for fairness
	result *message      // exit or fail, from the guest library
}

// talk is one line.
type talk struct {
	fd      int
	max     int
	library bool // of the guest library
	in, out []byte
	ended   bool // nothing more comes
}

// caller is who waits for an answer.
type caller struct {
	t  *talk
	id int64
}

// openDoor makes the door, with the ends that the program inherits from doorFD on.
func openDoor(stream bool, maxFrame int) (d *door, far []*os.File, err error) {
	d = &door{sock: -1, lines: map[int]*talk{}}
	kinds := []int{unix.SOCK_SEQPACKET}
	if stream {
		kinds = append(kinds, unix.SOCK_STREAM)
	}
	for _, kind := range kinds {
		pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			d.close()
			for _, f := range far {
				_ = f.Close()
			}
			return nil, nil, os.NewSyscallError("socketpair", err)
		}
		far = append(far, os.NewFile(uintptr(pair[1]), "door")) //nolint:gosec // a descriptor
		if kind == unix.SOCK_STREAM {
			d.add(&talk{fd: pair[0], max: maxFrame, library: true})
		} else {
			d.sock = pair[0]
		}
	}
	return d, far, nil
}

func (d *door) add(t *talk) {
	d.lines[t.fd] = t
	d.order = append(d.order, t.fd)
}

func (d *door) close() {
	if d == nil {
		return
	}
	for fd := range d.lines {
		_ = unix.Close(fd)
	}
	d.lines, d.order = map[int]*talk{}, nil
	if d.sock >= 0 {
		_ = unix.Close(d.sock)
		d.sock = -1
	}
}

// interest adds what can be ready to a list.
func (d *door) interest(fds []unix.PollFd) []unix.PollFd {
	if d == nil {
		return fds
	}
	if d.sock >= 0 {
		fds = append(fds, unix.PollFd{Fd: int32(d.sock), Events: unix.POLLIN}) //nolint:gosec // a descriptor
	}
	for _, fd := range d.order {
		t, events := d.lines[fd], int16(0)
		if t.reads() {
			events |= unix.POLLIN
		}
		if len(t.out) > 0 {
			events |= unix.POLLOUT
		}
		if events != 0 {
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: events}) //nolint:gosec // a descriptor
		}
	}
	return fds
}

// reads says whether more is taken from the line: not while a whole message lies there, or answers are not taken.
func (t *talk) reads() bool {
	return !t.ended && len(t.out) < maxBacklog && !t.whole()
}

// whole says whether a whole message, or one that is too long, lies there.
func (t *talk) whole() bool {
	if len(t.in) < frameHead {
		return false
	}
	size := int(binary.LittleEndian.Uint32(t.in))
	return size > t.max || len(t.in) >= frameHead+size
}

// serve does what is possible with descriptors that are ready.
func (d *door) serve(ready []unix.PollFd) error {
	for _, p := range ready {
		if int(p.Fd) == d.sock {
			d.admit()
			continue
		}
		t := d.lines[int(p.Fd)]
		if t == nil {
			continue
		}
		if len(t.out) > 0 {
			d.flush(t)
		}
		if p.Events&unix.POLLIN != 0 && p.Revents&(unix.POLLIN|unix.POLLHUP|unix.POLLERR) != 0 {
			d.read(t)
		}
	}
	return nil
}

// admit takes lines that come through the door.
func (d *door) admit() {
	buf, oob := make([]byte, 16), make([]byte, unix.CmsgSpace(64*4))
	for range maxLines {
		if len(d.lines) >= maxLines && d.dropHungUp() {
			return // there is room when their calls were taken
		}
		n, oobn, _, _, err := unix.Recvmsg(d.sock, buf, oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			return
		}
		if err != nil || n == 0 && oobn == 0 { // nobody has the other end any more
			_ = unix.Close(d.sock)
			d.sock = -1
			return
		}
		for i, fd := range allFDs(oob[:oobn]) {
			if i > 0 || len(d.lines) >= maxLines || !isStream(fd) {
				_ = unix.Close(fd)
				continue
			}
			d.add(&talk{fd: fd, max: maxDoorFrame})
		}
	}
}

// dropHungUp drops the lines at whose other end nobody is. It says whether it found calls on lines, and no room: with
// them a line may come to its end.
func (d *door) dropHungUp() (calls bool) {
	for _, fd := range append([]int(nil), d.order...) {
		t := d.lines[fd]
		if t.reads() {
			d.read(t)
		}
		calls = calls || t.whole()
	}
	return calls && len(d.lines) >= maxLines
}

func allFDs(oob []byte) (fds []int) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range msgs {
		if got, err := unix.ParseUnixRights(&msgs[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

// isStream says whether a descriptor from a sandbox is what it has to be: anything else might block whoever reads it.
func isStream(fd int) bool {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_UNIX {
		return false
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && kind == unix.SOCK_STREAM
}

// read takes a piece of what has come. The other end may set flags of the socket: nothing here may block.
func (d *door) read(t *talk) {
	want := 64 << 10
	if len(t.in) >= frameHead {
		want = min(max(want, frameHead+int(binary.LittleEndian.Uint32(t.in))-len(t.in)), growFrame)
	}
	buf := make([]byte, want)
	n, _, err := unix.Recvfrom(t.fd, buf, unix.MSG_DONTWAIT)
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
	case err != nil || n == 0:
		t.ended = true
		if !t.whole() {
			d.drop(t)
		}
	default:
		t.in = append(t.in, buf[:n]...)
	}
}

// drop ends a line.
func (d *door) drop(t *talk) {
	if d.lines[t.fd] != t {
		return
	}
	delete(d.lines, t.fd)
	for i, fd := range d.order {
		if fd == t.fd {
			d.order = append(d.order[:i:i], d.order[i+1:]...)
			break
		}
	}
	_ = unix.Close(t.fd)
}

// next gives a call that has come whole; nil if there is none. Whoever breaks the protocol on a line of its own
// loses the line; the guest library that does so ends the program.
func (d *door) next() (*agentkernel.Call, caller, error) {
	for _, fd := range append([]int(nil), d.order...) {
		t := d.lines[fd]
		for t.whole() {
			call, id, err := d.hear(t)
			switch {
			case err != nil && t.library:
				return nil, caller{}, err
			case err != nil:
				d.drop(t)
			case call != nil:
				d.last(fd)
				return call, caller{t, id}, nil
			}
			if d.lines[fd] != t {
				break
			}
		}
		if t.ended { // whoever waited for an answer has gone
			d.drop(t)
		}
	}
	return nil, caller{}, nil
}

// settle takes, when the program has ended, what its guest library has said of the end: it may lie in the socket yet, or in
// what was read of it. Calls that nobody waits for any more are left out.
func (d *door) settle() {
	for _, fd := range append([]int(nil), d.order...) {
		t := d.lines[fd]
		for t.library && d.result == nil && d.lines[fd] == t {
			if t.whole() {
				if _, _, err := d.hear(t); err != nil {
					return
				}
				continue
			}
			if had := len(t.in); !t.ended {
				if d.read(t); len(t.in) > had {
					continue
				}
			}
			break
		}
	}
}

// last puts a line behind the others.
func (d *door) last(fd int) {
	for i, other := range d.order {
		if other == fd {
			d.order = append(append(d.order[:i:i], d.order[i+1:]...), fd)
			return
		}
	}
}

// hear deals with one message.
func (d *door) hear(t *talk) (*agentkernel.Call, int64, error) {
	size := int(binary.LittleEndian.Uint32(t.in))
	if size > t.max {
		return nil, 0, broke("a frame of %d bytes is over the limit of %d", size, t.max)
	}
	kind, payload := t.in[4], t.in[frameHead:frameHead+size]
	t.in = t.in[frameHead+size:]
	if kind != kindJSON {
		return nil, 0, broke("a frame of kind %q", kind)
	}
	m, err := decodeMessage(payload)
	switch {
	case err != nil:
		return nil, 0, err
	case m.Type == "call":
		return &agentkernel.Call{Op: m.Op, Args: append([]byte(nil), m.Args...), Async: true}, m.ID, nil
	case m.Type == "hello" && m.Wire == wireVersion:
		return nil, 0, nil
	case t.library && (m.Type == "exit" || m.Type == "fail"):
		if d.result == nil {
			d.result = &m
		}
		return nil, 0, nil
	}
	return nil, 0, broke("%s at this point", m.Type)
}

// answer sends a result to whoever waits for it, who may have gone.
func (d *door) answer(to caller, reply *agentkernel.Reply) error {
	frame, err := replyFrame(to.id, reply)
	if err != nil {
		return internal("a result cannot be written: %w", err)
	}
	if d.lines[to.t.fd] == to.t {
		to.t.out = append(to.t.out, frame...)
		d.flush(to.t)
	}
	return nil
}

// flush sends as much as the other side takes.
func (d *door) flush(t *talk) {
	for len(t.out) > 0 {
		n, err := unix.SendmsgN(t.fd, t.out, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil:
			t.out = nil
			d.drop(t)
			return
		default:
			t.out = t.out[n:]
		}
	}
	t.out = nil
}
