package sqlite

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"agentkernel"
)

// mount gives a file system of its own to a test; without root it says so and skips.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("NOT TESTED: a tmpfs cannot be mounted here (%v); run as root to test a real full disk", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestARealFullDisk(t *testing.T) {
	for name, size := range map[string]int{"rows": 1000, "blobs": 40_000} {
		t.Run(name, func(t *testing.T) {
			dir := mount(t, "size=2m,mode=0700")
			cfg := testConfig(dir)
			s := mustOpen(t, cfg)
			pid := newPID(s)
			acknowledged, err := fill(t, s, pid, size)
			checkError(t, err, agentkernel.CodeStorage, "the disk that holds "+dir, "full", "free space, then: agentkernel recover")
			checkFailed(t, s, pid, acknowledged)

			checkLength(t, mustRead(t, cfg), pid, int(acknowledged)) // `ps` on a full disk
			if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
				t.Fatal(err)
			}
			again := mustOpen(t, cfg)
			checkLength(t, again, pid, int(acknowledged))
			if err := appendFlush(again, note(pid, acknowledged+1, size)); err != nil {
				t.Fatalf("after space was freed: %v", err)
			}
		})
	}
	t.Run("no room to begin", func(t *testing.T) {
		dir := mount(t, "size=4k,mode=0700")
		_, err := Open(t.Context(), testConfig(dir))
		checkError(t, err, agentkernel.CodeStorage, dir, "full", "free space")
	})
}

func TestAReadOnlyFileSystem(t *testing.T) {
	dir := mount(t, "size=8m,mode=0700")
	closed, killed := testConfig(filepath.Join(dir, "closed")), testConfig(filepath.Join(dir, "killed"))
	for _, cfg := range []Config{closed, killed} {
		if err := os.Mkdir(filepath.Dir(cfg.Path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, closed)
	pid := newPID(s)
	if err := appendFlush(s, note(pid, 1, 10)); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		content, err := os.ReadFile(closed.Path + suffix)
		if err == nil {
			err = os.WriteFile(killed.Path+suffix, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]Config{"closed": closed, "killed": killed} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), cfg)
			checkError(t, err, agentkernel.CodeStorage, filepath.Dir(cfg.Path), "read-only", "AGENTKERNEL_HOME")
			checkLength(t, mustRead(t, cfg), pid, 1)
		})
	}
}

// unreadableEnv names the database that a re-executed test may not open.
const unreadableEnv = "AGENTKERNEL_TEST_UNREADABLE"

// TestWithoutPermission runs itself as another user, because nothing is forbidden to root.
func TestWithoutPermission(t *testing.T) {
	path := os.Getenv(unreadableEnv)
	if path == "" {
		path = filepath.Join(t.TempDir(), "journal.db")
		if err := mustOpen(t, testConfig(filepath.Dir(path))).Close(); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			asNobody(t, path)
			return
		}
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
	}
	cfg := testConfig(filepath.Dir(path))
	_, err := Open(t.Context(), cfg)
	checkError(t, err, agentkernel.CodeDenied, "no permission", path, map[bool]string{true: "chmod u+rw", false: "who owns it"}[os.Getenv(unreadableEnv) == ""])
	_, err = OpenReader(t.Context(), cfg)
	checkError(t, err, agentkernel.CodeDenied, "no permission", path)
}

// asNobody runs TestWithoutPermission as a user who may run the binary but not read the database at path.
func asNobody(t *testing.T, path string) {
	t.Helper()
	public, err := os.MkdirTemp("", "agentkernel-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(public)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	binary, closed := filepath.Join(public, "test"), filepath.Join(public, "closed")
	for _, step := range []error{
		os.Chmod(public, 0o755),
		os.WriteFile(binary, self, 0o755),
		os.Mkdir(closed, 0o700),
		os.Rename(path, filepath.Join(closed, "journal.db")),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	cmd := exec.Command(binary, "-test.run=^TestWithoutPermission$", "-test.v")
	cmd.Dir = public
	cmd.Env = append(os.Environ(), unreadableEnv+"="+filepath.Join(closed, "journal.db"), "TMPDIR="+public)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("as user nobody: %v\n%s", err, out)
	}
}
