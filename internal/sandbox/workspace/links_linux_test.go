package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// chainOut is a folder with so many links, one to the next, of which the last leads out.
func chainOut(n int) files {
	f := files{fmt.Sprintf("chain%02d", n-1): "@.."}
	for i := range n - 1 {
		f[fmt.Sprintf("chain%02d", i)] = fmt.Sprintf("@chain%02d", i+1)
	}
	return f
}

// The search for links looks at what directories say of their names; a walk, which looks at each, finds the same.
func TestLinksAreFound(t *testing.T) {
	content := files{"a/b/c/d": "f", "a/b/c/l": "@d", "gone": "@nowhere", "to": "@a", "empty/": ""}
	for i := range 2000 { // more than are read at once
		name := fmt.Sprintf("many/%04d-%s", i, strings.Repeat("x", i%50))
		content[name] = []string{"f", "@../to", "@nothing"}[i%3]
	}
	folder := filepath.Join(publicDir(t), "folder")
	(&rig{t: t}).write(folder, content)
	root, err := openRoot(folder, false)
	must(t, err)
	defer root.Close()
	var want []string
	must(t, root.walk(func(in dir, p string, st *unix.Stat_t) (bool, error) {
		if typeOf(st.Mode) == agentkernel.TypeSymlink {
			want = append(want, p)
		}
		var unsaid []string // where the file system does not say
		must(t, in.linkOrBelow(filepath.Dir(p), filepath.Base(p), unix.DT_UNKNOWN, 0, &unsaid))
		if typeOf(st.Mode) != agentkernel.TypeDir && len(unsaid) == 1 != (typeOf(st.Mode) == agentkernel.TypeSymlink) {
			t.Errorf("%s: %q", p, unsaid)
		}
		return true, nil
	}))
	got, err := root.links()
	must(t, err)
	slices.Sort(got)
	slices.Sort(want)
	if len(want) < 1300 || !slices.Equal(got, want) {
		t.Errorf("%d links are found, want %d", len(got), len(want))
	}
}

// Links that lead out only together with others are left out: each case is a folder, and what processes write to it, one
// after the other. Of all that ends up in the folder no link leads out of it that did not before.
func TestLinksThatLeaveTogether(t *testing.T) {
	const deep = "p/q/r/s/t"
	for _, c := range []struct {
		name string
		user files // what the folder holds before
		runs []files
		left string // links that are left out, by run
	}{
		{"dots behind a link that is new", nil, []files{{deep: "@../../../..", "0link": "@p/q/r/s/t/../../outside"}}, "0link"},
		{"the same, the dangling one first", nil, []files{{"0link": "@p/q/r/s/t/../../outside"}, {deep: "@../../../.."}}, "0link;"},
		{"dots behind a folder, which becomes a link", files{deep + "/f": "f"}, []files{{"0link": "@p/q/r/s/t/../../../../../outside"}}, "0link"},
		{"dots behind a name, inside", files{"a/b": "b"}, []files{{"l": "@a/../a/b"}}, "l"},
		{"dots behind a dot", nil, []files{{"d/l": "@./../../outside"}}, "d/l"},
		{"dots in the middle of nowhere", nil, []files{{"l": "@nothing/../x"}}, "l"},
		{"the user's way out", files{"out": "@.."}, []files{{"l": "@out/outside", "m": "@l/deeper"}}, "l,m"},
		{"the user's way out, behind a dangling link", files{"d/out": "@../.."}, []files{{"l": "@y/out/outside"}, {"y": "@d"}}, ";y"},
		{"the user's way out, behind two", files{"d/out": "@../.."}, []files{{"l": "@y/out/outside", "y": "@z"}, {"z": "@d"}}, ";z"},
		{"the user's way out, behind many", chainOut(20), []files{{"l": "@chain00/outside"}}, "l"},
		{"the user's link takes another way", files{"a/b/f": "f", "a/c": "c", "user": "@a/b/../../x"}, []files{{"a/b/f": "-", "a/b": "@.."}}, "a/b"},
		{"a link left out brings back what was there", files{"d/out": "@../..", "e/out": "e"},
			[]files{{"d/out": "-", "d": "@/nowhere", "l": "@d/out/outside"}}, "d,d/out,l"},
		{"the folder itself, by its name above", nil, []files{{"l": "@../folder/x"}}, "l"},
		{"up from a place that becomes another", files{"a/b/f": "f"}, []files{{"a/b/f": "-", "a/b": "@../c", "c/x": "x", "l": "@a/b"}}, ""},
		{"too far up, into the folder's own name", files{"x": "x"}, []files{{"d/l": "@../../folder/x", "d/e/m": "@../../../../../x"}}, "d/e/m,d/l"},
		{"a directory gives the user's link another meaning", files{"a/b/c/f": "f", "k": "@a/b/c", "user": "@k/../../x"}, []files{{"k": "-"}, {"k/g": "g"}}, ";"},
		{"a link that led out before", files{"d/f": "f", "user": "@d/../.."}, []files{{"d/f": "-", "d": "@e", "e/f": "f"}}, ""},
		{"absolute, to what is inside", nil, []files{{"l": "@/proc/self/cwd", "m": "@/", "n": "@//x"}}, "l,m,n"},
		{"inside", files{"own/in": "i"}, []files{{"a/b/up": "@../../own/in", "a/me": "@.", "a/to": "@b//up", "loop": "@loop", "x": "@own", "y": "@x/in", "z": "@none/at/all"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.user)
			outside := filepath.Join(filepath.Dir(r.folder), "outside")
			r.write(outside, files{"deeper": "victim"})
			before := leaving(t, r.folder)
			var left []string
			for i, run := range c.runs {
				if i > 0 {
					r = newRigOn(t, r.folder)
				}
				r.layer(run)
				got, err := r.apply(false)
				must(t, err)
				var names []string
				for _, ch := range got.LeftOut {
					if ch.Type == agentkernel.TypeSymlink {
						names = append(names, ch.Path)
					}
				}
				slices.Sort(names)
				left = append(left, strings.Join(names, ","))
			}
			if got := strings.Join(left, ";"); got != c.left {
				t.Errorf("left out: %q, want %q", got, c.left)
			}
			if after := leaving(t, r.folder); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("links that lead out: %v, before: %v", after, before)
			}
		})
	}
}

// layer writes what a program did: files as write does, and "-" for what it removed.
func (r *rig) layer(content files) {
	r.t.Helper()
	made := files{}
	for p, text := range content {
		if text != "-" {
			made[p] = text
			continue
		}
		if _, replaced := content[filepath.Dir(p)]; !replaced { // else it is gone with its directory
			r.whiteout(p)
		}
	}
	r.write(r.upper(""), made)
}

// leaving lists the links of a folder that lead out of it, as the system follows them.
func leaving(t *testing.T, root string) (list []string) {
	t.Helper()
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.Type() != os.ModeSymlink {
			return err
		}
		rel, err := filepath.Rel(root, p)
		at, openErr := unix.Openat2(fd, rel, &unix.OpenHow{Flags: unix.O_PATH, Resolve: unix.RESOLVE_BENEATH})
		for openErr == unix.EAGAIN { // somebody on this machine renamed or mounted something while it went up
			at, openErr = unix.Openat2(fd, rel, &unix.OpenHow{Flags: unix.O_PATH, Resolve: unix.RESOLVE_BENEATH})
		}
		switch openErr {
		case nil:
			_ = unix.Close(at)
		case unix.EXDEV:
			list = append(list, rel)
		}
		return err
	}))
	return list
}

// A program that has made more links than anybody would follow keeps the kernel busy for a while, not for ever.
func TestMoreLinksThanAnybodyFollows(t *testing.T) {
	r := newRig(t, files{"out": "@.."})
	long := strings.Repeat("./", 1500)
	for i := range 3000 {
		must(t, os.Symlink(fmt.Sprintf("%sl%d", long, i+1), r.upper(fmt.Sprintf("l%d", i))))
	}
	must(t, os.Symlink("out/x", r.upper("l3000")))
	done, err := r.apply(false)
	must(t, err)
	if len(done.LeftOut) != 3001 || done.LeftOut[0].LeftOut != tooManyLinks {
		t.Errorf("%d left out", len(done.LeftOut))
	}
	if got := leaving(t, r.folder); fmt.Sprint(got) != "[out]" {
		t.Errorf("links that lead out: %v", got)
	}
}

// What the folder becomes between the look at it and the making of a link is looked at once more.
func TestAWayOutThatIsNew(t *testing.T) {
	r := newRig(t, files{"d/f": "f"})
	r.write(r.upper(""), files{"l": "@d/way/x", "new/l": "@../d/way/x"})
	r.s.step = func(string) {
		r.s.step = func(string) {}
		must(t, os.Symlink("../..", filepath.Join(r.folder, "d/way")))
	}
	_, err := r.apply(false)
	wantCode(t, err, agentkernel.CodeConflict, "changed at this moment", "nothing was written")
	r.expect(files{"d/f": "f", "d/way": "@../.."})
	got, err := r.apply(false)
	must(t, err)
	if len(got.LeftOut) != 2 {
		t.Errorf("%+v", got)
	}
	r.expect(files{"d/f": "f", "d/way": "@../..", "new/": ""})
}

// What lies on another file system is not the folder's: no link is made to it.
func TestLinksToAnotherFileSystem(t *testing.T) {
	root, err := openRoot("/", false)
	must(t, err)
	defer root.Close()
	steps := maxSteps
	v := &view{root: root, known: map[string]entry{}, steps: &steps, items: map[string]*item{
		"etc/new": {path: "etc/new", typ: agentkernel.TypeSymlink, target: "../proc/version"},
		"etc/in":  {path: "etc/in", typ: agentkernel.TypeSymlink, target: "passwd"},
	}}
	for p, leaves := range map[string]bool{"etc/new": true, "etc/in": false} {
		if w, err := v.follow(p); err != nil || w.leaves != leaves {
			t.Errorf("%s: %+v %v", p, w, err)
		}
	}
}
