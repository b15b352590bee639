package setup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/internal/lazy"
)

// startWait bounds each start of the engine; it takes milliseconds.
const startWait = 10 * time.Second

var versionText = lazy.Regexp(`\d+\.\d+\.\d+\S*`)

// Verify checks that a file is the engine of the right version, byte for byte where its hash is known, and
// that it starts and speaks the protocol. It returns what the engine calls itself. Errors: CodeCorrupt
// (other bytes), CodeVersion, CodeUnavailable (it does not start).
func Verify(ctx context.Context, path string, p Platform) (string, error) {
	if p.SHA256 != "" {
		sum, err := fileSum(path)
		if err != nil {
			return "", agentkernel.Errorf(agentkernel.CodeUnavailable, "engine", "cannot read %s: %w", path, err)
		}
		if sum != p.SHA256 {
			return "", agentkernel.Errorf(agentkernel.CodeCorrupt, "engine",
				"%s is not the engine that this version was tested with: sha256 %s, expected %s", path, sum, p.SHA256).
				WithHint("agentkernel setup --force")
		}
	}
	return Start(ctx, path)
}

// Start checks that an executable is the right version of the engine, starts and speaks the protocol,
// whoever built it.
func Start(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.WaitDelay = time.Second
	endsWithAll(cmd)
	out, err := cmd.CombinedOutput()
	says := strings.TrimSpace(string(out))
	if ctx.Err() != nil {
		return "", agentkernel.Errorf(agentkernel.CodeUnavailable, "engine", "%s does not answer --version within %s", path, startWait).
			WithHint("run: agentkernel setup --force; an engine on PATH or in the setting `engine` goes before the installed one, so take that away")
	}
	if err != nil {
		return "", agentkernel.Errorf(agentkernel.CodeUnavailable, "engine", "%s does not start: %w: %s", path, err, firstLine(says)).
			WithHint("run: agentkernel setup --force; if it still does not start, the engine does not fit this system (it needs glibc)")
	}
	if versionText().FindString(says) != EngineVersion() || !strings.Contains(says, "monty") {
		return "", agentkernel.Errorf(agentkernel.CodeVersion, "engine", "%s says that it is %q; Monty %s is needed", path, firstLine(says), EngineVersion()).
			WithHint("run: agentkernel setup; an engine on PATH or in the setting `engine` goes before the installed one, so take that away")
	}
	if err := handshake(ctx, path); err != nil {
		return "", err
	}
	return says, nil
}

// endsWithAll has a command end with what it has started: a script that stands for the engine would leave that.
func endsWithAll(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// The first exchange with a worker: Configure with protocol version 2, which it answers with Ok (field 10) or
// FatalError (field 11). The wire is internal/sandbox/monty's; one fixed message needs no more of it.
var configure = []byte{0x0a, 0x09, 0x0a, 0x05, 'c', 'h', 'e', 'c', 'k', 0x48, 0x02}

const tagOK = 10<<3 | 2

func handshake(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, path, "subprocess")
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.WaitDelay = time.Second
	endsWithAll(cmd)
	frame := append(binary.LittleEndian.AppendUint32(nil, uint32(len(configure))), configure...)
	var out, stderr bytes.Buffer
	// After the message its input ends, and so does the worker.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(frame), &out, &stderr
	runErr := cmd.Run()
	answer := out.Bytes()
	if len(answer) > 4 && answer[4] == tagOK {
		return nil
	}
	if len(answer) > 6 {
		return agentkernel.Errorf(agentkernel.CodeVersion, "engine", "%s refuses the worker protocol: %q", path, answer[6:]).
			WithHint("agentkernel setup --force")
	}
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "engine", "%s starts, but its worker does not answer: %w: %s",
		path, errors.Join(runErr, ctx.Err()), firstLine(stderr.String())).WithHint("agentkernel setup --force")
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hash: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func firstLine(s string) string {
	s = strings.TrimSpace(s)
	if line, _, more := strings.Cut(s, "\n"); more {
		return line + " ..."
	}
	return s
}
