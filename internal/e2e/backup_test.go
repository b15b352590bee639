package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/embedded"
)

// busy is a kernel whose hosted processes make durable calls until it is stopped. Each call is acknowledged: its
// caller got the answer.
type busy struct {
	pids  []agentkernel.PID
	acked []atomic.Int64 // calls of each process
	stop  func()
}

// callOf is call n of a process: the same whenever it is repeated. Some are too large for the database.
func callOf(n int64) agentkernel.HostedCall {
	size := 20
	if n%100 == 0 {
		size = 40_000
	}
	args := fmt.Sprintf(`{"key":"k%d","value":"%d %s"}`, n%10, n, strings.Repeat("x", size))
	return agentkernel.HostedCall{Place: agentkernel.Place{N: n}, Op: "state.set", Args: json.RawMessage(args)}
}

func makeBusy(t *testing.T, k *embedded.Kernel, n int) *busy {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b := &busy{acked: make([]atomic.Int64, n)}
	var group sync.WaitGroup
	for i := range n {
		p, err := k.Spawn(ctx, agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: fmt.Sprintf("agent %d", i)}})
		if err != nil {
			t.Fatal(err)
		}
		caller, err := k.Attach(ctx, p.PID, agentkernel.Attaching{})
		if err != nil {
			t.Fatal(err)
		}
		b.pids = append(b.pids, p.PID)
		group.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				if _, err := caller.Issue(callOf(n))(ctx); err == nil {
					b.acked[i].Store(n)
				} else if ctx.Err() == nil {
					t.Errorf("call %d: %v", n, err)
					return
				}
			}
		})
	}
	b.stop = func() { cancel(); group.Wait() }
	t.Cleanup(b.stop)
	return b
}

func (b *busy) counts() (each []int64, sum int64) {
	for i := range b.acked {
		n := b.acked[i].Load()
		each, sum = append(each, n), sum+n
	}
	return each, sum
}

// TestBackupUnderLoad backs up a kernel whose processes make durable calls all the time, by both ways, and restores
// elsewhere: each result that was acknowledged before the backup is there.
func TestBackupUnderLoad(t *testing.T) {
	from := home(t)
	k := openEmbedded(t, from)
	ended, err := k.Run(t.Context(), program("print(6*7)"), func(agentkernel.Event) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.SaveSkill(t.Context(), agentkernel.Skill{Name: "double", Code: "def f(x):\n    return 2 * x\n"}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.PutDocument(t.Context(), agentkernel.Document{Name: "state.json", Data: json.RawMessage(`{"a":1}`)}); err != nil {
		t.Fatal(err)
	}
	b := makeBusy(t, k, 64)
	eventually(t, "every process has made a call that is too large for the database", func() bool {
		each, _ := b.counts()
		for _, n := range each {
			if n < 100 {
				return false
			}
		}
		return true
	})
	c, err := client.Dial(t.Context(), client.Options{Socket: serveKernel(t, k, from), Version: testVersion})
	if err != nil {
		t.Fatal(err)
	}
	type backup struct {
		file   *os.File
		before []int64
	}
	made := map[string]backup{}
	for name, by := range map[string]agentkernel.Kernel{"embedded": k, "client": c} {
		f, err := os.Create(filepath.Join(t.TempDir(), "x.akb"))
		if err != nil {
			t.Fatal(err)
		}
		before, began := b.counts()
		start := time.Now()
		err = by.Backup(t.Context(), &unhurried{Writer: f, b: b})
		took := time.Since(start)
		_, done := b.counts()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Logf("%s: %d calls were acknowledged during the %s of the backup: %.0f calls/s", name, done-began, took.Round(time.Millisecond), float64(done-began)/took.Seconds())
		made[name] = backup{f, before}
	}
	b.stop() // what is there can be compared in peace
	for name, m := range made {
		t.Run(name, func(t *testing.T) {
			f, before := m.file, m.before
			if info, err := embedded.CheckBackup(t.Context(), rewound(t, f), t.TempDir()); err != nil || info.Unfinished != int64(len(b.pids)) || info.Blobs == 0 {
				t.Errorf("the backup: %+v, %v", info, err)
			}
			checkRestored(t, restoreInto(t, f, home(t), false), k, b.pids, before, ended.PID)
			checkMoved(t, restoreInto(t, f, home(t), true), k, b.pids[0], before[0])
		})
	}
}

// unhurried takes a backup only while calls go on: at each of its first writes it waits until some more were
// acknowledged. Whoever kept the callers waiting for the backup would hang here.
type unhurried struct {
	io.Writer
	b      *busy
	writes int
}

func (u *unhurried) Write(p []byte) (int, error) {
	if u.writes++; u.writes <= 4 {
		_, began := u.b.counts()
		for deadline := time.Now().Add(time.Minute); ; {
			if _, now := u.b.counts(); now > began+1000 {
				break
			}
			if time.Now().After(deadline) {
				return 0, errors.New("no call goes on during the backup")
			}
			runtime.Gosched()
		}
	}
	return u.Writer.Write(p)
}

func rewound(t *testing.T, f *os.File) io.Reader {
	t.Helper()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	return f
}

func restoreInto(t *testing.T, f *os.File, to string, moved bool) embedded.Restored {
	t.Helper()
	done, err := embedded.Restore(t.Context(), rewound(t, f), embedded.RestoreOptions{Home: to, Version: testVersion, Moved: moved})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// checkRestored opens a restored directory: journals are beginnings of the original's, acknowledged calls are there, and
// what was unfinished goes on where it stood, once somebody says so.
func checkRestored(t *testing.T, done embedded.Restored, original agentkernel.Kernel, pids []agentkernel.PID, acked []int64, ended agentkernel.PID) {
	t.Helper()
	k := openEmbedded(t, done.Home)
	if done.Paused != len(pids) || done.Replaced != "" {
		t.Errorf("restored: %+v", done)
	}
	for i, pid := range pids {
		compareJournals(t, k, original, pid, acked[i])
	}
	if p, err := k.Process(t.Context(), ended); err != nil || p.State != agentkernel.StateExited {
		t.Errorf("the process that had ended: %+v, %v", p, err)
	}
	if s, err := k.Skill(t.Context(), "", "double", 0); err != nil || !strings.Contains(s.Code, "2 * x") {
		t.Errorf("the skill: %+v, %v", s, err)
	}
	if d, err := k.Document(t.Context(), "", "", "state.json"); err != nil || string(d.Data) != `{"a":1}` {
		t.Errorf("the document: %+v, %v", d, err)
	}
	list, err := k.Recover(t.Context(), 0)
	if err != nil || len(list) != len(pids) {
		t.Fatalf("recovered %d of %d, %v", len(list), len(pids), err)
	}
	for _, p := range list {
		if !p.Paused || !strings.Contains(p.PauseNote, "restored from the backup of") {
			t.Fatalf("process %d goes on unasked: %+v", p.PID, p)
		}
	}
	if err := k.Signal(t.Context(), pids[0], agentkernel.SignalResume); err != nil {
		t.Fatal(err)
	}
	goesOn(t, k, pids[0], acked[0])

	mine, theirs := infoOf(t, k), infoOf(t, original)
	if mine.Store.UUID == theirs.Store.UUID || mine.Store.UUIDOf(pids[0]) != theirs.Store.UUID {
		t.Errorf("identities: %+v and %+v", mine.Store, theirs.Store)
	}
	fresh, err := k.Spawn(t.Context(), agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "new"}})
	if err != nil || mine.Store.UUIDOf(fresh.PID) != mine.Store.UUID {
		t.Errorf("a new process has the identity of the original's pid %d: %v", fresh.PID, err)
	}
}

// checkMoved opens what was restored as the same store: nothing is paused.
func checkMoved(t *testing.T, done embedded.Restored, original agentkernel.Kernel, pid agentkernel.PID, acked int64) {
	t.Helper()
	k := openEmbedded(t, done.Home)
	if a, b := infoOf(t, k).Store, infoOf(t, original).Store; a.UUID != b.UUID || len(a.Earlier) != 0 || done.Paused != 0 {
		t.Errorf("moved: %+v and %+v, %+v", a, b, done)
	}
	list, err := k.Recover(t.Context(), pid)
	if err != nil || len(list) != 1 || list[0].Paused {
		t.Fatalf("recovered %+v, %v", list, err)
	}
	goesOn(t, k, pid, acked)
}

func infoOf(t *testing.T, k agentkernel.Kernel) agentkernel.KernelInfo {
	t.Helper()
	info, err := k.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// compareJournals wants the acknowledged calls in the copy, and nothing that the original does not have.
func compareJournals(t *testing.T, copied, original agentkernel.Kernel, pid agentkernel.PID, acked int64) {
	t.Helper()
	got, err := copied.Journal(t.Context(), pid, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	want, err := original.Journal(t.Context(), pid, 1, len(got))
	if err != nil {
		t.Fatal(err)
	}
	calls := int64(0)
	for i, e := range got {
		if i == len(got)-1 && e.Kind == agentkernel.EntryPaused {
			break
		}
		a, _ := json.Marshal(e) // entries came as JSON
		b, _ := json.Marshal(want[i])
		if string(a) != string(b) {
			t.Fatalf("pid %d entry %d is %.200s, was %.200s", pid, i+1, a, b)
		}
		if e.Kind == agentkernel.EntryCall && e.Done {
			calls++
		}
	}
	if calls < acked {
		t.Errorf("pid %d: %d calls were acknowledged before the backup, %d are in it", pid, acked, calls)
	}
}

// goesOn repeats what a hosted program has done, which its journal answers, and then does one thing more.
func goesOn(t *testing.T, k *embedded.Kernel, pid agentkernel.PID, acked int64) {
	t.Helper()
	entries, err := k.Journal(t.Context(), pid, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	calls := int64(0)
	for _, e := range entries {
		calls = max(calls, e.Call)
	}
	caller, err := k.Attach(t.Context(), pid, agentkernel.Attaching{})
	if err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= calls+1; n++ {
		if _, err := caller.Issue(callOf(n))(t.Context()); err != nil {
			t.Fatalf("call %d of %d, of which %d were acknowledged: %v", n, calls, acked, err)
		}
	}
	after, err := k.Journal(t.Context(), pid, int64(len(entries)), 0)
	if err != nil || after[len(after)-1].Call != calls+1 {
		t.Errorf("the call after the restored ones: %+v, %v", after[len(after)-1], err)
	}
}
