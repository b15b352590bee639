package frontend_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// cpython runs each program of a JSON list and prints the JSON list of what each printed, with the
// uncaught exception behind it.
const cpython = `
import sys, json, io, contextlib
out = []
for src in json.load(sys.stdin):
    buf = io.StringIO()
    try:
        with contextlib.redirect_stdout(buf):
            exec(compile(src, "main.py", "exec"), {"__name__": "__main__"})
        tail = ""
    except SystemExit as e:
        tail = "EXIT " + str(e.code)
    except BaseException as e:
        tail = "RAISED " + type(e).__name__ + ": " + str(e)
    out.append(buf.getvalue() + tail)
json.dump(out, sys.stdout)
`

// TestSameAsCPython runs every program of testdata/same on the engine and on CPython: they must print the
// same. Programs are separated by lines of "###".
func TestSameAsCPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED, NOTHING PROVED: python3 is missing")
	}
	b := engine(t)
	files, err := filepath.Glob("testdata/same/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			programs := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n###\n")
			input, err := json.Marshal(programs)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(python, "-I", "-W", "ignore", "-c", cpython)
			cmd.Stdin = bytes.NewReader(input)
			cmd.Stderr = os.Stderr
			answer, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if err := json.Unmarshal(answer, &want); err != nil {
				t.Fatal(err)
			}
			for i, src := range programs {
				got := run(t, b, program(src), nil, toolAnswer).text()
				if got != want[i] {
					t.Errorf("%s\nhere:    %q\nCPython: %q", src, got, want[i])
				}
			}
		})
	}
}
