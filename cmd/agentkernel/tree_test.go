package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/datadir"
)

// leaves are the commands that run something, with arguments that each may be called with.
func leaves(t *testing.T) map[string]*kong.Node {
	t.Helper()
	model, err := wholeModel()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*kong.Node{}
	for _, n := range model.Model.Leaves(false) {
		found[strings.TrimPrefix(n.FullPath(), "agentkernel ")] = n
	}
	return found
}

// meant are the arguments of commands that look at these before they look at flags.
var meant = map[string][]string{"run": {"-c", "1"}, "spawn": {"-c", "1"}, "task": {"What is 1 + 1?"}, "tools call": {"a.b"}}

// call is a command line for a command: a value for each argument and flag that it cannot do without.
func call(name string, n *kong.Node, flags ...string) []string {
	if words, ok := meant[name]; ok {
		return slices.Concat(strings.Fields(name), words, flags)
	}
	args := strings.Fields(name)
	for _, p := range n.Positional {
		switch {
		case len(p.Tag.Enum) > 0:
			args = append(args, strings.Split(p.Tag.Enum, ",")[0])
		case p.Required:
			args = append(args, "1")
		}
	}
	for _, f := range n.Flags {
		if f.Required && !slices.ContainsFunc(flags, func(given string) bool { return strings.HasPrefix(given, "--"+f.Name+"=") }) {
			args = append(args, "--"+f.Name+"=1d")
		}
	}
	return append(args, flags...)
}

// outside is a command in an empty world: no kernel, no data directory, no user.
func outside(t *testing.T, errs io.Writer, args []string) (home, printed string, code int) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	home = filepath.Join(dir, "data")
	var out screen
	h := host{args: args, env: []string{"AGENTKERNEL_HOME=" + home, "HOME=" + dir}, userHome: dir, in: strings.NewReader(""), out: &out, err: errs,
		width: func() int { return 80 }, workingDir: func() (string, error) { return dir, nil },
		signals: func() (<-chan os.Signal, func()) { return nil, func() {} }}
	nothing := agentkernel.Errorf(agentkernel.CodeUnavailable, "test", "there is no kernel in this test")
	p := systemParts()
	p.dial = func(context.Context, string) (agentkernel.Kernel, error) { return nil, nothing }
	p.open = func(context.Context, embedded.Config) (agentkernel.Kernel, error) { return nil, nothing }
	p.start = func(context.Context, *app, *datadir.Dir) error { return nothing }
	code = run(t.Context(), h, p)
	return home, out.String(), code
}

// speaksItself are the commands whose standard output is a protocol or a log.
var speaksItself = []string{"mcp", "serve", "devllm"}

// Each command answers --json with JSON, or says in JSON that it has none; so does its help.
func TestEveryCommandAnswersInJSON(t *testing.T) {
	for name, n := range leaves(t) {
		lines := [][]string{append([]string{"help"}, append(strings.Fields(name), "--json")...), append(strings.Fields(name), "--help", "--json")}
		if !slices.Contains(speaksItself, name) && name != "setup" { // which would fetch the engine
			lines = append(lines, call(name, n, "--json"))
		}
		for _, args := range lines {
			_, out, _ := outside(t, io.Discard, args)
			values := 0
			var err error
			for d := json.NewDecoder(strings.NewReader(out)); err == nil; {
				var v any
				if err = d.Decode(&v); err == nil {
					values++
				}
			}
			if err != io.EOF || values == 0 { //nolint:errorlint // as it is given
				t.Errorf("%v printed %q: %v", args, out, err)
			}
		}
	}
}

// countable says what a flag counts: a number or a time, as its type or the name of its value says.
func countable(f *kong.Flag) bool {
	return slices.Contains([]reflect.Kind{reflect.Int, reflect.Int64}, f.Target.Kind()) || slices.Contains([]string{"N", "SPAN", "SIZE"}, f.PlaceHolder)
}

// A number or a time below zero is refused before anything happens, whatever flag it is given to; so is zero, unless it has a meaning.
func TestFlagsBelowZero(t *testing.T) {
	seen := 0
	for name, n := range leaves(t) {
		for _, f := range n.Flags {
			if !countable(f) {
				continue
			}
			seen++
			values := []string{"-1"}
			if f.Target.Type().String() == "time.Duration" || f.PlaceHolder == "SPAN" {
				values = []string{"-5s"}
			}
			if !f.Tag.Has("zero") {
				values = append(values, strings.TrimPrefix(strings.Replace(values[0], "5", "0", 1), "-"))
				if values[1] == "1" {
					values[1] = "0"
				}
			}
			for _, value := range values {
				args := call(name, n, "--"+f.Name+"="+value)
				var out screen
				home, _, code := outside(t, &out, args)
				_, err := os.Stat(home)
				if code != agentkernel.ExitUsage || !strings.Contains(out.String(), f.Name) || !os.IsNotExist(err) {
					t.Errorf("%v: exit %d, data directory: %v, %s", args, code, err, out.String())
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d flags were tried", seen)
	}
}
