package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/internal/datadir"
)

// birth is the one message of a background kernel to the command that started it.
type birth struct {
	Ready bool               `json:"ready,omitempty"`
	Error *agentkernel.Error `json:"error,omitempty"`
}

// notifyFD is where a background kernel finds the pipe to the command that started it.
const notifyFD = 3

// startBackground starts `agentkernel serve --background` in a session of its own and waits until it
// listens. CodeConflict: another kernel holds the directory.
func startBackground(ctx context.Context, a *app, dir *datadir.Dir) error {
	self, err := os.Executable()
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "start", "the path of this program is not known: %w", err).
			WithHint("agentkernel serve, in another terminal, runs a kernel too")
	}
	lines := datadir.NewLog(a.logConfig(dir))
	log, err := lines.Open()
	if err != nil {
		return err
	}
	defer lines.Close()
	from, _ := log.Seek(0, io.SeekEnd)
	r, w, err := os.Pipe()
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "start", "%w", err)
	}
	defer r.Close()
	cmd := exec.Command(self, "serve", "--background", "--home", dir.Path())
	cmd.Env, cmd.Dir = a.backgroundEnv(), "/"
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "start", "a kernel could not be started: %w", err).
			WithHint("agentkernel serve, in another terminal, runs a kernel too")
	}
	go func() { _ = cmd.Wait() }() // it outlives most commands; for the others no zombie stays
	return awaitBirth(ctx, r, func() string { return logTail(lines.Path(), from) })
}

// backgroundEnv is the environment with the settings that depend on the working directory made absolute.
func (a *app) backgroundEnv() []string {
	env := append([]string{}, a.env...)
	if c := a.cfg; c != nil && c.Engine != "" {
		env = append(env, "AGENTKERNEL_ENGINE="+c.Engine)
	}
	if c := a.cfg; c != nil && c.Python != "" {
		env = append(env, "AGENTKERNEL_PYTHON="+c.Python)
	}
	if c := a.cfg; c != nil && c.Log.Path != "" {
		env = append(env, "AGENTKERNEL_LOG_PATH="+c.Log.Path)
	}
	return env
}

// awaitBirth reads the newborn kernel's message.
func awaitBirth(ctx context.Context, r *os.File, log func() string) error {
	if deadline, ok := ctx.Deadline(); ok {
		_ = r.SetReadDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Now()) })
	defer stop()
	line, err := bufio.NewReader(r).ReadBytes('\n')
	var b birth
	switch {
	case ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "start", "the kernel that was started does not come up").
			WithHint("%s", logHint(log()))
	case err != nil || json.Unmarshal(line, &b) != nil:
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "start", "the kernel that was started ended at once").
			WithHint("%s", logHint(log()))
	case b.Error != nil:
		return b.Error
	}
	return nil
}

func logHint(tail string) string {
	if tail == "" {
		return "it wrote no log; agentkernel doctor checks what works here"
	}
	return "its log ends with:\n" + tail
}

// announce tells the command that started this kernel how it went.
func announce(b birth) {
	f := os.NewFile(notifyFD, "notify")
	if f == nil {
		return
	}
	defer f.Close()
	if line, err := json.Marshal(b); err == nil {
		_, _ = f.Write(append(line, '\n'))
	}
}

// logTail is what was written to the log after from: its last ten lines.
func logTail(path string, from int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return ""
	}
	b, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	lines := strings.Split(string(bytes.TrimSpace(b)), "\n")
	if len(lines) > 10 {
		lines = lines[len(lines)-10:]
	}
	return strings.Join(lines, "\n")
}
