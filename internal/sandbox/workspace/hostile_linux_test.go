package workspace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/usertest"
)

func TestNoBitThatMakesAProgramSomebodyElse(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		r := newRig(t, files{"old": "o", "wide": "w"})
		must(t, os.Chmod(filepath.Join(r.folder, "wide"), 0o666))
		r = newRigOn(t, r.folder)
		r.write(r.upper(""), files{"new": "n", "old": "changed", "wide": "changed", "dir/": "", "shut": "s"})
		for name, mode := range map[string]uint32{"new": 0o6777, "old": 0o4755, "wide": 0o2666, "dir": 0o3777, "shut": 0} {
			must(t, unix.Chmod(r.upper(name), mode))
		}
		_, err := r.apply(false)
		must(t, err)
		for name, want := range map[string]os.FileMode{"new": 0o755, "old": 0o755, "wide": 0o666, "dir": os.ModeDir | 0o755, "shut": 0o600} {
			info, err := os.Stat(filepath.Join(r.folder, name))
			must(t, err)
			if info.Mode() != want {
				t.Errorf("%s has the mode %v, want %v", name, info.Mode(), want)
			}
		}
	})
}

// newRigOn is a further process on a folder that is there.
func newRigOn(t *testing.T, folder string) *rig {
	t.Helper()
	r := newRig(t, nil, func(_ *Config, s *agentkernel.Spec) { s.Workspace.Path = folder })
	r.folder = folder
	return r
}

func TestLinksThatLeaveAreNotApplied(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		r := newRig(t, files{"own-way-out": "@/etc", "sub/f": "f"})
		bad := files{"absolute": "@/etc/passwd", "up": "@../victim", "sub/up": "@../../victim", "through": "@own-way-out/passwd",
			"through-new": "@own-way-out/not-there-yet", "sneaky": "@sub/../../victim"}
		good := files{"in": "@sub/f", "sub/back": "@../sub/f", "dangling": "@sub/nothing", "loop": "@loop"}
		r.write(r.upper(""), bad)
		r.write(r.upper(""), good)
		r.write(r.upper(""), files{"file": "written"})
		got, err := r.apply(false)
		must(t, err)
		if len(got.LeftOut) != len(bad) {
			t.Errorf("left out: %+v", got.LeftOut)
		}
		want := files{"own-way-out": "@/etc", "sub/f": "f", "file": "written"}
		for p, text := range good {
			want[p] = text
		}
		r.expect(want)
	})
}

func TestPipesAndSocketsAreNotApplied(t *testing.T) {
	r := newRig(t, files{})
	must(t, unix.Mkfifo(r.upper("pipe"), 0o666))
	must(t, unix.Mknod(r.upper("socket"), unix.S_IFSOCK|0o666, 0))
	got, err := r.apply(false)
	must(t, err)
	if len(got.LeftOut) != 2 {
		t.Errorf("left out: %+v", got.LeftOut)
	}
	r.expect(files{})
	if _, err := r.s.Open(pid, agentkernel.FileName{Path: "pipe"}); err == nil {
		t.Error("a pipe was opened")
	}
}

func TestAFileWithASecondNameOutside(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		r := newRig(t, files{"inside": "shared"})
		outside := filepath.Join(filepath.Dir(r.folder), "outside")
		must(t, os.Link(filepath.Join(r.folder, "inside"), outside))
		r = newRigOn(t, r.folder)
		r.write(r.upper(""), files{"inside": "by the program"})
		_, err := r.apply(false)
		must(t, err)
		r.expect(files{"inside": "by the program"})
		if b, _ := os.ReadFile(outside); string(b) != "shared" {
			t.Errorf("the file outside is now %q", b)
		}
	})
}

// TestRacingLinks swaps a directory of the folder for a link to somewhere else, over and over, while changes are
// applied to it, discarded, read.
func TestRacingLinks(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		r := newRig(t, files{"d/f": "f", "d/sub/g": "g"})
		outside := filepath.Join(filepath.Dir(r.folder), "outside")
		r.write(outside, files{"f": "victim", "sub/g": "victim", "gone": "victim"})
		d := filepath.Join(r.folder, "d")
		must(t, os.Symlink(outside, d+".link"))
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default: // both exist, under each other's name, at every moment
					_ = unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, d+".link", unix.RENAME_EXCHANGE)
				}
			}
		}()
		applied, refused := 0, 0
		for i := range 40 {
			q := newRigOn(t, r.folder)
			q.write(q.upper(""), files{"d/f": fmt.Sprint("mine", i), "d/new": "mine", "d/sub/g": fmt.Sprint("mine", i)})
			if _, err := q.apply(i%2 == 0); err == nil {
				applied++
			} else {
				refused++
			}
			for _, before := range []bool{false, true} {
				if f, err := q.s.Open(pid, agentkernel.FileName{Path: "d/gone", Before: before}); err == nil {
					_ = f.Content.Close()
					t.Error("a file outside was opened")
				}
			}
			_ = removeAll(filepath.Dir(q.s.cfg.Apart))
		}
		close(stop)
		<-done
		t.Logf("%d applied, %d refused", applied, refused)
		if got := look(t, outside); fmt.Sprint(got) != fmt.Sprint(files{"f": "victim", "sub/g": "victim", "gone": "victim"}) {
			t.Errorf("what is outside was changed: %v", got)
		}
	})
}

func TestNamesOfAnyBytes(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		r := newRig(t, files{})
		want := files{"new\nline": "1", "\xff\xfe": "2", strings.Repeat("n", 255): "3", "-rf": "4", " ": "5", "\x1b[31m": "6"}
		r.write(r.upper(""), want)
		c, err := r.s.Changes(pid)
		must(t, err)
		if len(c.Changes) != len(want) {
			t.Errorf("changes: %+v", c.Changes)
		}
		_, err = r.apply(false)
		must(t, err)
		r.expect(want)
	})
}

// TestNamesThatLookAlike: a name that is not text names one file, and no other.
func TestNamesThatLookAlike(t *testing.T) {
	written := map[string]string{"a\xff": `a\xff`, "a\xfe": `a\xfe`, "a\ufffd": "a\ufffd", `a\xff`: `a\x5cxff`, `a\xFF`: `a\xFF`, `a\b`: `a\b`, "d\xff/x": `d\xff/x`, "d\xfe/x": `d\xfe/x`}
	all := files{}
	for raw, text := range written {
		all[raw] = "is " + text
	}
	open := func(r *rig, raw string) {
		t.Helper()
		for _, name := range []string{raw, written[raw]} {
			if name == `a\xff` && raw == name {
				continue // this is how another one is written
			}
			parsed, err := agentkernel.ParseFileName(name)
			must(t, err)
			f, err := r.s.Open(pid, parsed)
			must(t, err)
			b, err := io.ReadAll(f.Content)
			must(t, errors.Join(err, f.Content.Close()))
			if string(b) != all[raw] {
				t.Errorf("%q gave %q", name, b)
			}
		}
	}
	for raw, text := range written {
		r := newRig(t, files{})
		r.write(r.upper(""), all)
		c, err := r.s.Changes(pid)
		must(t, err)
		if !slices.ContainsFunc(c.Changes, func(ch agentkernel.Change) bool { return ch.Path == text }) {
			t.Errorf("%q is not listed as %q: %+v", raw, text, c.Changes)
		}
		open(r, raw)
		name := raw
		if raw == `a\xff` {
			name = text
		}
		name, _, _ = strings.Cut(name, "/x")
		_, err = r.s.Apply(t.Context(), pid, agentkernel.ApplyOptions{Paths: []string{name}})
		must(t, err)
		r.expect(files{raw: all[raw]})
		open(r, raw) // of those that wait, and of those that were applied
		_, err = r.s.Apply(t.Context(), pid, agentkernel.ApplyOptions{})
		must(t, err)
		r.expect(all)
		for raw := range all {
			open(r, raw)
		}
	}
	r := newRig(t, files{})
	r.write(r.upper(""), files{"é": "1"})
	_, err := r.s.Apply(t.Context(), pid, agentkernel.ApplyOptions{Paths: []string{`\xc3\xa9`}})
	wantCode(t, err, agentkernel.CodeInvalid, "is not how a file is written")
}

func TestShutAgainstTheirOwner(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		r := newRig(t, files{})
		r.write(r.upper(""), files{"d/e/f": "hidden"})
		must(t, os.Chmod(r.upper("d/e/f"), 0))
		must(t, os.Chmod(r.upper("d/e"), 0))
		must(t, os.Chmod(r.upper("d"), 0))
		if n, _, err := r.s.Used(pid); err != nil || n != 3*entryBytes+6 {
			t.Errorf("used %d %v: what is shut must count", n, err)
		}
		if info, err := os.Stat(r.upper("d")); err != nil || info.Mode().Perm() != 0 { // the program may look, too
			t.Errorf("looking has changed the mode: %v %v", info, err)
		}
		_, err := r.apply(false)
		must(t, err)
		r.expect(files{"d/e/f": "hidden"})
	})
}

func TestNestedDeeperThanAnybodyGoes(t *testing.T) {
	r := newRig(t, files{})
	deep := r.upper(strings.Repeat("d/", maxDepth+5))
	must(t, os.MkdirAll(deep, 0o755))
	_, _, err := r.s.Used(pid)
	wantCode(t, err, agentkernel.CodeLimit, "directories are nested deeper than 200")
	must(t, r.s.Discard(r.t.Context(), pid))
}

func TestVolumeThatIsFull(t *testing.T) {
	r := newRig(t, files{"a": "1234"}, func(_ *Config, s *agentkernel.Spec) {
		s.Volumes = []agentkernel.Volume{{Name: "v", Path: s.Workspace.Path, Size: 2*entryBytes + 10}}
		s.Workspace = nil
	})
	r.write(r.upper(""), files{"b": "1234567"})
	_, err := r.apply(false)
	wantCode(t, err, agentkernel.CodeLimit, "may hold")
	r.expect(files{"a": "1234"})
	r.write(r.upper(""), files{"b": "123456"})
	_, err = r.apply(false)
	must(t, err)
	r.expect(files{"a": "1234", "b": "123456"})
}

func TestCopyWhereThereIsNoOverlay(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		r := newRig(t, start, func(c *Config, _ *agentkernel.Spec) { c.Copy = true })
		if !r.mount.Own || r.mount.Scratch != "" {
			t.Fatalf("mount %+v", r.mount)
		}
		if got := r.changes(); got != "" {
			t.Errorf("changes before anything was written: %s", got)
		}
		if n, _, err := r.s.Used(pid); n != 0 || err != nil {
			t.Errorf("used %d %v", n, err)
		}
		must(t, os.WriteFile(r.upper("edit"), []byte("newer"), 0o644))
		must(t, os.WriteFile(r.upper("new"), []byte("n"), 0o644))
		must(t, os.RemoveAll(r.upper("tree")))
		want := "~ file edit 3>5\n+ file new 1\n- dir tree\n- file tree/a\n- dir tree/b\n- file tree/b/c"
		if got := r.changes(); got != want {
			t.Errorf("changes:\n%s\nwant:\n%s", got, want)
		}
		_, err := r.apply(false)
		must(t, err)
		r.expect(files{"keep": "k", "edit": "newer", "new": "n", "drop": "d", "swap/x": "x", "plain": "p", "hide/1": "1", "hide/2": "2", "ln": "@keep"})
	})
}
