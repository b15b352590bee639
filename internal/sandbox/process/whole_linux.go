package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/sandbox/confine"
)

// whole is a program of any language in a sandbox of its own. It runs by itself: its processes may call the kernel
// all at once, over the door (see door), and go on while results are under way. So every call is async here, and
// after TurnWait the program may have more to say, of which StartRequest.Wake tells.
type whole struct {
	cfg    *Config
	req    agentkernel.StartRequest
	recipe *recipe
	cell   *confine.Cell
	out    output
	said   clip.Tail // the end of stderr
	door   *door
	unseen error  // why the program does not see a folder that it may do without
	pipes  [2]int // stdout and stderr; -1 when they have ended
	bell   *bell  // rung by whoever wants Next to look at the fields under mu

	flights map[int64]caller // calls under way, by the kernel's number
	last    caller           // of the call in the last turn
	calling bool             // the last turn was a call
	ran     time.Duration    // in earlier calls of Next
	begun   time.Time        // of this one

	mu        sync.Mutex
	process   *confine.Process // nil before the first Next
	inNext    bool
	closed    bool
	dead      bool
	suspended bool
	asked     bool        // to end: it may by SIGTERM
	cause     error       // why it is being killed
	exit      *exitStatus // set when all is dead
	idle      *idleWatch  // while it waits between two calls of Next
}

// exitStatus is how the program ended.
type exitStatus struct{ confine.Exit }

func newWhole(cfg *Config, req agentkernel.StartRequest, r *recipe, cell *confine.Cell) (*whole, error) {
	b, err := newBell()
	if err != nil {
		return nil, err
	}
	w := &whole{cfg: cfg, req: req, recipe: r, cell: cell, bell: b, flights: map[int64]caller{}, pipes: [2]int{-1, -1}}
	w.out = output{emit: req.Output, room: req.Limits.Output}
	return w, nil
}

// Next runs the program to its next turn; see agentkernel.Sandbox.
func (w *whole) Next(ctx context.Context, reply *agentkernel.Reply) (agentkernel.Turn, error) {
	if err := ctx.Err(); err != nil {
		return agentkernel.Turn{}, err
	}
	if err := w.enter(); err != nil {
		return agentkernel.Turn{}, err
	}
	w.begun = time.Now()
	late := time.AfterFunc(max(time.Duration(w.req.Limits.Time)-w.ran, 0), func() { w.kill(errLate) })
	stop := context.AfterFunc(ctx, func() { w.kill(ctx.Err()) })
	turn, err := w.run(ctx, reply)
	late.Stop()
	stop()
	w.ran += time.Since(w.begun)
	return w.leave(turn, err)
}

func (w *whole) enter() error {
	w.mu.Lock()
	idle := w.idle
	w.idle = nil
	err := w.refusal()
	w.inNext = err == nil
	w.mu.Unlock()
	idle.end()
	return err
}

// refusal says why Next cannot run; w.mu is held.
func (w *whole) refusal() error {
	switch {
	case w.closed:
		return errSandboxClosed
	case w.inNext:
		return internal("two goroutines use one sandbox")
	case w.dead:
		return agentkernel.Errorf(agentkernel.CodeCrashed, "sandbox", "the sandbox is dead")
	}
	return nil
}

// leave ends Next. While the program waits, somebody listens for it.
func (w *whole) leave(turn agentkernel.Turn, err error) (agentkernel.Turn, error) {
	over := err != nil || turn.Kind == agentkernel.TurnExit || turn.Kind == agentkernel.TurnFail
	if over {
		w.kill(errSandboxClosed)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inNext, w.dead = false, over
	switch {
	case w.closed && !over:
		turn, err = agentkernel.Turn{}, errSandboxClosed
	case !over && turn.Kind == agentkernel.TurnWait && w.req.Wake != nil && !w.suspended:
		w.idle = watchIdle(w.interest(nil), w.req.Wake)
	}
	if w.closed || over {
		w.release()
	}
	if w.closed {
		w.bell.close()
	}
	return turn, err
}

// release gives the descriptors back; nobody is in Next, and w.mu is held.
func (w *whole) release() {
	w.door.close()
	for i, fd := range w.pipes {
		if fd >= 0 {
			_ = unix.Close(fd)
			w.pipes[i] = -1
		}
	}
}

// run takes the reply and hears the program until it needs the kernel.
func (w *whole) run(ctx context.Context, reply *agentkernel.Reply) (agentkernel.Turn, error) {
	if w.process == nil {
		if err := w.start(ctx); err != nil {
			return w.notStarted(err)
		}
	} else if err := w.take(reply); err != nil {
		return agentkernel.Turn{}, err
	}
	for {
		turn, done, err := w.step()
		if done || err != nil {
			return turn, err
		}
	}
}

// take passes on what the kernel answers.
func (w *whole) take(reply *agentkernel.Reply) error {
	calling := w.calling
	w.calling = false
	switch {
	case reply == nil:
		return nil
	case calling && reply.Pending:
		w.flights[reply.ID] = w.last
		return nil
	case calling:
		return w.door.answer(w.last, reply)
	}
	to, ok := w.flights[reply.ID]
	if !ok {
		return internal("call %d is not under way", reply.ID)
	}
	delete(w.flights, reply.ID)
	return w.door.answer(to, reply)
}

// step waits for one thing to happen. done: turn is the kernel's.
func (w *whole) step() (turn agentkernel.Turn, done bool, err error) {
	// What a process prints before it calls is in the pipe when its call is here.
	if turn, done, err = w.stopped(); done || err != nil {
		return turn, done, err
	}
	call, from, err := w.door.next()
	if err != nil {
		return turn, false, w.hostile(err)
	}
	if call != nil {
		if err := w.drain(); err != nil {
			return turn, false, err
		}
		w.last, w.calling = from, true
		return agentkernel.Turn{Kind: agentkernel.TurnCall, Call: *call}, true, nil
	}
	patience := -1
	if len(w.flights) > 0 {
		patience = 0
	}
	ready, err := poll(w.interest(w.bell), patience)
	if err != nil {
		return turn, false, err
	}
	if ready == nil {
		return agentkernel.Turn{Kind: agentkernel.TurnWait}, true, nil
	}
	w.bell.still()
	if err := w.drain(); err != nil {
		return turn, false, err
	}
	return turn, false, w.hostile(w.door.serve(ready))
}

// stopped looks at what others have noted: the end, a reason to end, a pause.
func (w *whole) stopped() (turn agentkernel.Turn, done bool, err error) {
	w.mu.Lock()
	exit, cause, suspended := w.exit, w.cause, w.suspended
	w.mu.Unlock()
	switch {
	case exit != nil:
		if err := w.drain(); err != nil {
			return turn, false, err
		}
		turn, err = w.ended(exit.Exit, cause)
		return turn, true, err
	case cause != nil:
		w.awaitDeath()
		return w.stopped()
	case suspended:
		return agentkernel.Turn{Kind: agentkernel.TurnWait}, true, nil
	}
	return turn, false, nil
}

// awaitDeath waits for a program that was killed.
func (w *whole) awaitDeath() {
	<-w.process.Done()
	w.noteExit(w.process)
}

// hostile turns a broken protocol into the end of the program.
func (w *whole) hostile(err error) error {
	if p, ok := errors.AsType[errProtocol](err); ok {
		return agentkernel.Errorf(agentkernel.CodeCrashed, "process", "%w", p)
	}
	return err
}

// interest lists what can be ready.
func (w *whole) interest(b *bell) []unix.PollFd {
	fds := w.door.interest(nil)
	for _, fd := range w.pipes {
		if fd >= 0 {
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}) //nolint:gosec // a descriptor
		}
	}
	if b == nil {
		b = w.bell
	}
	return append(fds, unix.PollFd{Fd: int32(b.fd), Events: unix.POLLIN}) //nolint:gosec // a descriptor
}

// drainMost bounds what one drain takes: a writer that is faster than we are must not keep us here.
const drainMost = 4 << 20

// drain takes what lies in the pipes.
func (w *whole) drain() error {
	scratch := make([]byte, 64<<10)
	for i := range w.pipes {
		for taken := 0; w.pipes[i] >= 0 && taken < drainMost; {
			n, err := unix.Read(w.pipes[i], scratch)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case errors.Is(err, unix.EAGAIN):
				taken = drainMost
				continue
			case err != nil || n == 0:
				_ = unix.Close(w.pipes[i])
				w.pipes[i] = -1
				continue
			}
			taken += n
			if i == 1 {
				_, _ = w.said.Write(scratch[:n])
			}
			if err := w.out.write(i, scratch[:n]); err != nil {
				return w.tooMuch(err)
			}
		}
	}
	return nil
}

func (w *whole) tooMuch(err error) error {
	if errors.Is(err, errOutput) {
		return outputLimit(w.req.Limits)
	}
	return err
}

// start starts the program: nothing of it ran before the first Next.
func (w *whole) start(ctx context.Context) error {
	d, far, err := openDoor(w.recipe.stream, w.cfg.MaxFrame)
	if err != nil {
		return err
	}
	w.door = d
	if w.unseen != nil {
		if err := w.out.write(1, fmt.Appendf(nil, "%s%s\n", agentkernel.NotShown, agentkernel.AsError(w.unseen, "", "").Message())); err != nil {
			return w.tooMuch(err)
		}
	}
	files, err := w.openStreams()
	if err == nil {
		files = append(files, far...)
		var p *confine.Process
		if p, err = w.cfg.Spawner.Start(ctx, w.cell, files); err == nil {
			w.started(p)
		}
	}
	for _, f := range files {
		_ = f.Close() // the program has its own
	}
	return err
}

// openStreams makes the program's descriptors 0, 1 and 2.
func (w *whole) openStreams() (files []*os.File, err error) {
	input, err := os.Open(cmp.Or(w.req.Stdin, os.DevNull))
	if err != nil {
		return nil, err
	}
	files = append(files, input)
	for i := range w.pipes {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return files, os.NewSyscallError("pipe2", err)
		}
		w.pipes[i] = p[0]
		files = append(files, os.NewFile(uintptr(p[1]), "|1")) //nolint:gosec // a descriptor
		if err := unix.SetNonblock(p[0], true); err != nil {
			return files, os.NewSyscallError("fcntl", err)
		}
	}
	return files, nil
}

func (w *whole) started(p *confine.Process) {
	w.mu.Lock()
	w.process = p
	unwanted, suspended, asked := w.cause != nil, w.suspended, w.asked
	w.mu.Unlock()
	switch {
	case unwanted:
		p.Kill()
	case suspended:
		_ = p.Pause() // it runs until the next word, at the worst
	case asked:
		_ = p.Signal(unix.SIGTERM)
	}
	go func() {
		<-p.Done()
		w.noteExit(p)
		w.bell.ring()
	}()
}

func (w *whole) noteExit(p *confine.Process) {
	exit, err := p.Wait(context.Background())
	if err != nil {
		return // it has ended: there is no waiting that could be given up
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exit = &exitStatus{exit}
}

// kill ends the program and all that it started. The first cause given is kept. It does not wait.
func (w *whole) kill(cause error) {
	w.mu.Lock()
	if w.cause == nil {
		w.cause = cause
	}
	p := w.process
	w.mu.Unlock()
	if p != nil {
		p.Kill()
	}
	w.bell.ring()
}

// Suspend stops or continues every process of the program; see agentkernel.Suspender.
func (w *whole) Suspend(stop bool) error {
	w.mu.Lock()
	p, asked := w.running(), w.asked
	w.suspended = stop
	w.mu.Unlock()
	w.bell.ring()
	if p == nil {
		return nil
	}
	if stop {
		return p.Pause()
	}
	err := p.Resume()
	if err == nil && asked {
		err = p.Signal(unix.SIGTERM)
	}
	return err
}

// running is the process, if there is one that has not ended; w.mu is held.
func (w *whole) running() *confine.Process {
	if w.dead || w.closed || w.exit != nil {
		return nil
	}
	return w.process
}

// Stop asks the program to end; see agentkernel.Stopper.
func (w *whole) Stop() error {
	w.mu.Lock()
	p := w.running()
	if w.suspended {
		p = nil
	}
	w.asked = true
	w.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.Signal(unix.SIGTERM)
}

func (w *whole) isAsked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// Image says that there are none.
func (w *whole) Image(context.Context) ([]byte, error) {
	return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "sandbox", "there is no image of a program in %s", w.req.Program.Language)
}

// Left names files that go with the sandbox; see agentkernel.Leaver.
func (w *whole) Left() []string {
	w.mu.Lock()
	p := w.process
	w.mu.Unlock()
	return leftBehind(&w.req, p)
}

// Running is the time that the program has spent in Next.
func (w *whole) Running() time.Duration { return w.ran }

// Close kills the program and all that it started. It may be called while Next runs, which then fails.
func (w *whole) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	idle, p, inNext, dead := w.idle, w.process, w.inNext, w.dead
	w.idle = nil
	w.mu.Unlock()
	idle.end()
	w.kill(errSandboxClosed)
	if p == nil && !inNext {
		defer w.bell.close()
		if dead {
			return nil // the cell went with the attempt to start it
		}
		return w.cell.Close()
	}
	if inNext {
		return nil // Next gives the descriptors back
	}
	<-p.Done() // what it started is gone when Close returns
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release()
	w.bell.close()
	return nil
}

// Walls says what stands between the program and the machine.
func (w *whole) Walls() []confine.Wall { return w.cell.Plan.Walls }
