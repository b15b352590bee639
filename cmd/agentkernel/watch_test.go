package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"agentkernel"
)

var (
	pausedProcess = agentkernel.Process{PID: 12, State: agentkernel.StateWaiting, Paused: true}
	killedProcess = agentkernel.Process{PID: 12, State: agentkernel.StateKilled, ExitCode: 137,
		Error: agentkernel.Errorf(agentkernel.CodeKilled, "kill", "killed by a signal")}
	exitedProcess = agentkernel.Process{PID: 12, State: agentkernel.StateExited, Result: json.RawMessage(`{"$tuple":[1,2]}`)}
)

func TestFirstCtrlCPauses(t *testing.T) {
	r := newRig(t)
	r.program([]agentkernel.Event{created(12), output("stdout", "working\n")}, map[agentkernel.Signal]agentkernel.Process{agentkernel.SignalPause: pausedProcess})
	ready := r.out.sees("working")
	go func() { <-ready; r.signals <- os.Interrupt }()
	if code := r.run("run", "-c", "x"); code != agentkernel.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
	contains(t, "stderr", r.err.String(), "interrupting process 12 …\n",
		"paused · pid 12 · continue: agentkernel resume -f 12 · end it: agentkernel kill 12")
}

func TestSecondCtrlCKills(t *testing.T) {
	r := newRig(t)
	r.program([]agentkernel.Event{created(12), output("stdout", "working\n")}, map[agentkernel.Signal]agentkernel.Process{agentkernel.SignalKill: killedProcess})
	ready, interrupted := r.out.sees("working"), r.err.sees("interrupting process 12")
	go func() {
		<-ready
		r.signals <- os.Interrupt
		<-interrupted
		r.signals <- os.Interrupt
	}()
	if code := r.run("run", "-c", "x"); code != agentkernel.ExitKilled {
		t.Errorf("exit code %d", code)
	}
	contains(t, "stderr", r.err.String(), "killing process 12", "error: killed by a signal", "killed · ")
}

// paused is a kernel whose process is paused until it is killed.
type paused struct {
	*fakeKernel
	killed atomic.Bool
}

func (k *paused) Process(context.Context, agentkernel.PID) (agentkernel.Process, error) {
	if k.killed.Load() {
		return killedProcess, nil
	}
	return pausedProcess, nil
}

// A program pauses long before a finger comes down again: the second Ctrl-C kills what is paused by then.
func TestSecondCtrlCKillsWhatHasPaused(t *testing.T) {
	for _, tty := range []bool{true, false} {
		r := newRig(t)
		if tty {
			r.tty = io.NopCloser(strings.NewReader(""))
		}
		r.program([]agentkernel.Event{created(12), output("stdout", "working\n")}, map[agentkernel.Signal]agentkernel.Process{agentkernel.SignalPause: pausedProcess})
		k := &paused{fakeKernel: r.kernel}
		r.any = k
		pauses, send := make(chan struct{}), r.kernel.signal
		r.kernel.signal = func(pid agentkernel.PID, s agentkernel.Signal) error {
			if s == agentkernel.SignalKill {
				k.killed.Store(true)
				return nil
			}
			defer close(pauses)
			if !tty { // nobody promises to wait where nobody is: this one comes before the pause
				r.signals <- os.Interrupt
				<-r.err.sees("killing process 12")
			}
			return send(pid, s)
		}
		ready := r.out.sees("working")
		go func() {
			<-ready
			r.signals <- os.Interrupt
			if <-pauses; tty {
				r.signals <- os.Interrupt
			}
		}()
		if code := r.run("run", "-c", "x"); code != agentkernel.ExitKilled {
			t.Errorf("tty %t: exit code %d", tty, code)
		}
		said := r.err.String()
		contains(t, "stderr", said, "killing process 12", "killed · ")
		if strings.Contains(said, "paused · ") || strings.Contains(said, "Ctrl-C again") != tty {
			t.Errorf("tty %t: %s", tty, said)
		}
	}
}

func TestThirdCtrlCLeaves(t *testing.T) {
	r := newRig(t)
	r.program([]agentkernel.Event{created(12), output("stdout", "working\n")}, nil)
	ready, killing := r.out.sees("working"), r.err.sees("killing process 12")
	go func() {
		<-ready
		r.signals <- os.Interrupt
		r.signals <- os.Interrupt
		<-killing
		r.signals <- os.Interrupt
	}()
	if code := r.run("run", "-c", "x"); code != agentkernel.ExitKilled {
		t.Errorf("exit code %d", code)
	}
	contains(t, "stderr", r.err.String(), "left · process 12 may go on · see: agentkernel ps")
}

func TestCtrlCBeforeTheProcessIsKnown(t *testing.T) {
	r := newRig(t)
	r.program(nil, nil)
	r.signals <- os.Interrupt
	if code := r.run("run", "-c", "x"); code != agentkernel.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
	contains(t, "stderr", r.err.String(), "interrupted before the process was known")
}

func TestCtrlCJustBeforeTheProcessIsKnown(t *testing.T) {
	r := newRig(t)
	p := agentkernel.Process{PID: 12, State: agentkernel.StateExited}
	r.program([]agentkernel.Event{created(12)}, map[agentkernel.Signal]agentkernel.Process{agentkernel.SignalPause: p})
	run := r.kernel.run
	r.kernel.run = func(ctx context.Context, s agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
		for len(r.signals) > 0 {
			runtime.Gosched()
		}
		return run(ctx, s, fn)
	}
	r.signals <- os.Interrupt
	if code := r.run("run", "-c", "x"); code != agentkernel.ExitOK {
		t.Errorf("exit code %d", code)
	}
	contains(t, "stderr", r.err.String(), "interrupting process 12")
}

func TestSIGTERMLeavesTheProcessRunning(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		r := newRig(t)
		r.program([]agentkernel.Event{created(12), output("stdout", "working\n")}, nil)
		r.kernel.signal = func(_ agentkernel.PID, s agentkernel.Signal) error {
			t.Errorf("the process was sent %s", s)
			return nil
		}
		ready := r.out.sees("working")
		go func() { <-ready; r.signals <- s }()
		if code := r.run("run", "-c", "x"); code != exitTerminated {
			t.Errorf("%s: exit code %d", s, code)
		}
		contains(t, "stderr", r.err.String(), "detached · process 12 goes on · follow: agentkernel logs -f 12")
	}
}

func TestSIGTERMPausesWhatHasNoOtherKernel(t *testing.T) {
	r := newRig(t)
	r.program([]agentkernel.Event{created(12), output("stdout", "working\n")}, map[agentkernel.Signal]agentkernel.Process{agentkernel.SignalPause: pausedProcess})
	ready := r.out.sees("working")
	go func() { <-ready; r.signals <- syscall.SIGTERM }()
	if code := r.run("run", "--embedded", "-c", "x"); code != exitTerminated {
		t.Errorf("exit code %d", code)
	}
	contains(t, "stderr", r.err.String(), "paused · pid 12 · continue: agentkernel resume -f 12")
}

// asking is a program that asks and ends when all is answered; it gives the answers.
func (r *rig) asking(asks ...agentkernel.Ask) (answers map[int64]agentkernel.Answer, interactive *bool) {
	answers, interactive = map[int64]agentkernel.Answer{}, new(bool)
	got := make(chan struct{}, len(asks))
	r.kernel.answer = func(id int64, a agentkernel.Answer) error { answers[id] = a; got <- struct{}{}; return nil }
	r.kernel.run = func(_ context.Context, s agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
		*interactive = s.Interactive
		if err := fn(created(12)); err != nil {
			return agentkernel.Process{}, err
		}
		if s.Interactive {
			for _, a := range asks {
				if err := fn(agentkernel.Event{Kind: agentkernel.EventAsk, PID: 12, Ask: &a}); err != nil {
					return agentkernel.Process{}, err
				}
			}
			for range asks {
				<-got
			}
		}
		return exitedProcess, nil
	}
	return answers, interactive
}

func ask(id int64, call string) agentkernel.Ask {
	return agentkernel.Ask{ID: id, Call: call, Pattern: call, Effect: agentkernel.EffectWrite, Args: json.RawMessage(`{"path":"/x","content":"y"}`)}
}

func TestQuestions(t *testing.T) {
	const yes, no = agentkernel.AnswerYes, agentkernel.AnswerNo
	cases := []struct {
		name, typed string
		asks        []agentkernel.Ask
		want        []agentkernel.Answer
		says        string
	}{
		{"yes is once", "y\nn\n", []agentkernel.Ask{ask(1, "fs.write"), ask(2, "fs.write")}, []agentkernel.Answer{yes, no}, ""},
		{"always is not asked again", "always\ny\n", []agentkernel.Ask{ask(1, "fs.write"), ask(2, "fs.write"), ask(3, "fs.move")}, []agentkernel.Answer{yes, yes, yes}, ""},
		{"an empty line is no", "\n", []agentkernel.Ask{ask(1, "fs.write")}, []agentkernel.Answer{no}, ""},
		{"anything else is asked again", "perhaps\nYES\n", []agentkernel.Ask{ask(1, "fs.write")}, []agentkernel.Answer{yes}, "please answer y, a or n"},
		{"the end of the terminal is no", "", []agentkernel.Ask{ask(1, "fs.write")}, []agentkernel.Answer{no}, ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.tty = io.NopCloser(strings.NewReader(tc.typed))
			answers, _ := r.asking(tc.asks...)
			if code := r.run("run", "-c", "x"); code != 0 {
				t.Errorf("exit code %d", code)
			}
			for i, want := range tc.want {
				if got := answers[tc.asks[i].ID]; got != want {
					t.Errorf("question %d: answered %q, want %q", i+1, got, want)
				}
			}
			contains(t, "stderr", r.err.String(), tc.says, `fs.write(path="/x", content="y") changes things (write). Allow? [y]es once, [a]lways for this run, [N]o`)
		})
	}
}

// Two terminals may show one question. Who answers second is told that it did not count.
func TestAnsweredElsewhere(t *testing.T) {
	r := newRig(t)
	r.tty = io.NopCloser(strings.NewReader("n\ny\n"))
	r.asking(ask(1, "fs.write"), ask(2, "fs.move"))
	answered := r.kernel.answer
	r.kernel.answer = func(id int64, a agentkernel.Answer) error {
		if err := answered(id, a); err != nil || id != 1 {
			return err
		}
		return agentkernel.Errorf(agentkernel.CodeNotFound, "answer", "question 1 is not open")
	}
	if code := r.run("run", "-c", "x"); code != 0 {
		t.Errorf("exit code %d", code)
	}
	contains(t, "stderr", r.err.String(), "the answer came too late: fs.write(...) was decided elsewhere, or is not asked any more")
}

func TestNobodyToAsk(t *testing.T) {
	r := newRig(t)
	_, interactive := r.asking(ask(1, "fs.write"))
	if code := r.run("run", "-c", "x"); code != 0 || *interactive {
		t.Errorf("exit code %d, interactive %v", code, *interactive)
	}
}

func TestRunJSON(t *testing.T) {
	end := exitedProcess
	end.Backend, end.Usage.Syscalls, end.ExitCode = "monty", 3, 4
	failed := agentkernel.Process{PID: 12, State: agentkernel.StateFailed, ExitCode: 1, Backend: "monty",
		Error: &agentkernel.Error{Code: agentkernel.CodeProgram, Err: errors.New("ValueError: no"), Exception: "ValueError", Traceback: "Traceback..."}}
	cases := []struct {
		name   string
		events []agentkernel.Event
		end    agentkernel.Process
		err    error
		code   int
		want   map[string]any
	}{
		{"exited", []agentkernel.Event{created(12), output("stdout", "a\n"), output("stderr", "b\n"), output("stdout", "c\n")}, end, nil, 4,
			map[string]any{"pid": 12.0, "state": "exited", "stdout": "a\nc\n", "stderr": "b\n", "result": []any{1.0, 2.0}, "error": nil, "syscalls": 3.0, "backend": "monty", "exit_code": 4.0}},
		{"failed", []agentkernel.Event{created(12)}, failed, nil, 1,
			map[string]any{"pid": 12.0, "state": "failed", "result": nil, "exit_code": 1.0}},
		{"refused", nil, agentkernel.Process{}, agentkernel.Errorf(agentkernel.CodeSyntax, "python", "line 1: no"), 2,
			map[string]any{"pid": nil, "state": "refused", "result": nil, "exit_code": 2.0}},
		{"paused", []agentkernel.Event{created(12)}, pausedProcess, nil, 130,
			map[string]any{"pid": 12.0, "state": "paused", "exit_code": 130.0}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.kernel.run = func(_ context.Context, _ agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
				for _, e := range tc.events {
					if err := fn(e); err != nil {
						return agentkernel.Process{}, err
					}
				}
				return tc.end, tc.err
			}
			if code := r.run("run", "--json", "-c", "x"); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			var got map[string]any
			if err := json.Unmarshal([]byte(r.out.String()), &got); err != nil || strings.Count(r.out.String(), "\n") != 1 {
				t.Fatalf("not one object on one line (%v): %s", err, r.out.String())
			}
			for _, key := range []string{"pid", "state", "result", "stdout", "stderr", "error", "duration_ms", "syscalls", "backend", "exit_code"} {
				if _, ok := got[key]; !ok {
					t.Errorf("no key %q", key)
				}
			}
			for key, want := range tc.want {
				if g, _ := json.Marshal(got[key]); string(g) != string(mustJSON(want)) {
					t.Errorf("%s is %s, want %s", key, g, mustJSON(want))
				}
			}
			if (got["error"] != nil) != (tc.err != nil || tc.end.Error != nil) {
				t.Errorf("error is %v", got["error"])
			}
			if r.err.String() != "" {
				t.Errorf("stderr is not empty: %s", r.err.String())
			}
		})
	}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func TestAFailureShowsTracebackThenReceipt(t *testing.T) {
	r := newRig(t)
	r.kernel.info.Unfinished = 3
	r.kernel.run = func(_ context.Context, _ agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
		return agentkernel.Process{PID: 12, State: agentkernel.StateFailed, ExitCode: 1, Error: &agentkernel.Error{Code: agentkernel.CodeTool,
			Err: errors.New("no such file"), Hint: "look again", Traceback: "Traceback (most recent call last):\n  line 1\nToolError: tool_error: no such file\n"}}, nil
	}
	if code := r.run("run", "-c", "x"); code != 1 {
		t.Errorf("exit code %d", code)
	}
	text := r.err.String()
	at := 0
	for _, part := range []string{"Traceback (most recent call last):", "error: no such file\n", "hint: look again\n", "failed · ", "3 unfinished: agentkernel recover"} {
		i := strings.Index(text[at:], part)
		if i < 0 {
			t.Fatalf("%q is not there, or not in its place:\n%s", part, text)
		}
		at += i
	}
}

func TestALostKernelSaysWhereTheProcessStands(t *testing.T) {
	r := newRig(t)
	r.kernel.run = func(_ context.Context, _ agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
		if err := fn(created(12)); err != nil {
			return agentkernel.Process{}, err
		}
		return agentkernel.Process{}, agentkernel.Errorf(agentkernel.CodeUnavailable, "run", "the kernel is gone")
	}
	if code := r.run("run", "-c", "x"); code != agentkernel.ExitUnavailable {
		t.Errorf("exit code %d", code)
	}
	contains(t, "stderr", r.err.String(), "error: the kernel is gone", "agentkernel recover 12")
}

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestAReaderThatGoesDoesNotEndTheProcess(t *testing.T) {
	r := newRig(t)
	r.outTo = gone{}
	shown := 0
	r.kernel.run = func(_ context.Context, _ agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
		for range 5 {
			if err := fn(output("stdout", "x\n")); err != nil {
				return agentkernel.Process{}, err
			}
			shown++
		}
		return exitedProcess, nil
	}
	if code := r.run("run", "-c", "x"); code != 0 || shown != 5 {
		t.Errorf("exit code %d after %d outputs", code, shown)
	}
}

// A reader that has seen enough, as head has, is no error: the same with all commands that print.
func TestCommandsAreQuietWhenTheirReaderHasGone(t *testing.T) {
	p := agentkernel.Process{PID: 12, Name: "x", State: agentkernel.StateExited}
	for _, args := range [][]string{
		{"ps", "-a"}, {"ps", "--json"}, {"inspect", "12"}, {"trace", "12"}, {"trace", "12", "--full"}, {"logs", "12"}, {"logs", "-f", "12"}, {"logs", "12", "--log"},
		{"logs", "12", "--json"}, {"why", "12"}, {"wait", "12"},
	} {
		r := newRig(t)
		r.outTo = gone{}
		r.any = &evilKernel{fakeKernel{list: []agentkernel.Process{p}}}
		if code := r.run(args...); code != 0 || strings.Contains(r.err.String(), "error: ") {
			t.Errorf("%v: exit code %d, %q", args, code, r.err.String())
		}
	}
}

func TestExitCodes(t *testing.T) {
	failed := func(c agentkernel.Code) agentkernel.Process {
		return agentkernel.Process{State: agentkernel.StateFailed, Error: agentkernel.Errorf(c, "", "x")}
	}
	cases := []struct {
		name string
		p    agentkernel.Process
		want int
	}{
		{"exited", agentkernel.Process{State: agentkernel.StateExited}, 0},
		{"its own code", agentkernel.Process{State: agentkernel.StateExited, ExitCode: 3}, 3},
		{"raised", failed(agentkernel.CodeProgram), 1},
		{"permission", failed(agentkernel.CodeDenied), 77},
		{"time limit", agentkernel.Process{State: agentkernel.StateKilled, ExitCode: 124}, 124},
		{"killed", agentkernel.Process{State: agentkernel.StateKilled, ExitCode: 137}, 137},
		{"killed, without a code", agentkernel.Process{State: agentkernel.StateKilled}, 137},
		{"failed, without anything", agentkernel.Process{State: agentkernel.StateFailed}, 1},
		{"paused", agentkernel.Process{State: agentkernel.StateReady, Paused: true}, 130},
	}
	for _, tc := range cases {
		if got := exitOf(tc.p); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// A question of a process below is shown with who asks, and answered there. "Always" is for all of them; the kernel is told yes each time, so that
// nothing is allowed any more when this command has ended.
func TestQuestionsFromBelow(t *testing.T) {
	r := newRig(t)
	r.tty = io.NopCloser(strings.NewReader("y\na\n"))
	r.kernel.list = []agentkernel.Process{{PID: 14, Name: "program-1.py"}, {PID: 15, Name: "odd\x1b[2J name"}}
	got := make(chan agentkernel.Answer, 4)
	r.kernel.answer = func(_ int64, a agentkernel.Answer) error { got <- a; return nil }
	r.kernel.run = func(_ context.Context, _ agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
		if err := fn(created(12)); err != nil {
			return agentkernel.Process{}, err
		}
		for _, pid := range []agentkernel.PID{14, 15, 16} {
			q := ask(1, "fs.write")
			if err := fn(agentkernel.Event{Kind: agentkernel.EventAsk, PID: pid, Ask: &q}); err != nil {
				return agentkernel.Process{}, err
			}
		}
		for _, want := range []agentkernel.Answer{agentkernel.AnswerYes, agentkernel.AnswerYes, agentkernel.AnswerYes} {
			if a := <-got; a != want {
				t.Errorf("answered %s, want %s", a, want)
			}
		}
		return exitedProcess, nil
	}
	if code := r.run("run", "-c", "x"); code != 0 || !slices.Equal(r.kernel.toldOf, []agentkernel.PID{14, 15, 16}) {
		t.Errorf("exit code %d, told %v", code, r.kernel.toldOf)
	}
	contains(t, "the questions", r.err.String(), "process 14 (program-1.py): fs.write(", `process 15 ("odd\x1b[2J name"): fs.write(`)
}

// A process that was paused at a question is not resumed where nobody is asked: the answer would be no.
func TestResumeAtAQuestionNeedsATerminal(t *testing.T) {
	for _, args := range [][]string{{"resume", "12"}, {"resume", "-f", "12"}} {
		r := newRig(t)
		p := pausedProcess
		p.WaitsFor = []string{agentkernel.YourAnswer + "demo.add"}
		r.kernel.list = []agentkernel.Process{p}
		r.kernel.signal = func(agentkernel.PID, agentkernel.Signal) error {
			t.Error("it was resumed")
			return nil
		}
		if code := r.run(args...); code != agentkernel.ExitFailed {
			t.Errorf("exit code %d", code)
		}
		contains(t, "stderr", r.err.String(), "process 12 waits for your answer whether it may call demo.add", "`agentkernel resume -f 12` asks again")
	}
}

// leftAtAQuestion is a kernel that took over a process which was paused at a question.
type leftAtAQuestion struct {
	*fakeKernel
	t        *testing.T
	attached bool
	resumed  chan struct{}
	answered chan agentkernel.Answer
	taken    bool
}

func (k *leftAtAQuestion) Recover(context.Context, agentkernel.PID) ([]agentkernel.Process, error) {
	k.taken = true
	return k.list, nil
}

func (k *leftAtAQuestion) Events(ctx context.Context, pid agentkernel.PID, _ int64, _ bool, fn func(agentkernel.Event) error) error {
	if !k.taken {
		return agentkernel.Errorf(agentkernel.CodeConflict, "events", "no kernel runs it")
	}
	k.attached = true
	for _, ev := range []agentkernel.Event{created(pid), {Kind: agentkernel.EventState, PID: pid, Seq: 1, Process: &k.list[0]}} {
		if err := fn(ev); err != nil {
			return err
		}
	}
	select {
	case <-k.resumed:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := fn(agentkernel.Event{Kind: agentkernel.EventAsk, PID: pid, Seq: 1, Ask: &agentkernel.Ask{ID: 3, Call: "demo.add", Effect: agentkernel.EffectWrite}}); err != nil {
		return err
	}
	if a := <-k.answered; a != agentkernel.AnswerYes {
		k.t.Errorf("the answer is %s", a)
	}
	k.fakeKernel.list[0] = agentkernel.Process{PID: pid, State: agentkernel.StateExited} // nobody looks whether it was answered any more
	return fn(agentkernel.Event{Kind: agentkernel.EventEnd, PID: pid, Seq: 2, Process: &k.fakeKernel.list[0]})
}

// A process that was paused at a question when its kernel ended asks again, so whoever resumes it has to be there first.
func TestResumeIsThereBeforeTheQuestion(t *testing.T) {
	r := newRig(t)
	r.tty = io.NopCloser(strings.NewReader("y\n"))
	k := &leftAtAQuestion{fakeKernel: r.kernel, t: t, resumed: make(chan struct{}), answered: make(chan agentkernel.Answer, 1)}
	r.kernel.list, r.any = []agentkernel.Process{pausedProcess}, k
	r.kernel.signal = func(_ agentkernel.PID, s agentkernel.Signal) error {
		if s != agentkernel.SignalResume || !k.attached {
			t.Errorf("%s; attached %t", s, k.attached)
		}
		close(k.resumed)
		return nil
	}
	r.kernel.answer = func(_ int64, a agentkernel.Answer) error {
		k.answered <- a
		return nil
	}
	if code := r.run("resume", "-f", "12"); code != agentkernel.ExitOK {
		t.Errorf("exit code %d: %s", code, r.err.String())
	}
}
