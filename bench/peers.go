package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

const notInstalled = "not installed"

// pythonPath is the real interpreter behind `python3`: a version manager's shim would be measured instead.
func pythonPath(ctx context.Context) (path, version string) {
	out, err := exec.CommandContext(ctx, "python3", "-I", "-S", "-c",
		"import sys, os; print(os.path.realpath(sys.executable)); print('%d.%d.%d' % sys.version_info[:3])").Output()
	if err != nil {
		return "", ""
	}
	path, version, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	return path, version
}

// command is a contender that starts a program and checks its output.
func command(name string, r role, n int, printed string, argv ...string) contender {
	return contender{name: name, role: r, n: n, run: func(ctx context.Context) error {
		return runCommand(ctx, surroundings{}, printed, argv...)
	}}
}

// surroundings are a command's working directory and environment; the zero value is this process's own.
type surroundings struct {
	dir string
	env []string
}

// anyOutput says that what a command prints does not matter.
const anyOutput = "\x00"

func runCommand(ctx context.Context, s surroundings, printed string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = s.dir, s.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	if printed != anyOutput && out.String() != printed {
		return fmt.Errorf("it printed %q, not %q", out.String(), printed)
	}
	return nil
}

// pythonPeer is CPython without site packages, started for each run.
func pythonPeer(ctx context.Context, n int, args ...string) contender {
	path, version := pythonPath(ctx)
	if path == "" {
		return absent("python3 -I -S", rolePeer, notInstalled)
	}
	return command("CPython "+version+" started: `python3 -I -S`", rolePeer, n, "42\n", append([]string{path, "-I", "-S"}, args...)...)
}

// bwrapPeer is CPython in a sandbox of namespaces, started for each run.
func bwrapPeer(ctx context.Context, n int, args ...string) contender {
	const name = "bwrap --unshare-all + `python3 -I -S`"
	bwrap, err := exec.LookPath("bwrap")
	python, _ := pythonPath(ctx)
	if err != nil || python == "" {
		return absent(name, rolePeer, notInstalled)
	}
	argv := append([]string{bwrap, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", python, "-I", "-S"}, args...)
	if err := runCommand(ctx, surroundings{}, "42\n", argv...); err != nil {
		return absent(name, rolePeer, "does not work on this machine")
	}
	return command(name, rolePeer, n, "42\n", argv...)
}

// nodeVM is a long-lived Node process that runs each program in a context of its own.
type nodeVM struct {
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Reader
}

const nodeServer = `
const vm = require('vm')
require('readline').createInterface({ input: process.stdin }).on('line', line => {
  let text = ''
  vm.runInNewContext(JSON.parse(line), { print: v => { text += v + '\n' } })
  process.stdout.write(JSON.stringify(text) + '\n')
})
`

func startNodeVM() (*nodeVM, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	v := &nodeVM{cmd: exec.Command("node", "-e", nodeServer), in: in, out: bufio.NewReader(out)}
	v.cmd.Stdin, v.cmd.Stdout = childIn, childOut
	err = v.cmd.Start()
	_, _ = childIn.Close(), childOut.Close()
	return v, err
}

func (v *nodeVM) close() {
	_ = v.in.Close()
	_ = v.cmd.Process.Kill()
	_ = v.cmd.Wait() // it was killed
}

// run runs one program and checks what it printed.
func (v *nodeVM) run(code, printed string) error {
	line, err := json.Marshal(code)
	if err != nil {
		return err
	}
	if _, err := v.in.Write(append(line, '\n')); err != nil {
		return err
	}
	answer, err := v.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("node: %w", err)
	}
	var text string
	if err := json.Unmarshal(answer, &text); err != nil || text != printed {
		return fmt.Errorf("node printed %q, not %q", text, printed)
	}
	return nil
}

// nodePeer gives the contender and what ends it.
func nodePeer(n int) (contender, func()) {
	const name = "Node, `vm.runInNewContext` in a running process (no security boundary)"
	if _, err := exec.LookPath("node"); err != nil {
		return absent(name, rolePeer, notInstalled), func() {}
	}
	v, err := startNodeVM()
	if err != nil {
		return absent(name, rolePeer, "does not start"), func() {}
	}
	return contender{name: name, role: rolePeer, n: n, run: func(context.Context) error { return v.run("print(6*7)", "42\n") }}, v.close
}
