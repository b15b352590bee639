// Package hosted runs functions of a Go program as processes of a kernel: each has a PID, is seen by `agentkernel ps`, is paused,
// stopped and killed like any other, has limits, budgets and a journal. When the program dies, or the kernel, it runs the function
// again, and the calls that the function had made are answered from the journal. See docs/hosted.md.
package hosted

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"agentkernel"
)

// Kernel is what Run needs of one: package embedded has it, and package client.
type Kernel interface {
	agentkernel.Processes
	agentkernel.Hosted
}

// DefaultPatience is how long a function whose kernel has gone waits for another.
const DefaultPatience = 5 * time.Minute

// Runner runs functions as processes.
type Runner struct {
	Kernel   Kernel
	Patience time.Duration // 0: DefaultPatience
}

// Run is Runner.Run with the kernel k.
func Run(ctx context.Context, k Kernel, s agentkernel.Spec, program Program) (agentkernel.Process, error) {
	return Runner{Kernel: k}.Run(ctx, s, program)
}

// Program is a function that is a process. It makes all that has effects with p.Call, and does the same when it runs again. The
// context ends with the process; context.Cause says why. What it returns is the result, as JSON.
type Program func(ctx context.Context, p *Process) (any, error)

// Run creates the process that s describes, or finds the one that has its idempotency key, and runs program as it, to its end. s needs
// the name of a program and nothing else. A process that has ended already is returned, and program is not run. If ctx ends, program is
// stopped and the process waits for a host. The error says that the process could not be created, or has another host: how program
// ended is in the Process.
func (r Runner) Run(ctx context.Context, s agentkernel.Spec, program Program) (agentkernel.Process, error) {
	s.Backend = "hosted"
	created, err := r.Kernel.Spawn(ctx, s)
	if err != nil || created.State.Terminal() {
		return created, err
	}
	host, err := r.Kernel.Attach(ctx, created.PID, agentkernel.Attaching{})
	if err != nil {
		if now, gone := r.Kernel.Process(ctx, created.PID); gone == nil && now.State.Terminal() {
			return now, nil
		}
		return created, err
	}
	p := &Process{pid: created.PID, kernel: r.Kernel, patience: cmp.Or(r.Patience, DefaultPatience), host: host, unanswered: map[agentkernel.Place]*call{}}
	return p.run(ctx, program)
}

// Process is a process whose program is a function of this program.
type Process struct {
	pid      agentkernel.PID
	kernel   Kernel
	patience time.Duration

	mu         sync.Mutex
	host       agentkernel.Host
	unanswered map[agentkernel.Place]*call
}

// call is a call without an answer.
type call struct {
	agentkernel.HostedCall
	host agentkernel.Host // to which it was issued last
	wait agentkernel.Awaited
}

// PID is that of the process.
func (p *Process) PID() agentkernel.PID { return p.pid }

// laneKey is the key of the lane in a context.
type laneKey struct{}

// lane is what runs one after the other.
type lane struct {
	name string

	mu       sync.Mutex
	calls    int64
	branches int
}

// Branch returns a context for what runs beside the caller: a goroutine. The calls of the two come in any order, and are told apart
// when the program runs again. It is called where the goroutine is started, and not in it.
func Branch(ctx context.Context) context.Context {
	l, ok := ctx.Value(laneKey{}).(*lane)
	if !ok {
		return ctx
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.branches++
	name := strconv.Itoa(l.branches)
	if l.name != "" {
		name = l.name + "." + name
	}
	return context.WithValue(ctx, laneKey{}, &lane{name: name})
}

// errNoProgram is that of a call with a context which is not the program's.
var errNoProgram = agentkernel.Errorf(agentkernel.CodeInvalid, "host", "the context is not one that the program was given")

// Call makes a syscall with args, which are encoded as a JSON object (nil: none), and decodes its result to into, unless that is nil.
// ctx is that of the program, or comes from it.
func (p *Process) Call(ctx context.Context, op string, args, into any) error {
	raw := json.RawMessage("{}")
	if args != nil {
		var err error
		if raw, err = json.Marshal(args); err != nil {
			return agentkernel.Errorf(agentkernel.CodeInvalid, op, "arguments: %w", err)
		}
	}
	l, ok := ctx.Value(laneKey{}).(*lane)
	if !ok {
		return errNoProgram
	}
	result, err := p.await(ctx, p.issue(l, op, raw))
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(result, into); err != nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, op, "the result is not what was expected: %w", err)
	}
	return nil
}

func (p *Process) issue(l *lane, op string, args json.RawMessage) *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &call{HostedCall: agentkernel.HostedCall{Place: agentkernel.Place{Lane: l.name, N: l.calls}, Op: op, Args: args}}
	p.unanswered[c.Place] = c
	c.host, c.wait = p.host, p.host.Issue(c.HostedCall)
	return c
}

// await waits for the result of a call, over the ends of kernels.
func (p *Process) await(ctx context.Context, c *call) (json.RawMessage, error) {
	for {
		p.mu.Lock()
		host, wait := c.host, c.wait
		p.mu.Unlock()
		result, err := wait(ctx)
		if err == nil || ctx.Err() != nil || !lost(host) {
			p.mu.Lock()
			delete(p.unanswered, c.Place)
			p.mu.Unlock()
			if err != nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return result, err
		}
		if err := p.reattached(ctx, host); err != nil {
			return nil, err
		}
	}
}

// lost says that an attachment is over as its kernel, or the connection, has gone: another may follow.
func lost(h agentkernel.Host) bool {
	select {
	case <-h.Done():
	default:
		return false
	}
	switch agentkernel.CodeOf(h.Err()) {
	case agentkernel.CodeUnavailable, agentkernel.CodeTimeout, agentkernel.CodeStorage:
		return true
	}
	return false
}

// reattached waits until an attachment has followed one that was lost.
func (p *Process) reattached(ctx context.Context, old agentkernel.Host) error {
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		p.mu.Lock()
		done := p.host != old
		p.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run runs the program, and attaches again as long as there is a kernel.
func (p *Process) run(ctx context.Context, program Program) (agentkernel.Process, error) {
	defer func() { _ = p.current().Close() }()
	inside, stop := context.WithCancelCause(context.WithValue(ctx, laneKey{}, &lane{}))
	defer stop(nil)
	returned := make(chan agentkernel.HostedEnd, 1)
	go func() { returned <- end(program(inside, p)) }()
	over := make(chan error, 1)
	go func() { over <- p.watch(ctx) }()
	var e agentkernel.HostedEnd
	select {
	case e = <-returned:
		if ctx.Err() == nil {
			return p.finish(ctx, e, over)
		}
	case err := <-over:
		stop(err)
		<-returned
		switch {
		case errors.Is(err, errEnded):
			return p.kernel.Process(ctx, p.pid)
		case ctx.Err() == nil:
			return agentkernel.Process{PID: p.pid}, err
		}
	}
	return agentkernel.Process{PID: p.pid}, agentkernel.Errorf(agentkernel.CodeCanceled, "host", "%w", ctx.Err()).WithPID(p.pid)
}

// errEnded is the cause with which the context of a program ends whose process has ended.
var errEnded = agentkernel.Errorf(agentkernel.CodeKilled, "host", "the process has ended")

func (p *Process) current() agentkernel.Host {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.host
}

// watch attaches again when an attachment is lost. It returns errEnded when the process has ended, or why it has no host any more.
func (p *Process) watch(ctx context.Context) error {
	for {
		host := p.current()
		select {
		case <-host.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
		switch err := host.Err(); {
		case err == nil:
			return errEnded
		case !lost(host):
			return err
		}
		if err := p.attachAgain(ctx, host); err != nil {
			return err
		}
	}
}

// attachAgain follows an attachment that was lost, and issues again what has no answer.
func (p *Process) attachAgain(ctx context.Context, old agentkernel.Host) error {
	until := time.Now().Add(p.patience)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		host, err := p.kernel.Attach(ctx, p.pid, agentkernel.Attaching{Epoch: old.Attached().Epoch})
		if err == nil {
			p.reissue(host)
			return nil
		}
		switch agentkernel.CodeOf(err) {
		case agentkernel.CodeFenced, agentkernel.CodeInvalid, agentkernel.CodeNotFound:
			return err
		case agentkernel.CodeConflict:
			if now, gone := p.kernel.Process(ctx, p.pid); gone == nil && now.State.Terminal() {
				return errEnded
			}
		}
		if time.Now().After(until) {
			return agentkernel.Errorf(agentkernel.CodeUnavailable, "host", "no kernel came back within %s: %w", p.patience, err).WithPID(p.pid)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *Process) reissue(host agentkernel.Host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.host = host
	var calls []*call
	for _, c := range p.unanswered {
		calls = append(calls, c)
	}
	slices.SortFunc(calls, func(a, b *call) int { return cmp.Compare(a.N, b.N) })
	for _, c := range calls {
		c.host, c.wait = host, host.Issue(c.HostedCall)
	}
}

// finish ends the process as the program did.
func (p *Process) finish(ctx context.Context, e agentkernel.HostedEnd, over chan error) (agentkernel.Process, error) {
	for {
		host := p.current()
		done, err := host.End(ctx, e)
		switch {
		case err == nil:
			return done, nil
		case agentkernel.CodeOf(err) == agentkernel.CodeInvalid: // the result is no JSON that a process may have
			e = agentkernel.HostedEnd{Error: &agentkernel.HostedError{Message: err.Error()}}
			continue
		case ctx.Err() != nil:
			return agentkernel.Process{PID: p.pid}, err
		case !lost(host):
		default:
			again, stop := context.WithCancel(ctx)
			go func() {
				select {
				case err := <-over:
					over <- err
					stop()
				case <-again.Done():
				}
			}()
			err := p.reattached(again, host)
			stop()
			if err == nil {
				continue
			}
		}
		select {
		case err = <-over:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if errors.Is(err, errEnded) { // before the answer came
			return p.kernel.Process(ctx, p.pid)
		}
		return agentkernel.Process{PID: p.pid}, err
	}
}

// end says how a program ended.
func end(result any, err error) agentkernel.HostedEnd {
	var raw json.RawMessage
	if err == nil {
		raw, err = json.Marshal(result)
	}
	if err != nil {
		return agentkernel.HostedEnd{Error: &agentkernel.HostedError{Message: err.Error()}}
	}
	return agentkernel.HostedEnd{Result: raw}
}
