package olddir

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver of database/sql

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/recording"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestOldDirectory opens what an earlier version left behind: reads everything, repeats each process from its recording,
// and continues all of them, at once and one by one in another order. Both come to the ends that the golden file tells.
func TestOldDirectory(t *testing.T) {
	for _, name := range Archives() {
		t.Run(name, func(t *testing.T) {
			lockFolder(t)
			home := unpacked(t, name)
			k, f := open(t, home, false)
			if name == "main" { // the journals of the others tell the same
				golden(t, name+".before", before(t, k))
			}
			ends := continued(t, k, f, recoverAll)
			golden(t, name+".after", ends)
			if err := k.Close(); err != nil {
				t.Fatal(err)
			}
			emptyFolder(t)
			k, f = open(t, unpacked(t, name), false)
			if again := continued(t, k, f, recoverEach); again != ends {
				t.Errorf("recovered one by one, the processes come to other ends:\n%s", difference(ends, again))
			}
		})
	}
}

// unpacked gives a data directory whose processes take the folder to be theirs.
func unpacked(t *testing.T, name string) string {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	if err := Unpack(name, home); err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob(filepath.Join(home, "workspaces", "*", "record.json"))
	if err != nil || len(records) == 0 {
		t.Fatalf("no process has a folder: %v", err)
	}
	for _, r := range records {
		adoptFolder(t, r)
	}
	return home
}

// list gives all processes, in the order of their PIDs.
func list(t *testing.T, k agentkernel.Kernel) []agentkernel.Process {
	t.Helper()
	all, err := k.List(t.Context(), agentkernel.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b agentkernel.Process) int { return cmp.Compare(a.PID, b.PID) })
	return all
}

// plain is a process without what another machine says otherwise.
func plain(p agentkernel.Process) agentkernel.Process {
	p.Walls, p.Fingerprint = nil, ""
	p.Usage.Running, p.Usage.Waits = 0, 0
	return p
}

// line is a value in one line; of a long one, its hash.
func line(t *testing.T, what string, v any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	const most = 2_000
	if text := b.String(); len(text) > most {
		return fmt.Sprintf("%s %.200s... %d bytes, SHA-256 %x\n", what, text, len(text), sha256.Sum256([]byte(text)))
	}
	return what + " " + b.String()
}

// before tells of each process what can be read of it before it is continued.
func before(t *testing.T, k *embedded.Kernel) string {
	var b strings.Builder
	for _, row := range list(t, k) {
		p, err := k.Process(t.Context(), row.PID)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := plain(row), plain(p); !reflect.DeepEqual(got, want) {
			t.Errorf("pid %d: listed as %+v, alone it is %+v", p.PID, got, want)
		}
		fmt.Fprintf(&b, "== %d %s\n%s", p.PID, p.Name, line(t, "process", plain(p)))
		entries, err := k.Journal(t.Context(), p.PID, 1, 0)
		if err != nil {
			t.Fatalf("pid %d: journal: %v", p.PID, err)
		}
		for i, e := range entries {
			if e.Seq != int64(i+1) || e.PID != p.PID {
				t.Errorf("pid %d: entry %d is %d of %d", p.PID, i+1, e.Seq, e.PID)
			}
			b.WriteString(line(t, "  entry", e))
		}
		err = k.Events(t.Context(), p.PID, 1, false, func(ev agentkernel.Event) error {
			if ev.Process != nil {
				shown := plain(*ev.Process)
				ev.Process = &shown
			}
			fmt.Fprintf(&b, "  event %d %s %s%q%s\n", ev.Seq, ev.Kind, ev.Stream, ev.Text, strings.TrimSuffix(line(t, "", ev.Idle), "\n"))
			return nil
		})
		if err != nil {
			t.Errorf("pid %d: events: %v", p.PID, err)
		}
		state, err := k.State(t.Context(), p.PID)
		if err != nil {
			t.Errorf("pid %d: state: %v", p.PID, err)
		}
		spec, err := k.Spec(t.Context(), p.PID)
		if err != nil {
			t.Errorf("pid %d: spec: %v", p.PID, err)
		}
		b.WriteString(line(t, "  spec", spec) + line(t, "  state", state) + changes(t, k, p.PID) + replayed(t, k, p, entries))
	}
	_, err := k.Process(t.Context(), pruned)
	fmt.Fprintf(&b, "== %d pruned\n  process: %v\n", pruned, err)
	skill, err := k.Skill(t.Context(), "", "twice", 0)
	if err != nil {
		t.Error(err)
	}
	notes, err := k.Document(t.Context(), "", "", "notes")
	if err != nil {
		t.Error(err)
	}
	fmt.Fprintf(&b, "== library\n%s%s", line(t, "skill", skill), line(t, "document", notes))
	return b.String()
}

// pruned is the process that was forgotten.
const pruned = 16

// changes tells what a process did to its folder; "": it has none.
func changes(t *testing.T, k *embedded.Kernel, pid agentkernel.PID) string {
	t.Helper()
	c, err := k.Changes(t.Context(), pid)
	if agentkernel.CodeOf(err) == agentkernel.CodeInvalid {
		return ""
	}
	if err != nil {
		t.Errorf("pid %d: changes: %v", pid, err)
	}
	return line(t, "  changes", map[string]any{"state": c.State, "changes": c.Changes, "drift": c.Drift})
}

// replayed exports a process, checks that the recording holds what the journal does, and repeats it.
func replayed(t *testing.T, k *embedded.Kernel, p agentkernel.Process, entries []agentkernel.Entry) string {
	t.Helper()
	file, err := k.Export(t.Context(), p.PID, agentkernel.ExportOptions{Unredacted: true})
	if err != nil {
		t.Errorf("pid %d: export: %v", p.PID, err)
		return ""
	}
	r, err := recording.Decode(file)
	if err != nil {
		t.Errorf("pid %d: its recording: %v", p.PID, err)
		return ""
	}
	for i, e := range entries[1:] { // the first has the Spec, of which not all leaves the machine
		if len(r.Entries) != len(entries) || line(t, "", r.Entries[i+1]) != line(t, "", e) {
			t.Fatalf("pid %d: entry %d is another one in its recording, of %d", p.PID, e.Seq, len(r.Entries))
		}
	}
	v, err := k.Replay(t.Context(), file, agentkernel.ReplayOptions{})
	v.Engine, v.Recorded = "", ""
	v.Difference, _, _ = strings.Cut(v.Difference, "\n") // the rest has a traceback, which versions of CPython write differently
	if err != nil {
		return fmt.Sprintf("  replay: %v\n", err)
	}
	return line(t, "  replay", v)
}

// continued recovers all processes, lets their tools answer and does what each waits for. It tells how they ended.
func continued(t *testing.T, k *embedded.Kernel, f *far, recover func(*testing.T, *embedded.Kernel)) string {
	t.Helper()
	old, err := f.made()
	if err != nil {
		t.Fatal(err)
	}
	unfinished, err := k.List(t.Context(), agentkernel.Filter{Unfinished: true})
	if err != nil {
		t.Fatal(err)
	}
	awake(t, k)
	recover(t, k)
	var b strings.Builder
	for _, p := range list(t, k) {
		if !p.State.Terminal() {
			p = waited(t, k, p.PID)
		}
		if !p.State.Terminal() {
			t.Errorf("pid %d %s did not end: %s", p.PID, p.Name, p.PauseNote)
		}
		was := slices.ContainsFunc(unfinished, func(u agentkernel.Process) bool { return u.PID == p.PID })
		calls, err := f.made()
		if err != nil {
			t.Fatal(err)
		}
		checkWrites(t, p, calls[p.PID])
		if !was && len(calls[p.PID]) != len(old[p.PID]) {
			t.Errorf("pid %d %s had ended, and makes calls: %q", p.PID, p.Name, calls[p.PID][len(old[p.PID]):])
		}
		if !was {
			continue
		}
		state, err := k.State(t.Context(), p.PID)
		if err != nil {
			t.Error(err)
		}
		p = plain(p)
		p.Ended = p.Created
		made := slices.Sorted(slices.Values(calls[p.PID][len(old[p.PID]):])) // calls at one moment have no order
		fmt.Fprintf(&b, "== %d %s\n%s  printed %q\n  made %q\n%s%s", p.PID, p.Name, line(t, "process", p), output(k, p.PID), made,
			line(t, "  state", state), changes(t, k, p.PID))
	}
	applyKept(t, k)
	return b.String()
}

// awake lets each session wait for its next piece since this moment: one that has waited for hours ends by itself, and these
// have waited since their archive was made.
func awake(t *testing.T, k *embedded.Kernel) {
	t.Helper()
	info, err := k.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(info.Home, "kernel.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const open = `UPDATE entries SET at = ?1 WHERE op = 'proc.next'
		AND NOT EXISTS (SELECT 1 FROM entries r WHERE r.pid = entries.pid AND r.call = entries.call AND r.kind = 'result')`
	if _, err := db.ExecContext(t.Context(), open, time.Now().UnixMicro()); err != nil {
		t.Fatal(err)
	}
}

// applyKept applies the changes that have waited since before the kernel died.
func applyKept(t *testing.T, k *embedded.Kernel) {
	t.Helper()
	for _, p := range list(t, k) {
		if p.Name != "folder-kept" {
			continue
		}
		if _, err := k.Apply(t.Context(), p.PID, agentkernel.ApplyOptions{}); err != nil {
			t.Errorf("pid %d: apply: %v", p.PID, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(folder, "new.txt")); err != nil || string(text) != "text" {
		t.Errorf("what was applied: %q %v", text, err)
	}
}

// checkWrites: no call that writes is made twice, but for the one that a human let be made again.
func checkWrites(t *testing.T, p agentkernel.Process, calls []string) {
	t.Helper()
	seen := map[string]int{}
	for _, c := range calls {
		if strings.Contains(c, " write(") {
			seen[c]++
		}
	}
	for c, n := range seen {
		if n > 1 && (n > 2 || p.Name != "undecided-retry" || !strings.HasSuffix(c, " write(hang)")) {
			t.Errorf("pid %d %s made call %s %d times", p.PID, p.Name, c, n)
		}
	}
}

func recoverAll(t *testing.T, k *embedded.Kernel) {
	t.Helper()
	if _, err := k.Recover(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for _, p := range list(t, k) {
		if !p.State.Terminal() {
			help(t, k, p)
		}
	}
}

// recoverEach takes up one process after the other, children before their parents.
func recoverEach(t *testing.T, k *embedded.Kernel) {
	t.Helper()
	for _, p := range slices.Backward(list(t, k)) {
		if p.State != agentkernel.StateUnfinished {
			continue
		}
		if _, err := k.Recover(t.Context(), p.PID); err != nil {
			t.Fatal(err)
		}
		help(t, k, p)
		waited(t, k, p.PID)
	}
}

// waited is a process that has ended, or is paused.
func waited(t *testing.T, k *embedded.Kernel, pid agentkernel.PID) agentkernel.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p, err := k.Wait(ctx, pid)
	if err == nil && p.Asks() != "" { // whoever was asked has gone with the old kernel
		err = k.Events(ctx, pid, 1, true, func(ev agentkernel.Event) error {
			if ev.Kind == agentkernel.EventAsk {
				return k.Answer(ctx, pid, ev.Ask.ID, agentkernel.AnswerNo)
			}
			return nil
		})
		if err == nil {
			p, err = k.Wait(ctx, pid)
		}
	}
	if err != nil {
		t.Fatalf("pid %d %s does not end: %v", pid, p.Name, err)
	}
	return p
}

// help does for a process what it waits for.
func help(t *testing.T, k *embedded.Kernel, p agentkernel.Process) {
	t.Helper()
	var err error
	switch {
	case p.Name == "sleeper":
		eventually(t, k, p.PID, "it sleeps", func(p agentkernel.Process) bool { return p.State == agentkernel.StateWaiting })
		err = k.Signal(t.Context(), p.PID, agentkernel.SignalInterrupt)
	case strings.HasPrefix(p.Name, "session"):
		finishSession(t, k, p.PID)
	case p.Name == "write-pause" || strings.HasPrefix(p.Name, "undecided-"):
		decide(t, k, p)
	case p.Name == "paused" || p.Name == "tree-paused" || p.Name == "paused-computing":
		err = k.Signal(t.Context(), p.PID, agentkernel.SignalResume)
	case p.Name == "hosted":
		finishHosted(t, k, p.PID)
	}
	if err != nil {
		t.Errorf("pid %d %s: %v", p.PID, p.Name, err)
	}
}

// finishSession hands a session a piece that reads its variables, one that it had before, and its end.
func finishSession(t *testing.T, k *embedded.Kernel, pid agentkernel.PID) {
	t.Helper()
	eventually(t, k, pid, "it waits for a piece", func(p agentkernel.Process) bool {
		return p.State == agentkernel.StateWaiting && slices.Equal(p.WaitsFor, []string{"proc.next"})
	})
	old := "import random\nfrom tools.book import write\nx = [random.random()]\nwrite(line='one')\nprint('first')\nx[0]"
	for _, piece := range []agentkernel.Cell{{Name: "piece", Source: "print(x)\nwrite(line='again')\nx"}, {Name: "piece 1", Key: "key 1", Source: old}} {
		if _, err := k.Feed(t.Context(), pid, piece, func(agentkernel.Event) error { return nil }); err != nil {
			t.Errorf("pid %d: %s: %v", pid, piece.Name, err)
		}
	}
	if _, err := k.EndSession(t.Context(), pid); err != nil {
		t.Errorf("pid %d: %v", pid, err)
	}
}

// decide settles the write about which a human is asked.
func decide(t *testing.T, k *embedded.Kernel, p agentkernel.Process) {
	t.Helper()
	eventually(t, k, p.PID, "a human is asked", func(p agentkernel.Process) bool { return p.Paused })
	var err error
	switch p.Name {
	case "undecided-resume":
		err = k.Signal(t.Context(), p.PID, agentkernel.SignalResume)
	case "undecided-retry":
		err = k.Resolve(t.Context(), p.PID, 2, agentkernel.Resolution{Decision: agentkernel.DecisionRetry})
	case "undecided-fail":
		err = k.Resolve(t.Context(), p.PID, 2, agentkernel.Resolution{Decision: agentkernel.DecisionFail, Message: "not any more"})
	default:
		err = k.Resolve(t.Context(), p.PID, 2, agentkernel.Resolution{Decision: agentkernel.DecisionDone, Result: json.RawMessage(`"it was done"`)})
	}
	if err != nil {
		t.Errorf("pid %d %s: %v", p.PID, p.Name, err)
	}
}

// finishHosted is the hosted program, begun again.
func finishHosted(t *testing.T, k *embedded.Kernel, pid agentkernel.PID) {
	t.Helper()
	c, err := k.Attach(t.Context(), pid, agentkernel.Attaching{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range hostedCalls {
		_, err := c.Issue(hostedCall(i))(t.Context())
		if unknown := i == 2; unknown != (agentkernel.CodeOf(err) == agentkernel.CodeOutcomeUnknown) || err != nil && !unknown {
			t.Errorf("hosted call %d: %v", i+1, err)
		}
	}
}

// golden compares a text with the file of it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:gosec // test data
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what it was:\n%s", name, difference(string(want), got))
	}
}

// difference shows the first lines that differ, with the process that they belong to.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out, process string
	for i := range min(len(a), len(b)) {
		if strings.HasPrefix(a[i], "== ") {
			process = a[i]
		}
		if a[i] == b[i] {
			continue
		}
		at := 0
		for at < min(len(a[i]), len(b[i])) && a[i][at] == b[i][at] {
			at++
		}
		at = max(0, at-60)
		out += fmt.Sprintf("%s\n  want ...%.300s\n  got  ...%.300s\n", process, a[i][at:], b[i][at:])
		if strings.HasPrefix(b[i], "== ") || strings.HasPrefix(a[i], "== ") || len(out) > 4000 {
			return out
		}
	}
	return out + fmt.Sprintf("%d lines, not %d", len(b), len(a))
}
