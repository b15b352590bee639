package monty

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/clip"
	"agentkernel/internal/sandbox/monty/montypb"
)

// stage is where a sandbox stands between two calls of its methods.
type stage int

const (
	stageFresh  stage = iota // nothing was fed
	stageLoaded              // an image was loaded; first holds the turn that the worker emitted again
	stageCall                // the program waits for the reply to call
	stageWait                // every task of the program waits for an async result
	stageEnded               // TurnExit or TurnFail was given
	stageDead                // the worker is gone
)

// sandbox is one program in a worker.
type sandbox struct {
	b    *Backend
	w    *worker
	req  agentkernel.StartRequest
	prog *program

	stage   stage
	fed     int              // feeds sent
	call    pendingCall      // stageCall
	first   *montypb.Event   // stageLoaded
	dump    []byte           // of an image, until it is loaded
	micros  uint64           // time spent executing, as the worker counts it
	loaded  time.Duration    // what Running said when its image was loaded; 0: there was none
	large   bool             // the image was
	host    time.Duration    // time that the host computed for the program
	output  int64            // bytes printed
	flights map[int64]uint32 // async calls under way: the kernel's number -> the engine's of its future
	session sessionState     // of a Program.Session
	lost    error            // Image has found that the worker is lost: Next says so
	landed  []landing        // async calls that were answered at once: the program gets them when it waits

	since  time.Time // the present turn began
	begun  bool      // Begin was called, and Next not yet
	turned *outcome  // what Ready has found; nil: nothing yet

	mu        sync.Mutex
	inNext    bool // also from Begin on
	imaging   bool // it is in Image, not in Next
	closed    bool
	suspended bool
}

// outcome is what Next returns.
type outcome struct {
	turn agentkernel.Turn
	err  error
}

// landing is the result of an async call that the program has not been given yet.
type landing struct {
	callID uint32 // the engine's number of its future
	reply  agentkernel.Reply
}

var errClosed = agentkernel.Errorf(agentkernel.CodeCanceled, "sandbox", "the sandbox was closed")

// Next runs the program to its next turn; see agentkernel.Sandbox.
func (s *sandbox) Next(ctx context.Context, reply *agentkernel.Reply) (agentkernel.Turn, error) {
	out := s.turned
	switch {
	case s.lost != nil && !s.isClosed():
		turn := lost(s.lost)
		s.lost = nil
		return turn, nil
	case !s.begun:
		if err := ctx.Err(); err != nil {
			return agentkernel.Turn{}, err
		}
		if err := s.enter(); err != nil {
			return agentkernel.Turn{}, err
		}
		s.watch(ctx)
	case out == nil:
		s.w.disarm()
		s.watch(ctx)
	}
	if out == nil {
		turn, err := s.run(reply)
		out = &outcome{turn, err}
	}
	s.begun, s.turned = false, nil
	return s.end(*out)
}

// Begin lets the program go on; see fastpath.Sandbox.
func (s *sandbox) Begin(ctx context.Context, reply *agentkernel.Reply) (bool, error) {
	if s.stage == stageLoaded || s.wasLost() {
		return false, nil
	}
	if err := s.enter(); err != nil {
		return false, err
	}
	s.watch(ctx)
	s.begun = true
	if turn, done, err := s.goOn(reply); done || err != nil {
		s.turned = &outcome{turn, err}
	}
	return true, nil
}

// wasLost says that there is no worker; Next says why.
func (s *sandbox) wasLost() bool { return s.lost != nil }

// goOn hands over the reply. done: turn is the kernel's; else the program runs.
func (s *sandbox) goOn(reply *agentkernel.Reply) (turn agentkernel.Turn, done bool, err error) {
	if s.session.asked != nil {
		return s.nextCell(reply)
	}
	if s.wasLeft(reply) {
		return agentkernel.Turn{Kind: agentkernel.TurnWait}, true, nil
	}
	return turn, false, s.resume(reply)
}

// watch arms the watchdog for a turn; end disarms it.
func (s *sandbox) watch(ctx context.Context) {
	if s.isSuspended() {
		s.w.kill(errSuspended) // the engine would run on with the reply
	}
	left := time.Duration(s.req.Limits.Time) - s.Running()
	s.since = s.b.cfg.Clock.Now()
	s.w.watch(ctx, max(left, 0)+s.b.cfg.Grace)
}

// end ends what enter began.
func (s *sandbox) end(out outcome) (agentkernel.Turn, error) {
	s.w.disarm()
	if kind := out.turn.Kind; out.err != nil || kind == agentkernel.TurnExit || kind == agentkernel.TurnFail {
		s.w.unbind() // its process ends now, and with it the context
	}
	if out.err != nil {
		out.turn, out.err = s.broken(out.err, s.b.cfg.Clock.Now().Sub(s.since))
	}
	s.leave()
	return out.turn, out.err
}

// Ready takes what the program does until its turn, at most for so long.
func (s *sandbox) Ready(atMost time.Duration) bool {
	for until := time.Now().Add(atMost); s.turned == nil; {
		if !s.w.arrives(time.Until(until)) {
			return false
		}
		var ev montypb.Event
		if s.w.owed > 0 {
			if err := s.w.receipt(&ev); err != nil {
				s.turned = &outcome{err: err}
			}
		} else if err := s.w.recv(&ev); err != nil {
			s.turned = &outcome{err: err}
		} else if turn, done, err := s.handle(&ev); done || err != nil {
			s.turned = &outcome{turn, err}
		}
	}
	return true
}

func (s *sandbox) enter() error { return s.enterFor(false) }

// enterFor makes the caller the one who uses the worker; imaging: the program does not run meanwhile.
func (s *sandbox) enterFor(imaging bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case s.inNext:
		return agentkernel.Errorf(agentkernel.CodeInternal, "sandbox", "two goroutines use one sandbox")
	case s.stage == stageDead:
		return agentkernel.Errorf(agentkernel.CodeCrashed, "sandbox", "the sandbox is dead")
	case s.stage == stageEnded:
		return agentkernel.Errorf(agentkernel.CodeInternal, "sandbox", "the program has ended")
	}
	s.inNext, s.imaging = true, imaging
	return nil
}

// leave ends Next; a Close that came meanwhile left the worker to us.
func (s *sandbox) leave() {
	s.mu.Lock()
	s.inNext = false
	closed := s.closed
	s.mu.Unlock()
	if closed {
		s.b.pool.release(s.w, false)
	}
}

// run sends what the reply asks for and handles events until one is a turn for the kernel.
func (s *sandbox) run(reply *agentkernel.Reply) (agentkernel.Turn, error) {
	switch {
	case s.begun: // the request was sent
	case s.stage == stageLoaded:
		if turn, done, err := s.sayAgain(); done || err != nil {
			return turn, err
		}
	default:
		if turn, done, err := s.goOn(reply); done || err != nil {
			return turn, err
		}
	}
	var ev montypb.Event
	for {
		if err := s.w.recv(&ev); err != nil {
			return agentkernel.Turn{}, err
		}
		if turn, done, err := s.handle(&ev); done || err != nil {
			return turn, err
		}
	}
}

// sayAgain repeats the turn at which an image was made.
func (s *sandbox) sayAgain() (agentkernel.Turn, bool, error) {
	if s.session.asked != nil { // between two cells the engine has nothing to say
		return s.ask(s.session.asked)
	}
	ev := s.first
	s.first = nil
	return s.handle(ev)
}

// resume sends the request that lets the program go on.
func (s *sandbox) resume(reply *agentkernel.Reply) error {
	switch {
	case s.stage == stageFresh:
		return s.feedNext()
	case reply == nil:
		return agentkernel.Errorf(agentkernel.CodeInternal, "sandbox", "a reply is missing")
	case s.stage == stageWait:
		id, ok := s.flights[reply.ID]
		if !ok || reply.Pending {
			return agentkernel.Errorf(agentkernel.CodeInternal, "sandbox", "call %d is not an async call under way", reply.ID)
		}
		delete(s.flights, reply.ID)
		return s.answer(id, reply, true)
	case s.call.async:
		// The engine numbers the calls of each feed from 0. By the kernel's number no future is another one's.
		future := uint32(reply.ID)
		if reply.Pending {
			if s.flights == nil {
				s.flights = map[int64]uint32{}
			}
			s.flights[reply.ID] = future
		} else {
			s.landed = append(s.landed, landing{future, *reply})
		}
		return s.w.send(futureReply(s.call.id, future))
	case reply.Pending:
		return agentkernel.Errorf(agentkernel.CodeInternal, "sandbox", "only an async call can be pending")
	}
	return s.answer(s.call.id, reply, false)
}

func (s *sandbox) feedNext() error {
	frame := s.prog.feeds[s.fed].frame
	s.fed++
	return s.w.send(frame)
}

// handle deals with one event. done: turn is the kernel's. Otherwise the program goes on.
func (s *sandbox) handle(ev *montypb.Event) (turn agentkernel.Turn, done bool, err error) {
	if m := ev.GetTotalExecutionMicros(); m > s.micros {
		s.micros = m
	}
	switch k := ev.Kind.(type) {
	case *montypb.Event_Print:
		return s.print(k.Print)
	case *montypb.Event_Call:
		return s.functionCall(k.Call)
	case *montypb.Event_OsCall:
		return s.osCall(k.OsCall)
	case *montypb.Event_NameLookup:
		return turn, false, s.w.send(undefinedReply())
	case *montypb.Event_ResolveFutures:
		if len(s.landed) > 0 {
			l := s.landed[0]
			s.landed = s.landed[1:]
			return turn, false, s.answer(l.callID, &l.reply, true)
		}
		if len(s.flights) == 0 && s.req.Program.Session {
			s.session.lone = true // no call has this number, so the engine ends the cell
			return turn, false, s.answer(0, &agentkernel.Reply{}, true)
		}
		if len(s.flights) == 0 {
			return turn, false, fmt.Errorf("%w: it waits for results, but no async call is under way", errProtocol)
		}
		s.stage = stageWait
		return agentkernel.Turn{Kind: agentkernel.TurnWait}, true, nil
	case *montypb.Event_Complete:
		if s.fed < len(s.prog.feeds) {
			return turn, false, s.feedNext()
		}
		if s.req.Program.Session {
			return s.cellDone(resultJSON(k.Complete.GetValue(), s.req.Limits.Output))
		}
		s.stage = stageEnded
		return agentkernel.Turn{Kind: agentkernel.TurnExit, Result: resultJSON(k.Complete.GetValue(), s.req.Limits.Output)}, true, nil
	case *montypb.Event_Failed:
		turn, err = s.programFailed(k.Failed.GetException())
		if err == nil && s.req.Program.Session {
			turn, _ = s.cellFailed(turn)
		}
		return turn, true, err
	case *montypb.Event_FatalError:
		return turn, false, fmt.Errorf("%w: %s", errProtocol, clip.At(k.FatalError.GetMessage(), maxMessage))
	}
	return turn, false, fmt.Errorf("%w: %T at this point", errProtocol, ev.Kind)
}

// resultJSON is the value of the last expression; one that cannot cross the border, or is larger than what
// the program may print, is told as text, since nothing of what the program did is undone by it.
func resultJSON(val []byte, limit int64) json.RawMessage {
	out, err := []byte(nil), fmt.Errorf("it is larger than the output limit of %s", bytesize.InMiB(limit))
	if int64(len(val)) <= limit {
		out, err = appendJSON(nil, val)
	}
	if err != nil {
		out, _ = appendTagged(nil, "$repr", func(dst []byte) ([]byte, error) {
			return appendStringJSON(dst, []byte("<no result: "+err.Error()+">"))
		})
	}
	return out
}

// print hands on what the program printed, up to its limit of output.
func (s *sandbox) print(p *montypb.Print) (agentkernel.Turn, bool, error) {
	stream := "stdout"
	if p.GetStream() == 2 {
		stream = "stderr"
	}
	text, room := p.GetText(), s.req.Limits.Output-s.output
	over := int64(len(text)) > room
	if over {
		cut := int(max(room, 0))
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	s.output += int64(len(text))
	if text != "" && s.req.Output != nil {
		s.req.Output(stream, text)
	}
	if !over {
		return agentkernel.Turn{}, false, nil
	}
	s.stage = stageDead
	s.w.kill(errRetired)
	return failTurn(limitError("output", "the program printed more than its limit of %s", bytesize.InMiB(s.req.Limits.Output))), true, nil
}

var errSuspended = errors.New("the program was paused while it computed")

// Suspend ends the worker of a program that computes; see agentkernel.Suspender. The engine cannot be kept as it
// stands: its clock, by which it ends a program whose time is over, goes on while its process is stopped, and a worker
// belongs to whoever needs one next. A program that waits has no need to be stopped: nothing of it runs.
func (s *sandbox) Suspend(stop bool) error {
	s.mu.Lock()
	s.suspended = stop
	computes := s.inNext && !s.imaging // while its image is made it stands still
	s.mu.Unlock()
	if stop && computes {
		s.w.kill(errSuspended)
	}
	return nil
}

func (s *sandbox) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *sandbox) isSuspended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspended
}

// Running is the time that the program has spent executing, as the worker counts it, and that the host
// computed for it: waiting is left out.
func (s *sandbox) Running() time.Duration {
	return time.Duration(min(s.micros, uint64(1)<<52))*time.Microsecond + s.host
}

// Walls says what stands between the program and the machine.
func (s *sandbox) Walls() []agentkernel.Wall { return s.w.body.walls() }

// holdsMore says whether the worker holds more than so many bytes. Linux is not asked where it cannot.
func (s *sandbox) holdsMore(than int64) bool {
	if than >= maxIdleHeap && !s.large && s.Running()-s.loaded < growTime {
		return false
	}
	return s.w.heap() > than
}

// Close gives the worker back. A healthy one is wiped before it has another program.
func (s *sandbox) Close() error {
	s.mu.Lock()
	already, running := s.closed, s.inNext
	s.closed = true
	s.mu.Unlock()
	if already || s.w == nil {
		return nil
	}
	if running {
		s.w.kill(errClosed)
		return nil // Next gives the worker back
	}
	healthy := s.stage != stageDead && s.w.killedFor() == nil && !s.holdsMore(maxIdleHeap)
	if s.stage != stageFresh {
		s.w.soiled = true
	}
	s.stage = stageDead
	s.b.pool.release(s.w, healthy)
	return nil
}

// lost is the turn of a program whose worker has gone.
func lost(err error) agentkernel.Turn {
	if errors.Is(err, errSuspended) { // by a pause, for which it is not to blame
		return agentkernel.Turn{Kind: agentkernel.TurnLost}
	}
	return agentkernel.Turn{Kind: agentkernel.TurnLost, Err: agentkernel.AsError(err, agentkernel.CodeCrashed, "monty worker")}
}

// broken ends the sandbox after an error and says what it was in the kernel's words.
func (s *sandbox) broken(err error, ran time.Duration) (agentkernel.Turn, error) {
	s.stage = stageDead
	unready := s.w.owed > 0 // what happened was not the program's doing, which never began
	if e, ok := errors.AsType[*agentkernel.Error](err); ok && e.Code == agentkernel.CodeInternal {
		s.w.kill(err)
		return agentkernel.Turn{}, err
	}
	err = s.w.failed(err)
	switch {
	case errors.Is(err, errPoolClosed), errors.Is(err, errClosed):
		return agentkernel.Turn{}, errClosed
	case errors.Is(err, errSuspended):
		return agentkernel.Turn{Kind: agentkernel.TurnLost}, nil
	case errors.Is(err, errLost), unready && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return lost(err), nil
	case errors.Is(err, errLate):
		s.micros += uint64(max(ran, 0).Microseconds())
		return agentkernel.Turn{}, limitError("time", "the program ran longer than its limit of %s and did not stop when told", s.req.Limits.Time)
	case errors.Is(err, errOutOfMemory):
		return agentkernel.Turn{}, limitError("memory", "the program needed more memory than its limit of %s", bytesize.InMiB(s.req.Limits.Memory))
	}
	return agentkernel.Turn{}, err
}
