package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An interpreter that was missing is looked for again, but not for each program.
func TestInterpreterIsLookedForAgain(t *testing.T) {
	dir := t.TempDir()
	python, asked := filepath.Join(dir, "python"), filepath.Join(dir, "asked")
	write := func(version string) {
		script := fmt.Sprintf("#!/bin/sh\necho x >> %s\necho '{\"version\":\"%s\",\"implementation\":\"cpython\",\"executable\":\"/bin/sh\"}'\n", asked, version)
		if err := os.WriteFile(python, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		in := &interpreter{launch: plainLauncher{}, path: python}
		expect := func(when, version string, times int) {
			t.Helper()
			found, err := in.get()
			if b, _ := os.ReadFile(asked); (err == nil) != (version != "") || found.Version != version || strings.Count(string(b), "x") != times {
				t.Errorf("%s: %q %v, asked %q", when, found.Version, err, b)
			}
		}
		expect("at the start", "", 0)
		write("3.8.1")
		expect("at once", "", 0)
		time.Sleep(lookAgain)
		expect("when it is there, and too old", "", 1)
		expect("at once", "", 1)
		write("3.12.1")
		time.Sleep(lookAgain)
		expect("when it is new", "3.12.1", 2)
		time.Sleep(lookAgain)
		expect("later", "3.12.1", 2)
	})
}

// TestAKilledProbeIsAskedAgain: a command that is killed from outside while it says what it is does not make the
// interpreter a missing one.
func TestAKilledProbeIsAskedAgain(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "python3")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nread n <"+dir+"/kill; [ $n -gt 0 ] && { echo $((n-1)) >"+dir+"/kill; kill -9 $$; }\necho yes\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	for times, want := range map[int]string{takeTries - 1: "yes\n", takeTries: ""} {
		if err := os.WriteFile(filepath.Join(dir, "kill"), fmt.Appendln(nil, times), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := probe(plainLauncher{}, script); got != want || (err == nil) != (want != "") {
			t.Errorf("killed %d times: %q %v", times, got, err)
		}
	}
}
