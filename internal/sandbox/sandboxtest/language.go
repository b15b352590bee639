package sandboxtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

// languages runs the table for each language that the backend says it speaks.
func (s Suite) languages(t *testing.T, b agentkernel.Backend) {
	spoken := b.Info().Languages
	for _, l := range spoken {
		t.Run(string(l), func(t *testing.T) {
			if _, err := b.Check(hello(l).program()); agentkernel.CodeOf(err) == agentkernel.CodeUnavailable {
				if os.Getenv("CI") == "true" {
					t.Fatal(err)
				}
				t.Skipf("SKIPPED, NOTHING PROVED: %v", err)
			}
			for _, r := range rows() {
				t.Run(r.name, func(t *testing.T) { s.row(t, b, r, l) })
			}
			t.Run("cancelling", func(t *testing.T) { cancelledIn(t, b, l) })
			t.Run("a pause", func(t *testing.T) { pausedIn(t, b, l) })
			t.Run("no image, no replay", func(t *testing.T) { imageless(t, b, l) })
			t.Run("nothing is left", func(t *testing.T) { leavesNothing(t, b, l) })
		})
	}
}

func (s Suite) row(t *testing.T, b agentkernel.Backend, r row, l agentkernel.Language) {
	c, ok := r.in[l]
	why, cannot := r.cannot[l]
	switch _, files := s.has([]Feature{Folders}); {
	case ok == cannot:
		t.Fatalf("the table has neither a program in %s nor a reason, or both", l)
	case cannot:
		// It says so by giving none.
		turn, err := NewRun(t, b, hello(l)).Finish()
		if err != nil || turn.Kind != agentkernel.TurnExit || turn.Result != nil {
			t.Errorf("%s: %+v %v", why, turn, err)
		}
		return
	case !files && (c.Folder || c.Stdin != ""):
		if b.Info().Files {
			t.Error("its suite says that it has no folders, and it the contrary")
		}
		return
	}
	run := NewRun(t, b, c)
	var folder string
	if c.Folder {
		folder = mounted(t, run)
	}
	if c.Stdin != "" {
		run.Req.Stdin = filepath.Join(public(t), "stdin")
		if err := os.WriteFile(run.Req.Stdin, []byte(c.Stdin), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var turn agentkernel.Turn
	_, err := b.Check(run.Req.Program)
	if err == nil {
		turn, err = run.Finish()
	} else if c.Code == "" {
		t.Fatalf("Check: %v", err)
	}
	c.judge(t, run, turn, err)
	if run.Box == nil {
		return
	}
	if err := run.Box.Close(); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(folder, "g")); folder != "" && (err != nil || string(got) != "new") {
		t.Errorf("it left %q, %v", got, err)
	}
}

// mounted gives the program a folder of its own, with the files f and new.
func mounted(t *testing.T, r *Run) string {
	t.Helper()
	dir := public(t)
	for name, text := range map[string]string{"f": "old", "new": "new"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.Req.Mounts = []agentkernel.Mount{{Source: dir, Own: true}}
	return dir
}

// public is a directory that sandboxes of any user can reach.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sandboxtest")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// find gives the program of a row.
func find(name string, l agentkernel.Language) Case {
	all := rows()
	return all[slices.IndexFunc(all, func(r row) bool { return r.name == name })].in[l]
}

func hello(l agentkernel.Language) Case { return find("print", l) }

// endless says "on" and runs until it is stopped.
func endless(l agentkernel.Language) Case {
	switch l {
	case agentkernel.Python:
		return python(Case{Source: "print('on')\nwhile True:\n    pass"})
	case agentkernel.Node:
		return node(Case{Source: "console.log('on');\nfor (;;);"})
	case agentkernel.Go:
		return inGo("endless", Case{})
	case agentkernel.Script:
		return script(Case{Source: "trap '' TERM INT\n(setsid sleep 1000 &)\necho on\nwhile :; do :; done"})
	}
	return command(Case{}, "sh", "-c", "setsid sleep 1000 & echo on; wait; exec sleep 1000")
}

// ticking prints a line every few milliseconds, without asking anybody for the time.
func ticking(l agentkernel.Language) (Case, bool) {
	switch l {
	case agentkernel.Node:
		return node(Case{Source: "setInterval(() => console.log('tick'), 5)"}), true
	case agentkernel.Go:
		return inGo("ticks", Case{}), true
	case agentkernel.Script:
		return script(Case{Source: "while :; do echo tick; sleep 0.005; done"}), true
	case agentkernel.Command:
		return command(Case{}, "sh", "-c", "while :; do echo tick; sleep 0.005; done"), true
	}
	return Case{}, false
}

// cancelledIn: whoever gives up has the program ended with all that it started, and is told so.
func cancelledIn(t *testing.T, b agentkernel.Backend, l agentkernel.Language) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := NewRun(t, b, endless(l))
	r.Req.Output = func(_, _ string) { cancel() }
	r.Start()
	if turn, err := r.Box.Next(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller gave up: %+v %v", turn, err)
	}
	if _, err := r.Box.Next(t.Context(), nil); err == nil {
		t.Error("a dead sandbox goes on")
	}
	if err := errors.Join(r.Box.Close(), r.Box.Close()); err != nil {
		t.Error(err)
	}
	if _, err := b.Start(ctx, r.Req); !errors.Is(err, context.Canceled) {
		t.Errorf("started for nobody: %v", err)
	}
}

// pausedIn: a program that runs by itself stands still while it is suspended, and goes on afterwards.
func pausedIn(t *testing.T, b agentkernel.Backend, l agentkernel.Language) {
	c, alone := ticking(l)
	if !alone {
		return // it runs while the kernel waits for it, and is held by not being answered
	}
	r := NewRun(t, b, c)
	printed := make(chan struct{}, 1<<16)
	r.Req.Output = func(_, _ string) { printed <- struct{}{} }
	r.Start()
	s, ok := r.Box.(agentkernel.Suspender)
	if !ok {
		t.Fatalf("a program in %s runs by itself, and cannot be suspended", l)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	next := func() {
		turn, err := r.Box.Next(ctx, nil)
		if err == nil && turn.Kind != agentkernel.TurnWait {
			t.Errorf("%+v", turn)
		}
		ended <- err
	}
	go next()
	<-printed
	if err := s.Suspend(true); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil { // Next gives the turn back
		t.Fatal(err)
	}
	go next() // what it printed before lies in the pipe yet, and then nothing more comes
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for len(printed) > 0 {
		<-printed
	}
	quiet := time.NewTimer(100 * time.Millisecond)
	<-quiet.C
	go next()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n := len(printed); n > 1 {
		t.Errorf("it printed %d times while it was suspended", n)
	}
	if err := s.Suspend(false); err != nil {
		t.Fatal(err)
	}
	go next()
	for range 3 {
		<-printed
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// imageless: a program that cannot be replayed, or of which there are no images, says so to those who ask.
func imageless(t *testing.T, b agentkernel.Backend, l agentkernel.Language) {
	if l.Replayable() {
		return // Replay and Images are about those
	}
	r := NewRun(t, b, find("a system call", l)).Start()
	if _, err := r.Box.Next(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Box.Image(t.Context()); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
		t.Errorf("an image: %v", err)
	}
	r.Req.Image = []byte("an image")
	if _, err := b.Start(t.Context(), r.Req); agentkernel.CodeOf(err) != agentkernel.CodeVersion {
		t.Errorf("it started from an image: %v", err)
	}
}

// leavesNothing: whatever way programs end, no process and no descriptor is left of them.
func leavesNothing(t *testing.T, b agentkernel.Backend, l agentkernel.Language) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("there is no /proc to count by")
	}
	names := []string{"print", "an error that nobody catches", "a system call", "calls at the same time", "the time limit", "the output limit"}
	all := func() {
		for _, name := range names {
			r := NewRun(t, b, find(name, l))
			_, _ = r.Finish() // how it ends is another row's
			_ = r.Box.Close()
		}
		halfway := NewRun(t, b, find("a system call", l)).Start()
		_, _ = halfway.Box.Next(t.Context(), nil)
		_ = halfway.Box.Close()
		_ = NewRun(t, b, hello(l)).Start().Box.Close() // it never ran
		cancelledIn(t, b, l)
	}
	all() // what a backend keeps ready is there afterwards, give or take some that are being made at this moment
	const rounds, pool = 5, 3
	fds, processes := descriptors(t)+pool, descendants(t)+pool
	for range rounds { // what each leaves once is there as often
		all()
	}
	patience := time.NewTimer(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for descriptors(t) > fds || descendants(t) > processes {
		select {
		case <-tick.C:
		case <-patience.C:
			t.Fatalf("at most %d descriptors became %d, at most %d processes %d", fds, descriptors(t), processes, descendants(t))
		}
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// descendants counts the processes below this one.
func descendants(t *testing.T) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended since
		}
		text := string(b)
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		pid, err1 := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, err2 := strconv.Atoi(fields[1])
		if errors.Join(err1, err2) == nil {
			parents[pid] = parent
		}
	}
	n := 0
	for pid := range parents {
		for up := parents[pid]; up > 1; up = parents[up] {
			if up == os.Getpid() {
				n++
				break
			}
		}
	}
	return n
}
