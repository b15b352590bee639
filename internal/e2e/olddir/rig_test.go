package olddir

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/quickexit"
	"agentkernel/internal/tool/tooltest"
)

const (
	version = "0.0.0-test"
	python  = "/usr/bin/python3"
	// folder is the workspace of some processes: an archive names it, so it has to be the same everywhere.
	folder = "/tmp/agentkernel-olddir"
)

func TestMain(m *testing.M) {
	quickexit.Main()
	embedded.Main() // does not return if this process is to be the sandboxes' spawner
	if generation := os.Getenv(envGeneration); generation != "" {
		childKernel(generation)
	}
	os.Exit(m.Run())
}

// engine gives the Monty executable, or skips; CI must have it.
func engine(t testing.TB) string {
	t.Helper()
	found := os.Getenv("AGENTKERNEL_MONTY")
	if found == "" {
		root, err := tooltest.Root()
		if err != nil {
			t.Fatal(err)
		}
		found = filepath.Join(root, ".cache", "monty", "node_modules", "@pydantic", "monty-linux-x64-gnu", "monty")
		if _, err := os.Stat(found); err != nil {
			found, _ = exec.LookPath("monty")
		}
	}
	missing := ""
	if found == "" {
		missing = "the Monty engine is missing; run: make engine"
	} else if _, err := os.Stat(python); err != nil {
		missing = "there is no " + python
	}
	if missing != "" && os.Getenv("CI") == "true" {
		t.Fatal(missing)
	} else if missing != "" {
		t.Skip("SKIPPED, NO OLD DATA DIRECTORY IS OPENED: " + missing)
	}
	return found
}

// lockFolder makes the folder, empty, and keeps other tests from it until this one has ended.
func lockFolder(t testing.TB) {
	t.Helper()
	lock, err := os.Open(filepath.Dir(folder)) // which is there, and leaves nothing behind
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
		_ = lock.Close()
	})
	emptyFolder(t)
}

func emptyFolder(t testing.TB) {
	t.Helper()
	err := os.RemoveAll(folder)
	if err == nil {
		err = os.Mkdir(folder, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// adoptFolder makes the folder that is there now the one that a process was created with: it is told by its inode.
func adoptFolder(t testing.TB, file string) {
	t.Helper()
	var st syscall.Stat_t
	var rec map[string]any
	text, err := os.ReadFile(file)
	if err == nil {
		err = errors.Join(json.Unmarshal(text, &rec), syscall.Stat(folder, &st))
	}
	if err == nil {
		for _, f := range rec["folders"].([]any) {
			f.(map[string]any)["dev"], f.(map[string]any)["ino"] = st.Dev, st.Ino
		}
		if text, err = json.Marshal(rec); err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, home string, hangs bool) (*embedded.Kernel, *far) {
	t.Helper()
	f := newFar(home, hangs)
	k, err := embedded.Open(t.Context(), embedded.Config{Home: home, Engine: engine(t), Version: version, Tools: f.source, Sandboxes: true, Python: python})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return k, f
}

// eventually waits until cond holds.
func eventually(t testing.TB, k agentkernel.Kernel, pid agentkernel.PID, what string, cond func(agentkernel.Process) bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		p, err := k.Process(t.Context(), pid)
		if err == nil && cond(p) {
			return
		}
		if err != nil || p.State.Terminal() || time.Now().After(deadline) {
			t.Fatalf("pid %d %s: waited in vain until %s: it is %s, paused %t: %v %v", pid, p.Name, what, p.State, p.Paused, p.Error, err)
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // polling a condition
	}
}
