package confine

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// helper is the kernel's side of one spawner process.
type helper struct {
	cmd    *exec.Cmd
	launch Launcher
	wire   *wire
	stderr bytes.Buffer
	gone   chan struct{} // closed when no answer will come any more

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan reply
}

// reply is an answer with its descriptors.
type reply struct {
	answer answer
	fds    []int
}

// help gives the helper, and starts one if there is none.
func (s *Spawner) help() (*helper, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the kernel is ending; no sandbox is started")
	}
	if s.machine.Problem != nil {
		return nil, s.machine.Problem
	}
	if s.helper != nil && !s.helper.ended() {
		return s.helper, nil
	}
	exe, err := s.cfg.executable()
	if err != nil {
		return nil, err
	}
	h, err := startHelper(s.cfg.Launcher, exe, s.machine.root)
	if err != nil {
		return nil, err
	}
	s.helper = h
	return h, nil
}

// executable is what can be started as the spawner.
func (c SpawnerConfig) executable() (string, error) {
	if c.Executable != "" {
		return c.Executable, nil
	}
	if mainCalled.Load() {
		return "/proc/self/exe", nil // the very file that runs, also if it was replaced
	}
	path, err := exec.LookPath("agentkernel")
	if err != nil {
		return "", agentkernel.Errorf(agentkernel.CodeUnavailable, op, "no executable can be the sandboxes' spawner").
			WithHint("call embedded.Main() at the very start of main, or put agentkernel on PATH")
	}
	return path, nil
}

// startHelper starts the executable once more, as the spawner. The socket is its descriptor 3, and it has
// nothing of the kernel's environment.
func startHelper(l Launcher, exe string, root bool) (*helper, error) {
	ours, theirs, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return nil, agentkernel.AsError(err, agentkernel.CodeUnavailable, op)
	}
	mine, child := os.NewFile(uintptr(ours), "spawner"), os.NewFile(uintptr(theirs), "kernel") //nolint:gosec // descriptors
	defer func() { _, _ = mine.Close(), child.Close() }()
	role := roleOuter
	if root {
		role = roleSpawn
	}
	h := &helper{launch: l, gone: make(chan struct{}), waiting: map[uint64]chan reply{}}
	h.cmd = exec.Command(exe, Argument, role)
	h.cmd.Env = []string{"GOTRACEBACK=none"}
	h.cmd.Dir = "/"
	h.cmd.ExtraFiles = []*os.File{child}
	h.cmd.Stderr = &h.stderr
	if h.wire, err = newWire(mine); err != nil {
		return nil, agentkernel.AsError(err, agentkernel.CodeUnavailable, op)
	}
	if err := l.Start(h.cmd); err != nil {
		_ = h.wire.conn.Close()
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the spawner cannot be started: %w", err)
	}
	_ = child.Close()
	return h, h.settle()
}

// settle reads the first message: the spawner is ready, or says why it cannot be.
func (h *helper) settle() error {
	var first answer
	_, err := h.wire.receive(&first)
	if err == nil && first.Error == nil {
		go h.listen()
		return nil
	}
	close(h.gone)
	h.bury()
	if err := first.err(); err != nil {
		return err
	}
	return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "%w at once: %s", errLost, firstLine(h.stderr.String())).
		WithHint("agentkernel doctor")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if line == "" {
		return "it said nothing"
	}
	return line
}

// listen hands answers to those who wait, until the spawner is gone.
func (h *helper) listen() {
	for {
		var a answer
		fds, err := h.wire.receive(&a)
		if err != nil {
			break
		}
		h.mu.Lock()
		ch := h.waiting[a.ID]
		delete(h.waiting, a.ID)
		h.mu.Unlock()
		if ch == nil { // nobody waits any more: the init reads the end of file on its control socket
			closeAll(fds)
			continue
		}
		ch <- reply{a, fds}
	}
	close(h.gone)
	h.bury()
}

func (h *helper) bury() {
	_ = h.wire.conn.Close()
	h.launch.Kill(h.cmd)
	_ = h.cmd.Wait()
}

// end makes the spawner end, with all its children.
func (h *helper) end() {
	h.launch.Kill(h.cmd)
	<-h.gone
}

func (h *helper) ended() bool {
	select {
	case <-h.gone:
		return true
	default:
		return false
	}
}

// ask sends a request and waits for its answer.
func (h *helper) ask(ctx context.Context, r request, fds []int) (reply, error) {
	ch := make(chan reply, 1)
	h.mu.Lock()
	h.next++
	r.ID = h.next
	h.waiting[r.ID] = ch
	h.mu.Unlock()
	if err := h.wire.send(r, fds); err != nil {
		if _, ok := errors.AsType[*net.OpError](err); ok {
			h.end() // nothing can be said after half a message
			err = lost()
		}
		return reply{}, errors.Join(err, h.forget(r.ID, ch))
	}
	select {
	case a := <-ch:
		switch {
		case a.answer.Failed != nil && r.Plan != nil:
			closeAll(a.fds)
			return reply{}, explain(r.Plan, *a.answer.Failed)
		case a.answer.Error != nil:
			closeAll(a.fds)
			return reply{}, a.answer.err()
		}
		return a, nil
	case <-ctx.Done():
		return reply{}, errors.Join(agentkernel.AsError(context.Cause(ctx), agentkernel.CodeCanceled, op), h.forget(r.ID, ch))
	case <-h.gone:
		return reply{}, errors.Join(lost(), h.forget(r.ID, ch))
	}
}

func lost() error {
	return agentkernel.Errorf(agentkernel.CodeCrashed, op, "%w before it answered", errLost)
}

// forget gives up waiting, and what has come meanwhile.
func (h *helper) forget(id uint64, ch chan reply) error {
	h.mu.Lock()
	delete(h.waiting, id)
	h.mu.Unlock()
	select {
	case a := <-ch:
		closeAll(a.fds)
	default:
	}
	return nil
}
