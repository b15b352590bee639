package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"agentkernel"
	"agentkernel/internal/datadir"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/reaper"
	"agentkernel/internal/sandbox/confine"
	"agentkernel/internal/sandbox/monty"
	"agentkernel/internal/sandbox/process"
)

// Main belongs at the very beginning of main in a program that sets [Config.Sandboxes], or has tool servers: the kernel starts the
// program's own executable once more as the helper that builds walls, and above each tool server to end with the kernel all that
// it leaves behind (Linux). In these processes Main does not return.
func Main() {
	reaper.Main()
	process.Main()
}

// Dedicate fits this process, for as long as it lives, to a kernel: it is for a program that is nothing else. The garbage collector keeps it
// from more memory than a kernel needs, by what the machine has, or its cgroup may have, does not begin at a few MiB (see [Ballast]), and Go
// runs more threads than there are processors. What GOMEMLIMIT and GOMAXPROCS say stays.
func Dedicate() {
	room.Bound()
	Ballast()
	if os.Getenv("GOMAXPROCS") == "" {
		crowd()
	}
}

// Ballast takes memory that nobody touches, so that the machine never gives it. The garbage collector lets a heap grow to twice what is
// alive in it, and of a kernel, or of a server of MCP, next to nothing is, while each small program leaves 10 kB behind and each message
// to a server 400: it would run after some hundred programs, or every eighth message, on all processors, beside what they do.
func Ballast() { ballast() }

var ballast = sync.OnceValue(func() []byte { return make([]byte, min(16<<20, room.Most()/16)) })

var crowd = sync.OnceFunc(func() { runtime.GOMAXPROCS(threads(runtime.GOMAXPROCS(0))) })

// threads is how many run Go at a time on so many processors. One that waits for a worker's answer in a read counts as one of them until Go
// notices, which takes about as long as the answer: with two for two processors a quarter of the machine had nothing to do while 64
// programs waited for it.
func threads(processors int) int { return processors + max(1, processors/2) }

// InSystem says whether every sandbox has a file of this machine, which is named without links, in the same place.
func InSystem(file string) bool { return confine.InSystem(file) }

// spawner makes what builds the walls of all backends, or says why there is none.
func (k *Kernel) spawner(cfg Config, dir *datadir.Dir, reap *reaper.Reaper) (*confine.Spawner, *agentkernel.Error, error) {
	if !cfg.Sandboxes {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "sandbox", "this program did not prepare for sandboxes").
			WithHint("it calls embedded.Main first of all in main, and sets embedded.Config.Sandboxes"), nil
	}
	// The name is the directory's, so that the next kernel on it finds what this one may leave.
	name := sha256.Sum256([]byte(dir.Path()))
	spawner, err := confine.NewSpawner(confine.SpawnerConfig{Launcher: reap, Name: hex.EncodeToString(name[:8])})
	if err != nil {
		return nil, nil, err
	}
	k.onClose(spawner.Close)
	return spawner, nil, nil
}

// process makes the backend of CPython. Where it cannot run, it says so when it is used.
func (k *Kernel) process(cfg Config, dir *datadir.Dir, reap *reaper.Reaper, spawner *confine.Spawner, problem *agentkernel.Error) (agentkernel.Backend, error) {
	c := process.Config{Launcher: reap, Python: cfg.Python, Cache: filepath.Join(dir.Path(), "python.json"),
		Masked: []string{dir.Path()}, Spawner: spawner, Problem: problem, Logger: cfg.Logger}
	if spawner != nil {
		c.Command = process.OwnCommand()
	}
	if user, err := os.UserCacheDir(); err == nil {
		c.GoCache = filepath.Join(user, "agentkernel", "go")
	}
	return process.New(c)
}

// unconfined makes the backend of CPython without walls, for those who ask for it where none can stand; nil: there is none.
func (k *Kernel) unconfined(cfg Config, dir *datadir.Dir, reap *reaper.Reaper, spawner *confine.Spawner) (agentkernel.Backend, error) {
	if cfg.NeverUnconfined || runtime.GOOS != "linux" {
		return nil, nil
	}
	return process.New(process.Config{Launcher: reap, Python: cfg.Python, Cache: filepath.Join(dir.Path(), "python.json"), Logger: cfg.Logger,
		Isolation: process.IsolationNone, Stand: func() bool { return spawner != nil && spawner.Machine().Problem == nil }})
}

// ProcessTrial is what a trial of the process backend found.
type ProcessTrial struct {
	Python  string   // "3.11.7 (/usr/bin/python3)"
	Walls   []string // that stood
	Lacking []string // walls that did not, with the reason
}

// TryProcess runs a small program on the process backend, behind all walls, without a kernel. The error says what
// mends it. The calling program calls [Main] first of all.
func TryProcess(ctx context.Context, python string) (t ProcessTrial, err error) {
	spawner, err := confine.NewSpawner(confine.SpawnerConfig{Launcher: launcher{}, Name: "trial-" + ownerID()})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, spawner.Close()) }()
	b, err := process.New(process.Config{Launcher: launcher{}, Spawner: spawner, Python: python, Warm: -1})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	found, err := b.Try(ctx)
	if err != nil {
		return t, err
	}
	t.Python = found.Python.Version + " (" + found.Python.Executable + ")"
	for _, w := range found.Walls {
		if w.On {
			t.Walls = append(t.Walls, w.Name)
		} else {
			t.Lacking = append(t.Lacking, w.Name+": "+w.How)
		}
	}
	return t, nil
}

// TryWalls starts a worker of the Monty engine, without a kernel, and says which walls it lacks, with the reasons. The
// calling program calls [Main] first of all.
func TryWalls(ctx context.Context, engine string) (lacking []string, err error) {
	spawner, err := confine.NewSpawner(confine.SpawnerConfig{Launcher: launcher{}, Name: "trial-" + ownerID()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, spawner.Close()) }()
	b, err := monty.New(monty.Config{Launcher: launcher{}, Walls: spawner, Engine: engine, Spare: -1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	box, err := b.Start(ctx, agentkernel.StartRequest{Namespace: "default", Program: agentkernel.Program{Language: agentkernel.Python, Source: "1"}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	if walled, ok := box.(agentkernel.Walled); ok {
		for _, w := range walled.Walls() {
			if !w.On {
				lacking = append(lacking, w.Name+": "+w.How)
			}
		}
	}
	return lacking, nil
}

// launcher starts processes that the caller waits for.
type launcher struct{}

func (launcher) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = !cmd.SysProcAttr.Setsid
	return cmd.Start()
}

// Kill ends it with what it has started: a script that stands for the engine would leave that, and its pipes open.
func (launcher) Kill(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // gone already: nothing to do
	_ = cmd.Process.Kill()
}
