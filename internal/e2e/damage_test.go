package e2e_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/tool/tooltest"
)

// damages are what can happen to the log of a kernel that was killed.
var damages = map[string]func(t *testing.T, home string, log []byte){
	"64 bytes changed in the middle": func(t *testing.T, home string, log []byte) {
		for i := range 64 {
			log[len(log)/2+i] ^= 0xff
		}
		writeLog(t, home, log)
	},
	"cut in the middle":      func(t *testing.T, home string, log []byte) { writeLog(t, home, log[:len(log)/2]) },
	"cut to three quarters":  func(t *testing.T, home string, log []byte) { writeLog(t, home, log[:len(log)*3/4]) },
	"emptied":                func(t *testing.T, home string, _ []byte) { writeLog(t, home, nil) },
	"removed":                func(t *testing.T, home string, _ []byte) { removeLog(t, home, "-wal") },
	"removed with its index": func(t *testing.T, home string, _ []byte) { removeLog(t, home, "-wal", "-shm") },
}

func writeLog(t *testing.T, home string, log []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(home, "kernel.db-wal"), log, 0o600); err != nil {
		t.Fatal(err)
	}
}

func removeLog(t *testing.T, home string, suffixes ...string) {
	t.Helper()
	for _, s := range suffixes {
		if err := os.Remove(filepath.Join(home, "kernel.db"+s)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamagedLog kills a kernel while a program makes writes, and damages its log. No kernel continues from what is left as if
// that were all; and when somebody has accepted the loss, no write is made until he resumes the process. The file that the
// server writes is what counts.
func TestDamagedLog(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) { t.Parallel(); damagedLog(t, damage) })
	}
}

func damagedLog(t *testing.T, damage func(t *testing.T, home string, log []byte)) {
	dir, file := home(t), filepath.Join(t.TempDir(), "lines.txt")
	k := openEmbeddedToClose(t, dir) // the schema and a program are in the database itself
	if o := run(t, k, program("print('before')")); o.stdout != "before\n" {
		t.Fatalf("%+v", o)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := tooltest.Config(t, map[string]tooltest.Server{"lines": tooltest.Stdio(t)})
	v := startVictim(t, dir)
	s := program(fmt.Sprintf(appender, file, 10_000, 0.001))
	s.Tools, s.Allow = []string{cfg}, []string{"lines.*"}
	p, err := v.client(t, dir).Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has written 40 lines", func() bool { return countLines(t, file) >= 40 })
	v.kill()
	log, err := os.ReadFile(filepath.Join(dir, "kernel.db-wal"))
	if err != nil {
		t.Fatal(err)
	}
	damage(t, dir, log)
	written := countLines(t, file)

	if k, err := embedded.Open(t.Context(), embedded.Config{Home: dir, Engine: engine(t), Version: testVersion}); err == nil {
		list, err := k.Recover(t.Context(), 0)
		_ = k.Close()
		t.Fatalf("opened a damaged log, and %d processes go on (%v)", len(list), err)
	} else if agentkernel.CodeOf(err) != agentkernel.CodeCorrupt || !strings.Contains(agentkernel.AsError(err, "", "").Hint, "--accept-loss") {
		t.Fatalf("refused with %v", err)
	}
	loss, err := embedded.AcceptLoss(t.Context(), dir, testVersion)
	if err != nil || loss == nil {
		t.Fatalf("accepting it: %+v, %v", loss, err)
	}
	t.Logf("%s; %d paused, %d copies", loss.What, loss.Paused, len(loss.Copies))
	again := openEmbedded(t, dir)
	list, err := again.Recover(t.Context(), 0)
	if err != nil || len(list) != loss.Paused {
		t.Fatalf("recovered %d, %d were paused: %v", len(list), loss.Paused, err)
	}
	for _, got := range list {
		if !got.Paused || got.PID != p.PID {
			t.Errorf("process %d goes on by itself: %+v", got.PID, got)
		}
	}
	other := run(t, again, program("print(1)"))
	if other.PID <= p.PID {
		t.Errorf("the number %d was given out again, as %d", p.PID, other.PID)
	}
	if n := countLines(t, file); n != written {
		t.Errorf("%d lines, %d before: writes were repeated in silence", n, written)
	}
}

// openEmbeddedToClose is openEmbedded for whoever closes the kernel.
func openEmbeddedToClose(t *testing.T, home string, change ...func(*embedded.Config)) *embedded.Kernel {
	t.Helper()
	cfg := embedded.Config{Home: home, Engine: engine(t), Version: testVersion}
	for _, c := range change {
		c(&cfg)
	}
	k, err := embedded.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func countLines(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// TestMissingBlob: a payload that is lost pauses the process that needs it, and no other; what is left of its journal can be read.
// When the file is back, it goes on.
func TestMissingBlob(t *testing.T) {
	dir := home(t)
	v := startVictim(t, dir)
	k := v.client(t, dir)
	spawn := func(letter, then string) agentkernel.PID {
		t.Helper()
		source := fmt.Sprintf("from kernel import exit, sleep, state\nprint('begun')\nstate.set('x', %q * 40000)\nprint('set')\n%s\n", letter, then)
		p, err := k.Spawn(t.Context(), program(source))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it has printed", func() bool {
			return strings.HasSuffix(stdoutOf(t, k, p.PID), "set\n")
		})
		return p.PID
	}
	// What computes is repeated from its journal; what sleeps has an image, and needs no more of the journal than its end.
	const computes, sleeps = "while True:\n    pass", "sleep(100000)"
	lost, whole, asleep, ended := spawn("a", computes), spawn("b", computes), spawn("c", sleeps), spawn("d", "exit(0, 'd' * 40000)")
	eventually(t, "the one that sleeps is parked", func() bool {
		p, err := k.Process(t.Context(), asleep)
		return err == nil && p.State == agentkernel.StateWaiting && !p.Resident
	})
	v.kill()
	putBack := removeBlobsWith(t, dir, "aaaa", "cccc", "dddd")

	again := openEmbedded(t, dir)
	for range 2 { // it is the same the second time
		list, err := again.Recover(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		var left []agentkernel.Process
		for _, p := range list {
			if p.NotTakenUp() {
				left = append(left, p)
			}
		}
		if len(left) != 1 || left[0].PID != lost || left[0].Error.Code != agentkernel.CodeCorrupt || !strings.Contains(left[0].PauseNote, "put the file back") {
			t.Errorf("left as they were: %+v, want process %d alone", left, lost)
		}
	}
	for _, pid := range []agentkernel.PID{whole, asleep} {
		if p, err := again.Process(t.Context(), pid); err != nil || p.Paused || p.State == agentkernel.StateUnfinished || p.State.Terminal() {
			t.Errorf("process %d needs none of what is lost: %+v, %v", pid, p, err)
		}
	}
	if p, err := again.Process(t.Context(), lost); err != nil || p.State != agentkernel.StateUnfinished || !p.Paused || !strings.Contains(p.PauseNote, "blob") {
		t.Errorf("the one that lacks it: %+v, %v", p, err)
	}
	if err := again.Signal(t.Context(), lost, agentkernel.SignalResume); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
		t.Errorf("resumed, and it still lacks it: %v", err)
	}
	for _, pid := range []agentkernel.PID{lost, ended} {
		if said := stdoutOf(t, again, pid); said != "begun\nset\n" {
			t.Errorf("process %d shows %q\n%s", pid, said, dump(t, again, pid))
		}
		entries, err := again.Journal(t.Context(), pid, 1, 0)
		if err != nil || !slices.ContainsFunc(entries, func(e agentkernel.Entry) bool { return e.Missing != nil }) {
			t.Errorf("journal of process %d: %d entries, %v", pid, len(entries), err)
		}
	}
	if list, err := again.List(t.Context(), agentkernel.Filter{}); err != nil || len(list) != 4 {
		t.Errorf("%d processes, %v", len(list), err)
	}

	putBack()
	if err := again.Signal(t.Context(), lost, agentkernel.SignalResume); err != nil {
		t.Errorf("resumed when the file is back: %v", err)
	}
	eventually(t, "it goes on", func() bool {
		p, err := again.Process(t.Context(), lost)
		return err == nil && !p.Paused && p.State == agentkernel.StateRunning
	})

	// A directory that is not there at all is no loss of a process: it stays unfinished.
	if err := os.Rename(filepath.Join(dir, "blobs"), filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	third := openEmbedded(t, dir)
	if _, err := third.Recover(t.Context(), 0); agentkernel.CodeOf(err) != agentkernel.CodeStorage {
		t.Errorf("without the directory: %v", err)
	}
	if p, err := third.Process(t.Context(), whole); p.State.Terminal() {
		t.Errorf("it has %s for a directory that may come back: %v %v", p.State, p.Error, err)
	}
}

// TestMissingBlobKilled: what lacks a payload can be killed, asleep or not, and is not failed by anything else that is asked of it.
func TestMissingBlobKilled(t *testing.T) {
	dir := home(t)
	v := startVictim(t, dir)
	k := v.client(t, dir)
	spawn := func(source string) agentkernel.PID {
		t.Helper()
		p, err := k.Spawn(t.Context(), program(source))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it has printed", func() bool { return stdoutOf(t, k, p.PID) == "begun\n" })
		return p.PID
	}
	computes := spawn("from kernel import state\nstate.set('x', 'a' * 40000)\nprint('begun')\nwhile True:\n    pass\n")
	asleep := spawn("from kernel import sleep\nprint('begun')\nsleep(100000)\n#" + strings.Repeat("c", 40000)) // its text is what is lost
	eventually(t, "the one that sleeps is parked", func() bool {
		p, err := k.Process(t.Context(), asleep)
		return err == nil && p.State == agentkernel.StateWaiting && !p.Resident
	})
	v.kill()
	putBack := removeBlobsWith(t, dir, "aaaa", "cccc")
	again := openEmbeddedToClose(t, dir)
	if _, err := again.Recover(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []agentkernel.PID{computes, asleep} {
		err := again.Signal(t.Context(), pid, agentkernel.SignalInterrupt)
		if code := agentkernel.CodeOf(err); pid == asleep && code != agentkernel.CodeCorrupt || code == "" {
			t.Errorf("process %d was interrupted: %v", pid, err)
		}
		if p, err := again.Process(t.Context(), pid); err != nil || p.State.Terminal() {
			t.Errorf("process %d has ended: %+v, %v", pid, p, err)
		}
	}
	if err := again.Signal(t.Context(), computes, agentkernel.SignalKill); err != nil {
		t.Error(err)
	}
	if p, err := again.Process(t.Context(), computes); err != nil || p.State != agentkernel.StateKilled {
		t.Errorf("killed: %+v, %v", p, err)
	}
	putBack()
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	third := openEmbedded(t, dir)
	if _, err := third.Recover(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	spec, err := third.Spec(t.Context(), asleep)
	if err != nil || !strings.Contains(spec.Program.Source, "cccc") {
		t.Errorf("the text of the one that sleeps is gone: %v", err)
	}
	if err := third.Signal(t.Context(), asleep, agentkernel.SignalInterrupt); err != nil {
		t.Error(err)
	}
	if p, err := third.Wait(t.Context(), asleep); err != nil || p.Error == nil || p.Error.Code == agentkernel.CodeCorrupt {
		t.Errorf("it can be read again: %+v, %v", p, err)
	}
}

// removeBlobsWith deletes the blobs that hold one of these texts, and returns what puts them back.
func removeBlobsWith(t *testing.T, home string, texts ...string) (putBack func()) {
	t.Helper()
	removed := map[string][]byte{}
	err := filepath.WalkDir(filepath.Join(home, "blobs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(string(b), text) }) {
			removed[path] = b
			err = os.Remove(path)
		}
		return err
	})
	if err != nil || len(removed) != len(texts) {
		t.Fatalf("%d blobs removed, %v", len(removed), err)
	}
	return func() {
		t.Helper()
		for path, b := range removed {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
