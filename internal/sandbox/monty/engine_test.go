package monty

import (
	"os"
	"path/filepath"
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
