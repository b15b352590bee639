// Package python_test runs the tests of the Python SDK: the real binary, the real engine, and every CPython that
// is named. The SDK itself is Python; no Go code is here.
package python_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentkernel/internal/tool/tooltest"
)

// patience only guards against a test that hangs; the slowest file, with 10 million rows, takes half a minute.
const patience = 15 * time.Minute

// oldest is the oldest Python that the SDK supports.
const oldest = "3.10"

// pythons finds the interpreter to test with: those that AGENTKERNEL_PYTHON names (a list like PATH), else the first of
// the usual names that is new enough. Without one nothing of the SDK is proved, which CI does not accept.
func pythons(t *testing.T) []string {
	t.Helper()
	if named := os.Getenv("AGENTKERNEL_PYTHON"); named != "" {
		return filepath.SplitList(named)
	}
	var seen []string
	for _, name := range []string{"python3", "python3.13", "python3.12", "python3.11", "python3.10", "python"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		check := fmt.Sprintf("import sys; print('.'.join(map(str, sys.version_info[:3]))); sys.exit(sys.version_info < (%s))", strings.ReplaceAll(oldest, ".", ", "))
		out, err := exec.Command(path, "-c", check).Output()
		if err == nil {
			return []string{path}
		}
		seen = append(seen, fmt.Sprintf("%s is %s", path, strings.TrimSpace(string(out))))
	}
	why := fmt.Sprintf("SKIPPED, NOTHING OF THE PYTHON SDK IS PROVED: it needs Python %s or newer, and there is none: %q. Install one (Debian: apt-get install python3), "+
		"or name one with AGENTKERNEL_PYTHON", oldest, seen)
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
	return nil
}

// binary builds the command as users get it.
func binary(t *testing.T, root string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agentkernel")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-X main.version=0.0.0-sdk-test", "-o", path, "./cmd/agentkernel")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the binary: %v\n%s", err, out)
	}
	return path
}

var ran = regexp.MustCompile(`(?m)^Ran (\d+) tests? in`)

func TestPythonSDK(t *testing.T) {
	root, err := tooltest.Root()
	if err != nil {
		t.Fatal(err)
	}
	interpreters := pythons(t)
	bin, server := binary(t, root), tooltest.Build(t)
	files, err := filepath.Glob(filepath.Join("tests", "test_*.py"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	for i, python := range interpreters {
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".py")
			if len(interpreters) > 1 {
				name = fmt.Sprintf("%d-%s", i, name)
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				cmd := exec.CommandContext(ctx, python, "-X", "dev", "-W", "error::ResourceWarning", "-B", file)
				cmd.Env = append(os.Environ(), "AGENTKERNEL_BIN="+bin, "AGENTKERNEL_TEST_SERVER="+server, "PYTHONPATH=")
				cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // a traceback says where it hangs
				cmd.WaitDelay = 20 * time.Second
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				err := cmd.Run()
				m := ran.FindStringSubmatch(out.String())
				if err != nil || m == nil || m[1] == "0" {
					t.Fatalf("%s %s: %v\n%s", python, file, err, out.String())
				}
				for line := range strings.Lines(out.String()) {
					if text := strings.TrimSpace(line); text != "" && strings.Trim(text, ".s-=") != "" {
						t.Log(text)
					}
				}
			})
		}
	}
}
