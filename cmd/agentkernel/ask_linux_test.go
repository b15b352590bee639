package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
)

// openPTY returns both ends of a new pseudo-terminal.
func openPTY(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this machine has no pseudo-terminals:", err)
	}
	fd := int(keyboard.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = tty.Close(), keyboard.Close() })
	return keyboard, tty
}

// types writes a line at the keyboard and returns when it waits at the terminal.
func types(t *testing.T, keyboard, tty *os.File, line string) {
	t.Helper()
	if _, err := keyboard.WriteString(line); err != nil {
		t.Error(err)
	}
	fds := []unix.PollFd{{Fd: int32(tty.Fd()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 10_000)
		if err == unix.EINTR {
			continue
		}
		if n != 1 {
			t.Errorf("the line did not come to the terminal: %v", err)
		}
		return
	}
}

// A program prints a question of its own, and makes its call when that was answered. The kernel's question waits for a
// line that is typed after it.
func TestAnswerToSomethingElse(t *testing.T) {
	keyboard, tty := openPTY(t)
	r := newRig(t)
	r.tty = tty
	answered := make(chan agentkernel.Answer, 1)
	r.kernel.answer = func(_ int64, a agentkernel.Answer) error { answered <- a; return nil }
	var got agentkernel.Answer
	r.kernel.run = func(_ context.Context, _ agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
		types(t, keyboard, tty, "y\n")
		a := ask(1, "fs.write")
		if err := fn(agentkernel.Event{Kind: agentkernel.EventAsk, PID: 12, Ask: &a}); err != nil {
			return agentkernel.Process{}, err
		}
		<-r.err.sees("[N]o ")
		if _, err := keyboard.WriteString("n\n"); err != nil {
			t.Error(err)
		}
		got = <-answered
		return exitedProcess, nil
	}
	if code := r.run("run", "-c", "x"); code != 0 || got != agentkernel.AnswerNo {
		t.Errorf("exit code %d, answered %q: %s", code, got, r.err.String())
	}
}

// A question that somebody else has answered is not asked any more: who looks at it is told what was answered, and is asked the next one.
func TestAnsweredWhileShown(t *testing.T) {
	for said, call := range map[string]agentkernel.Entry{
		"was answered elsewhere: yes": {Kind: agentkernel.EntryCall, Call: 1},
		"was answered elsewhere: no":  {Kind: agentkernel.EntryCall, Call: 1, Done: true, Err: agentkernel.Errorf(agentkernel.CodeDenied, "fs.write", "was not allowed")},
		"is not asked any more: a signal asked it to stop": {Kind: agentkernel.EntryCall, Call: 1, Done: true,
			Err: agentkernel.Errorf(agentkernel.CodeInterrupted, "fs.write", "a signal asked it to stop")},
	} {
		keyboard, tty := openPTY(t)
		r := newRig(t)
		r.tty = tty
		r.kernel.entries = []agentkernel.Entry{call}
		var calls atomic.Int64
		r.kernel.process = func(agentkernel.PID) (agentkernel.Process, error) { // it asks about the same tool again, at once
			return agentkernel.Process{PID: 12, WaitsFor: []string{agentkernel.YourAnswer + "fs.write"}, Usage: agentkernel.Usage{Syscalls: calls.Add(1)}}, nil
		}
		answered := make(chan int64, 1)
		r.kernel.answer = func(ask int64, _ agentkernel.Answer) error { answered <- ask; return nil }
		r.kernel.run = func(_ context.Context, _ agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
			told := r.err.sees("fs.write(...) " + said)
			for id, name := range []string{1: "fs.write", 2: "fs.remove"} {
				if a := ask(int64(id), name); id > 0 {
					if err := fn(agentkernel.Event{Kind: agentkernel.EventAsk, PID: 12, Ask: &a}); err != nil {
						return agentkernel.Process{}, err
					}
				}
			}
			<-told
			<-r.err.sees("fs.remove(")
			if _, err := keyboard.WriteString("n\n"); err != nil {
				t.Error(err)
			}
			if id := <-answered; id != 2 {
				t.Errorf("question %d was answered", id)
			}
			return exitedProcess, nil
		}
		if code := r.run("run", "-c", "x"); code != 0 {
			t.Errorf("exit code %d: %s", code, r.err.String())
		}
	}
}

// So it is where a tools file is accepted, which starts commands: the answer that waits is none.
func TestAnswerTypedAhead(t *testing.T) {
	keyboard, tty := openPTY(t)
	types(t, keyboard, tty, "y\n")
	var shown screen
	a := &app{con: console.New(console.Config{Out: &shown, Err: &shown, ErrTTY: true})}
	go func() {
		<-shown.sees("sure? ")
		_, _ = keyboard.WriteString("n\n")
	}()
	if line, err := a.human(tty).ask("sure? "); err != nil || line != "n\n" {
		t.Errorf("%q, %v", line, err)
	}
}
