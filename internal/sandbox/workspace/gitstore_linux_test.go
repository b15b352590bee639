package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

// What git has stored is not changed under its name, and no object takes the place of another.
func TestWhatGitStoresIsNotForged(t *testing.T) {
	hash := strings.Repeat("0123456789", 4)
	object, pack := "objects/ab/"+hash[2:], "objects/pack/pack-"+hash
	const main, replaced = "1234 refs/heads/main\n", "1234 refs/replace/5678\n"
	store := files{"HEAD": "ref", "refs/heads/main": "1", object: "o", pack + ".pack": "p", pack + ".idx": "i", "objects/pack/multi-pack-index": "m", "objects/info/packs": "p", "packed-refs": main}
	for name, c := range map[string]struct {
		change files
		left   string
	}{
		"an object":            {files{object: "evil"}, object},
		"with its size":        {files{object: "e"}, object},
		"as it is":             {files{object: "o", pack + ".pack": "p"}, ""},
		"a directory for one":  {files{object + "/x": "x"}, object + " " + object + "/x"},
		"a pack":               {files{pack + ".pack": "evil", pack + ".idx": "evil"}, pack + ".idx " + pack + ".pack"},
		"new ones":             {files{"objects/ac/" + hash[2:]: "o", "objects/pack/pack-2.pack": "p", "objects/pack/pack-2.idx": "i"}, ""},
		"lists":                {files{"objects/pack/multi-pack-index": "n", "objects/info/packs": "n", "objects/info/commit-graph": "n"}, ""},
		"a replacement":        {files{"refs/replace/" + hash: "1", "refs/heads/replace": "1", "refs/replaced": "1"}, "refs/replace refs/replace/" + hash},
		"one that is packed":   {files{"packed-refs": main + replaced}, "packed-refs"},
		"in another case":      {files{"REFS/Replace/" + hash: "1"}, "REFS/Replace REFS/Replace/" + hash},
		"a branch of the name": {files{"packed-refs": main + "1234 refs/heads/replace/5678\n"}, ""},
		"grafts":               {files{"info/grafts": "1 2"}, "info info/grafts"},
	} {
		for _, at := range []string{".git", "sub/store"} {
			if at != ".git" && name == "in another case" {
				continue // two directories, of which neither is one
			}
			t.Run(name+" in "+at, func(t *testing.T) {
				in := func(m files) files {
					out := files{}
					for p, text := range m {
						out[at+"/"+p] = text
					}
					return out
				}
				r := newRig(t, in(store))
				r.write(r.upper(""), in(c.change))
				for p := range c.change {
					later := time.Now().Add(time.Hour)
					must(t, os.Chtimes(r.upper(at+"/"+p), later, later))
				}
				got, err := r.apply(false)
				must(t, err)
				var want []string
				for p := range strings.FieldsSeq(c.left) {
					want = append(want, at+"/"+p)
				}
				if names(got.Withheld) != strings.Join(want, " ") {
					t.Errorf("withheld: %s, want %s", names(got.Withheld), want)
				}
				if len(want) == 0 {
					return
				}
				if got, err = r.named(want...); err != nil || len(got.Withheld) != 0 {
					t.Errorf("named, it is still withheld: %v %s", err, names(got.Withheld))
				}
			})
		}
	}
	t.Run("what is replaced already", func(t *testing.T) {
		r := newRig(t, files{".git/HEAD": "ref", ".git/packed-refs": main + replaced, "store/" + object: "o", ".git/objects": "@../store/objects"})
		r.write(r.upper(""), files{".git/packed-refs": replaced + "12 refs/heads/x\n", "store/" + object: "evil"})
		got, err := r.apply(false)
		must(t, err)
		if want := filepath.Join("store", object); names(got.Withheld) != want {
			t.Errorf("withheld: %s, want %s", names(got.Withheld), want)
		}
	})
	for p, hint := range map[string]bool{".git/index": true, ".git/HEAD": true, "sub/.git/refs/heads/x": true, ".git/packed-refs": true, "store/objects/ab/" + hash[2:]: true, ".git/logs/HEAD": false, "src/index": false} {
		for held, is := range map[string]bool{".envrc": hint, ".git/config": false, "plain": false} {
			r := newRig(t, files{".git/x": "x"})
			r.write(r.upper(""), files{p: "1", held: "1"})
			for range 2 { // also when nothing but what is withheld waits
				got, err := r.apply(false)
				if held == "plain" && err != nil {
					break // all is applied
				}
				must(t, err)
				c, err := r.s.Changes(pid)
				must(t, err)
				if (got.Hint != "") != is || (c.Hint != "") != is {
					t.Errorf("%s applied, %s: %q %q, want a hint: %t", p, held, got.Hint, c.Hint, is)
				}
			}
		}
	}
	t.Run("gc", func(t *testing.T) {
		r := newRig(t, files{".git/HEAD": "ref", ".git/" + object: "o"})
		r.whiteout(".git/" + object)
		if got, err := r.apply(false); err != nil || got.Deleted != 1 {
			t.Errorf("%v %+v", err, got)
		}
	})
}

// What git itself does to a repository passes.
func TestWhatGitDoesIsApplied(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	t.Setenv("HOME", t.TempDir())
	run := func(dir string, args ...string) {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("git %s: %v %s", args, err, out)
		}
	}
	folder := newRig(t, files{"a": "a", "b": "b"}).folder
	run(folder, "init", "-q")
	for _, name := range []string{"c", "d"} {
		run(folder, "add", "-A")
		run(folder, "commit", "-q", "-m", "x")
		run(folder, "gc", "-q")
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(name), 0o644))
	}
	run(folder, "add", "-A")
	run(folder, "commit", "-q", "-m", "x")
	r := newRig(t, nil, func(c *Config, s *agentkernel.Spec) { c.Copy, s.Workspace.Path = true, folder })
	r.folder = folder
	up := r.upper("")
	r.write(up, files{"e": "e", "f": "a", ".envrc": "x"})
	run(up, "add", "-A")
	run(up, "commit", "-q", "-m", "y")
	run(up, "checkout", "-q", "-b", "new")
	run(up, "gc", "-q")
	got, err := r.apply(false)
	must(t, err)
	for i := range got.Withheld {
		if p := got.Withheld[i].Name(); p != ".envrc" && !strings.HasPrefix(p, ".git/info") {
			t.Errorf("%s is withheld: %s", p, got.Withheld[i].Withheld)
		}
	}
	if got.Hint == "" {
		t.Error("nothing is said of the commit")
	}
	run(folder, "fsck", "--strict")
}
