package main

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/embedded"
)

var processSection = section{
	name: "process", title: "CPython behind walls",
	about: "`print(6*7)` on the process backend: forked from a zygote into namespaces of its own, with seccomp, Landlock, limits, no network; its output and its end are on " +
		"the disk before they are reported. Floor: an interpreter that forks for each program and keeps nothing, without any wall, and one commit of the store after it.",
	run: measureProcess,
}

// The programs, and what they print.
const (
	groupby = "import numpy as np, pandas as pd\n" +
		"d = pd.DataFrame({'k': np.arange(10000) % 12, 'v': np.arange(10000)})\nprint(int(d.groupby('k').v.sum().iloc[3]))"
	groupbyPrinted = "4170834\n"
	// The generator is the program's own: a file of ten million rows would measure the parser.
	tenMillion = "import numpy as np, pandas as pd\n" +
		"n = %d\nd = pd.DataFrame({'month': np.arange(n) %% 12, 'amount': np.arange(n) %% 1000})\n" +
		"r = d.groupby('month').amount.agg(['sum', 'mean', 'count'])\nprint(len(r), int(r['count'].sum()))"
)

func measureProcess(ctx context.Context, b *bench) ([]table, error) {
	py := findPython(ctx)
	if py.path == "" {
		return []table{{Rows: []row{{What: "CPython", Skipped: notInstalled}}}}, nil
	}
	k, err := b.open(ctx, embedded.Config{Sandboxes: true, Python: py.path})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	switch err := runAndCheck(ctx, k, walled(hello), "42\n"); {
	case agentkernel.CodeOf(err) == agentkernel.CodeUnavailable:
		return []table{{Rows: []row{{What: "CPython behind walls", Skipped: "does not work on this machine"}}}}, nil
	case err != nil:
		return nil, err
	}
	one, err := measureOneProgram(ctx, b, k, py)
	if err != nil {
		return nil, err
	}
	rest, err := measureProcessRates(ctx, b, k, py)
	if err != nil || !py.pandas {
		return append(one, rest...), err
	}
	data, err := measurePandas(ctx, b, k, py)
	return append(append(one, rest...), data...), err
}

// walled is the Spec of a program for CPython.
func walled(source string) agentkernel.Spec {
	s := python("program.py", source)
	s.Backend = "process"
	return s
}

func measureOneProgram(ctx context.Context, b *bench, k *embedded.Kernel, py interpreter) ([]table, error) {
	plain, err := b.startZygote(ctx, py.path)
	if err != nil {
		return nil, err
	}
	defer plain.close()
	commit, closeStore, err := b.commitFloor(ctx)
	if err != nil {
		return nil, err
	}
	defer closeStore()
	n, few := b.pick(20, 10, 2), b.pick(5, 3, 1)
	contenders := []contender{
		{name: "plain fork", role: roleFloor, n: n, run: func(context.Context) error { return plain.run(hello, "42\n") }},
		{name: "plain fork, then commit", role: roleFloor, n: n, run: func(ctx context.Context) error {
			if err := plain.run(hello, "42\n"); err != nil {
				return err
			}
			return commit(ctx)
		}},
		{name: "kernel, all walls, durable exit, one after the other", role: roleOurs, n: n, run: func(ctx context.Context) error {
			return runAndCheck(ctx, k, walled(hello), "42\n")
		}},
		{name: "the same, fifty a second: a child waits in the pool", role: roleOurs, n: n, block: func(ctx context.Context, n int) ([]time.Duration, error) {
			return atIntervals(ctx, n, 20*time.Millisecond, func() error { return runAndCheck(ctx, k, walled(hello), "42\n") })
		}},
		pythonPeer(ctx, few, "-c", hello),
		bwrapPeer(ctx, few, "-c", hello),
		dockerPeer(ctx, few),
	}
	results, err := contest(ctx, b.pick(20, 8, 2), b.tell, contenders)
	if err != nil {
		return nil, err
	}
	rows := latencies(contenders, results)
	rows[2].judgeRatio(results[2].ratio(results[1]), 1.5, "(plain fork, then commit)")
	rows[3].judgeP50(1500 * time.Microsecond)
	for i := 4; i < len(rows); i++ {
		rows[i].Ratio = results[i].ratio(results[1])
	}
	return []table{{Title: "One program", Rows: rows}}, nil
}

// atIntervals starts a run at each tick and measures from there to its end.
func atIntervals(ctx context.Context, n int, every time.Duration, run func() error) ([]time.Duration, error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	samples := make([]time.Duration, 0, n)
	for range n {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
		begin := time.Now()
		if err := run(); err != nil {
			return nil, err
		}
		samples = append(samples, time.Since(begin))
	}
	return samples, nil
}

const atATime = 8

// measureProcessRates: eight at a time, the call from a program, and what the pool costs while it waits.
func measureProcessRates(ctx context.Context, b *bench, k *embedded.Kernel, py interpreter) ([]table, error) {
	plain, err := b.startZygote(ctx, py.path)
	if err != nil {
		return nil, err
	}
	defer plain.close()
	each := b.pick(80, 40, 8)
	side := func(run func() error) func(context.Context, int) ([]time.Duration, error) {
		return func(_ context.Context, n int) ([]time.Duration, error) {
			samples := make([]time.Duration, 0, n)
			for range n {
				took, err := sideBySide(each, run)
				if err != nil {
					return nil, err
				}
				samples = append(samples, took/time.Duration(each))
			}
			return samples, nil
		}
	}
	contenders := []contender{
		{name: "plain fork, 8 at a time", role: roleFloor, n: 1, block: side(func() error { return plain.run(hello, "42\n") })},
		{name: "kernel, all walls, durable exit, 8 at a time", role: roleOurs, n: 1, block: side(func() error {
			return runAndCheck(ctx, k, walled(hello), "42\n")
		})},
	}
	results, err := contest(ctx, b.pick(20, 6, 2), b.tell, contenders)
	if err != nil {
		return nil, err
	}
	rows := latencies(contenders, results)
	for i := range rows {
		rows[i].Value = fmt.Sprintf("%.0f programs/s", 1e6/rows[i].P50)
	}
	rows[1].Ratio = 1 / results[1].ratio(results[0])
	rows[1].judge("at least 0.7 x the rate of the plain fork", rows[1].Ratio >= 0.7)

	n := b.pick(200, 50, 3)
	calls, err := runMarks(ctx, k, walled(fmt.Sprintf(marksProgram, "from kernel import now", n, callsPerSample-1)), n)
	if err != nil {
		return nil, err
	}
	call := latency(contender{name: "`kernel.now()` from CPython, and its answer", role: roleOurs}, series{calls})
	call.judgeP50(80 * time.Microsecond)
	return []table{
		{Title: "Rates", Rows: append(rows, call), Notes: []string{"Of 8 at a time a sample is the time for all, divided by their number."}},
		{Title: "What waits", Rows: []row{figure("zygote and its waiting children, memory (proportional set size)", roleOurs, "%.0f MB", waitingMemory(py.path))}},
	}, nil
}

// sideBySide runs n times, eight at a time.
func sideBySide(n int, run func() error) (time.Duration, error) {
	var group sync.WaitGroup
	tickets, failed := make(chan struct{}, n), make(chan error, n)
	for range n {
		tickets <- struct{}{}
	}
	close(tickets)
	begin := time.Now()
	for range atATime {
		group.Go(func() {
			for range tickets {
				if err := run(); err != nil {
					failed <- err
				}
			}
		})
	}
	group.Wait()
	select {
	case err := <-failed:
		return 0, err
	default:
		return time.Since(begin), nil
	}
}

func measurePandas(ctx context.Context, b *bench, k *embedded.Kernel, py interpreter) ([]table, error) {
	plain, err := b.startZygote(ctx, py.path, "numpy", "pandas")
	if err != nil {
		return nil, err
	}
	defer plain.close()
	if err := runAndCheck(ctx, k, walled(groupby), groupbyPrinted); err != nil { // its zygote is there now
		return nil, err
	}
	n, few := b.pick(10, 5, 1), b.pick(2, 1, 1)
	contenders := []contender{
		{name: "plain fork, pandas imported before", role: roleFloor, n: n, run: func(context.Context) error { return plain.run(groupby, groupbyPrinted) }},
		{name: "kernel, all walls, durable exit", role: roleOurs, n: n, run: func(ctx context.Context) error {
			return runAndCheck(ctx, k, walled(groupby), groupbyPrinted)
		}},
		command("CPython started", rolePeer, few, groupbyPrinted, py.path, "-c", groupby),
	}
	results, err := contest(ctx, b.pick(15, 5, 2), b.tell, contenders)
	if err != nil {
		return nil, err
	}
	rows := latencies(contenders, results)
	rows[1].judgeRatio(results[1].ratio(results[0]), 1.3, "the same without walls")
	rows[2].Ratio = results[2].ratio(results[0])
	large, err := measureLarge(ctx, b, k)
	return []table{
		{Title: "A small groupby with pandas", Rows: rows},
		{Title: "Ten million rows to a monthly report", Rows: []row{large}},
	}, err
}

// measureLarge is one run that needs real memory.
func measureLarge(ctx context.Context, b *bench, k *embedded.Kernel) (row, error) {
	n := b.pick(10_000_000, 10_000_000, 10_000)
	s := walled(fmt.Sprintf(tenMillion, n) + "\nimport resource\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)")
	s.Limits.Memory = 4 << 30
	text := ""
	begin := time.Now()
	p, err := k.Run(ctx, s, func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventOutput {
			text += ev.Text
		}
		return nil
	})
	took := time.Since(begin)
	if err == nil {
		err = finished(p)
	}
	if err != nil {
		return row{}, err
	}
	var groups, rows, peak int
	if _, err := fmt.Sscan(text, &groups, &rows, &peak); err != nil || groups != 12 || rows != n {
		return row{}, fmt.Errorf("it printed %q", text)
	}
	return figure(fmt.Sprintf("%d rows made, grouped and summed", n), roleOurs, "%.2f s, peak %.0f MB", took.Seconds(), float64(peak)/1024), nil
}

// interpreter is the CPython that is measured.
type interpreter struct {
	path   string
	pandas bool
}

// findPython prefers an interpreter that has pandas.
func findPython(ctx context.Context) interpreter {
	first := interpreter{}
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		out, err := exec.CommandContext(ctx, name, "-c", "import sys, os; print(os.path.realpath(sys.executable))").Output()
		if err != nil {
			continue
		}
		path := strings.TrimSpace(string(out))
		if exec.CommandContext(ctx, path, "-c", "import pandas").Run() == nil {
			return interpreter{path, true}
		}
		if first.path == "" {
			first.path = path
		}
	}
	return first
}

//go:embed zygote.py
var zygoteSource string

// zygote is a forking interpreter without walls.
type zygote struct {
	cmd    *exec.Cmd
	socket string
}

func (b *bench) startZygote(ctx context.Context, python string, preloaded ...string) (*zygote, error) {
	dir, err := b.dir()
	if err != nil {
		return nil, err
	}
	z := &zygote{socket: filepath.Join(dir, "z")}
	z.cmd = exec.CommandContext(ctx, python, append([]string{"-c", zygoteSource, z.socket}, preloaded...)...)
	z.cmd.Stderr = os.Stderr
	out, err := z.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := z.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		z.close()
		return nil, fmt.Errorf("the plain zygote said %q: %w", line, err)
	}
	return z, nil
}

func (z *zygote) run(source, printed string) error {
	conn, err := net.Dial("unix", z.socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, source); err != nil {
		return err
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		return err
	}
	got, err := io.ReadAll(conn)
	if err == nil && string(got) != printed {
		err = fmt.Errorf("the plain zygote printed %q, not %q", got, printed)
	}
	return err
}

func (z *zygote) close() {
	_ = z.cmd.Process.Kill()
	_ = z.cmd.Wait() // it was killed
}

// dockerPeer is a container started for each run, if there is an image that needs no download.
func dockerPeer(ctx context.Context, n int) contender {
	const name = "docker run --rm python:3-slim"
	argv := []string{"docker", "run", "--rm", "--pull=never", "python:3-slim", "python3", "-I", "-S", "-c", hello}
	if _, err := exec.LookPath("docker"); err != nil {
		return absent(name, rolePeer, notInstalled)
	}
	if err := runCommand(ctx, surroundings{}, "42\n", argv...); err != nil {
		return absent(name, rolePeer, "does not work on this machine")
	}
	return command(name, rolePeer, n, "42\n", argv...)
}

// waitingMemory is what the interpreters below this process take, each page divided among those who share it.
func waitingMemory(python string) (megabytes float64) {
	for tree := []int{os.Getpid()}; len(tree) > 0; tree = tree[1:] {
		proc := fmt.Sprintf("/proc/%d", tree[0])
		if exe, err := os.Readlink(proc + "/exe"); err == nil && filepath.Base(exe) == filepath.Base(python) {
			text, _ := os.ReadFile(proc + "/smaps_rollup") // it may have ended
			for line := range strings.Lines(string(text)) {
				if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
					kb, _ := strconv.ParseFloat(f[1], 64)
					megabytes += kb / 1024
				}
			}
		}
		tasks, _ := filepath.Glob(proc + "/task/*/children")
		for _, t := range tasks {
			text, _ := os.ReadFile(t)
			for _, word := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(word); err == nil {
					tree = append(tree, pid)
				}
			}
		}
	}
	return megabytes
}
