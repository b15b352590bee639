package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/usertest"
)

// envCutOff makes this executable apply the changes of a process, and kill itself before a step: a cutOff as JSON.
const envCutOff = "AGENTKERNEL_TEST_CUT_OFF"

type cutOff struct {
	Config Config
	Step   int
	Paths  []string
}

func TestMain(m *testing.M) {
	text := os.Getenv(envCutOff)
	if text == "" {
		os.Exit(m.Run())
	}
	var c cutOff
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	s := New(c.Config)
	s.step = func(string) {
		if c.Step--; c.Step < 0 {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	if _, err := s.Apply(context.Background(), pid, agentkernel.ApplyOptions{Paths: c.Paths}); err != nil {
		panic(err)
	}
}

// cutOffAt applies in a process that is killed before a step. False: it came to its end before.
func (r *rig) cutOffAt(step int, paths ...string) bool {
	r.t.Helper()
	text, err := json.Marshal(cutOff{Config: Config{Dir: r.s.cfg.Dir, Apart: r.s.cfg.Apart, Copy: r.s.cfg.Copy}, Step: step, Paths: paths})
	must(r.t, err)
	self, err := os.Executable()
	must(r.t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envCutOff+"="+string(text))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	switch err := cmd.Run(); {
	case err == nil:
		return true
	case cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL:
		r.t.Fatalf("%v\n%s", err, out.String())
	}
	return false
}

// withoutTemporary is what a folder holds besides files that an Apply has not put in place yet.
func withoutTemporary(t *testing.T, folder string) files {
	got := look(t, folder)
	for p := range got {
		if strings.Contains(p, ".agentkernel-") {
			delete(got, p)
		}
	}
	return got
}

var worked = files{"keep": "k", "edit": "newer", "new": "n", "made/deep/f": "f", "empty/": "", "plain2": "@keep", "swap": "a file now", "plain/in": "i", "hide/2": "two", "ln": "@keep"}

// A process that is pruned after its apply was cut off leaves the folder as it was, or finished: half of it stayed there for good.
func TestRemovedAfterACutOffApply(t *testing.T) {
	undone, finished := 0, 0
	for step := 0; ; step += 3 {
		r := newRig(t, start)
		r.work()
		if r.cutOffAt(step) {
			break
		}
		h, err := r.s.open(pid)
		must(t, err)
		decided := h.rec.Decided != nil
		must(t, h.Close())
		must(t, r.s.Remove(pid))
		if decided {
			finished++
			r.expect(worked)
		} else {
			undone++
			r.expect(start)
		}
	}
	if undone == 0 || finished == 0 {
		t.Errorf("%d were undone, %d finished", undone, finished)
	}
}

// An apply that is killed before any of its steps has either changed nothing that is seen, and is undone; or all new
// files are on the disk, and it is finished. Nothing of it stays behind in either case.
func TestApplyKilledAtEachStep(t *testing.T) {
	usertest.Both(t, func(t *testing.T) { testKilledAtEachStep(t, false) })
	testKilledAtEachStep(t, true)
}

func testKilledAtEachStep(t *testing.T, copies bool) {
	undone, finished := 0, 0
	for step := 0; ; step++ {
		r := newRig(t, start, func(c *Config, _ *agentkernel.Spec) { c.Copy = copies })
		if copies {
			r.workOnCopy()
		} else {
			r.work()
		}
		all := strings.Count(r.changes(), "\n") + 1
		if r.cutOffAt(step) {
			r.expect(worked)
			break
		}
		h, err := r.s.open(pid)
		must(t, err)
		decided := h.rec.Decided != nil
		must(t, h.Close())
		if drift, err := r.s.Drift(pid); err != nil || len(drift) > 0 {
			t.Errorf("killed before step %d: the folder is said to have changed at %v (%v)", step, drift, err)
		}
		foreign := filepath.Join(r.folder, "plain", "his")
		if err := os.WriteFile(foreign, []byte("his"), 0o644); err == nil { // what was changed by others meanwhile is told
			if drift, err := r.s.Drift(pid); err != nil || fmt.Sprint(drift) != "[plain/his]" {
				t.Errorf("killed before step %d: besides the apply somebody made plain/his, and it is said: %v (%v)", step, drift, err)
			}
			must(t, os.Remove(foreign))
		}
		now := withoutTemporary(t, r.folder)
		c, err := r.s.Changes(pid)
		must(t, err)
		if c.CutOff.IsZero() == decided {
			t.Errorf("step %d: decided %t, and the changes say %v", step, decided, c.CutOff)
		}
		if !decided && fmt.Sprint(now) != fmt.Sprint(start) {
			t.Errorf("step %d: nothing is decided, and the folder has %v", step, now)
		}
		if step%2 == 0 {
			_, err = r.apply(false)
			must(t, err)
			r.expect(worked)
			c, err = r.s.Changes(pid)
			must(t, err)
			if c.State != agentkernel.LayerApplied || len(c.Changes) != all || !c.CutOff.IsZero() {
				t.Errorf("step %d: %d of %d changes, %s, %v", step, len(c.Changes), all, c.State, c.CutOff)
			}
			continue
		}
		t.Logf("copies %t, step %d, decided %t", copies, step, decided)
		err = r.s.Discard(t.Context(), pid)
		if !decided {
			must(t, err)
			r.expect(start)
			undone++
			continue
		}
		wantCode(t, err, agentkernel.CodeConflict, "was cut off", "is finished now", "edit changed")
		r.expect(worked)
		finished++
	}
	if undone < 3 || finished < 3 {
		t.Errorf("%d undone, %d finished: the test proves little", undone, finished)
	}
}

// workOnCopy is work where the layer is a copy.
func (r *rig) workOnCopy() {
	r.t.Helper()
	for _, p := range []string{"drop", "tree", "swap", "plain", "hide/1"} {
		must(r.t, os.RemoveAll(r.upper(p)))
	}
	r.write(r.upper(""), files{"edit": "newer", "new": "n", "made/deep/f": "f", "empty/": "", "plain2": "@keep", "swap": "a file now", "plain/in": "i", "hide/2": "two"})
}

// A folder that was changed after an apply was cut off: the apply cannot be finished. Discard throws the rest away and
// says what is in the folder; apply --force finishes.
func TestCutOffAndChanged(t *testing.T) {
	for _, force := range []bool{false, true} {
		met := false
		for step := 0; !met; step++ {
			r := newRig(t, files{"a": "old", "z": "old"})
			r.write(r.upper(""), files{"a": "new", "b": "new", "z": "new"})
			if r.cutOffAt(step) {
				t.Fatal("it was never cut off between a and z")
			}
			got := look(t, r.folder)
			if got["a"] != "new" || got["z"] != "old" {
				continue
			}
			met = true
			must(t, os.WriteFile(filepath.Join(r.folder, "z"), []byte("his"), 0o644))
			c, err := r.s.Changes(pid)
			must(t, err)
			if got := fmt.Sprint(c.Drift); got != "[z]" {
				t.Errorf("somebody changed z alone, and it is said: %s", got)
			}
			_, err = r.apply(false)
			wantCode(t, err, agentkernel.CodeConflict, "was cut off and cannot be finished", "z was changed meanwhile")
			if force {
				_, err = r.apply(true)
				must(t, err)
				r.expect(files{"a": "new", "b": "new", "z": "new"})
				continue
			}
			want := withoutTemporary(t, r.folder)
			must(t, r.s.Discard(t.Context(), pid))
			c, err = r.s.Changes(pid)
			must(t, err)
			if c.State != agentkernel.LayerDiscarded || len(c.Changes) == 0 || !c.Changes[0].Applied || slices.ContainsFunc(c.Changes, func(ch agentkernel.Change) bool { return ch.Path == "z" }) {
				t.Errorf("%+v", c)
			}
			r.expect(want)
		}
	}
}

// An apply of some of the changes that was cut off is finished as it was asked for, by whatever comes next.
func TestCutOffOfSome(t *testing.T) {
	for step := 0; ; step++ {
		r := newRig(t, files{"a": "old", "z": "old"})
		r.write(r.upper(""), files{"a": "new", "d/b": "new", "z": "new", ".envrc": "new"})
		if r.cutOffAt(step, "a", "d", ".envrc") {
			break
		}
		_, err := r.apply(false)
		must(t, err)
		want := files{"a": "new", "d/b": "new", "z": "new"}
		if _, ok := look(t, r.folder)[".envrc"]; ok {
			want[".envrc"] = "new"
		}
		r.expect(want)
		c, err := r.s.Changes(pid)
		must(t, err)
		if _, all := want[".envrc"]; all != (c.State == agentkernel.LayerApplied) {
			t.Errorf("step %d: %+v", step, c)
		}
	}
}

// The order of the steps is what makes a crash harmless: all that is new is on the disk before the decision, the decision
// before the first change, all changes before the layer goes.
func TestOrderOfSteps(t *testing.T) {
	r := newRig(t, start)
	r.work()
	var steps []string
	r.s.step = func(what string) {
		if len(steps) == 0 || steps[len(steps)-1] != what {
			steps = append(steps, what)
		}
		if what == "stage" || what == "sync" && !slices.Contains(steps, "decide") {
			if got := withoutTemporary(t, r.folder); fmt.Sprint(got) != fmt.Sprint(start) {
				t.Errorf("before the decision the folder has %v", got)
			}
		}
	}
	r.s.syncfs = func(fd int) error {
		steps = append(steps, "synced")
		return unix.Syncfs(fd)
	}
	_, err := r.apply(false)
	must(t, err)
	if got := strings.Join(steps, " "); got != "stage sync synced decide commit sync synced settle" {
		t.Errorf("steps: %s", got)
	}
}

// TestLinksDuringApply puts a link in place of a directory, and of a file, before each step of an apply: nothing that it
// leads to is read or written, be it outside the folder or in it. What races by chance in TestRacingLinks is here done
// for certain.
func TestLinksDuringApply(t *testing.T) {
	for _, c := range []struct {
		to    string
		force bool
	}{{"/outside", true}, {"../outside", true}, {"../outside", false}, {"other", true}} {
		for step := 0; linkAtStep(t, c.to, step, c.force); step++ {
		}
	}
}

func linkAtStep(t *testing.T, to string, step int, force bool) (met bool) {
	victims := files{"edit": "victim", "drop": "victim", "sub/edit": "victim", "gone/x": "victim", "type": "victim", "e": "victim"}
	content := files{"d/edit": "1", "d/drop": "2", "d/sub/edit": "3", "d/gone/x": "4", "e": "5", "d/type": "6"}
	for p, text := range victims {
		content["other/"+p] = text
	}
	r := newRig(t, content)
	outside := filepath.Join(filepath.Dir(r.folder), "outside")
	if r.write(outside, victims); to[0] == '/' {
		to = outside
	}
	r.write(r.upper(""), files{"d/edit": "mine", "d/new": "mine", "d/made/f": "mine", "d/sub/edit": "mine", "d/sub/link": "@edit", "e": "mine", "d/type/f": "mine"})
	r.opaque("d/type")
	r.whiteout("d/drop")
	r.whiteout("d/gone")
	n := 0
	r.s.step = func(string) {
		if n++; n != step+1 {
			return
		}
		met = true
		must(t, os.Rename(filepath.Join(r.folder, "d"), filepath.Join(r.folder, "was")))
		must(t, os.Symlink(to, filepath.Join(r.folder, "d")))
		must(t, os.Rename(filepath.Join(r.folder, "e"), filepath.Join(r.folder, "e.was")))
		must(t, os.Symlink(filepath.Join(to, "e"), filepath.Join(r.folder, "e")))
	}
	unharmed := func(when string) {
		t.Helper()
		for _, dir := range []string{outside, filepath.Join(r.folder, "other")} {
			if got := look(t, dir); fmt.Sprint(got) != fmt.Sprint(victims) {
				t.Fatalf("a link to %s, step %d, force %t: %s %s has %v", to, step, force, when, dir, got)
			}
		}
	}
	_, err := r.apply(force)
	unharmed(fmt.Sprintf("after apply (%v)", err))
	for _, name := range []string{"d/edit", "d/sub/edit"} {
		for _, before := range []bool{false, true} {
			if text, err := r.read(agentkernel.FileName{Path: name, Before: before}); err == nil && text == "victim" {
				t.Errorf("%s, before %t, is what the link leads to", name, before)
			}
		}
	}
	r.s.step = func(string) {}
	_ = r.s.Discard(t.Context(), pid) // it may be applied
	unharmed("after discard")
	return met
}

func (r *rig) read(name agentkernel.FileName) (string, error) {
	f, err := r.s.Open(pid, name)
	if err != nil {
		return "", err
	}
	defer f.Content.Close()
	b, err := io.ReadAll(f.Content)
	return string(b), err
}
