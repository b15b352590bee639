package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"agentkernel"
	"agentkernel/embedded"
)

// scale is how large a run is.
type scale int

const (
	tiny  scale = iota // proves that everything runs; its figures mean nothing
	quick              // a minute: enough to see a regression
	full
)

func (s scale) String() string { return [...]string{"tiny", "quick", "full"}[s] }

// bench is what sections measure with.
type bench struct {
	engine string // path of the Monty executable
	cli    string // path of the agentkernel executable
	root   string // of the repository
	tmp    string // a directory of this run, on the disk that is measured
	scale  scale
	// heapProfile is a file for a heap profile of a kernel full of parked processes; "" for none.
	heapProfile string
	// chart is a file for the chart of the section agents; "" for none.
	chart string
	// tau2 is a checkout of tau2-bench; "" for none.
	tau2 string

	errw  io.Writer
	now   string // name of the section that runs
	began time.Time
}

// pick chooses by scale.
func (b *bench) pick(inFull, inQuick, inTiny int) int {
	return [...]int{inTiny, inQuick, inFull}[b.scale]
}

// tell shows progress.
func (b *bench) tell(format string, args ...any) {
	fmt.Fprintf(b.errw, "%6.1f s  %-10s %s\n", time.Since(b.began).Seconds(), b.now, fmt.Sprintf(format, args...))
}

// dir makes an empty directory. Its name is short: sockets are to fit into it.
func (b *bench) dir() (string, error) { return os.MkdirTemp(b.tmp, "") }

// open opens a kernel in this process. An empty Home is a new data directory.
func (b *bench) open(ctx context.Context, cfg embedded.Config) (*embedded.Kernel, error) {
	if cfg.Home == "" {
		home, err := b.dir()
		if err != nil {
			return nil, err
		}
		cfg.Home = home
	}
	cfg.Engine, cfg.Version = b.engine, "bench"
	return embedded.Open(ctx, cfg)
}

// python is the Spec of a program.
func python(name, source string) agentkernel.Spec {
	return agentkernel.Spec{Program: agentkernel.Program{Name: name, Language: agentkernel.Python, Source: source}}
}

// finished checks that a process has exited with code 0.
func finished(p agentkernel.Process) error {
	if p.State == agentkernel.StateExited && p.ExitCode == 0 {
		return nil
	}
	if p.Error != nil {
		return fmt.Errorf("pid %d is %s: %s", p.PID, p.State, p.Error.GuestText())
	}
	return fmt.Errorf("pid %d is %s with exit code %d", p.PID, p.State, p.ExitCode)
}

// runAndCheck runs a program to its end and checks what it printed.
func runAndCheck(ctx context.Context, k agentkernel.Kernel, s agentkernel.Spec, printed string) error {
	text := ""
	p, err := k.Run(ctx, s, func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventOutput {
			text += ev.Text
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := finished(p); err != nil {
		return err
	}
	if text != printed {
		return fmt.Errorf("the program printed %q, not %q", text, printed)
	}
	return nil
}

// findEngine gives the path of the Monty executable that the development targets use; "" if it is missing.
func findEngine(root string) string {
	if p := os.Getenv("AGENTKERNEL_MONTY"); p != "" {
		if abs, err := filepath.Abs(p); err == nil {
			return abs
		}
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return ""
	}
	found, err := filepath.Glob(filepath.Join(root, ".cache", "monty", "node_modules", "@pydantic", "monty-*", "monty"))
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0]
}

// section is one part of the document.
type section struct {
	name, title, about string
	run                func(ctx context.Context, b *bench) ([]table, error)
	asked              bool // it takes long, and runs only when it is named
}

// sectionPatience bounds a section: what hangs is part of the document, too.
const sectionPatience = 5 * time.Minute

// askedPatience is that of a section that takes long.
const askedPatience = time.Hour

func errTooLong(after time.Duration) error {
	return fmt.Errorf("the section did not end within %s", after)
}

// sections in the order of the document.
func sections() []section {
	return []section{warmSection, coldSection, syscallSection, hostedSection, modelsSection, parkSection, throughputSection, growthSection, parkedSection, millionSection, killedSection, signalsSection, processSection, tasksSection, promisedSection, mcpSection, agentsSection, turnsSection, tau2Section}
}

// measureSection runs one section; its failure is part of the document.
func (b *bench) measureSection(ctx context.Context, s section) outcome {
	b.now = s.name
	b.tell("begins")
	patience := sectionPatience
	if s.asked {
		patience = askedPatience
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errTooLong(patience))
	defer cancel()
	tables, err := s.run(ctx, b)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	o := outcome{Name: s.name, Title: s.title, About: s.about, Tables: tables}
	if err != nil {
		b.tell("failed: %v", err)
		o.Error = withoutPaths(err.Error(), b.root, b.tmp, filepath.Dir(b.engine))
	}
	return o
}
