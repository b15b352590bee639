package process

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// whole runs a program of another language than Python to its end.
func wholeRun(t testing.TB, p agentkernel.Program, change ...func(*run)) (*run, agentkernel.Turn, error) {
	t.Helper()
	r := newRun(t, sharedBackend(t), "")
	r.req.Program = p
	for _, f := range change {
		f(r)
	}
	turn, err := r.finish()
	if r.box != nil {
		if cerr := r.box.Close(); cerr != nil {
			t.Error(cerr)
		}
	}
	return r, turn, err
}

func shell(source string, args ...string) agentkernel.Program {
	return agentkernel.Program{Name: "script.sh", Language: agentkernel.Script, Source: "#!/bin/sh\n" + source, Args: args}
}

func commandOf(name string, args ...string) agentkernel.Program {
	return agentkernel.Program{Name: name, Language: agentkernel.Command, Source: name, Args: args}
}

// What a program prints, in both streams, and its exit code arrive as they are.
func TestWholePrograms(t *testing.T) {
	for _, c := range []struct {
		p    agentkernel.Program
		out  string
		code int
	}{
		{shell("echo hello; echo \"$0 $# $1-$2\"; echo to stderr >&2; exit 3", "a b", "ü"), "hello\n/program/script.sh 2 a b-ü\n[stderr]to stderr\n", 3},
		{commandOf("echo", "a", "--flag"), "a --flag\n", 0},
		{commandOf("/usr/bin/env", "sh", "-c", "pwd; id -un; hostname; ls -A /program 2>/dev/null; echo $HOME"), "/tmp\nagent\nsandbox\n/tmp\n", 0},
		{commandOf("false"), "", 1},
		{shell("kill -SEGV $$"), "[stderr]script.sh: killed by signal 11 (segmentation fault)\n", 139},
		{shell("nosuchcommand 2>/dev/null"), "", 127},
		{shell("cat; echo end"), "end\n", 0},
		{shell("ls /etc/shadow /root /home 2>/dev/null; echo $? > /tmp/x; cat /tmp/x; touch /usr/x /program/x 2>/dev/null || echo read-only"), "2\nread-only\n", 0},
		{agentkernel.Program{Name: "x", Language: agentkernel.Script, Source: "#!/usr/bin/env -S awk -f\nBEGIN { print 6 * 7 }"}, "42\n", 0},
		{agentkernel.Program{Name: "t.sh", Language: agentkernel.Script, Source: "echo one\nexit 3"}, "one\n", 3},
		{shell("(sleep 1000 &) ; exec 3>&-; echo done"), "done\n", 0},
		{shell("printf 'a\\377b\\303'"), "a�b�[stderr]" + agentkernel.NotText, 0},
	} {
		r, turn, err := wholeRun(t, c.p)
		out := r.out.String()
		if err != nil || turn.Kind != agentkernel.TurnExit || turn.ExitCode != c.code || out != c.out {
			t.Errorf("%s %s %q\nended with %+v %v and printed %q\nwant %d, %q", c.p.Name, c.p.Source, c.p.Args, turn, err, out, c.code, c.out)
		}
	}
}

// What cannot be run is refused before anything ran, with what is wrong and what to do.
func TestWholeRefusals(t *testing.T) {
	b := sharedBackend(t)
	dir := t.TempDir()
	foreign, pipe := writeELF(t, dir), filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p    agentkernel.Program
		code agentkernel.Code
		text string
	}{
		{commandOf("nosuchcommand"), agentkernel.CodeNotFound, "there is no nosuchcommand on the PATH of a sandbox"},
		{commandOf("/home/somebody/x"), agentkernel.CodeNotFound, "/home/somebody/x is not in the sandbox"},
		{commandOf(""), agentkernel.CodeInvalid, "no command was named"},
		{commandOf("/usr/bin"), agentkernel.CodeInvalid, "is a directory"},
		{commandOf("/usr/share/zoneinfo/UTC"), agentkernel.CodeDenied, "is not executable"},
		{agentkernel.Program{Language: agentkernel.Command, Source: "x", Host: foreign}, agentkernel.CodeUnsupported, "is for another architecture, s390"},
		{agentkernel.Program{Language: agentkernel.Command, Source: "x", Host: pipe}, agentkernel.CodeInvalid, "is no ordinary file"},
		{agentkernel.Program{Name: "x", Language: agentkernel.Script, Source: "echo"}, agentkernel.CodeSyntax, "line 1 of x does not say what runs it"},
		{agentkernel.Program{Name: "x.sh", Language: agentkernel.Script, Source: "#!/bin/sh\r\necho"}, agentkernel.CodeSyntax, "line ends of Windows"},
		{agentkernel.Program{Name: "x.sh", Language: agentkernel.Script, Source: "#!bash\necho"}, agentkernel.CodeSyntax, "not an absolute path"},
		{agentkernel.Program{Name: "x.sh", Language: agentkernel.Script, Source: "#!/opt/nosuch/bash\necho"}, agentkernel.CodeNotFound, "line 1 of x.sh: the interpreter /opt/nosuch/bash is not in the sandbox"},
		{agentkernel.Program{Name: "x.sh", Language: agentkernel.Script, Source: "#!/usr/../etc/passwd\n"}, agentkernel.CodeNotFound, "the interpreter /etc/passwd is not in the sandbox"},
		{agentkernel.Program{Name: "x.sh", Language: agentkernel.Script, Source: "#!/usr/../proc/self/exe\n"}, agentkernel.CodeNotFound, "the interpreter /proc/self/exe is not in the sandbox"},
		{agentkernel.Program{Name: "x.sh", Language: agentkernel.Script, Source: "#!/usr/bin/env ../../../etc/passwd\n"}, agentkernel.CodeNotFound, "there is no ../../../etc/passwd on the PATH"},
		{agentkernel.Program{Name: "x.sh", Language: agentkernel.Script, Source: "#!/usr/bin/env nosuch\necho"}, agentkernel.CodeNotFound, "there is no nosuch on the PATH"},
	} {
		_, err := b.Check(c.p)
		if agentkernel.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %v; want %s: %s", c.p, err, c.code, c.text)
		}
	}
}

// A program that is cancelled is gone with all that it started.
func TestWholeCancelled(t *testing.T) {
	r := newRun(t, sharedBackend(t), "")
	r.req.Program = shell("trap '' TERM INT; (setsid sleep 1000 &); echo on; while :; do :; done")
	ctx, cancel := context.WithCancel(t.Context())
	r.req.Output = func(_, _ string) { cancel() }
	r.start()
	if turn, err := r.box.Next(ctx, nil); err != context.Canceled { //nolint:errorlint // what Next promises
		t.Errorf("%+v %v", turn, err)
	}
	if err := r.box.Close(); err != nil {
		t.Error(err)
	}
	w, ok := r.box.(*whole)
	if !ok {
		t.Fatal("not ours")
	}
	select {
	case <-w.process.Done():
	default:
		t.Error("Close returned before all was dead")
	}
}

// What goes beyond a limit ends the program with the limit's name, or is refused by the system where that can do so.
func TestWholeLimits(t *testing.T) {
	for _, c := range []struct {
		op     string // "": it goes on, and prints out
		source string
		out    string
		change func(*agentkernel.Limits)
	}{
		{"limit.time", "trap '' TERM; while :; do :; done", "", func(l *agentkernel.Limits) { l.Time = agentkernel.Duration(300 * time.Millisecond) }},
		{"limit.time", "sleep 1000", "", func(l *agentkernel.Limits) { l.Time = agentkernel.Duration(300 * time.Millisecond) }},
		{"limit.cpu_time", "while :; do :; done & while :; do :; done", "", func(l *agentkernel.Limits) { l.CPUTime = agentkernel.Duration(300 * time.Millisecond) }},
		{"limit.memory", "head -c 200m /dev/zero | tail", "", func(l *agentkernel.Limits) { l.Memory = 32 << 20 }},
		{"limit.output", "yes", "", func(l *agentkernel.Limits) { l.Output = 1000 }},
		{"limit.file_size", "exec dd if=/dev/zero of=/tmp/x bs=1M count=2 2>/dev/null", "", func(l *agentkernel.Limits) { l.FileSize = 1 << 20 }},
		{"", "ulimit -n", "17\n", func(l *agentkernel.Limits) { l.OpenFiles = 17 }},
		{"", "n=0; for i in $(seq 30); do sleep 1000 & done 2>/dev/null; echo never", "", func(l *agentkernel.Limits) { l.Pids = 10 }},
	} {
		r, turn, err := wholeRun(t, shell(c.source), func(r *run) { c.change(&r.req.Limits) })
		if err == nil && turn.Err != nil {
			err = turn.Err
		}
		switch e := agentkernel.AsError(err, agentkernel.CodeInternal, ""); {
		case c.op == "" && c.out == "": // the shell gives up when it cannot fork
			if e == nil && turn.ExitCode == 0 || e != nil && e.Op != "limit.pids" || strings.Contains(r.out.String(), "never") {
				t.Errorf("%s: %+v %v %q", c.source, turn, err, r.out.String())
			}
		case c.op == "":
			if e != nil || r.out.String() != c.out {
				t.Errorf("%s: %+v %v %q", c.source, turn, err, r.out.String())
			}
		case e == nil || e.Code != agentkernel.CodeLimit || e.Op != c.op:
			t.Errorf("%s: %+v %v, want %s", c.source, turn, err, c.op)
		}
		if int64(r.out.Len()) > r.req.Limits.Output {
			t.Errorf("%s printed %d bytes", c.source, r.out.Len())
		}
	}
}

// Limits that cannot be meant are refused with what they may be.
func TestAbsurdLimits(t *testing.T) {
	for want, change := range map[string]func(*agentkernel.Limits){
		"the memory limit is 1 bytes; it must be from": func(l *agentkernel.Limits) { l.Memory = 1 },
		"the CPU limit is 1e+09; it must be from":      func(l *agentkernel.Limits) { l.CPUs = 1e9 },
		"the process limit is 2147483647":              func(l *agentkernel.Limits) { l.Pids = 1<<31 - 1 },
		"the open file limit is 3; it must be from":    func(l *agentkernel.Limits) { l.OpenFiles = 3 },
		"the file size limit is 9223372036854775807":   func(l *agentkernel.Limits) { l.FileSize = 1<<63 - 1 },
	} {
		_, _, err := startOnly(t, shell("echo never"), change)
		if agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// startOnly starts a program that is not expected to start.
func startOnly(t testing.TB, p agentkernel.Program, change func(*agentkernel.Limits)) (*run, agentkernel.Sandbox, error) {
	t.Helper()
	r := newRun(t, sharedBackend(t), "")
	r.req.Program = p
	change(&r.req.Limits)
	box, err := r.b.Start(t.Context(), r.req)
	if err == nil {
		t.Cleanup(func() { _ = box.Close() })
	}
	return r, box, err
}
