package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
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
func openEmbeddedToClose(t *testing.T, home string) *embedded.Kernel {
	t.Helper()
	k, err := embedded.Open(t.Context(), embedded.Config{Home: home, Engine: engine(t), Version: testVersion})
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
