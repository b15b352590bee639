package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/userland/agent"
)

// talking is a kernel with a conversation, whose answers are what was said; "hang" has none until it is interrupted.
type talking struct {
	*fakeKernel
	spec  agentkernel.Spec
	state agentkernel.State
	fed   []string
	stops chan struct{}
	lost  error  // what Feed returns; nil: an answer
	note  string // why it is paused by what is said; "": it is not
}

func (k *talking) Spawn(_ context.Context, s agentkernel.Spec) (agentkernel.Process, error) {
	k.spec, k.state = s, agentkernel.StateWaiting
	return k.Process(context.Background(), 12)
}

func (k *talking) Process(context.Context, agentkernel.PID) (agentkernel.Process, error) {
	return agentkernel.Process{PID: 12, State: k.state, WaitsFor: []string{"proc.next"}}, nil
}

func (k *talking) Spec(context.Context, agentkernel.PID) (agentkernel.Spec, error) {
	return k.spec, nil
}

func (k *talking) Recover(context.Context, agentkernel.PID) ([]agentkernel.Process, error) {
	return nil, nil
}

func (k *talking) Journal(context.Context, agentkernel.PID, int64, int) ([]agentkernel.Entry, error) {
	return nil, nil
}

func (k *talking) Events(ctx context.Context, _ agentkernel.PID, _ int64, _ bool, _ func(agentkernel.Event) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func (k *talking) ModelUsage(context.Context, agentkernel.UsageQuery) (agentkernel.ModelUsage, error) {
	return agentkernel.ModelUsage{Total: agentkernel.UsageRow{USD: 1_500_000, Calls: int64(len(k.fed))}}, nil
}

func (k *talking) Feed(ctx context.Context, _ agentkernel.PID, p agentkernel.Cell, fn func(agentkernel.Event) error) (agentkernel.CellEnd, error) {
	k.fed = append(k.fed, p.Source)
	if k.lost != nil {
		return agentkernel.CellEnd{}, k.lost
	}
	var end agentkernel.CellEnd
	if strings.Contains(p.Source, "hang") {
		if err := fn(agentkernel.Event{Kind: agentkernel.EventOutput, PID: 12, Stream: "stderr", Text: fmt.Sprintf("hangs %d\n", len(k.fed))}); err != nil {
			return end, err
		}
		select {
		case <-k.stops:
			end.Error = agentkernel.Errorf(agentkernel.CodeInterrupted, "piece", "interrupted")
		case <-ctx.Done():
			return end, ctx.Err()
		}
	}
	end.Process, _ = k.Process(ctx, 12)
	end.Process.Paused, end.Process.PauseNote = k.note != "", k.note
	return end, fn(agentkernel.Event{Kind: agentkernel.EventOutput, PID: 12, Stream: "stdout", Text: p.Source + "\n"})
}

func (k *talking) EndSession(context.Context, agentkernel.PID) (agentkernel.Process, error) {
	k.state = agentkernel.StateExited
	return k.Process(context.Background(), 12)
}

func newTalk(t *testing.T) (*rig, *talking) {
	r := newRig(t)
	k := &talking{fakeKernel: r.kernel, stops: make(chan struct{}, 1)}
	r.any, r.env = k, []string{"AGENTKERNEL_MODELS=fast openai:gpt-5-mini"}
	r.kernel.signal = func(_ agentkernel.PID, s agentkernel.Signal) error {
		if s != agentkernel.SignalInterrupt {
			t.Errorf("it was sent %s", s)
		}
		k.stops <- struct{}{}
		return nil
	}
	return r, k
}

// Piped, each line is said, and the end of the lines ends the conversation. The answers alone are on standard output.
func TestChatPiped(t *testing.T) {
	r, k := newTalk(t)
	r.in = strings.NewReader("one\n\n/cost\ntwo \"quoted\"")
	if code := r.run("chat"); code != 0 || k.state != agentkernel.StateExited {
		t.Errorf("exit code %d, %s: %s", code, k.state, r.err.String())
	}
	want := "chat(\"one\", 1500000)\nchat(\"two \\\"quoted\\\"\", 1500000)\n"
	if r.out.String() != want {
		t.Errorf("%q, want %q", r.out.String(), want)
	}
	contains(t, "standard error", r.err.String(), "$0.0015 so far · calls to models: 1")
	if k.spec.Interactive || k.spec.Backend != "process" || !agent.Talks(&k.spec.Program) {
		t.Errorf("%+v", k.spec)
	}
}

// At a terminal Ctrl-C interrupts what is being done, and at the prompt it does nothing; a second one leaves the conversation as it is,
// also where the first had done what it does.
func TestChatInterrupted(t *testing.T) {
	r, k := newTalk(t)
	r.tty, r.inTTY, r.outTTY = io.NopCloser(strings.NewReader("")), true, true
	in, keyboard := io.Pipe()
	r.in = in
	go func() {
		<-r.err.sees("> ")
		r.signals <- os.Interrupt
		<-r.err.sees("Ctrl-C again leaves the conversation, Ctrl-D ends it\x1b[0m\n> ")
		fmt.Fprintln(keyboard, "hang")
		<-r.err.sees("hangs 1")
		r.signals <- os.Interrupt
		<-r.err.sees("interrupted: this is forgotten")
		fmt.Fprintln(keyboard, "/help")
		<-r.err.sees("ends the conversation, as Ctrl-D does")
		k.stops = make(chan struct{}) // nobody hears of it
		r.kernel.signal = func(agentkernel.PID, agentkernel.Signal) error { return nil }
		fmt.Fprintln(keyboard, "hang again")
		<-r.err.sees("hangs 2")
		r.signals <- os.Interrupt
		r.signals <- os.Interrupt
	}()
	if code := r.run("chat"); code != agentkernel.ExitInterrupted || k.state != agentkernel.StateWaiting {
		t.Errorf("exit code %d, %s", code, k.state)
	}
	contains(t, "standard error", r.err.String(), "left · go on: agentkernel chat --resume 12")
}

// A conversation is interrupted in milliseconds: the second Ctrl-C of a finger that presses twice meets the prompt.
func TestChatInterruptedTwice(t *testing.T) {
	for _, busy := range []bool{false, true} {
		r, k := newTalk(t)
		r.tty, r.inTTY, r.outTTY = io.NopCloser(strings.NewReader("")), true, true
		in, keyboard := io.Pipe()
		r.in = in
		left := make(chan struct{})
		go func() {
			<-r.err.sees("> ")
			first := "Ctrl-C again leaves the conversation"
			if busy {
				fmt.Fprintln(keyboard, "hang")
				<-r.err.sees("hangs 1")
				first = "interrupted: this is forgotten"
			}
			r.signals <- os.Interrupt
			<-r.err.sees(first)
			for { // as often as it takes: on a busy machine the second may come too late
				select {
				case r.signals <- os.Interrupt:
				case <-left:
					return
				}
			}
		}()
		code := r.run("chat")
		if close(left); code != agentkernel.ExitInterrupted || k.state != agentkernel.StateWaiting {
			t.Errorf("busy %t: exit code %d, %s", busy, code, k.state)
		}
		contains(t, "standard error", r.err.String(), "left · go on: agentkernel chat --resume 12")
		_ = keyboard.Close()
	}
}

// A conversation that is paused is continued by one command, and the line says so once.
func TestChatPaused(t *testing.T) {
	for note, want := range map[string]string{
		"by hand": "paused · pid 12 · by hand · continue: agentkernel chat --resume 12 · end it: agentkernel kill 12\n",
		"budget: the call costs 1 turn, and the budget of process 12 is 1 turn: spent 1 turn":                                                            "continue: agentkernel budget add 12 --turns 1, and agentkernel chat --resume 12 · end it: agentkernel kill 12\n",
		"budget: the call costs 1 turn, and the allowance of namespace team for the day is 1 turn: spent 1 turn; it begins anew at 2026-12-01 00:00 UTC": "then it goes on by itself, and agentkernel chat --resume 12 · end it: agentkernel kill 12\n",
	} {
		r, k := newTalk(t)
		r.in, k.note = strings.NewReader("one\n"), note
		if code := r.run("chat"); code != agentkernel.ExitInterrupted {
			t.Errorf("exit code %d: %s", code, r.err.String())
		}
		contains(t, "standard error", r.err.String(), want)
		if said := r.err.String(); strings.Count(said, "chat --resume") != 1 || strings.Contains(said, "left ·") || strings.Contains(said, "resume -f") {
			t.Errorf("it is said more than once: %s", said)
		}
	}
}

// A kernel that goes in the middle leaves the conversation, and the error says how it goes on. What is none, or has ended, does not.
func TestChatResumed(t *testing.T) {
	r, k := newTalk(t)
	r.in, k.lost = strings.NewReader("one\n"), agentkernel.Errorf(agentkernel.CodeUnavailable, "kernel", "the kernel went away")
	if code := r.run("chat"); code == 0 {
		t.Errorf("exit code %d", code)
	}
	contains(t, "standard error", r.err.String(), "agentkernel chat --resume 12")
	r.in, k.lost = strings.NewReader("two\n"), nil
	if code := r.run("chat", "--resume", "12"); code != 0 || !strings.HasSuffix(r.out.String(), "chat(\"two\", 1500000)\n") {
		t.Errorf("exit code %d: %s", code, r.err.String())
	}
	if code := r.run("chat", "--resume", "12"); code == 0 {
		t.Error("it goes on though it has ended")
	}
	contains(t, "standard error", r.err.String(), "conversation 12 has ended")
	k.spec.Program.Session = false
	if code := r.run("chat", "--resume", "12"); code == 0 {
		t.Error("another process is a conversation")
	}
	contains(t, "standard error", r.err.String(), "process 12 is no conversation")
}
