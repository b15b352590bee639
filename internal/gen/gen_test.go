package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
)

func TestFilesAreUpToDate(t *testing.T) {
	out := files(agentkernel.Syscalls())
	schema, err := settingsSchema()
	if err != nil {
		t.Fatal(err)
	}
	out[settingsPath] = schema
	for path, want := range out {
		got, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(path)))
		if err != nil {
			t.Error(err)
			continue
		}
		if string(got) != want {
			t.Errorf("%s is not what the table in the code says; run: make generate", path)
		}
	}
}

func TestEverySyscallIsOnThePageAndInTheStubs(t *testing.T) {
	out := files(agentkernel.Syscalls())
	for _, s := range agentkernel.Syscalls() {
		if !strings.Contains(out["docs/syscalls.md"], "\n### "+s.Name+"\n") {
			t.Errorf("%s has no section", s.Name)
		}
		verb, _, _ := strings.Cut(s.Signature(), "(")
		for _, path := range []string{"guest/stubs/kernel/__init__.pyi", "guest/stubs/kernel/aio.pyi"} {
			if s.Guest != "" && !strings.Contains(out[path], "def "+verb+"(") {
				t.Errorf("%s has no %s in %s", s.Name, verb, path)
			}
		}
	}
}

// The names that a program catches have to be those that the contract raises.
func TestExceptionsAreThoseOfTheContract(t *testing.T) {
	known := map[string]bool{"PermissionError": true, "TimeoutError": true, "TypeError": true}
	for _, e := range exceptions {
		known[e.name] = true
	}
	for _, c := range []agentkernel.Code{agentkernel.CodeDenied, agentkernel.CodeLimit, agentkernel.CodeOutcomeUnknown,
		agentkernel.CodeSessionLost, agentkernel.CodeInterrupted, agentkernel.CodeTimeout, agentkernel.CodeInvalid, agentkernel.CodeTool} {
		if !known[c.GuestException()] {
			t.Errorf("%s raises %s, which neither page nor stubs name", c, c.GuestException())
		}
	}
}

func TestStubsAreValidPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to parse them with")
	}
	for path, text := range files(agentkernel.Syscalls()) {
		if !strings.HasSuffix(path, ".pyi") {
			continue
		}
		cmd := exec.Command(python, "-I", "-c", "import ast, sys; ast.parse(sys.stdin.read())")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %s", path, out)
		}
	}
}
