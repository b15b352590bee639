// Package usertest runs a test as root and as an ordinary user: what holds for one need not hold for the other.
package usertest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Someone is an ordinary user that need not exist.
const Someone = 54321

// Both runs a test as root and as an ordinary user: the latter by running this executable again with the one test.
// Whoever starts the tests without being root has the second half alone.
func Both(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	BothWith(t, test, func(string) []string { return nil })
}

// BothWith is Both; prepare puts what the user's half needs into its working directory, which everybody can reach,
// and gives the variables that it needs beyond the environment.
func BothWith(t *testing.T, test func(t *testing.T), prepare func(dir string) (env []string)) {
	t.Helper()
	if os.Geteuid() != 0 {
		test(t)
		return
	}
	t.Run("root", test)
	t.Run("user", func(t *testing.T) {
		dir := Dir(t)
		cmd := exec.Command(Executable(t, dir), "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$", "-test.v", "-test.timeout=20m")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: Someone, Gid: Someone}, Setpgid: true}
		cmd.Env, cmd.Dir = append(append(os.Environ(), "HOME=/tmp", "TMPDIR=/tmp"), prepare(dir)...), dir
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS")) {
			t.Errorf("as user %d: %v\n%s", Someone, err, interesting(string(out)))
		}
		if bytes.Contains(out, []byte("--- SKIP")) {
			t.Logf("%s", out)
		}
	})
}

// interesting leaves out what has passed.
func interesting(out string) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(out, "\n") {
		if f := strings.TrimSpace(line); !strings.HasPrefix(f, "=== ") && !strings.HasPrefix(f, "--- PASS") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Dir is a directory that everybody can reach; those of t.TempDir are the user's who runs the tests.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "usertest")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Executable copies this executable to dir; the original is in a private directory.
func Executable(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(dir, filepath.Base(os.Args[0]))
	Copy(t, "/proc/self/exe", to)
	return to
}

// Copy copies a file to one that everybody can run.
func Copy(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(to, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}
