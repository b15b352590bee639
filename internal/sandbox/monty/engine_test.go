package monty

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
)

// TestTheVersionIsAskedAgain when the answer was none: an engine that was killed is not a wrong one.
func TestTheVersionIsAskedAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "monty")
	script := "#!/bin/sh\n[ -e " + dir + "/asked ] || { : >" + dir + "/asked; kill -9 $$; }\necho monty-runtime " + EngineVersion + "\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	e := &engine{path: path, launch: plainLauncher{}, clock: systemClock{}}
	defer e.tidied.Wait()
	if err := e.check(t.Context(), path); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || e.problem() == nil {
		t.Errorf("killed while it was asked: %v, %v", err, e.problem())
	}
	if err := e.check(t.Context(), path); err != nil || e.problem() != nil {
		t.Errorf("asked again: %v, %v", err, e.problem())
	}
}

// TestTheVersionIsKept for the next kernel, which asks again only if something is odd.
func TestTheVersionIsKept(t *testing.T) {
	dir := t.TempDir()
	path, cache, log := filepath.Join(dir, "monty"), filepath.Join(dir, "engine.json"), filepath.Join(dir, "asked")
	install := func(version string) {
		t.Helper()
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		script := "#!/bin/sh\necho x >>" + log + "\necho monty-runtime " + version + "\n"
		if err := os.WriteFile(path, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	asked := 0
	// next is what the next kernel finds, and whether it asked.
	next := func(what string, asks bool) *engine {
		t.Helper()
		e := &engine{path: path, cache: cache, launch: plainLauncher{}, clock: systemClock{}}
		t.Cleanup(e.tidied.Wait)
		if err := e.check(t.Context(), path); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(b) / 2; (n > asked) != asks {
			t.Errorf("%s: asked %d times in all, %d before", what, n, asked)
		}
		asked = len(b) / 2
		return e
	}
	install(EngineVersion)
	if e := next("first", true); e.doubt(t.Context()) != nil {
		t.Error("what was asked just now was doubted")
	}
	next("second", false)
	install(EngineVersion)
	next("another file", true)
	if err := os.WriteFile(cache, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	next("a damaged cache", true)

	// Whatever the reason, a worker failed: now the engine is asked, and does not answer as it should.
	e := next("again", false)
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho monty-runtime 9.9.9 "+strings.Repeat("#", len(EngineVersion))+"\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	if err := e.doubt(t.Context()); agentkernel.CodeOf(err) != agentkernel.CodeVersion || e.problem() == nil {
		t.Errorf("doubted: %v, %v", err, e.problem())
	}
	if err := e.doubt(t.Context()); err != nil {
		t.Errorf("doubted twice: %v", err)
	}
}
