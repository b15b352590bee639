package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
)

// makeVenv makes a virtual environment with one module, mine.py, and a .pth file that says so when it runs.
func makeVenv(t *testing.T, b *Backend, value string) (dir, ran string) {
	t.Helper()
	base, err := b.python.get()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "venv")
	if out, err := exec.Command(base.Executable, "-m", "venv", "--without-pip", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	site, err := filepath.Glob(filepath.Join(dir, "lib", "python3*", "site-packages"))
	if err != nil || len(site) != 1 {
		t.Fatalf("site-packages: %v, %v", site, err)
	}
	ran = filepath.Join(filepath.Dir(dir), "ran")
	for name, text := range map[string]string{
		"mine.py":  "X = " + value + "\n",
		"mine.pth": "import os, sys; sys.mine_pth = True; sys.mine_ns = os.stat('/proc/self/ns/pid').st_ino; os.path.isdir('" + filepath.Dir(ran) + "') and open('" + ran + "', 'w')\n",
	} {
		if err := os.WriteFile(filepath.Join(site[0], name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for p := dir; len(p) > len(os.TempDir()); p = filepath.Dir(p) {
		_ = os.Chmod(p, 0o755) // sandboxes run as another user; those above belong to the system
	}
	return dir, ran
}

func runIn(t *testing.T, b *Backend, env, src string) (out string, turn agentkernel.Turn) {
	t.Helper()
	r := newRun(t, b, src)
	r.req.Program.Host = env
	turn, err := r.finish()
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	_ = r.box.Close()
	return r.out.String(), turn
}

// TestEnvironments: a program has the packages of its own environment, and another of the same namespace has not, since
// no zygote serves two environments. What is installed runs behind the walls only, and is not written to.
func TestEnvironments(t *testing.T) {
	b := newBackend(t)
	one, ranOne := makeVenv(t, b, "1")
	if out, _ := runIn(t, b, one, "import os, sys\nprint(sys.mine_ns == os.stat('/proc/self/ns/pid').st_ino)"); out != "True\n" {
		t.Errorf("what is installed ran before the program's walls stood: %q", out)
	}
	two, _ := makeVenv(t, b, "2")
	const src = "import sys, mine\nprint(mine.X, sys.prefix, getattr(sys, 'mine_pth', False))"
	for env, x := range map[string]string{one: "1", two: "2"} {
		for range 2 {
			if out, turn := runIn(t, b, env, src); out != x+" "+env+" True\n" {
				t.Errorf("%s: %q %s", env, out, tracebackOf(turn))
			}
		}
	}
	if out, _ := runIn(t, b, one, "try:\n    open('"+one+"/x', 'w')\nexcept OSError as e:\n    print('read-only', e.errno)"); !strings.HasPrefix(out, "read-only") {
		t.Errorf("the environment can be written: %q", out)
	}
	if _, err := b.Check(agentkernel.Program{Name: "p", Source: src}); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
		t.Errorf("a program without an environment finds the module of one: %v", err)
	}
	if _, err := b.Check(agentkernel.Program{Name: "p", Source: "import nosuch", Host: one}); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
		t.Errorf("a module that the environment lacks: %v", err)
	}
	if _, err := os.Stat(ranOne); err == nil {
		t.Error("code of an environment ran outside the walls")
	}
}

func TestEnvironmentsThatAreNone(t *testing.T) {
	b := sharedBackend(t)
	venv, _ := makeVenv(t, b, "1")
	python := filepath.Join(venv, "bin", "python")
	if err := os.Remove(python); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/sh", python); err != nil {
		t.Fatal(err)
	}
	for env, says := range map[string]string{
		filepath.Join(venv, "gone"): "there is no virtual environment at",
		t.TempDir():                 "there is no virtual environment at",
		venv:                        "another Python",
	} {
		_, err := b.Check(agentkernel.Program{Name: "p", Source: "1", Host: env})
		if agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", env, err)
		}
	}
}
