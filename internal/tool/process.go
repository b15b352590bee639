package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/clip"
)

// How long is waited for the last words of a server that has ended: a grandchild may hold its pipes open.
const lastWords = 250 * time.Millisecond

// process is a stdio server that was started: its pipes, its stderr and its end.
type process struct {
	cmd      *exec.Cmd
	launcher Launcher
	stdin    *os.File // to the server
	stdout   *os.File // from the server
	stderr   *clip.Tail
	dead     chan struct{} // the process has ended
	ended    chan struct{} // the process has ended and its stderr is read; err is set
	err      error         // of cmd.Wait

	bounding sync.Mutex
	bounded  bool // by wait, which counts
}

// startProcess starts the command of an entry with the environment that it names, PATH and HOME.
func startProcess(e *entry, l Launcher, lookup func(string) (string, bool)) (*process, error) {
	env := childEnv(e, lookup)
	path, err := findCommand(e, env)
	if err != nil {
		return nil, err
	}
	if st, err := os.Stat(e.cwd); err != nil || !st.IsDir() {
		return nil, fmt.Errorf("its directory (cwd) does not exist: %s", e.cwd)
	}
	var pipes [6]*os.File // stdin r,w; stdout r,w; stderr r,w
	closeAll := func(files ...*os.File) {
		for _, f := range files {
			if f != nil {
				_ = f.Close()
			}
		}
	}
	for i := 0; i < len(pipes); i += 2 {
		if pipes[i], pipes[i+1], err = os.Pipe(); err != nil {
			closeAll(pipes[:]...)
			return nil, err
		}
	}
	cmd := &exec.Cmd{Path: path, Args: append([]string{e.command}, e.args...), Env: env, Dir: e.cwd,
		Stdin: pipes[0], Stdout: pipes[3], Stderr: pipes[5]}
	if err := l.Start(cmd); err != nil {
		closeAll(pipes[:]...)
		return nil, err
	}
	closeAll(pipes[0], pipes[3], pipes[5])
	p := &process{cmd: cmd, launcher: l, stdin: pipes[1], stdout: pipes[2], stderr: &clip.Tail{},
		dead: make(chan struct{}), ended: make(chan struct{})}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(p.stderr, pipes[4])
		_ = pipes[4].Close()
	}()
	go p.wait(pipes[4], drained)
	return p, nil
}

// wait reaps the process, kills what it left behind, and gives its pipes a moment to run dry.
func (p *process) wait(stderr *os.File, drained <-chan struct{}) {
	p.err = p.cmd.Wait()
	close(p.dead)
	p.launcher.Kill(p.cmd)
	until := time.Now().Add(lastWords)
	p.bounding.Lock()
	_, p.bounded = p.stdout.SetReadDeadline(until), true
	p.bounding.Unlock()
	_ = stderr.SetReadDeadline(until)
	<-drained
	close(p.ended)
}

// readBy bounds how long its output is waited for; the zero time: nothing does. False: it has ended, and was given a moment.
func (p *process) readBy(until time.Time) bool {
	p.bounding.Lock()
	defer p.bounding.Unlock()
	if p.bounded {
		return false
	}
	_ = p.stdout.SetReadDeadline(until)
	return true
}

// stop ends the process: its stdin is closed, which asks it to leave; after grace its group is killed.
func (p *process) stop(grace time.Duration) {
	_ = p.stdin.Close()
	_ = p.stdout.Close()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		p.launcher.Kill(p.cmd)
		<-p.ended
	}
}

// fate says how the process ended, waiting a moment for the end: "exited with status 1".
func (p *process) fate() string {
	timer := time.NewTimer(2 * lastWords)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		return ""
	}
	if p.err == nil {
		return "exited with status 0"
	}
	if exit, ok := errors.AsType[*exec.ExitError](p.err); ok {
		if exit.Exited() {
			return fmt.Sprintf("exited with status %d", exit.ExitCode())
		}
		return "was ended by " + exit.String()
	}
	return p.err.Error()
}

// childEnv is what the entry names, and PATH and HOME of the kernel where it does not name them.
func childEnv(e *entry, lookup func(string) (string, bool)) []string {
	var env []string
	for k, v := range e.env {
		env = append(env, k+"="+v)
	}
	for _, k := range []string{"PATH", "HOME"} {
		if _, named := e.env[k]; named {
			continue
		}
		if v, ok := lookup(k); ok {
			env = append(env, k+"="+v)
		}
	}
	slices.Sort(env)
	return env
}

// findCommand looks the command up in the PATH that the server will have.
func findCommand(e *entry, env []string) (string, error) {
	path, err := lookedUp(e, env)
	if program, _, more := strings.Cut(e.command, " "); err != nil && more { // the whole line, as a shell takes it
		err = fmt.Errorf("there is no program %q: \"command\" is the program alone, %q, and its arguments belong in \"args\"", e.command, program)
	}
	return path, err
}

func lookedUp(e *entry, env []string) (string, error) {
	if strings.ContainsRune(e.command, filepath.Separator) {
		path := e.command
		if !filepath.IsAbs(path) {
			path = filepath.Join(e.cwd, path)
		}
		return path, executable(path)
	}
	search := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = v
		}
	}
	for _, dir := range filepath.SplitList(search) {
		if path := filepath.Join(dir, e.command); filepath.IsAbs(path) && executable(path) == nil {
			return path, nil
		}
	}
	if _, own := e.env["PATH"]; own {
		return "", fmt.Errorf("there is no %s on the PATH that the env of its entry sets: install it, or write its full path", e.command)
	}
	return "", fmt.Errorf("%w: install it, or write its full path", agentkernel.NotOnPath(e.command))
}

func executable(path string) error {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("command %s does not exist", path)
	case st.IsDir() || st.Mode()&0o111 == 0:
		return fmt.Errorf("command %s is not executable", path)
	}
	return nil
}

// write writes b, giving up when ctx ends. sent says whether any byte left. The caller holds the write lock.
func (p *process) write(ctx context.Context, b []byte) (sent bool, err error) {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = p.stdin.SetWriteDeadline(time.Now())
		close(interrupted)
	})
	n, err := p.stdin.Write(b)
	if !stop() {
		<-interrupted
		_ = p.stdin.SetWriteDeadline(time.Time{})
	}
	return n > 0, err
}
