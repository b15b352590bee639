package setup

import (
	"os"
	"path/filepath"
	"testing"

	"agentkernel/internal/usertest"
)

// TestFilesThatNoKernelCanOpen: what every kernel opens first is looked at, each file, as the user who owns it and as root, who may read
// all; and nothing is said of a directory that may not be looked into.
func TestFilesThatNoKernelCanOpen(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		root := os.Geteuid() == 0
		for name, mode := range map[string]os.FileMode{"kernel.db": 0o444, "kernel.db-wal": 0o444, "kernel.lock": 0o400, "kernel.log": 0o444, "key": 0} {
			home := usertest.Dir(t)
			file := filepath.Join(home, name)
			content := make([]byte, 32)
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file, mode); err != nil {
				t.Fatal(err)
			}
			if r := Doctor(t.Context(), DoctorOptions{Home: home}); root {
				if f := find(t, r, "data directory"); f.Status == Fail {
					t.Errorf("%s: %+v", name, f)
				}
			} else {
				expect(t, r, "data directory", Fail, file+" cannot be read and written", "chmod u+rw "+file)
			}
		}
		home := usertest.Dir(t)
		if err := os.WriteFile(filepath.Join(home, "key"), []byte{1}, 0o600); err != nil {
			t.Fatal(err)
		}
		expect(t, Doctor(t.Context(), DoctorOptions{Home: home}), "data directory", Fail, "is not a key of 32 bytes", "a new key is made")
		if root {
			return
		}
		if err := os.Chmod(home, 0); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.Chmod(home, 0o700) }()
		r := Doctor(t.Context(), DoctorOptions{Home: home})
		expect(t, r, "data directory", Fail, "cannot be read and written", "chmod u+rwx "+home)
		for _, check := range []string{"kernel", "database", "stored data", "storage", "leftovers"} {
			expect(t, r, check, Warn, "not looked at", "")
		}
	})
}
