package frontend_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/sandbox/monty"
)

// launcher starts and kills processes and nothing more.
type launcher struct{}

func (launcher) Start(cmd *exec.Cmd) error { return cmd.Start() }
func (launcher) Kill(cmd *exec.Cmd)        { _ = cmd.Process.Kill() } // gone already: nothing to do

// engine is the real backend around the front end under test.
func engine(t testing.TB) *monty.Backend {
	t.Helper()
	b, err := monty.New(monty.Config{Launcher: launcher{}, Engine: enginePath(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func enginePath(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("AGENTKERNEL_MONTY"); p != "" {
		return p
	}
	if p, err := exec.LookPath("monty"); err == nil {
		return p
	}
	p, err := filepath.Abs("../../../../.cache/monty/node_modules/@pydantic/monty-linux-x64-gnu/monty")
	if err == nil {
		if _, err = os.Stat(p); err == nil {
			return p
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("the Monty engine is missing; run: make deps")
	}
	t.Skip("SKIPPED, NOTHING PROVED: the Monty engine is missing; set AGENTKERNEL_MONTY or run: make deps")
	return ""
}

// outcome is all that a program did.
type outcome struct {
	stdout, stderr string
	calls          []string
	turn           agentkernel.Turn
	err            error
}

// text is what a comparison with CPython looks at.
func (o outcome) text() string {
	switch {
	case o.err != nil:
		return o.stdout + "ERROR " + o.err.Error()
	case o.turn.Err != nil:
		return o.stdout + "RAISED " + o.turn.Err.Message()
	}
	return o.stdout
}

// answer replies to one call of a program.
type answer func(op string, args map[string]any) any

// run executes a program on the real engine.
func run(t testing.TB, b *monty.Backend, p agentkernel.Program, tools []agentkernel.Tool, reply answer) outcome {
	t.Helper()
	var o outcome
	var stdout, stderr strings.Builder
	req := agentkernel.StartRequest{PID: 7, Namespace: "n", Program: p, Tools: tools, Limits: agentkernel.DefaultLimits(),
		Output: func(stream, text string) {
			if stream == "stdout" {
				stdout.WriteString(text)
			} else {
				stderr.WriteString(text)
			}
		}}
	box, err := b.Start(context.Background(), req)
	if err != nil {
		return outcome{err: err}
	}
	defer func() { _ = box.Close() }()
	var pending []agentkernel.Reply
	var next *agentkernel.Reply
	for id := int64(1); ; {
		o.turn, o.err = box.Next(context.Background(), next)
		o.stdout, o.stderr = stdout.String(), stderr.String()
		if o.err != nil || o.turn.Kind == agentkernel.TurnExit || o.turn.Kind == agentkernel.TurnFail {
			return o
		}
		if o.turn.Kind == agentkernel.TurnWait {
			if len(pending) == 0 {
				t.Fatal("the program waits for nothing")
			}
			last := pending[len(pending)-1]
			pending = pending[:len(pending)-1]
			next = &last
			continue
		}
		c := o.turn.Call
		line := c.Op + " " + string(c.Args)
		if c.Async {
			line = "async " + line
		}
		o.calls = append(o.calls, line)
		if c.Op == "proc.exit" {
			return o
		}
		r := agentkernel.Reply{ID: id, Result: json.RawMessage("null")}
		id++
		if reply != nil {
			var args map[string]any
			if err := json.Unmarshal(c.Args, &args); err != nil {
				t.Fatal(err)
			}
			switch v := reply(c.Op, args).(type) {
			case *agentkernel.Error:
				r.Err = v
			default:
				if r.Result, err = json.Marshal(v); err != nil {
					t.Fatal(err)
				}
			}
		}
		next = &r
		if c.Async {
			pending = append(pending, r)
			next = &agentkernel.Reply{ID: r.ID, Pending: true}
		}
	}
}

func program(src string) agentkernel.Program {
	return agentkernel.Program{Name: "main.py", Language: agentkernel.Python, Source: src}
}
