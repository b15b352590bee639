package process

import (
	"context"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

// What goes beyond a limit ends with its name, whatever the program does about it.
func TestLimits(t *testing.T) {
	b := sharedBackend(t)
	for _, c := range []struct {
		name, src string
		change    func(*agentkernel.Limits)
		traceback string
	}{
		{"time", "def spin():\n    while True: pass\ntry:\n    spin()\nexcept BaseException:\n    pass\n", func(l *agentkernel.Limits) { l.Time = agentkernel.Duration(200 * time.Millisecond) },
			"  File \"report.py\", line 2, in spin\n    while True: pass\n"},
		{"time", "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass", func(l *agentkernel.Limits) { l.Time = agentkernel.Duration(200 * time.Millisecond) }, ""},
		{"time", "import subprocess\nsubprocess.run(['sleep', '60'])", func(l *agentkernel.Limits) { l.Time = agentkernel.Duration(200 * time.Millisecond) }, "line 2, in <module>"},
		{"memory", "x = []\nwhile True: x.append('y' * 100000)", func(l *agentkernel.Limits) { l.Memory = 32 << 20 }, "line 2, in <module>"},
		{"memory", "x = bytearray(1 << 40)", func(*agentkernel.Limits) {}, "line 1, in <module>"},
		{"memory", "import os\nfor _ in range(4):\n    if os.fork() == 0:\n        y = [b'x' * (10 << 20) for _ in range(4)]\n        import time; time.sleep(60)\n        os._exit(0)\nfor _ in range(4): os.wait()",
			func(l *agentkernel.Limits) { l.Memory = 64 << 20 }, ""},
		{"cpu_time", "while True: pass", func(l *agentkernel.Limits) { l.CPUTime = agentkernel.Duration(time.Second) }, ""},
		{"output", "while True: print('flood')", func(l *agentkernel.Limits) { l.Output = 1000 }, ""},
		{"output", "import os\nos.system('yes')", func(l *agentkernel.Limits) { l.Output = 100_000 }, ""},
		{"recursion", "def f(n): return f(n + 1)\nf(0)", func(l *agentkernel.Limits) { l.Recursion = 200 }, "line 1, in f"},
	} {
		r := newRun(t, b, c.src)
		c.change(&r.req.Limits)
		begun := time.Now()
		turn, err := r.finish()
		if err == nil && turn.Err != nil {
			err = turn.Err
		}
		e := agentkernel.AsError(err, agentkernel.CodeInternal, "")
		if err == nil || e.Code != agentkernel.CodeLimit || e.Op != "limit."+c.name || !strings.Contains(e.Message(), c.name+" limit reached") {
			t.Errorf("%s: %+v %v", c.src, turn, err)
			continue
		}
		if !strings.Contains(e.Traceback, c.traceback) {
			t.Errorf("%s: traceback\n%s", c.src, e.Traceback)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("%s took %v", c.src, took)
		}
		if n := int64(r.out.Len()); n > r.req.Limits.Output {
			t.Errorf("%s printed %d bytes", c.src, n)
		}
		_ = r.box.Close()
	}
}

// A thread that computes while the program waits ends it in the end, and the error says why.
func TestComputingWhileWaiting(t *testing.T) {
	b := sharedBackend(t)
	defer func(before time.Duration) { cpuSlack = before }(cpuSlack)
	cpuSlack = -3700 * time.Millisecond // on a busy machine it takes long until the program sleeps
	r := newRun(t, b, "import threading, time\ndef busy():\n    while True: pass\nthreading.Thread(target=busy, daemon=True).start()\ntime.sleep(3600)")
	r.req.Limits.CPUs = 1
	r.req.Limits.Time = agentkernel.Duration(5 * time.Second)
	r.start()
	turn, err := r.box.Next(t.Context(), nil)
	if err != nil || turn.Kind != agentkernel.TurnCall {
		t.Fatalf("%+v %v", turn, err)
	}
	box, ok := r.box.(*sandbox)
	if !ok {
		t.Fatal("not ours")
	}
	if box.c.cell == nil {
		t.Skip("no walls")
	}
	<-box.c.ended
	turn, err = r.box.Next(t.Context(), &agentkernel.Reply{})
	e := agentkernel.AsError(err, agentkernel.CodeInternal, "")
	if err == nil || e.Op != "limit.time" || !strings.Contains(e.Message(), "have computed for 1.3s, also while it waited") {
		t.Errorf("%+v %v", turn, err)
	}
}

// A program that is told of the memory limit in time can go on.
func TestMemoryErrorIsCaught(t *testing.T) {
	b := sharedBackend(t)
	if got := mustExit(t, b, "try:\n    x = bytearray(1 << 40)\nexcept MemoryError:\n    print('too much')"); got != "too much\n" {
		t.Errorf("%q", got)
	}
}

// Whoever gives up has the program and all that it started ended.
func TestCancel(t *testing.T) {
	b := sharedBackend(t)
	r := newRun(t, b, "import subprocess, os\np = subprocess.Popen(['sleep', '1000'])\nprint('ready', flush=True)\nos.close(3)\nwhile True: pass")
	r2 := newRun(t, b, "import subprocess\np = subprocess.Popen(['sleep', '1000'])\nprint('ready', flush=True)\nwhile True: pass")
	for _, r := range []*run{r, r2} {
		ctx, cancel := context.WithCancel(t.Context())
		if r == r2 {
			r.req.Output = func(_, _ string) { cancel() }
		}
		r.start()
		if r == r2 {
			turn, err := r.box.Next(ctx, nil)
			if err != context.Canceled { //nolint:errorlint // what Next promises
				t.Errorf("%+v %v", turn, err)
			}
		} else if turn, err := r.box.Next(ctx, nil); agentkernel.CodeOf(err) != agentkernel.CodeCrashed {
			t.Errorf("%+v %v", turn, err)
		}
		box, ok := r.box.(*sandbox)
		if !ok {
			t.Fatal("not ours")
		}
		<-box.c.ended
		if box.c.process != nil {
			<-box.c.process.Done()
		}
		cancel()
	}
}

// Close may come while Next runs.
func TestCloseWhileNextRuns(t *testing.T) {
	b := sharedBackend(t)
	r := newRun(t, b, "print('on', flush=True)\nwhile True: pass")
	running := make(chan struct{})
	r.req.Output = func(_, _ string) { close(running) }
	r.start()
	done := make(chan error)
	go func() {
		_, err := r.box.Next(context.Background(), nil)
		done <- err
	}()
	<-running
	if err := r.box.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
		t.Errorf("%v", err)
	}
}
