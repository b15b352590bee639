package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
)

// Journal of the fake kernel: a run that was created, and entries.
func (f *fakeKernel) Journal(_ context.Context, pid agentkernel.PID, _ int64, _ int) ([]agentkernel.Entry, error) {
	created := agentkernel.Entry{PID: pid, Seq: 1, Kind: agentkernel.EntryCreated, Data: json.RawMessage(`{}`)}
	return append([]agentkernel.Entry{created}, f.entries...), nil
}

func (f *fakeKernel) Spec(context.Context, agentkernel.PID) (agentkernel.Spec, error) {
	return agentkernel.Spec{}, nil
}

// A PID whose process is not there never was one; the message says why.
func TestPIDsThatAreNotThere(t *testing.T) {
	for args, want := range map[string]string{
		"why 7":      "there is no process 7: its number was used up by a run that did not start",
		"diff 12 7":  "there is no process 7",
		"trace 7":    "there is no process 7",
		"why 13":     "there is no process 13: the newest is 12",
		"diff 13 12": "there is no process 13",
	} {
		r := newRig(t)
		r.kernel.list = []agentkernel.Process{{PID: 12, State: agentkernel.StateExited}}
		if code := r.run(strings.Fields(args)...); code != agentkernel.ExitFailed {
			t.Errorf("%s: exit code %d", args, code)
		}
		contains(t, args, r.err.String(), want, "agentkernel ps --all")
	}
	r := newRig(t)
	if code := r.run("why", "1"); code != agentkernel.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	contains(t, "of an empty store", r.err.String(), "the store has none")
}

// Colours are for terminals only.
func TestAnswersHaveColoursOnATerminalOnly(t *testing.T) {
	for _, args := range []string{"why 12", "diff 12 12"} {
		for env, want := range map[string]bool{"": true, "NO_COLOR=1": false, "TERM=dumb": false} {
			r := newRig(t)
			r.kernel.list = []agentkernel.Process{{PID: 12, State: agentkernel.StateExited}}
			r.outTTY, r.env = true, []string{env}
			if code := r.run(strings.Fields(args)...); code != agentkernel.ExitOK {
				t.Fatalf("%s: exit code %d: %s", args, code, r.err.String())
			}
			if got := strings.Contains(r.out.String(), "\x1b["); got != want {
				t.Errorf("%s with %q: colours %v", args, env, got)
			}
		}
		r := newRig(t)
		r.kernel.list = []agentkernel.Process{{PID: 12, State: agentkernel.StateExited}}
		if r.run(strings.Fields(args)...); strings.Contains(r.out.String(), "\x1b") {
			t.Errorf("%s: colours in a pipe", args)
		}
	}
}

// What why tells people to type is understood by the command line.
func TestWhatWhySaysCanBeTyped(t *testing.T) {
	paths, err := filepath.Glob("internal/why/testdata/*.txt")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d reports, %v", len(paths), err)
	}
	seen := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			command, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(line, "next: "), "  or: ")), "agentkernel ")
			if !ok {
				continue
			}
			command, _, _ = strings.Cut(command, "      ")
			args := shellWords(command)
			seen[args[0]] = true
			a := &app{host: host{args: args, out: io.Discard, err: io.Discard}}
			parser, err := newParser(a)
			if err != nil {
				t.Fatal(err)
			}
			if findChild(parser.Model.Node, args[0]) == nil {
				t.Errorf("%s: there is no command %s", path, args[0])
				continue
			}
			if _, err := parser.Parse(args); err != nil {
				t.Errorf("%s: agentkernel %s: %v", path, command, err)
			}
		}
	}
	for _, want := range []string{"rerun", "resolve", "trace", "resume", "recover", "tools"} {
		if !seen[want] {
			t.Errorf("no report says %s", want)
		}
	}
}

// shellWords takes single quotes off.
func shellWords(s string) []string {
	var out []string
	for i, part := range strings.Split(s, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}
