package workspace

import (
	"maps"
	"os"
	"strings"
	"testing"

	"agentkernel"
)

// TestTheFolderHasGone: what a process wrote is listed and read also when its folder was moved away, or another is in its
// place, and is applied when it is back.
func TestTheFolderHasGone(t *testing.T) {
	for name, c := range map[string]struct {
		copies bool
		put    files // in place of the folder; nil: nothing
		code   agentkernel.Code
		says   string
	}{
		"moved":                {false, nil, agentkernel.CodeNotFound, "not there any more"},
		"moved, with copies":   {true, nil, agentkernel.CodeNotFound, "not there any more"},
		"another in its place": {false, start, agentkernel.CodeConflict, "is not the folder any more"},
	} {
		t.Run(name, func(t *testing.T) {
			found := maps.Clone(start)
			delete(found, "ln") // where a link of a copy leads, only the folder can be asked whether it did before
			r := newRig(t, found, func(cfg *Config, _ *agentkernel.Spec) { cfg.Copy = c.copies })
			if c.copies {
				r.write(r.mount.Source, files{"edit": "newer", "new": "n", ".envrc": "echo hi"})
			} else {
				r.work()
				r.write(r.upper(""), files{".envrc": "echo hi"})
			}
			before := r.changes()
			must(t, os.Rename(r.folder, r.folder+".old"))
			if c.put != nil {
				r.write(r.folder, c.put)
			}
			if got := strings.ReplaceAll(r.changes(), " ! "+agentkernel.NoFolder, ""); got != before {
				t.Errorf("changes without the folder:\n%s\nwith it:\n%s", got, before)
			}
			all, err := r.s.Changes(pid)
			must(t, err)
			for _, ch := range all.Changes {
				if ch.Conflict != agentkernel.NoFolder || (ch.Withheld != "") != (ch.Path == ".envrc") {
					t.Errorf("%+v", ch)
				}
			}
			for path, want := range map[string]string{"edit": "newer", "new": "n"} {
				if got, err := r.read(agentkernel.FileName{Path: path}); got != want || err != nil {
					t.Errorf("%s is %q, %v", path, got, err)
				}
			}
			if !c.copies {
				_, err := r.read(agentkernel.FileName{Path: "keep"})
				wantCode(t, err, c.code, "keep was in the folder", c.says)
			}
			_, err = r.read(agentkernel.FileName{Path: "none"})
			wantCode(t, err, agentkernel.CodeNotFound)
			_, err = r.apply(true)
			wantCode(t, err, c.code, c.says, "nothing was written")
			if e := agentkernel.AsError(err, "", ""); !strings.Contains(e.Hint, "agentkernel get 7 FILE -o PATH") {
				t.Error(e.Hint)
			}
			if c.put != nil {
				must(t, os.RemoveAll(r.folder))
			}
			must(t, os.Rename(r.folder+".old", r.folder))
			_, err = r.apply(false)
			must(t, err)
			if got := look(t, r.folder); got["edit"] != "newer" || got["new"] != "n" {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestDiscardWithoutTheFolder frees the disk also where an apply had begun to change the folder.
func TestDiscardWithoutTheFolder(t *testing.T) {
	for _, decided := range []bool{false, true} {
		r := newRig(t, start)
		r.work()
		if decided {
			h, err := r.s.open(pid)
			must(t, err)
			h.rec.Decided = &decision{At: now()}
			must(t, h.save())
			must(t, h.Close())
		}
		must(t, os.RemoveAll(r.folder))
		must(t, r.s.Discard(t.Context(), pid))
		if c, err := r.s.Changes(pid); err != nil || c.State != agentkernel.LayerDiscarded {
			t.Errorf("decided %v: %+v %v", decided, c, err)
		}
	}
}

// TestBeginWithoutTheFolder waits for it to be put back.
func TestBeginWithoutTheFolder(t *testing.T) {
	r := newRig(t, start)
	must(t, os.Rename(r.folder, r.folder+".old"))
	_, err := r.s.Begin(pid)
	wantCode(t, err, agentkernel.CodeUnavailable, "not there any more")
}
