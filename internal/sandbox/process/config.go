package process

import (
	"log/slog"
	"os/exec"
	"time"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
)

// Launcher starts and kills child processes so that none outlives the kernel; reaper.Reaper is one.
type Launcher interface {
	// Start starts cmd in a process group of its own.
	Start(cmd *exec.Cmd) error
	// Kill kills its whole group and what else it started. It does nothing if the command has ended.
	Kill(cmd *exec.Cmd)
}

// languages are those of the backend.
var languages = []agentkernel.Language{agentkernel.Python, agentkernel.Node, agentkernel.Go, agentkernel.Script, agentkernel.Command}

// IsolationNone runs programs without walls: they can do all that the kernel's own user can.
const IsolationNone = "none"

// Config says how to run programs. Launcher and Spawner are needed; everything else has a useful zero value.
type Config struct {
	Launcher Launcher
	// Spawner builds the walls. Nothing runs without it, but with Isolation "none", which must be asked for.
	Spawner   *confine.Spawner
	Isolation string
	// Stand says whether walls can stand here. Without walls (Isolation "none") nothing runs where they can; nil: they
	// are not asked for.
	Stand func() bool
	// Problem says why this kernel cannot use its spawner; nothing runs then.
	Problem *agentkernel.Error
	// Masked are directories of the host that no program sees: the data directory.
	Masked []string
	// Python is the interpreter: a path, or a name on PATH. "" means python3 on PATH.
	Python string
	// Node is the Node.js of programs in JavaScript: a path, or a name on PATH. "" means node on PATH.
	Node string
	// GoCache is a directory of the user's for what programs in Go are built to; "": none can be built.
	GoCache string
	// Command is the executable that programs find as `kernel` on their PATH, one whose main calls command.Main; ""
	// means that there is none. Python programs have modules instead.
	Command string
	// Cache is a file that keeps what the interpreter said of itself. "" keeps nothing.
	Cache string
	// Warm is how many children of a zygote wait for a program; 0 means two, negative none.
	Warm int
	// Zygotes bounds how many idle zygotes are kept; 0 means eight.
	Zygotes int
	// IdleAfter is how long a zygote that nobody uses is kept; 0 means five minutes.
	IdleAfter time.Duration
	// Grace is how long a program may exceed its time limit before it is killed, after it was told; 0: one second.
	Grace time.Duration
	// MaxFrame bounds one message of a program, in bytes; 0 means 64 MiB.
	MaxFrame int
	Logger   *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Launcher == nil {
		return c, agentkernel.Errorf(agentkernel.CodeInternal, "process", "Config.Launcher is nil")
	}
	switch {
	case c.Isolation != "" && c.Isolation != IsolationNone:
		return c, agentkernel.Errorf(agentkernel.CodeInvalid, "process", "isolation %q is not known: leave it out, or none", c.Isolation)
	case c.Isolation == "" && c.Spawner == nil && c.Problem == nil:
		return c, agentkernel.Errorf(agentkernel.CodeInternal, "process", "Config.Spawner is nil")
	}
	switch {
	case c.Warm == 0:
		c.Warm = 2
	case c.Warm < 0:
		c.Warm = 0
	}
	if c.Zygotes == 0 {
		c.Zygotes = 8
	}
	if c.IdleAfter == 0 {
		c.IdleAfter = 5 * time.Minute
	}
	if c.Grace == 0 {
		c.Grace = time.Second
	}
	if c.MaxFrame == 0 {
		c.MaxFrame = 64 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Zygotes < 0 || c.MaxFrame < 1<<10 {
		return c, agentkernel.Errorf(agentkernel.CodeInvalid, "process", "zygotes and frame size must be positive")
	}
	return c, nil
}
