package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"agentkernel"
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
