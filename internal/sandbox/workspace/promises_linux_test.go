package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/usertest"
)

func TestAttributesAreNotTakenOver(t *testing.T) {
	r := newRig(t, files{})
	r.write(r.upper(""), files{"f": "f", "d/g": "g"})
	for _, p := range []string{"f", "d", "d/g"} {
		must(t, unix.Setxattr(r.upper(p), "user.mine", []byte("x"), 0))
	}
	_, err := r.apply(false)
	must(t, err)
	for _, p := range []string{"f", "d", "d/g"} {
		if n, err := unix.Listxattr(filepath.Join(r.folder, p), make([]byte, 1000)); err != nil || n != 0 {
			t.Errorf("%s has %d bytes of attributes, %v", p, n, err)
		}
	}
}

// What was applied is read from the folder as long as it is that.
func TestReadingWhatWasApplied(t *testing.T) {
	r := newRig(t, files{})
	r.write(r.upper(""), files{"f": "f", "g": "g"})
	_, err := r.apply(false)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(r.folder, "g"), []byte("his"), 0o644))
	if text, err := r.read(agentkernel.FileName{Path: "f"}); err != nil || text != "f" {
		t.Errorf("%q %v", text, err)
	}
	_, err = r.read(agentkernel.FileName{Path: "g"})
	wantCode(t, err, agentkernel.CodeConflict, "has changed there since")
}

func TestAnotherFileSystemIsNotSeen(t *testing.T) {
	root, err := openRoot("/", false)
	must(t, err)
	defer root.Close()
	if f, err := root.below("proc/version", unix.O_RDONLY); err == nil {
		_ = f.Close()
		t.Error("a file on another file system was opened")
	}
}

// The owner of a new file is that of its directory, of a changed one who it was.
func TestOwnersOfWhatIsApplied(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root chooses owners")
	}
	r := newRig(t, files{"old": "o", "theirs/f": "f"})
	for name, id := range map[string]int{"": 1, "old": 2, "theirs": 3, "theirs/f": 4} {
		must(t, os.Chown(filepath.Join(r.folder, name), id, id+10))
	}
	r = newRigOn(t, r.folder)
	r.write(r.upper(""), files{"old": "changed", "new": "n", "theirs/f": "changed", "theirs/g": "g", "dir/h": "h"})
	_, err := r.apply(false)
	must(t, err)
	for name, want := range map[string]uint32{"old": 2, "new": 1, "theirs/f": 4, "theirs/g": 3, "dir": 1, "dir/h": 1} {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(r.folder, name), &st))
		if st.Uid != want || st.Gid != want+10 {
			t.Errorf("%s belongs to %d:%d, want %d:%d", name, st.Uid, st.Gid, want, want+10)
		}
	}
}

// A folder that holds what the process has not seen gives way to no file, not even by force.
func TestForceThrowsNoFolderAway(t *testing.T) {
	r := newRig(t, files{"tree/a": "a"})
	r.write(r.upper(""), files{"tree": "a file now", "other": "o"})
	r.write(r.folder, files{"tree/his": "h"})
	for _, force := range []bool{false, true} {
		_, err := r.apply(force)
		wantCode(t, err, agentkernel.CodeConflict, "tree has got something new: his", "nothing was written")
		r.expect(files{"tree/a": "a", "tree/his": "h"})
	}
}

// Who makes a file a program, or stops it from being one, may leave its bytes as they are.
func TestAFileThatBecomesAProgramIsApplied(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		r := newRig(t, files{"runs": "r", "ran": "n"})
		must(t, os.Chmod(filepath.Join(r.folder, "ran"), 0o755))
		r = newRigOn(t, r.folder)
		r.write(r.upper(""), files{"runs": "r", "ran": "n"})
		must(t, os.Chmod(r.upper("runs"), 0o755))
		got, err := r.apply(false)
		must(t, err)
		if got.Changed != 2 {
			t.Errorf("%d changed, want 2", got.Changed)
		}
		for name, want := range map[string]os.FileMode{"runs": 0o755, "ran": 0o644} {
			info, err := os.Stat(filepath.Join(r.folder, name))
			must(t, err)
			if info.Mode() != want {
				t.Errorf("%s has the mode %v, want %v", name, info.Mode(), want)
			}
		}
	})
}
