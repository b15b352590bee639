package confine

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// Kernel and spawner speak over a socket pair: four bytes of length, little endian, then a message. Descriptors
// travel with the length. Requests are numbered and answered in any order. A message is JSON, or a zero byte,
// eight bytes of number and a plan (see encodePlan) to be started.

// request is what the kernel asks. Exactly one of Plan and Trees is set.
type request struct {
	ID    uint64 `json:"id"`
	Plan  *Plan  `json:"-"`     // start it; the program's descriptors come along
	Trees []Tree `json:"trees"` // open them
}

// answer is the spawner's. With a start come three descriptors: a pidfd, the init's control socket and the
// pipe with the status; with trees one for each.
type answer struct {
	ID     uint64             `json:"id"`
	PID    int                `json:"pid,omitempty"`    // of the init, as the spawner counts
	Failed *report            `json:"failed,omitempty"` // what the child could not do
	Error  *agentkernel.Error `json:"error,omitempty"`
	Unborn bool               `json:"unborn,omitempty"` // Error is that a child was killed before it began
	Short  syscall.Errno      `json:"short,omitempty"`  // Error is this shortage
}

// refusal is the answer that something went wrong; err may be nil.
func refusal(id uint64, err error) answer {
	return answer{ID: id, Error: agentkernel.AsError(err, agentkernel.CodeUnavailable, op), Unborn: errors.Is(err, errUnborn), Short: shortageOf(err)}
}

// err is the error of a refusal, as it was before it was written.
func (a answer) err() error {
	switch {
	case a.Error == nil:
		return nil
	case a.Unborn:
		return agentkernel.Errorf(agentkernel.CodeCrashed, op, "%w", errUnborn)
	case a.Short != 0:
		e := *a.Error
		e.Err = short{e.Err, a.Short}
		return &e
	}
	return a.Error
}

// short is an error that came over the wire, with its number.
type short struct {
	error
	errno syscall.Errno
}

func (s short) Unwrap() error { return s.errno }

const planMark = 0

func (r request) encode() ([]byte, error) {
	if r.Plan == nil {
		return json.Marshal(r)
	}
	b := binary.LittleEndian.AppendUint64([]byte{planMark}, r.ID)
	return encodePlan(b, r.Plan), nil
}

func (r *request) decode(b []byte) (err error) {
	if len(b) < 9 || b[0] != planMark {
		return json.Unmarshal(b, r)
	}
	r.ID = binary.LittleEndian.Uint64(b[1:])
	r.Plan, err = decodePlan(b[9:])
	return err
}

func (a answer) encode() ([]byte, error) { return json.Marshal(a) }

func (a *answer) decode(b []byte) error { return json.Unmarshal(b, a) }

const (
	maxFrame = 8 << 20
	maxFiles = 200 // descriptors in one message; the system takes 253
)

// wire is one end of the socket.
type wire struct {
	conn *net.UnixConn
	mu   sync.Mutex // of sending
	head [4]byte
	oob  []byte
}

func newWire(f *os.File) (*wire, error) {
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("not a unix socket"), conn.Close())
	}
	return &wire{conn: unixConn, oob: make([]byte, unix.CmsgSpace(maxFiles*4))}, nil
}

func (w *wire) send(v interface{ encode() ([]byte, error) }, fds []int) error {
	body, err := v.encode()
	if err != nil {
		return err
	}
	if len(body) > maxFrame || len(fds) > maxFiles {
		return fmt.Errorf("a message of %d bytes and %d descriptors is too large", len(body), len(fds))
	}
	frame := append(binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...) //nolint:gosec // just compared
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(fds) > 0 {
		n, _, err := w.conn.WriteMsgUnix(frame, unix.UnixRights(fds...), nil)
		if err != nil {
			return err
		}
		frame = frame[n:]
	}
	_, err = w.conn.Write(frame)
	return err
}

// receive reads one message. The descriptors are the caller's, close-on-exec.
func (w *wire) receive(v interface{ decode([]byte) error }) (fds []int, err error) {
	n, oobn, flags, _, err := w.conn.ReadMsgUnix(w.head[:], w.oob)
	if oobn > 0 {
		fds = rights(w.oob[:oobn])
	}
	defer func() {
		if err != nil {
			closeAll(fds)
			fds = nil
		}
	}()
	switch {
	case err != nil:
		return fds, err
	case n == 0:
		return fds, io.EOF
	case flags&unix.MSG_CTRUNC != 0:
		return fds, errors.New("descriptors were lost")
	}
	if _, err := io.ReadFull(w.conn, w.head[n:]); err != nil {
		return fds, err
	}
	size := binary.LittleEndian.Uint32(w.head[:])
	if size > maxFrame {
		return fds, fmt.Errorf("a message of %d bytes", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(w.conn, body); err != nil {
		return fds, err
	}
	return fds, v.decode(body)
}

func rights(oob []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		if got, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// socketPair makes two connected ends, close-on-exec.
func socketPair(kind int) (a, b int, err error) {
	p, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	return p[0], p[1], err
}
