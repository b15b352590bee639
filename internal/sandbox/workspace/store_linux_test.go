package workspace

import (
	"bytes"
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

// publicDir is a directory that whoever is asked can reach.
func publicDir(t testing.TB) string {
	t.Helper()
	dir := usertest.Dir(t)
	t.Cleanup(func() { _ = removeAll(dir) }) // may hold what only its owner may open
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rig is a store with one folder and one process, whose layer the test writes as overlayfs would.
type rig struct {
	t      testing.TB
	s      *Store
	folder string
	mount  agentkernel.Mount
}

const pid agentkernel.PID = 7

// files are the contents of a folder: text by path; "@x" is a symbolic link to x, "/" at the end of a path a directory.
type files map[string]string

func newRig(t testing.TB, content files, change ...func(*Config, *agentkernel.Spec)) *rig {
	t.Helper()
	dir := publicDir(t)
	r := &rig{t: t, folder: filepath.Join(dir, "folder")}
	r.write(r.folder, content)
	must(t, os.MkdirAll(filepath.Join(dir, "data"), 0o700))
	cfg := Config{Dir: filepath.Join(dir, "data", "workspaces"), Apart: filepath.Join(dir, "data")}
	spec := agentkernel.Spec{Workspace: &agentkernel.Workspace{Path: r.folder}}
	for _, c := range change {
		c(&cfg, &spec)
	}
	r.s = New(cfg)
	must(t, r.s.Create(pid, &spec))
	r.begin()
	return r
}

func (r *rig) begin() {
	r.t.Helper()
	mounts, err := r.s.Begin(pid)
	must(r.t, err)
	r.mount = mounts[0]
	if !r.mount.Own {
		must(r.t, os.Mkdir(filepath.Join(r.mount.Scratch, "upper"), 0o755))
	}
}

// upper is where the program's writes arrive.
func (r *rig) upper(p string) string {
	if r.mount.Own {
		return filepath.Join(r.mount.Source, p)
	}
	return filepath.Join(r.mount.Scratch, "upper", p)
}

func (r *rig) write(root string, content files) {
	r.t.Helper()
	must(r.t, os.MkdirAll(root, 0o755))
	for p, text := range content {
		at := filepath.Join(root, p)
		must(r.t, os.MkdirAll(filepath.Dir(at), 0o755))
		switch target, link := strings.CutPrefix(text, "@"); {
		case strings.HasSuffix(p, "/"):
			must(r.t, os.MkdirAll(at, 0o755))
		case link:
			must(r.t, os.Symlink(target, at))
		default:
			must(r.t, os.WriteFile(at, []byte(text), 0o644))
		}
	}
}

// whiteout removes p as overlayfs does.
func (r *rig) whiteout(p string) {
	r.t.Helper()
	must(r.t, os.MkdirAll(filepath.Dir(r.upper(p)), 0o755))
	must(r.t, unix.Mknod(r.upper(p), unix.S_IFCHR, 0))
}

// opaque hides what is under a directory of the layer.
func (r *rig) opaque(p string) {
	r.t.Helper()
	must(r.t, unix.Setxattr(r.upper(p), opaqueAttr, []byte("y"), 0))
}

// changes is one line for each change: "+ file a 3", "~ file b 1>3", "- dir c".
func (r *rig) changes() string {
	r.t.Helper()
	c, err := r.s.Changes(pid)
	must(r.t, err)
	var lines []string
	for _, ch := range c.Changes {
		sign := map[agentkernel.ChangeKind]string{agentkernel.FileAdded: "+", agentkernel.FileChanged: "~", agentkernel.FileDeleted: "-"}[ch.Kind]
		line := fmt.Sprintf("%s %s %s", sign, ch.Type, ch.Path)
		switch {
		case ch.Type == agentkernel.TypeFile && ch.Kind == agentkernel.FileAdded:
			line += fmt.Sprintf(" %d", ch.Size)
		case ch.Type == agentkernel.TypeFile && ch.Kind == agentkernel.FileChanged:
			line += fmt.Sprintf(" %d>%d", ch.Before, ch.Size)
		}
		if ch.Conflict != "" {
			line += " ! " + ch.Conflict
		}
		if ch.LeftOut != "" {
			line += " x " + ch.LeftOut
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// look is what a folder holds, in the form of files.
func look(t testing.TB, root string) files {
	t.Helper()
	got := files{}
	must(t, filepath.Walk(root, func(p string, info os.FileInfo, err error) error {
		if err != nil || p == root {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		switch {
		case info.IsDir():
			if entries, _ := os.ReadDir(p); len(entries) == 0 {
				got[rel+"/"] = ""
			}
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(p)
			got[rel] = "@" + target
			return err
		default:
			b, err := os.ReadFile(p)
			got[rel] = string(b)
			return err
		}
		return nil
	}))
	return got
}

func (r *rig) expect(want files) {
	r.t.Helper()
	got := look(r.t, r.folder)
	if fmt.Sprint(got) != fmt.Sprint(want) { // maps print in the order of their keys
		r.t.Errorf("the folder has %v, want %v", got, want)
	}
}

func (r *rig) apply(force bool) (agentkernel.Applied, error) {
	return r.s.Apply(r.t.Context(), pid, agentkernel.ApplyOptions{Force: force})
}

func wantCode(t testing.TB, err error, code agentkernel.Code, text ...string) {
	t.Helper()
	if agentkernel.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	for _, part := range text {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q does not say %q", err, part)
		}
	}
}

var start = files{"keep": "k", "edit": "old", "drop": "d", "tree/a": "a", "tree/b/c": "c", "swap/x": "x", "plain": "p", "hide/1": "1", "hide/2": "2", "ln": "@keep"}

// work writes a layer that does everything to start.
func (r *rig) work() {
	r.write(r.upper(""), files{"edit": "newer", "new": "n", "made/deep/f": "f", "empty/": "", "plain2": "@keep"})
	r.whiteout("drop")
	r.whiteout("tree")
	must(r.t, os.WriteFile(r.upper("swap"), []byte("a file now"), 0o644)) // a directory became a file
	r.write(r.upper(""), files{"plain/in": "i"})                          // and the reverse
	r.opaque("plain")
	r.write(r.upper(""), files{"hide/2": "two"})
	r.opaque("hide")
}

func TestChanges(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		r := newRig(t, start)
		if got := r.changes(); got != "" {
			t.Errorf("changes before anything was written: %s", got)
		}
		r.work()
		want := `- file drop
~ file edit 3>5
+ dir empty
- file hide/1
~ file hide/2 1>3
+ dir made
+ dir made/deep
+ file made/deep/f 1
+ file new 1
~ dir plain
+ file plain/in 1
+ symlink plain2
~ file swap 0>10
- file swap/x
- dir tree
- file tree/a
- dir tree/b
- file tree/b/c`
		if got := r.changes(); got != want {
			t.Errorf("changes:\n%s\nwant:\n%s", got, want)
		}
	})
}

func TestApply(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		r := newRig(t, start)
		r.work()
		got, err := r.apply(false)
		must(t, err)
		if got.Added != 7 || got.Changed != 4 || got.Deleted != 7 || len(got.LeftOut) != 0 {
			t.Errorf("applied %+v", got)
		}
		r.expect(files{"keep": "k", "edit": "newer", "new": "n", "made/deep/f": "f", "empty/": "", "plain2": "@keep", "swap": "a file now",
			"plain/in": "i", "hide/2": "two", "ln": "@keep"})
		_, err = r.apply(false)
		wantCode(t, err, agentkernel.CodeConflict, "were applied to "+r.folder+" already")
		wantCode(t, r.s.Discard(r.t.Context(), pid), agentkernel.CodeConflict, "already")
		left, err := os.ReadDir(r.s.path(pid))
		must(t, err)
		if len(left) != 1 {
			t.Errorf("the layer is still there: %v", left)
		}
	})
}

func TestApplyVolumesAlone(t *testing.T) {
	var volume string
	r := newRig(t, start, func(c *Config, s *agentkernel.Spec) {
		volume = filepath.Join(filepath.Dir(c.Apart), "volume")
		must(t, os.Mkdir(volume, 0o755))
		s.Volumes = []agentkernel.Volume{{Name: "v", Path: volume}}
	})
	r.work()
	before := r.changes()
	mounts, err := r.s.Begin(pid)
	must(t, err)
	r.mount = mounts[0]
	for _, m := range mounts {
		if !m.Own {
			must(t, os.Mkdir(filepath.Join(m.Scratch, "upper"), 0o755))
		}
	}
	r.work()
	r.mount = mounts[1]
	r.write(r.upper(""), files{"out": "put"})
	for range 2 { // the second time as after a crash
		_, err := r.s.Apply(t.Context(), pid, agentkernel.ApplyOptions{Volumes: true})
		must(t, err)
	}
	if got := look(t, volume); fmt.Sprint(got) != fmt.Sprint(files{"out": "put"}) {
		t.Errorf("the volume has %v", got)
	}
	r.expect(start)
	if got := r.changes(); got != before+"\n+ file out 3" {
		t.Errorf("changes:\n%s", got)
	}
	c, err := r.s.Changes(pid)
	must(t, err)
	if n := len(c.Changes); c.State != agentkernel.LayerKept || !c.Changes[n-1].Applied || c.Changes[0].Applied || c.Count(agentkernel.FileAdded) != 7 {
		t.Errorf("%+v", c)
	}
	if d, err := r.s.Drift(pid); err != nil || len(d) != 0 {
		t.Errorf("drift %v, %v", d, err)
	}
	_, err = r.s.Begin(pid)
	wantCode(t, err, agentkernel.CodeConflict, "were applied already")
	_, err = r.apply(false)
	must(t, err)
	if got := look(t, r.folder)["new"]; got != "n" {
		t.Errorf("the workspace was not applied: %q", got)
	}
	c, err = r.s.Changes(pid)
	must(t, err)
	if c.State != agentkernel.LayerApplied || c.Changes[0].Applied || len(c.Changes) != strings.Count(before, "\n")+2 {
		t.Errorf("%+v", c)
	}
}

func TestApplyAgainAfterItWasCutOff(t *testing.T) {
	r := newRig(t, start)
	r.work()
	must(t, os.WriteFile(filepath.Join(r.folder, "edit"), []byte("newer"), 0o644)) // as if the first half had been done
	must(t, os.RemoveAll(filepath.Join(r.folder, "tree")))
	must(t, os.WriteFile(filepath.Join(r.folder, "new"), []byte("n"), 0o644))
	h, err := r.s.open(pid)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(r.folder, ".agentkernel-"+h.rec.Token+".tmp"), []byte("half a fi"), 0o600))
	must(t, h.Close())
	_, err = r.apply(false)
	must(t, err)
	if got := look(t, r.folder); got["edit"] != "newer" || got["made/deep/f"] != "f" || len(got) != 10 {
		t.Errorf("the folder has %v", got)
	}
}

func TestConflicts(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		in := func(r *rig, p string) string { return filepath.Join(r.folder, p) }
		for _, c := range []struct {
			name    string
			program func(r *rig)
			outside func(r *rig)
			want    string
			forced  files // of what differs from start
		}{
			{"both edit", func(r *rig) { r.write(r.upper(""), files{"edit": "mine"}) }, func(r *rig) { r.write(r.folder, files{"edit": "his"}) },
				"edit was changed meanwhile", files{"edit": "mine"}},
			{"a change that leaves size and time", func(r *rig) { r.write(r.upper(""), files{"edit": "mine"}) }, func(r *rig) {
				st, err := os.Stat(in(r, "edit"))
				must(t, err)
				r.write(r.folder, files{"edit": "OLD"})
				must(t, os.Chtimes(in(r, "edit"), st.ModTime(), st.ModTime()))
			}, "edit was changed meanwhile", files{"edit": "mine"}},
			{"both create", func(r *rig) { r.write(r.upper(""), files{"new": "mine"}) }, func(r *rig) { r.write(r.folder, files{"new": "his"}) },
				"new was created meanwhile", files{"new": "mine"}},
			{"edited and deleted", func(r *rig) { r.write(r.upper(""), files{"edit": "mine"}) }, func(r *rig) { must(t, os.Remove(in(r, "edit"))) },
				"edit was deleted meanwhile", files{"edit": "mine"}},
			{"deleted and edited", func(r *rig) { r.whiteout("drop") }, func(r *rig) { r.write(r.folder, files{"drop": "his"}) },
				"drop was changed meanwhile", files{"drop": "-"}},
			{"a deleted folder got something", func(r *rig) { r.whiteout("tree") }, func(r *rig) { r.write(r.folder, files{"tree/b/his": "h"}) },
				"tree/b has got something new: his", files{"tree/a": "-", "tree/b/c": "-", "tree/b/his": "h"}},
			{"the folder above became a link", func(r *rig) { r.write(r.upper(""), files{"tree/new": "mine"}) }, func(r *rig) {
				must(t, os.Rename(in(r, "tree"), in(r, "elsewhere")))
				must(t, os.Symlink("elsewhere", in(r, "tree")))
			}, "tree/new has another kind of thing above it now", files{"tree/a": "-", "tree/b/c": "-", "elsewhere/a": "a", "elsewhere/b/c": "c", "tree/new": "mine"}},
			{"the folder above is gone", func(r *rig) { r.write(r.upper(""), files{"tree/new": "mine"}) }, func(r *rig) { must(t, os.RemoveAll(in(r, "tree"))) },
				"tree/new has lost the folder that it was in", files{"tree/a": "-", "tree/b/c": "-", "tree/new": "mine"}},
		} {
			t.Run(c.name, func(t *testing.T) {
				r := newRig(t, start)
				c.program(r)
				c.outside(r)
				before := look(t, r.folder)
				_, err := r.apply(false)
				wantCode(t, err, agentkernel.CodeConflict, c.want, "nothing was written")
				r.expect(before)
				if !strings.Contains(r.changes(), " ! ") {
					t.Errorf("changes do not show the conflict: %s", r.changes())
				}
				_, err = r.apply(true)
				must(t, err)
				want := files{}
				for p, text := range start {
					want[p] = text
				}
				for p, text := range c.forced {
					if want[p] = text; text == "-" {
						delete(want, p)
					}
				}
				r.expect(want)
			})
		}
	})
}

func TestTheSameInBothIsNoConflict(t *testing.T) {
	r := newRig(t, start)
	r.write(r.upper(""), files{"edit": "both", "new": "both", "made/": ""})
	r.whiteout("drop")
	r.write(r.folder, files{"edit": "both", "new": "both", "made/": ""})
	must(t, os.Remove(filepath.Join(r.folder, "drop")))
	_, err := r.apply(false)
	must(t, err)
}

func TestReplayBeginsWithAnEmptyLayer(t *testing.T) {
	r := newRig(t, start)
	r.work()
	must(t, os.Chmod(r.upper("made"), 0)) // even where the program has shut its owner out
	old := r.upper("")
	r.begin()
	if got := r.changes(); got != "" {
		t.Errorf("the layer of the first life is still there: %s", got)
	}
	if r.upper("") == old {
		t.Error("the new life has the directory of the old one")
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old layer takes up the disk: %v", err)
	}
}

func TestDrift(t *testing.T) {
	r := newRig(t, start)
	drift, err := r.s.Drift(pid)
	must(t, err)
	if len(drift) != 0 {
		t.Fatalf("drift without a change: %v", drift)
	}
	r.write(r.folder, files{"edit": "xyz", "tree/new": "n"})
	must(t, os.Remove(filepath.Join(r.folder, "keep")))
	if drift, err = r.s.Drift(pid); err != nil || !slices.Equal(drift, []string{"edit", "keep", "tree/new"}) {
		t.Errorf("drift %v %v", drift, err)
	}
}

func TestUsed(t *testing.T) {
	r := newRig(t, start)
	r.write(r.upper(""), files{"a": strings.Repeat("x", 1000), "d/b": "y"})
	must(t, os.Link(r.upper("a"), r.upper("a2"))) // no second time
	f, err := os.Create(r.upper("sparse"))
	must(t, err)
	must(t, f.Truncate(1<<30))
	must(t, f.Close())
	f, err = os.Create(r.upper("empty")) // has room for what is no content, as attributes take it
	must(t, err)
	must(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 32<<10))
	must(t, f.Close())
	n, _, err := r.s.Used(pid)
	if want := int64(5*entryBytes + 1000 + 1 + 1<<30 + 32<<10); err != nil || n != want {
		t.Errorf("used %d, want %d; %v", n, want, err)
	}
}

func TestOpenFile(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		r := newRig(t, start)
		r.work()
		read := func(p string, before bool) string {
			f, err := r.s.Open(pid, agentkernel.FileName{Path: p, Before: before})
			if err != nil {
				return string(agentkernel.CodeOf(err))
			}
			defer f.Content.Close()
			b, err := io.ReadAll(f.Content)
			must(t, err)
			if int64(len(b)) != f.Size {
				t.Errorf("%s: %d bytes, said %d", p, len(b), f.Size)
			}
			return string(b)
		}
		for _, c := range []struct{ path, now, before string }{
			{"edit", "newer", "old"}, {"keep", "k", "k"}, {"new", "n", "not_found"}, {"drop", "not_found", "d"},
			{"tree/b/c", "not_found", "c"}, {"hide/1", "not_found", "1"}, {"hide/2", "two", "2"}, {"plain/in", "i", "not_found"},
			{"swap/x", "not_found", "x"}, {"ln", "invalid_argument", "invalid_argument"}, {"tree", "not_found", "invalid_argument"}, {"none/at/all", "not_found", "not_found"},
		} {
			if got := read(c.path, false); got != c.now {
				t.Errorf("%s is %q, want %q", c.path, got, c.now)
			}
			if got := read(c.path, true); got != c.before {
				t.Errorf("%s was %q, want %q", c.path, got, c.before)
			}
		}
		_, err := r.apply(false)
		must(t, err)
		if got := read("edit", false); got != "newer" {
			t.Errorf("edit after it was applied: %q", got)
		}
		r.write(r.folder, files{"edit": "and again something else"})
		if got := read("edit", false); got != "conflict" {
			t.Errorf("edit after it was applied and changed: %q", got)
		}
	})
}

func TestFoldersThatCannotBeOne(t *testing.T) {
	dir := publicDir(t)
	data := filepath.Join(dir, "home", "data")
	for _, d := range []string{filepath.Join(data, "in"), filepath.Join(dir, "good")} {
		must(t, os.MkdirAll(d, 0o755))
	}
	must(t, os.Symlink("good", filepath.Join(dir, "link")))
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	s := New(Config{Dir: filepath.Join(data, "workspaces"), Apart: data})
	for _, c := range []struct {
		path string
		code agentkernel.Code
		want string
	}{
		{filepath.Join(dir, "none"), agentkernel.CodeNotFound, "does not exist"},
		{filepath.Join(dir, "link"), agentkernel.CodeInvalid, "is a symbolic link"},
		{filepath.Join(dir, "file"), agentkernel.CodeInvalid, "is a file, not a folder"},
		{filepath.Join(data, "in"), agentkernel.CodeInvalid, "lies in the kernel's data directory"},
		{data, agentkernel.CodeInvalid, "lies in the kernel's data directory"},
		{filepath.Join(dir, "home"), agentkernel.CodeInvalid, "holds the kernel's data directory"},
		{"/", agentkernel.CodeInvalid, "whole machine"},
	} {
		err := s.Create(1, &agentkernel.Spec{Workspace: &agentkernel.Workspace{Path: c.path}})
		wantCode(t, err, c.code, c.want)
		if _, err := os.Stat(s.path(1)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a directory is left: %v", c.path, err)
		}
	}
	must(t, s.Create(1, &agentkernel.Spec{Workspace: &agentkernel.Workspace{Path: filepath.Join(dir, "good")}}))
}

// The data directory is shown to no program, by whichever links it or the folder is named.
func TestTheDataDirectoryBehindLinks(t *testing.T) {
	dir := publicDir(t)
	must(t, os.MkdirAll(filepath.Join(dir, "real", "data", "in"), 0o755))
	must(t, os.Symlink("real", filepath.Join(dir, "parent")))
	must(t, os.Symlink("real/data", filepath.Join(dir, "direct")))
	for _, apart := range []string{"real/data", "parent/data", "direct"} {
		s := New(Config{Dir: filepath.Join(dir, "real", "data", "workspaces"), Apart: filepath.Join(dir, apart)})
		for named, want := range map[string]string{
			"parent/data": "lies in", "parent/data/in": "lies in", "direct/in": "lies in", "real/data/in": "lies in",
			"direct/../../real/data": "lies in", "real": "holds", "parent/.": "holds",
		} {
			path := dir + "/" + named // not cleaned
			for what, spec := range map[string]agentkernel.Spec{
				"workspace":           {Workspace: &agentkernel.Workspace{Path: path}},
				"workspace to read":   {Workspace: &agentkernel.Workspace{Path: path, ReadOnly: true}},
				"volume":              {Volumes: []agentkernel.Volume{{Name: "v", Path: path}}},
				"volume to read":      {Volumes: []agentkernel.Volume{{Name: "v", Path: path, ReadOnly: true}}},
				"folder of a command": {Workspace: &agentkernel.Workspace{Path: path, ReadOnly: true, Optional: true}},
			} {
				err := s.Create(1, &spec)
				if agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), want+" the kernel's data directory") {
					t.Errorf("data directory %s, %s %s: %v", apart, what, named, err)
				}
			}
		}
	}
}

// A bind mount gives the data directory a name that no link shows.
func TestTheDataDirectoryBehindMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	dir := publicDir(t)
	data := filepath.Join(dir, "home", "data")
	s := New(Config{Dir: filepath.Join(data, "workspaces"), Apart: data})
	must(t, os.MkdirAll(filepath.Join(data, "in"), 0o755))
	must(t, os.WriteFile(filepath.Join(data, "key"), []byte("k"), 0o600))
	for source, want := range map[string]string{data: "lies in", filepath.Join(data, "in"): "lies in", filepath.Dir(data): "holds"} {
		for _, deep := range []string{"", "/below"} {
			folder := filepath.Join(dir, "folder")
			at := folder + deep
			must(t, os.MkdirAll(at, 0o755))
			if err := unix.Mount(source, at, "", unix.MS_BIND, ""); err != nil {
				t.Skip(err)
			}
			if deep != "" {
				want = "holds"
			}
			for what, spec := range map[string]agentkernel.Spec{
				"workspace": {Workspace: &agentkernel.Workspace{Path: folder}}, "volume": {Volumes: []agentkernel.Volume{{Name: "v", Path: folder, ReadOnly: true}}},
			} {
				err := s.Create(1, &spec)
				if agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), want+" the kernel's data directory") {
					t.Errorf("%s mounted at %s as %s: %v", source, at, what, err)
				}
			}
			if source == data && deep == "" {
				err := s.Create(1, &agentkernel.Spec{Stdin: filepath.Join(folder, "key")})
				if agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
					t.Errorf("standard input: %v", err)
				}
			}
			must(t, unix.Unmount(at, unix.MNT_DETACH))
		}
	}
}

func TestFilesOfAFolderAreBounded(t *testing.T) {
	folder := filepath.Join(publicDir(t), "folder")
	(&rig{t: t}).write(folder, files{"a": "", "d/b": "", "link": "@a"})
	for _, most := range []int{4, 3} {
		root, err := openRoot(folder, false)
		must(t, err)
		defer root.Close()
		if b, _, err := survey(root, most); len(b) != most || (err != nil) != (most < 4) || err != nil && !errors.Is(err, errTooMany) {
			t.Errorf("four where %d may be: %d, %v", most, len(b), err)
		}
	}
	if MaxFiles != 1_048_576 {
		t.Errorf("docs/workspace.md has another limit than %d", MaxFiles)
	}
}

func TestUnreadableFolder(t *testing.T) {
	if os.Geteuid() == 0 {
		bothUsersSecond(t)
		return
	}
	dir := publicDir(t)
	must(t, os.MkdirAll(filepath.Join(dir, "shut"), 0o300))
	must(t, os.MkdirAll(filepath.Join(dir, "data"), 0o700))
	s := New(Config{Dir: filepath.Join(dir, "data", "w"), Apart: filepath.Join(dir, "data")})
	err := s.Create(1, &agentkernel.Spec{Workspace: &agentkernel.Workspace{Path: filepath.Join(dir, "shut")}})
	wantCode(t, err, agentkernel.CodeDenied, "cannot be read")
}

// bothUsersSecond is the ordinary user's half alone: root may read everything.
func bothUsersSecond(t *testing.T) {
	usertest.Both(t, func(t *testing.T) {
		if os.Geteuid() == 0 {
			return
		}
	})
}

func TestAnotherFolderUnderTheOldName(t *testing.T) {
	r := newRig(t, start)
	r.work()
	must(t, os.Rename(r.folder, r.folder+".old"))
	r.write(r.folder, start)
	_, err := r.apply(true)
	wantCode(t, err, agentkernel.CodeConflict, "is not the folder any more")
}

func TestDamagedBase(t *testing.T) {
	r := newRig(t, start)
	p := filepath.Join(r.s.path(pid), "base.0")
	raw, err := os.ReadFile(p)
	must(t, err)
	for _, bad := range [][]byte{nil, raw[:len(raw)-1], append(bytes.Clone(raw[:40]), append([]byte{raw[40] ^ 1}, raw[41:]...)...)} {
		must(t, os.WriteFile(p, bad, 0o600))
		_, err := r.apply(false)
		wantCode(t, err, agentkernel.CodeCorrupt)
	}
}

// What was applied or discarded is decided: the process does not begin again on a new layer.
func TestWhatIsDecidedDoesNotBeginAgain(t *testing.T) {
	for want, decide := range map[string]func(*rig) error{
		"were discarded already": func(r *rig) error { return r.s.Discard(r.t.Context(), pid) },
		"were applied already":   func(r *rig) error { _, err := r.apply(false); return err },
	} {
		r := newRig(t, files{"a": "old"})
		r.write(r.upper(""), files{"a": "new"})
		must(t, decide(r))
		_, err := r.s.Begin(pid)
		wantCode(t, err, agentkernel.CodeConflict, want)
	}
}

// Holding names those of whose files something waits, a copied folder's included, and no others.
func TestHolding(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config, *agentkernel.Spec){
		"overlay": func(*Config, *agentkernel.Spec) {},
		"copy":    func(c *Config, _ *agentkernel.Spec) { c.Copy = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, files{"a": "before"}, change)
			is := func(want ...agentkernel.PID) {
				t.Helper()
				got, err := r.s.Holding()
				must(t, err)
				if !slices.Equal(got, want) {
					t.Errorf("holding: %v, want %v", got, want)
				}
			}
			is()
			r.write(r.upper(""), files{"a": "after"})
			is(pid)
			if got, older, err := HoldingIn(r.s.cfg.Dir, 0); len(got) != 0 || older != 1 || err != nil {
				t.Errorf("%v, %d not looked at, %v", got, older, err)
			}
			must(t, r.s.Discard(t.Context(), pid))
			is()
		})
	}
}

// TestNothingKept: a process whose changes a backup left out is not said to have had no workspace.
func TestNothingKept(t *testing.T) {
	r := newRig(t, start)
	_, err := r.s.open(65)
	if e := agentkernel.AsError(err, "", ""); e == nil || e.Code != agentkernel.CodeInvalid || !strings.Contains(e.Message(), "a backup does not have it") || e.Hint != "agentkernel rerun 65 runs it again" {
		t.Errorf("%v", err)
	}
}
