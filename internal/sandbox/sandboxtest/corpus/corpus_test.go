package corpus_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/quickexit"
	"agentkernel/internal/sandbox/confine"
	"agentkernel/internal/sandbox/monty"
	"agentkernel/internal/sandbox/process"
	"agentkernel/internal/sandbox/sandboxtest/corpus"
)

// This binary is also the spawner that builds the walls.
func TestMain(m *testing.M) {
	quickexit.Main()
	confine.Main()
	os.Exit(m.Run())
}

type launcher struct{}

func (launcher) Start(cmd *exec.Cmd) error { return cmd.Start() }
func (launcher) Kill(cmd *exec.Cmd)        { _ = cmd.Process.Kill() } // gone already: nothing to do

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing", what)
	}
	t.Skipf("SKIPPED, NOTHING PROVED: %s is missing", what)
}

func montyBackend(t *testing.T) agentkernel.Backend {
	t.Helper()
	engine := os.Getenv("AGENTKERNEL_MONTY")
	if engine == "" {
		engine, _ = filepath.Abs("../../../../.cache/monty/node_modules/@pydantic/monty-linux-x64-gnu/monty")
	}
	if _, err := os.Stat(engine); err != nil {
		missing(t, "the Monty engine")
	}
	b, err := monty.New(monty.Config{Launcher: launcher{}, Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func processBackend(t *testing.T) agentkernel.Backend {
	t.Helper()
	python := os.Getenv("AGENTKERNEL_PYTHON")
	if python == "" {
		python, _ = exec.LookPath("python3")
	}
	if python == "" {
		missing(t, "python3")
	}
	s, err := confine.NewSpawner(confine.SpawnerConfig{Launcher: launcher{}, Name: "corpus-" + strings.ToLower(rand.Text())})
	if err != nil {
		t.Fatal(err)
	}
	b, err := process.New(process.Config{Launcher: launcher{}, Spawner: s, Python: python})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// enough is how many programs are compared, of those that are for Monty.
const enough = 500

// TestSameOnBoth runs generated programs on Monty and on CPython with the same answers: calls, arguments,
// output and end must be equal. AGENTKERNEL_CORPUS is "from-to" of the numbers to run, for a longer hunt.
func TestSameOnBoth(t *testing.T) {
	from, to := numbers(t)
	mine, real := montyBackend(t), processBackend(t)
	compared, calls, refused := 0, 0, 0
	for n := from; n < to && (compared < enough || hunting()); n++ {
		source := corpus.Program(n)
		needs, err := mine.Check(agentkernel.Program{Name: "program.py", Language: agentkernel.Python, Source: source})
		if err != nil || len(needs.Differs) > 0 {
			refused++
			continue
		}
		a, errA := corpus.Run(t.Context(), mine, source, n, journal.Canonical)
		b, errB := corpus.Run(t.Context(), real, source, n, journal.Canonical)
		if errA != nil || errB != nil {
			t.Fatalf("program %d: monty %v, process %v\n%s", n, errA, errB, source)
		}
		if difference := diff(a, b); difference != "" {
			t.Errorf("program %d differs: %s\n%s", n, difference, source)
		}
		compared++
		for _, line := range a {
			if strings.HasPrefix(line, "call") {
				calls++
			}
		}
	}
	t.Logf("%d programs with %d calls are the same on both; %d others are not for Monty", compared, calls, refused)
	if compared < enough && !hunting() {
		t.Errorf("only %d programs could be compared", compared)
	}
}

// hunting says that somebody looks for differences among programs of their choice.
func hunting() bool { return os.Getenv("AGENTKERNEL_CORPUS") != "" }

func numbers(t *testing.T) (from, to uint64) {
	t.Helper()
	text := os.Getenv("AGENTKERNEL_CORPUS")
	if text == "" {
		return 0, 2 * enough
	}
	a, b, ok := strings.Cut(text, "-")
	from, errA := strconv.ParseUint(a, 10, 64)
	to, errB := strconv.ParseUint(b, 10, 64)
	if !ok || errA != nil || errB != nil || to <= from {
		t.Fatalf("AGENTKERNEL_CORPUS=%q is not from-to", text)
	}
	return from, to
}

// diff names the first difference of two stories.
func diff(a, b corpus.Story) string {
	for i := range max(len(a), len(b)) {
		x, y := "(nothing)", "(nothing)"
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Sprintf("\n  monty   %s\n  process %s", x, y)
		}
	}
	return ""
}
