package embedded_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"agentkernel/embedded"
	"agentkernel/internal/datadir"
	"agentkernel/internal/reaper"
)

// envDead makes this binary a kernel that is going to be killed; its value is the data directory.
const envDead = "AGENTKERNEL_TEST_DEAD_KERNEL"

func TestMain(m *testing.M) {
	if home := os.Getenv(envDead); home != "" {
		fmt.Fprintln(os.Stderr, playDeadKernel(home))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// playDeadKernel starts a program of which a part gets away, and waits to be killed.
func playDeadKernel(home string) error {
	dir, err := datadir.Open(home)
	if err != nil {
		return err
	}
	r, err := reaper.New(dir.Run(), "dead")
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", `(setsid sh -c "echo up >&3; exec sleep 600" &); exec sleep 600`)
	cmd.ExtraFiles = []*os.File{os.NewFile(3, "alive")}
	if err := r.Start(cmd); err != nil {
		return err
	}
	_, err = os.Stdin.Read(make([]byte, 1))
	return err
}

// What a killed kernel had started is gone when the next one is open, before that answers anybody.
func TestNothingOutlivesItsKernel(t *testing.T) {
	home := filepath.Join(t.TempDir(), "h")
	alive, end, err := os.Pipe()
	must(t, err)
	defer alive.Close()
	must(t, alive.SetReadDeadline(time.Now().Add(time.Minute)))
	dead := exec.Command(os.Args[0])
	dead.Env = append(os.Environ(), envDead+"="+home)
	dead.ExtraFiles, dead.Stderr = []*os.File{end}, os.Stderr
	stdin, err := dead.StdinPipe()
	must(t, err)
	defer stdin.Close()
	must(t, dead.Start())
	_ = end.Close()
	lines := bufio.NewReader(alive)
	if line, err := lines.ReadString('\n'); err != nil {
		t.Fatalf("nothing was started: %q %v", line, err)
	}
	must(t, dead.Process.Kill())
	_ = dead.Wait() // it was killed

	k, err := embedded.Open(t.Context(), embedded.Config{Home: home, Version: "1.0"})
	must(t, err)
	defer k.Close()
	must(t, alive.SetReadDeadline(time.Now().Add(time.Second))) // the end of a pipe that is closed is there at once
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("something is left that the dead kernel had started: %q %v", rest, err)
	}
}
