package monty

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/sandbox/confine"
	"agentkernel/internal/sandbox/monty/montypb"
)

const (
	protocolVersion = 2
	// flushMillis is how long the worker may hold back what a program prints: short enough to watch, long
	// enough that a loop of prints makes few frames. What is held back is sent before each suspension.
	flushMillis = 10
	// exitWait is how long the end of a worker whose pipe closed is waited for, to learn why.
	exitWait = 2 * time.Second
	// housekeeping bounds what takes a healthy worker microseconds: greeting, reset, configure.
	housekeeping = 10 * time.Second
	// maxIdleHeap is how much memory a worker may hold on to for the next program: the engine gives back
	// little of what small objects took. A program of less than growTime cannot have taken so much.
	maxIdleHeap = 32 << 20
	growTime    = 2 * time.Millisecond
	// maxSmallDump is up to which size an image is loaded into a small part of maxIdleHeap.
	maxSmallDump = 1 << 20
)

// settings are what Configure sets. Workers are configured ahead of need, so it is a key to compare.
type settings struct {
	time      time.Duration
	memory    int64
	recursion int
}

func settingsOf(l agentkernel.Limits) settings {
	return settings{time.Duration(l.Time), l.Memory, l.Recursion}
}

// wall is the address space that a worker with these settings needs: the engine stops its own allocator at
// little more than the heap, so this holds only if the engine does not. It never is below that of the
// default limits, so that workers can be used again by programs with smaller ones.
func (s settings) wall() uint64 {
	memory := uint64(max(s.memory, agentkernel.DefaultLimits().Memory))
	return memory + memory/4 + 128<<20
}

func (s settings) frame() []byte {
	return frame(&montypb.Request{Kind: &montypb.Request_Configure{Configure: &montypb.Configure{
		ScriptName: "main.py",
		Limits: &montypb.Limits{
			MaxDurationMicros: proto.Uint64(uint64(s.time.Microseconds())),
			MaxMemoryBytes:    proto.Uint64(uint64(s.memory)),
			MaxRecursionDepth: proto.Uint64(uint64(s.recursion)),
		},
		ProtocolVersion:      protocolVersion,
		PrintFlushIntervalMs: proto.Uint32(flushMillis),
	}}})
}

// worker is one child process. One goroutine at a time talks to it; kill may come from any.
type worker struct {
	body   body
	engine string // path, for messages
	clock  Clock
	in     *os.File // its stdin
	out    *os.File // its stdout
	outFD  int      // of out
	frames *frameReader
	stderr clip.Tail
	how    string        // it ended; valid after gone
	gone   chan struct{} // closed when the process has ended and was waited for
	buried chan struct{} // closed when nothing of it is left to do

	namespace string // "" until the first program
	conf      settings
	soiled    bool   // it has to be wiped before another program has it: send sees to that
	again     []byte // the requests Reset and Configure for conf
	meter     heapMeter
	wall      uint64    // its address space, set once: only privilege could raise it
	owed      int       // Ok answers not read yet: housekeeping is sent without waiting for them
	idleSince time.Time // while in the pool

	mu    sync.Mutex
	armed bool  // the watchdog may kill
	cause error // why we killed it
	dog   Timer
	under context.Context // whose end the watchdog hears of; nil: of none
	deaf  func() bool     // ends that
}

// startWorker starts a process and sends it its settings; settle waits for its answer.
func startWorker(ctx context.Context, cfg *Config, engine string, conf settings, start start, ended func(*worker)) (*worker, error) {
	w := &worker{engine: engine, clock: cfg.Clock, conf: conf, wall: conf.wall(), gone: make(chan struct{}), buried: make(chan struct{})}
	childIn, in, err := blockingPipe()
	if err != nil {
		return nil, confine.WithShortage(agentkernel.AsError(err, agentkernel.CodeUnavailable, "monty worker"))
	}
	out, childOut, err := blockingPipe()
	if err != nil {
		_, _ = childIn.Close(), in.Close()
		return nil, confine.WithShortage(agentkernel.AsError(err, agentkernel.CodeUnavailable, "monty worker"))
	}
	w.in, w.out, w.outFD, w.frames = in, out, int(out.Fd()), newFrameReader(out, cfg.MaxFrame) //nolint:gosec // a descriptor
	w.body, err = start(ctx, engine, childIn, childOut, &w.stderr, w.wall)
	_, _ = childIn.Close(), childOut.Close() // the child has its own
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, confine.WithShortage(agentkernel.AsError(err, agentkernel.CodeUnavailable, "monty worker"))
	}
	go w.reap(ended)
	_ = w.send(conf.frame()) // if it has ended, settle learns why
	w.owed = 1
	return w, nil
}

// reap waits for the process, so that none is left as a zombie, and then tells ended. The pipes stay open:
// what the worker said last may not have been read yet.
func (w *worker) reap(ended func(*worker)) {
	w.how = w.body.wait()
	close(w.gone)
	ended(w)
	w.body.bury()
	close(w.buried)
}

// stopped says whether it ended because it did not answer, or because somebody else killed it.
func (w *worker) stopped() (late, killed bool) {
	<-w.gone
	cause := w.killedFor()
	return errors.Is(cause, errLate), w.how == "signal: "+syscall.SIGKILL.String() && (cause == nil || errors.Is(cause, io.EOF))
}

// heap is how many bytes of data the worker has mapped; 0 if that cannot be told.
func (w *worker) heap() int64 { return w.meter.size(w.body.pid()) }

// ended says whether the process is gone.
func (w *worker) ended() bool {
	select {
	case <-w.gone:
		return true
	default:
		return false
	}
}

// closePipes gives the descriptors back. Nobody may be reading or writing.
func (w *worker) closePipes() {
	_, _ = w.in.Close(), w.out.Close() // a second Close fails and does nothing
	w.meter.close()
}

// kill ends the process; the first cause given is kept. It does not wait.
func (w *worker) kill(cause error) {
	w.mu.Lock()
	if w.cause == nil {
		w.cause = cause
	}
	w.mu.Unlock()
	w.body.kill()
}

func (w *worker) killedFor() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cause
}

// watch arms the watchdog: when d is over or ctx ends the worker is killed with a cause. disarm must be called. It goes on hearing of the
// end of ctx, since most turns have the context of the one before; see unbind.
func (w *worker) watch(ctx context.Context, d time.Duration) {
	w.mu.Lock()
	w.armed = true
	if w.dog == nil {
		w.dog = w.clock.AfterFunc(d, func() { w.bite(errLate) })
	} else {
		w.dog.Reset(d)
	}
	known := w.under == ctx
	if !known {
		w.hear(ctx)
	}
	w.mu.Unlock()
	if known && ctx.Err() != nil { // it ended while nobody was armed
		w.over(ctx)
	}
}

func (w *worker) disarm() {
	w.mu.Lock()
	w.armed = false
	w.dog.Stop()
	w.mu.Unlock()
}

// hear has the watchdog told of the end of ctx, and of no other; w.mu is held.
func (w *worker) hear(ctx context.Context) {
	w.unhear()
	if w.under = ctx; ctx.Done() != nil {
		w.deaf = context.AfterFunc(ctx, func() { w.over(ctx) })
	}
}

func (w *worker) unhear() {
	if w.deaf != nil {
		w.deaf()
	}
	w.under, w.deaf = nil, nil
}

// unbind lets go of the context of the last program.
func (w *worker) unbind() {
	w.mu.Lock()
	w.unhear()
	w.mu.Unlock()
}

// over says that a context has ended. What hears of that may be late, and another program have the worker.
func (w *worker) over(ctx context.Context) {
	w.mu.Lock()
	armed := w.under == ctx && w.condemn(ctx.Err())
	w.mu.Unlock()
	if armed {
		w.body.kill()
	}
}

var errLate = errors.New("no answer")

// bite kills a worker that is still watched. The cause is set together with the check, so that whoever
// disarmed too late sees it and does not use the worker again.
func (w *worker) bite(cause error) {
	w.mu.Lock()
	armed := w.condemn(cause)
	w.mu.Unlock()
	if armed {
		w.body.kill()
	}
}

// condemn notes why a worker is about to be killed, if it is still watched; w.mu is held.
func (w *worker) condemn(cause error) (armed bool) {
	if w.armed && w.cause == nil {
		w.cause = cause
	}
	return w.armed
}

// send writes requests in one system call. A soiled worker is wiped in the same: it is woken once.
func (w *worker) send(frames []byte) error {
	if w.soiled {
		frames = slices.Concat(w.wiping(), frames)
		w.soiled, w.owed = false, w.owed+2
	}
	_, err := w.in.Write(frames)
	return err
}

// clean wipes a soiled worker now. It does not wait for the answers.
func (w *worker) clean() error {
	if !w.soiled {
		return nil
	}
	return w.send(nil)
}

// recv reads one event of the program into ev, replacing what was there.
func (w *worker) recv(ev *montypb.Event) error {
	for w.owed > 0 {
		if err := w.receipt(ev); err != nil {
			return err
		}
	}
	return w.read(ev)
}

// read reads one event into ev, whatever it is about.
func (w *worker) read(ev *montypb.Event) error {
	b, err := w.frames.next()
	if err != nil {
		return err
	}
	defer w.frames.done()
	if err := proto.Unmarshal(b, ev); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	return nil
}

var errProtocol = errors.New("the worker broke the protocol")

// settle reads the answers to housekeeping that was sent ahead. After an error the worker is dead.
func (w *worker) settle(ctx context.Context) error {
	w.watch(ctx, housekeeping)
	defer w.disarm()
	var ev montypb.Event
	for w.owed > 0 {
		err := w.receipt(&ev)
		if no, ok := errors.AsType[*refusal](err); ok {
			return w.refused(no.message)
		}
		if err != nil {
			return w.failed(err)
		}
	}
	return nil
}

// receipt reads one answer to housekeeping. ev is what it is read into.
func (w *worker) receipt(ev *montypb.Event) error {
	if err := w.read(ev); err != nil {
		return err
	}
	switch k := ev.Kind.(type) {
	case *montypb.Event_Ok:
		w.owed--
		return nil
	case *montypb.Event_FatalError:
		return &refusal{k.FatalError.GetMessage()}
	case *montypb.Event_Failed:
		return &refusal{k.Failed.GetException().GetMessage()}
	default:
		return fmt.Errorf("%w: %T instead of Ok", errProtocol, ev.Kind)
	}
}

// refusal is a worker that does not do what it was told by housekeeping.
type refusal struct{ message string }

func (r *refusal) Error() string { return "the worker refuses: " + r.message }

// arrives waits for an event, at most so long. True: recv will not wait; it may find that the worker has ended.
func (w *worker) arrives(atMost time.Duration) bool {
	for until := time.Now().Add(atMost); ; {
		whole, large := w.frames.whole()
		if whole || large {
			return whole
		}
		if !readable(w.outFD, time.Until(until)) {
			return false
		}
		if !w.frames.more() {
			return true
		}
	}
}

// refused says that the engine does not take our greeting.
func (w *worker) refused(message string) error {
	w.kill(errProtocol)
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "monty worker",
		"the engine %s does not speak version %d of the worker protocol, which engine %s does; it says: %s",
		w.engine, protocolVersion, EngineVersion, message).WithHint("agentkernel setup")
}

// configure gives an idle worker other settings. It does not wait for the answers.
func (w *worker) configure(conf settings) error {
	if w.conf != conf {
		w.conf, w.again, w.soiled = conf, nil, true
	}
	return w.clean()
}

// wiping are the requests that make the worker ready for another program.
func (w *worker) wiping() []byte {
	if w.again == nil {
		w.again = append(frame(&montypb.Request{Kind: &montypb.Request_Reset_{Reset_: &montypb.Unit{}}}), w.conf.frame()...)
	}
	return w.again
}

// failed turns an I/O or protocol error into what really happened, and makes sure that the worker is dead.
func (w *worker) failed(err error) error {
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE)
	if errors.Is(err, errProtocol) || !ended {
		w.kill(err) // if it ended by itself or was killed before, this changes nothing but the cause
	}
	wait := w.clock.AfterFunc(exitWait, func() { w.kill(fmt.Errorf("%w: it closed its channel", errProtocol)) })
	<-w.gone
	wait.Stop()
	w.closePipes()
	if cause := w.killedFor(); cause != nil && !errors.Is(cause, errProtocol) && cause != err { //nolint:errorlint // identity is meant
		return cause
	}
	said := strings.TrimSpace(w.stderr.String())
	if ranOutOfMemory(said) {
		return errOutOfMemory
	}
	if w.how == "memory limit" {
		return errOutOfMemory
	}
	if w.killedFor() == nil && w.struck() {
		return agentkernel.Errorf(agentkernel.CodeCrashed, "monty worker", "%w: %s", errLost, w.how)
	}
	e := agentkernel.Errorf(agentkernel.CodeCrashed, "monty worker", "the worker ended: %s (%w)", w.how, err)
	if said != "" {
		e = agentkernel.Errorf(agentkernel.CodeCrashed, "monty worker", "the worker ended: %s: %s", w.how, said)
	}
	return e
}

// errLost is the error of a worker that something else than the kernel, a limit or its program has ended.
var errLost = errors.New("the worker was ended from outside")

// struck says whether a signal ended it with which a program cannot end its engine.
func (w *worker) struck() bool {
	return w.how == "signal: "+syscall.SIGKILL.String() || w.how == "signal: "+syscall.SIGTERM.String()
}

var errOutOfMemory = errors.New("the worker ran out of memory")

// ranOutOfMemory recognises the last words of an engine whose allocator refused.
func ranOutOfMemory(stderr string) bool {
	return strings.Contains(stderr, "exceeds the memory limit") ||
		strings.Contains(stderr, "allocation of ") && strings.Contains(stderr, " bytes failed")
}
