package setup

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"agentkernel"
)

// fetch lets npm install the pinned package below dir. Packages' scripts do not run. On the tested platform
// npm checks the archive against the lock file's hash; elsewhere against what its registry says.
func (in *installer) fetch(ctx context.Context, npm, dir string) error {
	args := []string{"--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
		"--fetch-retries=2", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=3000", "--fetch-timeout=60000"}
	if in.platform.Tested {
		if err := writeFiles(dir, map[string][]byte{"package.json": packageJSON, "package-lock.json": packageLock}); err != nil {
			return err
		}
		args = append([]string{"ci"}, args...)
	} else {
		if err := writeFiles(dir, map[string][]byte{"package.json": []byte("{\"private\": true}\n")}); err != nil {
			return err
		}
		args = append([]string{"install", "--no-save", "--no-package-lock", in.platform.Package + "@" + EngineVersion()}, args...)
	}
	ctx, cancel := context.WithTimeout(ctx, in.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, args...)
	cmd.Dir, cmd.Env = dir, in.Env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// npm starts children; the whole group has to go when it takes too long.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Run(); err != nil {
		return in.npmError(ctx, err, out.String())
	}
	return nil
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return storage(err)
		}
	}
	return nil
}

// npmError says in words what npm says in codes.
func (in *installer) npmError(ctx context.Context, err error, out string) error {
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(out, w) {
				return true
			}
		}
		return false
	}
	say := func(code agentkernel.Code, format string, args ...any) *agentkernel.Error {
		return agentkernel.Errorf(code, "setup", format, args...)
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return say(agentkernel.CodeTimeout, "npm did not finish within %s", in.Timeout).
			WithHint("is the network slow, or a proxy missing? `npm ping` tells. Then run agentkernel setup again")
	case ctx.Err() != nil:
		return say(agentkernel.CodeCanceled, "setup was stopped; nothing was changed").WithHint("agentkernel setup")
	case has("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ENETUNREACH", "EHOSTUNREACH", "ETIMEDOUT", "FETCH_ERROR", "ERR_SOCKET_TIMEOUT"):
		return say(agentkernel.CodeUnavailable, "npm cannot reach its registry: %s", npmSays(out)).
			WithHint("check the network and npm's proxy settings (npm ping), then run agentkernel setup again. Programs need no network once the engine is there. %s", withoutNode(in.engines))
	case has("EINTEGRITY"):
		return say(agentkernel.CodeCorrupt, "the package that npm received is not the one that was pinned: %s", npmSays(out)).
			WithHint("do not use it. Try `npm cache clean --force`; if that does not help, your registry or proxy changes packages")
	case has("E404", "ETARGET"):
		return say(agentkernel.CodeNotFound, "your npm registry does not have %s %s: %s", in.platform.Package, EngineVersion(), npmSays(out)).
			WithHint("is npm set to a private registry? `npm config get registry` tells. %s", withoutNode(in.engines))
	case has("ENOSPC"):
		return storage(errors.New("the disk is full"))
	}
	return say(agentkernel.CodeUnavailable, "npm failed (%w): %s", err, npmSays(out)).
		WithHint("agentkernel setup again; %s", withoutNode(in.engines))
}

// npmSays is the part of npm's output that is about the problem. URLs may carry credentials and stay out.
func npmSays(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "npm "), "error "))
		line = strings.TrimPrefix(line, "ERR! ")
		if line == "" || strings.HasPrefix(line, "warn") || strings.Contains(line, "complete log") || strings.Contains(line, "://") {
			continue
		}
		if lines = append(lines, line); len(lines) == 3 {
			break
		}
	}
	if len(lines) == 0 {
		return "it gave no reason"
	}
	return strings.Join(lines, "; ")
}
