package monty

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"agentkernel"
)

// TestTheVersionIsAskedAgain when the answer was none: an engine that was killed is not a wrong one.
func TestTheVersionIsAskedAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "monty")
	script := "#!/bin/sh\nread n <" + dir + "/kill; [ $n -gt 0 ] && { echo $((n-1)) >" + dir + "/kill; kill -9 $$; }\necho monty-runtime " + EngineVersion + "\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	kill := func(times int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "kill"), fmt.Appendln(nil, times), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := &engine{path: path, launch: plainLauncher{}, clock: systemClock{}}
	defer e.tidied.Wait()
	kill(wallTries)
	if err := e.check(t.Context(), path); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || e.problem() == nil {
		t.Errorf("killed each time it was asked: %v, %v", err, e.problem())
	}
	if err := e.check(t.Context(), path); err != nil || e.problem() != nil {
		t.Errorf("asked again: %v, %v", err, e.problem())
	}
	e = &engine{path: path, launch: plainLauncher{}, clock: systemClock{}}
	defer e.tidied.Wait()
	kill(wallTries - 1)
	if err := e.check(t.Context(), path); err != nil {
		t.Errorf("killed and asked again at once: %v", err)
	}
}

// counting counts what it starts.
type counting struct {
	plainLauncher
	started int
}

func (c *counting) Start(cmd *exec.Cmd) error {
	c.started++
	return c.plainLauncher.Start(cmd)
}

// TestTheVersionIsKept for the next kernel, which asks again only if something is odd.
func TestTheVersionIsKept(t *testing.T) {
	dir := t.TempDir()
	path, cache := filepath.Join(dir, "monty"), filepath.Join(dir, "engine.json")
	// Packages give all their files one time, and file systems give a number again at once.
	epoch := time.Date(1985, 10, 26, 8, 15, 0, 0, time.UTC)
	install := func(content []byte) {
		t.Helper()
		err := os.RemoveAll(path)
		if err == nil {
			err = os.WriteFile(path, content, 0o700) //nolint:gosec // it is run
		}
		if err == nil {
			err = os.Chtimes(path, epoch, epoch)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// next is what the next kernel finds, and whether it asked.
	next := func(what string, asks bool, code agentkernel.Code) *engine {
		t.Helper()
		launch := &counting{}
		e := &engine{path: path, cache: cache, launch: launch, clock: systemClock{}}
		t.Cleanup(e.tidied.Wait)
		if err := e.check(t.Context(), path); agentkernel.CodeOf(err) != code {
			t.Errorf("%s: %v", what, err)
		}
		if launch.started > 0 != asks {
			t.Errorf("%s: asked %d times", what, launch.started)
		}
		return e
	}
	right, err := os.ReadFile(enginePath(t))
	if err != nil {
		t.Fatal(err)
	}
	script := func(version string) []byte { return []byte("#!/bin/sh\necho monty-runtime " + version + "\n") }
	install(right)
	if e := next("first", true, ""); e.doubt(t.Context()) != nil {
		t.Error("what was asked just now was doubted")
	}
	next("second", false, "")
	install(right)
	next("another file of the same size, time and perhaps number", true, "")
	if err := os.WriteFile(cache, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	next("a damaged cache", true, "")

	// Whatever the reason, a worker failed: now the engine is asked, and does not answer as it should.
	e := next("again", false, "")
	install(script("9.9.9"))
	if err := e.doubt(t.Context()); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || e.problem() == nil {
		t.Errorf("doubted: %v, %v", err, e.problem())
	}
	if err := e.doubt(t.Context()); err != nil {
		t.Errorf("doubted twice: %v", err)
	}

	// What a script starts is another engine tomorrow.
	install(script(EngineVersion))
	next("a script", true, "")
	next("a script again", true, "")
	install(script("9.9.9"))
	next("a wrong one", true, agentkernel.CodeUnavailable)
	next("a wrong one again", true, agentkernel.CodeUnavailable)
}
