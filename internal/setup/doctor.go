package setup

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"agentkernel"
)

// Status is the outcome of one check.
type Status string

// The outcomes. A warning leaves programs able to run; a failure does not.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Finding is what a check found.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`         // the value found, or what is wrong
	Fix    string `json:"fix,omitempty"` // the command, or the sentence, that mends it
}

// Report is the outcome of all checks, in the order of the table.
type Report struct {
	OK       bool      `json:"ok"` // nothing failed: all programs can run
	Version  string    `json:"version"`
	Home     string    `json:"home"`
	Findings []Finding `json:"findings"`
}

// DoctorOptions say what to examine. The functions reach parts of the module that this package may not
// import; a nil one leaves its checks out.
type DoctorOptions struct {
	Home    string   // data directory; it is never created nor changed
	Shared  string   // UserEngines
	Version string   // of the calling binary
	Engine  string   // the setting `engine`
	Python  string   // the setting `python`
	Backend string   // the setting `backend`
	Tools   []string // MCP configuration files, absolute
	Log     string   // the kernel's log; "": that of the data directory
	Quota   int64    // the setting `storage.quota`, bytes; 0: none
	Unread  []string // settings that cannot be read: what goes by them is not looked at

	// Reader opens the database for reading, without a kernel.
	Reader func(ctx context.Context, home string) (agentkernel.Kernel, error)
	// Examine looks for damage of the database, and of the files that lie beside it.
	Examine func(ctx context.Context, home string) (Examined, error)
	// Dial reaches a running kernel at its socket.
	Dial func(ctx context.Context, socket string) (agentkernel.Kernel, error)
	// ToolSource gives the tools of configuration files; the servers that it starts end with close.
	ToolSource func(files []string) (source agentkernel.ToolSource, close func() error, err error)

	// Embeddings is the setting embeddings.url. TryEmbeddings asks it for one vector and returns its length.
	Embeddings    string
	TryEmbeddings func(ctx context.Context) (int, error)
	// Models says of each declared model whether its key, its server and its price are there.
	Models func(ctx context.Context) []Finding
	// TryWalls starts a worker of the engine and says which walls it lacks, with the reason.
	TryWalls func(ctx context.Context, engine string) (lacking []string, err error)
	// TryProcess runs a small program on the process backend.
	TryProcess func(ctx context.Context, python string) (Trial, error)

	LookPath func(name string) (string, error) // nil: exec.LookPath
	Timeout  time.Duration                     // for one check; 0: 30 s

	cpython *atomic.Bool // set by the check of the process backend: programs run there
}

// Check examines one thing. It must end when ctx does, and change nothing.
type Check struct {
	Name string
	Run  func(ctx context.Context, o DoctorOptions) []Finding
	// Setting is what it goes by alone; "": it can be made whatever is set.
	Setting string
	// Inside says that it looks into the data directory.
	Inside bool
}

// CheckTools is the check of the servers of tools files.
const CheckTools = "tool servers"

const checkOfEngine = "engine"

// Checks is the table: a new check is one entry.
func Checks() []Check {
	return []Check{
		{Name: "data directory", Run: checkHome},
		{Name: "disk space", Run: checkSpace},
		{Name: "kernel", Run: checkKernel, Inside: true},
		{Name: "database", Run: checkDatabase, Inside: true},
		{Name: "stored data", Run: checkStored, Inside: true},
		{Name: "storage", Run: checkStorage, Inside: true},
		{Name: "leftovers", Run: checkLeftovers, Inside: true},
		{Name: "kernel log", Run: checkLog, Setting: "log.path"},
		{Name: checkOfEngine, Run: checkEngine, Setting: "engine"},
		{Name: "walls of Monty", Run: checkWalls, Setting: "engine"},
		{Name: "process backend", Run: checkProcess, Setting: "python"},
		{Name: "node", Run: checkNode},
		{Name: CheckTools, Run: checkTools, Setting: "tools"},
		{Name: "tool search", Run: checkSearch, Setting: "embeddings.url"},
		{Name: "models", Run: checkModels, Setting: "models"},
	}
}

// Doctor runs all checks, one after the other, each within its own time.
func Doctor(ctx context.Context, o DoctorOptions) Report {
	return examine(ctx, o, Checks())
}

func examine(ctx context.Context, o DoctorOptions, checks []Check) Report {
	if o.LookPath == nil {
		o.LookPath = exec.LookPath
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	o.cpython = new(atomic.Bool)
	r := Report{OK: true, Version: o.Version, Home: o.Home, Findings: []Finding{}}
	closed := unreadable(o.Home)
	for _, c := range checks {
		if c.Inside && closed { // it would find nothing, and call that good
			r.Findings = append(r.Findings, Finding{Check: c.Name, Status: Warn, Found: "not looked at: this user may not read " + o.Home})
			continue
		}
		for _, f := range runCheck(ctx, o, c) {
			if f.Check == "" {
				f.Check = c.Name
			}
			r.Findings = append(r.Findings, f)
		}
	}
	if o.cpython.Load() {
		spareEngine(r.Findings, o)
	}
	r.OK = !slices.ContainsFunc(r.Findings, failing)
	return r
}

func failing(f Finding) bool { return f.Status == Fail }

// spareEngine says of an engine that is missing what that means where CPython runs programs: they need none by a setting, or are slower
// without. Where a setting names an engine or asks for it, it stays a failure.
func spareEngine(all []Finding, o DoctorOptions) {
	for i := range all {
		f := &all[i]
		switch {
		case f.Check != checkOfEngine || f.Status != Fail:
		case o.Backend == "process" || o.Backend == "unconfined":
			f.Status, f.Found = Warn, f.Found+"; programs need none, since the setting backend has them run in CPython"
		case o.Engine == "" && (o.Backend == "" || o.Backend == "auto"):
			f.Status, f.Found = Warn, f.Found+"; until then programs run in CPython, where small ones start ten times slower"
		}
	}
}

// Add puts findings of the caller in front of the report.
func (r *Report) Add(found ...Finding) {
	r.Findings = append(slices.Clone(found), r.Findings...)
	r.OK = !slices.ContainsFunc(r.Findings, failing)
}

func runCheck(ctx context.Context, o DoctorOptions, c Check) []Finding {
	if slices.Contains(o.Unread, c.Setting) {
		return warn("", "not looked at: the settings cannot be read")
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	done := make(chan []Finding, 1)
	go func() { done <- c.Run(ctx, o) }()
	select {
	case found := <-done:
		return found
	case <-ctx.Done():
	}
	// It should end by itself now. One that hangs in a system call is left behind: the report is made all the same.
	select {
	case found := <-done:
		return found
	case <-time.After(checkGrace):
		return fail("look at what it examines; agentkernel bug-report has the rest", "the check did not end within %s", o.Timeout)
	}
}

// checkGrace is what a check gets to end in when its time is over.
const checkGrace = 5 * time.Second

// Text writes the report for people: one line a check, the fix below it.
func (r Report) Text(w io.Writer) error {
	var b strings.Builder
	width := 0
	for _, f := range r.Findings {
		width = max(width, len(f.Check))
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-4s  %-*s  %s\n", f.Status, width, f.Check, f.Found)
		if f.Fix != "" && f.Status != OK {
			fmt.Fprintf(&b, "      %-*s  -> %s\n", width, "", f.Fix)
		}
	}
	if r.OK {
		b.WriteString("programs can run here\n")
	} else {
		b.WriteString("not all programs can run here yet: mend what has failed\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func ok(format string, args ...any) []Finding {
	return []Finding{{Status: OK, Found: fmt.Sprintf(format, args...)}}
}

func warn(fix, format string, args ...any) []Finding {
	return []Finding{{Status: Warn, Found: fmt.Sprintf(format, args...), Fix: fix}}
}

func fail(fix, format string, args ...any) []Finding {
	return []Finding{{Status: Fail, Found: fmt.Sprintf(format, args...), Fix: fix}}
}

// failed is the finding for an error, with its own hint as the fix.
func failed(status Status, err error) []Finding {
	e := agentkernel.AsError(err, agentkernel.CodeInternal, "doctor")
	return []Finding{{Status: status, Found: e.Message(), Fix: e.Hint}}
}
