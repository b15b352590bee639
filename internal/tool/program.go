package tool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/internal/portowner"
)

// Tools can be functions of a program that serves them itself, as long as it runs: the SDKs write a tools file for it, in which
// "program" is its os process. Nobody can start such a server again but the program's user.

// runAgain is what to do where such a server is gone.
const runAgain = "run the program again: it makes functions of the same names for the processes that it starts then. This process cannot call them any more"

// programGone says that the functions of a server cannot be called.
func (e *entry) programGone() error {
	return fmt.Errorf("the tools of server %q %w", e.name, agentkernel.ErrOfProgram)
}

// programEnded is the same of a program that is known.
func (e *entry) programEnded() error {
	return fmt.Errorf("%w (os process %d), or it runs on another machine than the kernel", e.programGone(), e.program)
}

// gonePatience bounds how long is looked whether a program of this machine listens.
const gonePatience = time.Second

// dialProgram connects to a program that serves functions of its own. Nothing was sent when it returns: what listens there by now may be
// another user's, and is refused as if nobody did.
func dialProgram(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := portowner.Checked{Dialer: &net.Dialer{Timeout: 10 * time.Second}, Mine: true}.DialContext(ctx, network, addr)
	if _, other := errors.AsType[*portowner.Other](err); other || errors.Is(err, portowner.ErrGone) {
		return nil, fmt.Errorf("%w: %w", err, syscall.ECONNREFUSED)
	}
	return conn, err
}

// Gone implements agentkernel.ToolHosts. A program that is not there refuses the connection at once.
func (s *set) Gone(ctx context.Context) error {
	v := s.view.Load()
	for _, e := range v.entries {
		u, err := url.Parse(e.url)
		if e.program == 0 || err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, gonePatience)
		conn, err := dialProgram(ctx, "tcp", u.Host)
		cancel()
		if errors.Is(err, syscall.ECONNREFUSED) {
			return agentkernel.Errorf(agentkernel.CodeUnavailable, "tool.start", "%w", e.programEnded()).WithHint("%s", runAgain)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
	return nil
}

// succeeds lets go of the servers of programs that had the tools file of an entry before: they have ended, and there may be one for each
// task of a program that runs for long. h.mu is held.
func (h *Hub) succeeds(e *entry) {
	if e.program == 0 {
		return
	}
	for key, s := range h.servers {
		if key.file != e.file || key.name != e.name || key.hash == e.hash || s.entry.program == 0 {
			continue
		}
		delete(h.servers, key)
		if inst := s.current.Load(); inst != nil {
			inst.drop()
		}
	}
}
