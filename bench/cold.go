package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

var coldSection = section{
	name: "cold", title: "The command line, cold",
	about: "`agentkernel run hello.py` from the start of the command to its end, in a data directory of its own: with the kernel inside " +
		"the command (`--embedded`: database opened, engine checked, worker started, all of it closed again), and attached to the kernel that runs in the " +
		"background. Floors: a Go program that does nothing, and `agentkernel version`.",
	run: measureCold,
}

// commandLine is the CLI in a data directory of its own, away from any configuration.
type commandLine struct {
	path string
	at   surroundings
}

func (b *bench) commandLine() (commandLine, error) {
	dir, err := b.dir()
	if err != nil {
		return commandLine{}, err
	}
	for name, text := range map[string]string{"hello.py": hello + "\n", "hello.js": "console.log(6*7)\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return commandLine{}, err
		}
	}
	return commandLine{path: b.cli, at: surroundings{dir: dir, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "AGENTKERNEL_HOME=" + filepath.Join(dir, "k"), "AGENTKERNEL_ENGINE=" + b.engine,
	}}}, nil
}

func (c commandLine) run(ctx context.Context, printed string, args ...string) error {
	return runCommand(ctx, c.at, printed, append([]string{c.path}, args...)...)
}

// stop ends the background kernel of the directory and waits until it is gone, so that it disturbs nothing
// that is measured next.
func (c commandLine) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return c.run(ctx, anyOutput, "shutdown")
}

func measureCold(ctx context.Context, b *bench) (tables []table, err error) {
	embedded, err := b.commandLine()
	if err != nil {
		return nil, err
	}
	attached, err := b.commandLine()
	if err != nil {
		return nil, err
	}
	if err := attached.run(ctx, "42\n", "run", "hello.py"); err != nil { // starts the background kernel
		return nil, err
	}
	defer func() {
		if serr := attached.stop(); err == nil {
			err = serr
		}
	}()
	nothing, err := b.emptyProgram(ctx)
	if err != nil {
		return nil, err
	}
	n, program := b.pick(10, 5, 1), filepath.Join(attached.at.dir, "hello.py")
	contenders := []contender{
		command("a Go program that does nothing", roleFloor, n, "", nothing),
		{name: "`agentkernel version`", role: roleFloor, n: n, run: func(ctx context.Context) error { return attached.run(ctx, anyOutput, "version") }},
		{name: "`agentkernel run --embedded hello.py`", role: roleOurs, n: n, run: func(ctx context.Context) error {
			return embedded.run(ctx, "42\n", "run", "--embedded", "hello.py")
		}},
		{name: "`agentkernel run hello.py`, attached", role: roleOurs, n: n, run: func(ctx context.Context) error {
			return attached.run(ctx, "42\n", "run", "hello.py")
		}},
		pythonPeer(ctx, n, program),
		bwrapPeer(ctx, n, program),
		nodeCommand(n, filepath.Join(attached.at.dir, "hello.js")),
	}
	results, err := contest(ctx, b.pick(20, 6, 1), b.tell, contenders)
	if err != nil {
		return nil, err
	}
	rows := latencies(contenders, results)
	rows[2].judgeP50(40 * time.Millisecond)
	rows[3].judgeP50(12 * time.Millisecond)
	for i := 2; i < len(rows); i++ {
		rows[i].Ratio = results[i].ratio(results[1])
	}
	return []table{{Rows: rows, Notes: []string{"Ratios are to `agentkernel version`: starting the executable, reading the command line, nothing else."}}}, nil
}

// emptyProgram builds a Go program that does nothing.
func (b *bench) emptyProgram(ctx context.Context) (string, error) {
	dir, err := b.dir()
	if err != nil {
		return "", err
	}
	for name, text := range map[string]string{"main.go": "package main\n\nfunc main() {}\n", "go.mod": "module nothing\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return goBuild(ctx, dir, filepath.Join(dir, "nothing"), ".")
}

// nodeCommand is Node, started for each run.
func nodeCommand(n int, program string) contender {
	out, err := exec.Command("node", "--version").Output()
	if err != nil {
		return absent("node", rolePeer, notInstalled)
	}
	return command("Node "+strings.TrimPrefix(strings.TrimSpace(string(out)), "v")+" started", rolePeer, n, "42\n", "node", program)
}
