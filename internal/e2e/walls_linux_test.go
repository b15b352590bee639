package e2e_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/sandbox/confine"
)

// TestProcessesSayTheirWalls while they have a sandbox, on either backend, and say it when they have none.
func TestProcessesSayTheirWalls(t *testing.T) {
	if p := confine.Look().Problem; p != nil {
		t.Skipf("SKIPPED, NOTHING PROVED: no walls can stand here: %v", p)
	}
	for _, tc := range []struct {
		name      string
		backend   string
		sandboxes bool
	}{{"monty", "monty", true}, {"process", "process", true}, {"monty without a spawner", "monty", false}} {
		t.Run(tc.name, func(t *testing.T) {
			k := openEmbedded(t, home(t), func(c *embedded.Config) {
				c.Sandboxes = tc.sandboxes
				if tc.sandboxes { // an engine that every user may run: root's sandboxes are others
					c.Engine = publicEngine(t)
				}
			})
			s := program("print('on')\nwhile True:\n    pass")
			s.Backend = tc.backend
			p, err := k.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the program runs", func() bool { return stdoutOf(t, k, p.PID) == "on\n" })
			got, err := k.Process(t.Context(), p.PID)
			if err != nil {
				t.Fatal(err)
			}
			names := map[string]bool{}
			for _, w := range got.Walls {
				names[w.Name] = w.On
			}
			for _, name := range []string{"no network", "own root", "seccomp", "no capabilities", "memory limit"} {
				if tc.sandboxes && !names[name] {
					t.Errorf("no wall %q in %+v", name, got.Walls)
				}
			}
			if !tc.sandboxes && (len(got.Walls) == 0 || got.Walls[0].On || !strings.Contains(got.Walls[0].How, "did not prepare")) {
				t.Errorf("%+v", got.Walls)
			}
			if err := k.Signal(t.Context(), p.PID, agentkernel.SignalKill); err != nil {
				t.Fatal(err)
			}
			stood := got.Walls
			eventually(t, "it has ended", func() bool { got, err = k.Process(t.Context(), p.PID); return err == nil && got.State.Terminal() })
			if !reflect.DeepEqual(got.Walls, stood) {
				t.Errorf("after its end: %+v, want %+v", got.Walls, stood)
			}
		})
	}
}

// publicEngine is a copy of the engine that every user may run.
func publicEngine(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "engine")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b, err := os.ReadFile(engine(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "monty")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
