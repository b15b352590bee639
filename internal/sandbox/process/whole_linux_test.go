package process

import (
	"context"
	"strings"
	"testing"

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
		{shell("(sleep 1000 &) ; exec 3>&-; echo done"), "done\n", 0},
		{shell("printf 'a\\377b\\303'"), "a�b�", 0},
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
	foreign := writeELF(t, dir)
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
		{agentkernel.Program{Name: "x.sh", Language: agentkernel.Script, Source: "echo"}, agentkernel.CodeSyntax, "line 1 of x.sh does not say what runs it"},
		{agentkernel.Program{Name: "x.sh", Language: agentkernel.Script, Source: "#!/bin/sh\r\necho"}, agentkernel.CodeSyntax, "line ends of Windows"},
		{agentkernel.Program{Name: "x.sh", Language: agentkernel.Script, Source: "#!bash\necho"}, agentkernel.CodeSyntax, "not an absolute path"},
		{agentkernel.Program{Name: "x.sh", Language: agentkernel.Script, Source: "#!/opt/nosuch/bash\necho"}, agentkernel.CodeNotFound, "line 1 of x.sh: the interpreter /opt/nosuch/bash is not in the sandbox"},
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
