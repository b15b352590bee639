package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/usertest"
)

// asUser runs a test as an ordinary user alone: root may list every directory.
func asUser(t *testing.T, test func(t *testing.T)) {
	usertest.Both(t, func(t *testing.T) {
		if os.Geteuid() != 0 {
			test(t)
		}
	})
}

// shut takes rights in a directory of a folder away until the test ends.
func shut(t *testing.T, folder, p string, mode os.FileMode) {
	t.Helper()
	at := filepath.Join(folder, p)
	must(t, os.Chmod(at, mode))
	t.Cleanup(func() { _ = os.Chmod(at, 0o755) }) //nolint:gosec // it goes with the test
}

// What lies in a directory that cannot be looked through can be read by whoever knows its name, or may be in a moment: a
// program that was shown the folder unasked sees nothing of it.
func TestUnlistedIsHidden(t *testing.T) {
	asUser(t, func(t *testing.T) {
		s, folder := newApart(t)
		(&rig{t: t}).write(folder, files{"entered/.env": "s", "entered/l": "@../plain", "closed/f": "s", "seen/.env": "s", "open/.env": "s", "plain": "s", "out.pem": "@entered/l",
			"in.pem": "@entered/other", "none.pem": "@closed/f", "names.pem": "@seen/f", ".ssh/deep/key": "s", "a/b/entered/f": "s", "text": "t"})
		for p, mode := range map[string]os.FileMode{"entered": 0o311, "a/b/entered": 0o711 &^ 0o400, "closed": 0, "seen": 0o444, ".ssh/deep": 0o311} {
			shut(t, folder, p, mode)
		}
		if got, want := hiddenIn(t, s, shownUnasked(folder)), ".ssh/ open/.env plain a/b/entered/ closed/ entered/ seen/"; got != want {
			t.Errorf("hidden %q, want %q", got, want)
		}
		c, err := s.Changes(pid)
		must(t, err)
		if got, want := fmt.Sprint(c.Hidden, c.Unlisted), "[.ssh/ open/.env plain] [a/b/entered/ closed/ entered/ seen/]"; got != want {
			t.Errorf("said to be hidden %s, want %s", got, want)
		}
	})
}

// A folder that was named is shown whole, but for what nobody could tell the changes of.
func TestUnlistedIsLeftOut(t *testing.T) {
	asUser(t, func(t *testing.T) {
		for _, copies := range []bool{false, true} {
			r := newRig(t, files{"conf/f": "his", "conf/sub/g": "his", "open/f": "his"}, func(c *Config, spec *agentkernel.Spec) {
				c.Copy = copies
				shut(t, spec.Workspace.Path, "conf", 0o311)
			})
			if got := strings.Join(r.mount.Hidden, " "); got != "conf/" {
				t.Errorf("copies %t: hidden %q", copies, got)
			}
			must(t, os.WriteFile(filepath.Join(r.folder, "conf", "f"), []byte("his new text"), 0o644))
			r.write(r.upper(""), files{"open/f": "by program"})
			for _, mode := range []os.FileMode{0o311, 0, 0o755} { // whatever its rights are later
				must(t, os.Chmod(filepath.Join(r.folder, "conf"), mode))
				c, err := r.s.Changes(pid)
				must(t, err)
				if got := fmt.Sprint(c.Unlisted, c.Drift, len(c.Changes)) + c.Changes[0].Path + c.Changes[0].Conflict; got != "[conf/] [] 1open/f" {
					t.Errorf("copies %t, mode %o: %s", copies, mode, got)
				}
			}
			_, err := r.apply(false)
			must(t, err)
			r.expect(files{"conf/f": "his new text", "conf/sub/g": "his", "open/f": "by program"})
		}
	})
}

// A directory whose rights go while the program works: what is told of the others stays told, the directory is named, and
// nothing is written.
func TestUnlistedLater(t *testing.T) {
	asUser(t, func(t *testing.T) {
		for _, mode := range []os.FileMode{0o311, 0, 0o444} {
			r := newRig(t, files{"deep/conf/f": "his", "open/f": "his"})
			r.write(r.upper(""), files{"deep/conf/f": "by program", "deep/conf/new": "n", "open/f": "by program"})
			shut(t, r.folder, "deep/conf", mode)
			c, err := r.s.Changes(pid)
			must(t, err)
			at := filepath.Join(r.folder, "deep", "conf")
			for _, ch := range c.Changes {
				if in := strings.HasPrefix(ch.Path, "deep/"); in != strings.Contains(ch.Conflict, "cannot be compared: the folder "+at+" cannot be read") {
					t.Errorf("mode %o: %s: %q", mode, ch.Path, ch.Conflict)
				}
			}
			if got := fmt.Sprint(len(c.Changes), c.Drift); got != "3 [deep/conf]" {
				t.Errorf("mode %o: %s", mode, got)
			}
			for _, force := range []bool{false, true} {
				_, err = r.apply(force)
				wantCode(t, err, agentkernel.CodeDenied, at)
			}
			must(t, os.Chmod(at, 0o755)) //nolint:gosec // as it was
			r.expect(files{"deep/conf/f": "his", "open/f": "his"})
		}
	})
}

// A copy without what cannot be copied would tell that the program has deleted it.
func TestUnlistedBeforeTheCopy(t *testing.T) {
	asUser(t, func(t *testing.T) {
		s, folder := newApart(t)
		s.cfg.Copy = true
		(&rig{t: t}).write(folder, files{"sub/conf/f": "his"})
		must(t, s.Create(pid, &agentkernel.Spec{Workspace: &agentkernel.Workspace{Path: folder}}))
		shut(t, folder, "sub/conf", 0o311)
		_, err := s.Begin(pid)
		wantCode(t, err, agentkernel.CodeDenied, "the folder "+filepath.Join(folder, "sub", "conf")+" cannot be read")
	})
}

const levels, nameLength = 30, 200

// deep makes directories in a folder whose path is longer than the system takes, and does something in the last.
func deep(t *testing.T, folder string, do func(bottom dir)) {
	t.Helper()
	at, err := openRoot(folder, true)
	must(t, err)
	name := strings.Repeat("d", nameLength)
	for range levels {
		defer at.Close()
		must(t, unix.Mkdirat(at.fd(), name, 0o755))
		f, err := at.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
		must(t, err)
		at = at.as(f)
	}
	defer at.Close()
	do(at)
}

// A directory that cannot be listed, and whose path no mount takes, is left out with one above it, also of a copy.
func TestUnlistedTooDeepForAPath(t *testing.T) {
	asUser(t, func(t *testing.T) {
		s, folder := newApart(t)
		s.cfg.Copy = true
		(&rig{t: t}).write(folder, files{"plain": "s"})
		deep(t, folder, func(bottom dir) { must(t, unix.Fchmod(bottom.fd(), 0o311)) })
		must(t, s.Create(pid, &agentkernel.Spec{Workspace: &agentkernel.Workspace{Path: folder}}))
		mounts, err := s.Begin(pid)
		must(t, err)
		c, err := s.Changes(pid)
		must(t, err)
		if len(mounts[0].Hidden) != 1 || len(mounts[0].Hidden[0]) > maxHiddenPath+1 || len(c.Unlisted) != 1 || len(c.Changes) > 0 || len(c.Drift) > 0 {
			t.Errorf("hidden %q, %+v", mounts[0].Hidden, c)
		}
	})
}

// A key whose path no mount takes is hidden with the first directory above it of which one does, and what a link down
// there stands for is hidden, wherever it lies.
func TestHiddenTooDeepForAPath(t *testing.T) {
	s, folder := newApart(t)
	(&rig{t: t}).write(folder, files{"plain": "s", "other": "o"})
	deep(t, folder, func(bottom dir) {
		fd, err := unix.Openat(bottom.fd(), ".env", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		must(t, err)
		must(t, unix.Close(fd))
		must(t, unix.Symlinkat(strings.Repeat("../", levels)+"plain", bottom.fd(), "a.pem"))
	})
	must(t, s.Create(pid, shownUnasked(folder)))
	mounts, err := s.Begin(pid)
	must(t, err)
	hidden := mounts[0].Hidden
	if len(hidden) != 2 || hidden[1] != "plain" || len(hidden[0]) > maxHiddenPath+1 || len(hidden[0]) < maxHiddenPath-2*nameLength || !strings.HasSuffix(hidden[0], "dd/") {
		t.Errorf("hidden: %d, %q", len(hidden), hidden)
	}
}
