package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/internal/api/wire"
	"agentkernel/internal/connlimit"
)

// ListenUnix listens on a unix socket that only this user can connect to (mode 0600), and checks of each
// caller that it is this user or root, whatever the mode of the file system says. It removes the socket
// that a dead kernel left: call it with the data directory's lock held. CodeConflict if somebody listens. At most half of the
// descriptors that the process may have are taken by callers; one beyond them is told so.
func ListenUnix(path string) (net.Listener, error) {
	ln, err := listenPrivate(path)
	if err != nil {
		return nil, err
	}
	most := connlimit.Most(2)
	return connlimit.Bound(ln, most, crowded(most)), nil
}

func listenPrivate(path string) (*peerListener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	var made fs.FileInfo
	if err == nil {
		if err = os.Chmod(path, 0o600); err == nil {
			made, err = os.Lstat(path)
		}
	}
	if err != nil {
		if ln != nil {
			_ = ln.Close()
		}
		e := agentkernel.Errorf(agentkernel.CodeStorage, "listen", "the kernel's socket %s cannot be made: %w", path, err)
		return nil, e.WithHint("choose a data directory on a local file system with --home, or use --embedded")
	}
	ln.SetUnlinkOnClose(false) // Close does it, with a look at whose the socket is
	return &peerListener{UnixListener: ln, path: path, made: made, euid: os.Geteuid()}, nil
}

// crowded is what a caller reads beyond the bound on connections. It is no CodeUnavailable: that means that no kernel is there, and one would be
// started.
func crowded(most int) []byte {
	e := agentkernel.Errorf(agentkernel.CodeLimit, "attach", "the kernel has %d connections open, as many as its descriptors allow for, and took no other", most).
		WithHint("nothing of this request was done: close some of them, as those of programs that follow processes; or start the kernel with more descriptors: ulimit -n 4096")
	return refusal(e)
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeStorage, "listen", "the kernel's socket cannot be looked at: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return agentkernel.Errorf(agentkernel.CodeConflict, "listen", "%s is there and is not a socket", path).
			WithHint("move it away")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
		return agentkernel.Errorf(agentkernel.CodeConflict, "listen", "another kernel listens on %s", path).
			WithHint("`agentkernel shutdown` ends it")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return agentkernel.Errorf(agentkernel.CodeConflict, "listen", "%s is there and does not answer: %w", path, err).
			WithHint("make sure that no kernel runs, then remove it")
	}
	if err := os.Remove(path); err != nil {
		return agentkernel.Errorf(agentkernel.CodeStorage, "listen", "the socket of a dead kernel cannot be removed: %w", err)
	}
	return nil
}

// peerListener hands out connections of this user and of root only.
type peerListener struct {
	*net.UnixListener
	path string
	made fs.FileInfo // as long as the listener is open, no other file has its inode
	euid int
	once sync.Once
}

// Close removes the socket, unless it is another kernel's: somebody deleted the data directory under this one and began anew.
func (l *peerListener) Close() error {
	l.once.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(l.made, now) {
			_ = os.Remove(l.path)
		}
	})
	return l.UnixListener.Close()
}

// stranger is what a caller of another user reads.
func stranger() []byte {
	return refusal(agentkernel.Errorf(agentkernel.CodeDenied, "attach", "this kernel belongs to another user"))
}

// refusal is an error as a complete answer, so that no client hangs.
func refusal(e *agentkernel.Error) []byte {
	body, err := json.Marshal(e)
	if err != nil {
		body = []byte("{}") // texts always encode
	}
	status := e.Code.HTTPStatus()
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Connection: close\r\n%s: %d\r\n\r\n%s\n", status, http.StatusText(status), len(body)+1, wire.HeaderAPI, agentkernel.APIVersion, body)
}

func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := wire.PeerUID(conn)
		if err == nil && (uid == l.euid || uid == 0) {
			return conn, nil
		}
		_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = conn.Write(stranger())
		_ = conn.Close()
	}
}
