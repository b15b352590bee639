package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// SIGHUP lets serve read its settings again, also at a terminal; that of a terminal that was closed ends it.
func TestServeAtATerminalThatIsClosed(t *testing.T) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP) // under nohup the command would ignore it, as the test does
	defer signal.Stop(hup)
	keyboard, tty := openPTY(t)
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "serve")
	cmd.Args[0] = "agentkernel" // see TestMain
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "AGENTKERNEL_HOME="+filepath.Join(dir, "home"), "AGENTKERNEL_ENGINE="+engineForTests(t))
	cmd.Dir, cmd.Stdin = dir, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(said)
	await := func(text string) {
		t.Helper()
		var all strings.Builder
		for lines.Scan() {
			if _, _ = all.WriteString(lines.Text() + "\n"); strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("it never says %q:\n%s", text, all.String())
	}
	await("kernel " + version + " serves")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await("the settings were read again")
	if err := keyboard.Close(); err != nil {
		t.Fatal(err)
	}
	await("msg=stopping signal=hangup")
	_, _ = io.Copy(io.Discard, said)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
