package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
)

// files are what a zygote has open when it starts: its input as descriptor 0, what it says as 1 and 2, the
// control socket as 3.
type files struct {
	input   []byte
	said    io.Writer
	control *os.File
}

// zygoteArgs start an interpreter that has no user's site-packages, writes no files and reads the guest library from
// its standard input. What installed packages have run at its start (.pth files, sitecustomize) would run beside the zygote's
// control socket and before any program's walls stand: with -S it runs in each child instead.
func zygoteArgs(python Interpreter) []string {
	args := []string{python.Executable, "-s", "-B", "-X", "utf8", "-c", loader}
	if python.Strange {
		args = slices.Insert(args, 1, "-S")
	}
	return args
}

// zygoteEnv fixes what a replay needs to be the same. Libraries of arithmetic start no threads: a fork has only one.
var zygoteEnv = []string{"PYTHONHASHSEED=0", "TZ=UTC", "LANG=C.UTF-8", "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1",
	"MKL_NUM_THREADS=1"}

// childEnv is the whole environment of a program.
var childEnv = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + confine.TmpDir, "LANG=C.UTF-8", "TZ=UTC", "PYTHONHASHSEED=0"}

// walled is a zygote in a sandbox of its own, whose children have one more each.
type walled struct {
	z       *confine.Cell
	process *confine.Process
	copies  sync.WaitGroup
}

func startWalled(ctx context.Context, cfg *Config, python Interpreter, f files) (body, error) {
	cell, err := cfg.Spawner.Prepare(confine.Config{
		Kind: confine.Zygote, Profile: confine.ProfilePython, Runtime: runtimeOf(python), Masked: cfg.Masked,
		Program: confine.Program{Path: python.Executable, Args: zygoteArgs(python), Env: zygoteEnv, Dir: "/"},
	})
	if err != nil {
		return nil, err
	}
	w := &walled{z: cell}
	var p pipes
	if err := p.open(); err != nil {
		return nil, errors.Join(err, p.close(), cell.Close())
	}
	w.process, err = cfg.Spawner.Start(ctx, cell, []*os.File{p.input, p.said, p.said, f.control})
	_, _ = p.input.Close(), p.said.Close() // the zygote has its own
	inputEnd, saidEnd := p.inputEnd, p.saidEnd
	if err != nil {
		_, _ = inputEnd.Close(), saidEnd.Close()
		return nil, err
	}
	w.copies.Go(func() {
		_, _ = inputEnd.Write(f.input) // if it has ended, that is told elsewhere
		_ = inputEnd.Close()
	})
	w.copies.Go(func() {
		_, _ = io.Copy(f.said, saidEnd)
		_ = saidEnd.Close()
	})
	return w, nil
}

// pipes connect a zygote's descriptors 0 to 2 with us. Its ends are blocking, as any program expects; ours are not.
type pipes struct {
	input, inputEnd, saidEnd, said *os.File
}

func (p *pipes) open() (err error) {
	if p.input, p.inputEnd, err = pipe(false); err != nil {
		return err
	}
	p.saidEnd, p.said, err = pipe(true)
	return err
}

func (p *pipes) close() error {
	var errs []error
	for _, f := range []*os.File{p.input, p.inputEnd, p.saidEnd, p.said} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// pipe makes a pipe of which one end, the reader's or the writer's, is ours.
func pipe(oursReads bool) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	ours := fds[1]
	if oursReads {
		ours = fds[0]
	}
	err = unix.SetNonblock(ours, true)
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), os.NewSyscallError("fcntl", err)
}

// runtimeOf lists what an interpreter needs to see of the host.
func runtimeOf(python Interpreter) []confine.Mount {
	mounts := confine.SystemRuntime()
	for _, dir := range append(slices.Clone(python.Prefixes), filepath.Dir(python.Executable)) {
		dir = filepath.Clean(dir)
		if st, err := os.Stat(dir); err != nil || !st.IsDir() || dir == "/" {
			continue
		}
		if !slices.ContainsFunc(mounts, func(m confine.Mount) bool { return dir == m.Source || strings.HasPrefix(dir, m.Source+"/") }) {
			mounts = append(mounts, confine.Mount{Source: dir})
		}
	}
	return mounts
}

func (w *walled) kill() { w.process.Kill() }

func (w *walled) wait() string {
	exit, err := w.process.Wait(context.Background())
	w.copies.Wait()
	if err != nil || !exit.Known {
		return "it was killed"
	}
	return ending{status: exit.Status}.String()
}

// headroom is what a program may have beyond its heap before the walls end it: so that the interpreter itself meets
// the limit first, and can say where.
const headroom = 48 << 20

func (w *walled) cell(l agentkernel.Limits, mounts []agentkernel.Mount) (*confine.Cell, error) {
	limits := limitsOf(l)
	limits.Memory += headroom
	cfg := confine.Config{
		Kind: confine.Child, Profile: confine.ProfilePython, ShareNet: true,
		TmpBytes: tmpBytes(l),
		Limits:   limits,
		Program:  confine.Program{Env: childEnv},
	}
	addFolders(&cfg, mounts, l.Disk)
	return w.z.Child(cfg)
}

// bare is a zygote without walls, and so are its children.
type bare struct {
	cmd    *exec.Cmd
	launch Launcher
}

func startBare(_ context.Context, cfg *Config, python Interpreter, f files) (body, error) {
	args := zygoteArgs(python)
	b := &bare{cmd: exec.Command(args[0], args[1:]...), launch: cfg.Launcher}
	b.cmd.Env, b.cmd.Dir = zygoteEnv, "/"
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr, b.cmd.WaitDelay = bytes.NewReader(f.input), f.said, f.said, exitWait
	b.cmd.ExtraFiles = []*os.File{f.control}
	if err := cfg.Launcher.Start(b.cmd); err != nil {
		return nil, missing("%s does not start: %w", python.Executable, err)
	}
	return b, nil
}

func (b *bare) kill() { b.launch.Kill(b.cmd) }

func (b *bare) wait() string {
	_ = b.cmd.Wait()     // how it ended is in ProcessState
	b.launch.Kill(b.cmd) // whatever it left behind, and its record
	return b.cmd.ProcessState.String()
}

func (b *bare) cell(agentkernel.Limits, []agentkernel.Mount) (*confine.Cell, error) { return nil, nil }
