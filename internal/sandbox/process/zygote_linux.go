package process

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/sandbox/confine"
)

const (
	// exitWait bounds how long output of a process that has ended is waited for.
	exitWait = time.Second
	// readyWait bounds the start of a zygote: an interpreter and its imports, on a busy machine.
	readyWait = 60 * time.Second
	// forkWait bounds one fork.
	forkWait = 20 * time.Second
)

// loader is the first code of a zygote: it makes the package _agentkernel of the sources on its standard input.
const loader = `
import sys
sys.path[:] = [p for p in sys.path if p]
import importlib.machinery, json
_bundle = json.loads(sys.stdin.buffer.read())
class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "_agentkernel" or name[:13] == "_agentkernel." and name[13:] in _bundle["sources"]:
            return importlib.machinery.ModuleSpec(name, self, is_package=name == "_agentkernel")
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        source = _bundle["sources"].get(module.__name__[13:], "")
        exec(compile(source, "<agentkernel>/%s.py" % module.__name__[13:], "exec", dont_inherit=True), module.__dict__)
sys.meta_path.append(_Finder())
from _agentkernel import undertaker
undertaker.main(_bundle["config"])
`

// zygote is one interpreter that forks children.
type zygote struct {
	cfg     *Config
	body    body
	control *net.UnixConn
	said    *clip.Tail
	gone    chan struct{} // closed when the process has ended and all is cleared away

	mu       sync.Mutex
	lastID   int64
	forks    map[int64]*fork
	children map[int64]*child // by their number in the zygote's pid namespace
	early    map[int64]ending // of children that ended before we heard that they began
	ready    chan struct{}
	forker   int64 // number of the process that forks, there
	cause    error // why we killed it
	how      string

	asking sync.Mutex
	plans  map[planKey]string // those that the zygote knows, by what decides them
	taught int                // plans that it was told
	again  string             // the plan of which it makes one more child when it is given a number alone
}

// body is the process of a zygote.
type body interface {
	kill()        // it and all its children; does not wait
	wait() string // how it ended
	// cell prepares the walls of one child; nil: it has none.
	cell(l agentkernel.Limits, mounts []agentkernel.Mount) (*confine.Cell, error)
}

// startZygote starts an interpreter; awaitReady waits for it.
func startZygote(ctx context.Context, cfg *Config, python Interpreter, set importSet) (*zygote, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, agentkernel.AsError(err, agentkernel.CodeUnavailable, "zygote")
	}
	near, far := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer func() { _ = far.Close() }() // the zygote has its own
	conn, err := net.FileConn(near)
	_ = near.Close() // conn has a copy
	if err != nil {
		return nil, agentkernel.AsError(err, agentkernel.CodeUnavailable, "zygote")
	}
	control, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, agentkernel.Errorf(agentkernel.CodeInternal, "zygote", "a socket of kind %T", conn)
	}
	sources, _ := guestSources()
	imports, needed := set.imports()
	input, err := json.Marshal(bundle{Sources: sources, Config: bundleConfig{Imports: imports, Needed: needed, Runner: confine.StepRunner(), Calls: theseCalls()}})
	if err != nil {
		return nil, agentkernel.AsError(errors.Join(err, conn.Close()), agentkernel.CodeInternal, "zygote")
	}
	z := &zygote{cfg: cfg, control: control, said: &clip.Tail{}, gone: make(chan struct{}), ready: make(chan struct{}),
		forks: map[int64]*fork{}, children: map[int64]*child{}, early: map[int64]ending{}, plans: map[planKey]string{}}
	start := startWalled
	if cfg.Isolation == IsolationNone {
		start = startBare
	}
	if z.body, err = start(ctx, cfg, python, files{input: input, said: z.said, control: far}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	go z.listen()
	go z.reap()
	return z, nil
}

// awaitReady returns when the zygote can fork, or with the reason why it never will.
func (z *zygote) awaitReady(ctx context.Context) error {
	late := time.NewTimer(readyWait)
	defer late.Stop()
	select {
	case <-z.ready:
		return nil
	case <-z.gone:
		return z.failed()
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		z.kill(errors.New("it was not ready in time"))
		<-z.gone
		return z.failed()
	}
}

// failed says why a zygote that is gone has gone.
func (z *zygote) failed() error {
	z.mu.Lock()
	defer z.mu.Unlock()
	why := z.how
	if z.cause != nil {
		why = z.cause.Error()
	}
	if said := z.said.String(); said != "" {
		why += ": " + said
	}
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "zygote", "the interpreter ended before it could run a program: %s", why).
		WithHint("agentkernel doctor")
}

// kill ends the zygote and all its children. It does not wait.
func (z *zygote) kill(cause error) {
	z.mu.Lock()
	if z.cause == nil {
		z.cause = cause
	}
	z.mu.Unlock()
	_ = z.control.Close()
	z.body.kill()
}

// fell says whether it has ended for no reason of the kernel's: killed, or because a process that it needs was. An interpreter that
// cannot start looks the same.
func (z *zygote) fell() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.how != "" && (z.cause == nil || errors.Is(z.cause, errForkerGone))
}

// killedFor says whether this is why it was killed.
func (z *zygote) killedFor(cause error) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return errors.Is(z.cause, cause)
}

// reap waits for the process, then sees to it that nobody waits for its children.
func (z *zygote) reap() {
	how := z.body.wait()
	_ = z.control.Close()
	z.mu.Lock()
	z.how = how
	forks, children := z.forks, z.children
	z.forks, z.children = nil, nil
	z.mu.Unlock()
	for _, f := range forks {
		f.done <- errZygoteGone
	}
	for _, c := range children {
		c.buried(ending{lost: true})
		c.hangUp()
	}
	close(z.gone)
}

var (
	errZygoteGone = errors.New("the zygote ended")
	errForkerGone = errors.New("the process that forks has ended")
)

func (z *zygote) dead() bool {
	select {
	case <-z.gone:
		return true
	default:
		return false
	}
}

// endedBy says whether the zygote has ended, and waits for that if err says that it is about to.
func (z *zygote) endedBy(ctx context.Context, err error) bool {
	if errors.Is(err, errZygoteGone) || errors.Is(err, net.ErrClosed) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		select {
		case <-z.gone:
		case <-ctx.Done():
		}
	}
	return z.dead()
}

// controlMessage is what a zygote says in words. Of a child that it has made it says forkedMark, the number of the request
// in forkedDigits digits, and in eight bytes the number of the process; of one that has ended exitedMark, in eight bytes
// each the number of the process and how it ended, and a struct rusage.
type controlMessage struct {
	Ready   string `json:"ready"`   // version of the interpreter
	Process int64  `json:"process"` // number of the one that forks
	Failed  int64  `json:"failed"`  // the request
	Error   string `json:"error"`
}

// listen reads what the zygote says until it ends.
func (z *zygote) listen() {
	buf, oob := make([]byte, 64<<10), make([]byte, 256)
	for {
		n, oobn, _, _, err := z.control.ReadMsgUnix(buf, oob)
		if err != nil || n == 0 {
			return
		}
		fd := receivedFD(oob[:oobn])
		if id, pid, ok := forked(buf[:n]); ok {
			z.begun(id, pid, fd)
			continue
		}
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		if pid, end, ok := exited(buf[:n]); ok {
			z.ended(pid, end)
			continue
		}
		var m controlMessage
		if err := json.Unmarshal(buf[:n], &m); err != nil {
			z.cfg.Logger.Error("a zygote is not understood", "err", err)
			go z.kill(err)
			return
		}
		z.heard(m)
	}
}

// maxEarly bounds the children that ended before we heard that they began.
const maxEarly = 1000

const (
	exitedMark   = 'x'
	forkedMark   = 'f'
	forkedDigits = 16 // a request of just so many bytes is for one more child of the plan before
)

// forked takes apart what a zygote says of a child that it has made.
func forked(b []byte) (id, pid int64, ok bool) {
	if len(b) != 1+forkedDigits+8 || b[0] != forkedMark {
		return 0, 0, false
	}
	id, err := strconv.ParseInt(strings.TrimLeft(string(b[1:1+forkedDigits]), " "), 10, 64)
	return id, int64(binary.NativeEndian.Uint64(b[1+forkedDigits:])), err == nil //nolint:gosec // a pid
}

// receivedFD is the descriptor that came with a message; -1: none did. More than one nobody asked for.
func receivedFD(oob []byte) int {
	fd := -1
	msgs, _ := unix.ParseSocketControlMessage(oob)
	for i := range msgs {
		fds, _ := unix.ParseUnixRights(&msgs[i])
		for _, got := range fds {
			if fd < 0 {
				fd = got
			} else {
				_ = unix.Close(got)
			}
		}
	}
	return fd
}

// exited takes apart what a zygote says of a child that has ended.
func exited(b []byte) (pid int64, end ending, ok bool) {
	if len(b) != 17+int(unsafe.Sizeof(unix.Rusage{})) || b[0] != exitedMark {
		return 0, ending{}, false
	}
	at := func(i int) int64 { return int64(binary.NativeEndian.Uint64(b[1+8*i:])) } //nolint:gosec // the system's numbers
	end.status = syscall.WaitStatus(binary.NativeEndian.Uint32(b[9:]))
	end.cpu = time.Duration(at(2)+at(4))*time.Second + time.Duration(at(3)+at(5))*time.Microsecond
	end.memory = at(6) << 10
	return at(0), end, true
}

// begun notes a child that was made. The descriptor is ours.
func (z *zygote) begun(id, pid int64, fd int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	f := z.forks[id]
	switch delete(z.forks, id); {
	case f == nil:
		_ = unix.Close(fd)
		return
	case fd < 0: // it ends when its channel is closed
		f.done <- errors.New("no descriptor is left for it")
		return
	}
	f.c.born(fd)
	if end, ended := z.early[pid]; ended {
		delete(z.early, pid)
		f.c.buried(end)
	} else {
		z.children[pid] = f.c
	}
	f.done <- nil
}

func (z *zygote) heard(m controlMessage) {
	z.mu.Lock()
	defer z.mu.Unlock()
	switch {
	case m.Ready != "" && z.forker != 0:
		go z.kill(errors.New("it says twice that it is ready"))
	case m.Ready != "":
		z.forker = max(m.Process, 1)
		close(z.ready)
	case m.Failed != 0 && z.forks[m.Failed] != nil:
		f := z.forks[m.Failed]
		delete(z.forks, m.Failed)
		f.done <- errors.New(m.Error)
	}
}

// ended notes that a process of the zygote's has ended. What a program without walls has left of its group is killed;
// behind walls there is nothing left.
func (z *zygote) ended(pid int64, end ending) {
	z.mu.Lock()
	defer z.mu.Unlock()
	c := z.children[pid]
	switch {
	case z.children == nil:
	case pid == z.forker:
		go z.kill(errForkerGone)
	case c == nil && len(z.early) >= maxEarly:
		go z.kill(errors.New("it tells of the ends of children that it never had"))
	case c == nil:
		z.early[pid] = end
	default:
		delete(z.children, pid)
		c.buried(end)
	}
	if z.cfg.Isolation == IsolationNone && pid > 1 && pid != z.forker {
		_ = unix.Kill(-int(pid), unix.SIGKILL) // nothing is left. The system gives a number again only after all the others
	}
}

// planRequest has a zygote remember a plan. What else it is asked is words: the number of a fork and the name of its plan
// ("-": no walls), or, in forkedDigits bytes, the number alone. A zygote that takes a request apart writes to pages which
// all its children share: so it is given as little to take apart as can be.
type planRequest struct {
	Plan  string          `json:"plan"`
	Steps json.RawMessage `json:"steps"`
	// Memory is what a child may have beyond what the zygote has, in bytes.
	Memory int64 `json:"memory"`
}

func (z *zygote) ask(request []byte, fds ...int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err := z.control.WriteMsgUnix(request, oob, nil)
	return err
}
