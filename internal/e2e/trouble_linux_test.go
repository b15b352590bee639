package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/tool/tooltest"
)

// TestFullDisk: the program stops with a message that says so, nothing that was acknowledged is lost, and
// after room was made the process goes on where it stood.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "16m") // where a checkpoint comes late, its log needs room, too
	far := &book{lines: map[string]int{}}
	tools := func([]string) (agentkernel.ToolSource, error) { return far, nil }
	own := func(c *embedded.Config) { c.Tools = tools }
	k, err := embedded.Open(t.Context(), embedded.Config{Home: dir, Engine: engine(t), Version: testVersion, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	// What is left after this does not do for the program's state.
	filler := filepath.Join(dir, "filler")
	fill(t, dir, filler, 600<<10)
	s := program(`
from kernel import state
from tools.book import write
for i in range(40):
    write(line=str(i))
    state.set("k" + str(i), "x" * 30000)
print("end")
`)
	s.Tools, s.Allow = []string{"/book.json"}, []string{"book"}
	o, err := tryRun(t.Context(), k, s)
	if agentkernel.CodeOf(err) != agentkernel.CodeStorage || !strings.Contains(err.Error(), "full") {
		t.Fatalf("on a full disk: %+v %v", o.Process, err)
	}
	if _, err := k.Spawn(t.Context(), program("1")); agentkernel.CodeOf(err) != agentkernel.CodeStorage {
		t.Errorf("the kernel goes on without a store: %v", err)
	}
	_ = k.Close() // its store has failed
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	k = openEmbedded(t, dir, own)
	got, err := k.Recover(t.Context(), 0)
	if err != nil || len(got) != 1 {
		t.Fatalf("recover: %v %v", got, err)
	}
	p, err := k.Wait(t.Context(), got[0].PID)
	if err != nil || p.State != agentkernel.StateExited {
		// The one write whose result was lost raises OutcomeUnknown, which this program does not catch.
		if p.Error == nil || !strings.Contains(p.Error.Message(), "outcome_unknown") {
			t.Errorf("after room was made: %+v %v %v", p, p.Error, err)
		}
	}
	for line, n := range far.lines {
		if n != 1 {
			t.Errorf("%s was written %d times", line, n)
		}
	}
}

// smallDisk mounts a small file system, or skips.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: a full disk needs a mount, which needs root on Linux")
	}
	dir := home(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Skipf("NOT TESTED: a full disk: mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// fill leaves `left` bytes of a file system free.
func fill(t *testing.T, dir, file string, left int64) {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	room := int64(st.Bavail)*st.Bsize - left
	if err := os.WriteFile(file, make([]byte, room), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSandboxesAreKilled: whatever runs programs is killed at random moments, workers, zygotes and their children: every
// program comes to its end, and writes each line once.
func TestSandboxesAreKilled(t *testing.T) {
	const source = `
import asyncio
from tools.book import write
from tools.book.aio import write as later
async def pair(i):
    await asyncio.gather(later(line="a" + str(i)), later(line="b" + str(i)))
for i in range(8):
    write(line=str(i))
    n = 0
    while n < 20000:
        n += 1
    if i % 2:
        asyncio.run(pair(i))
print("end", n)
`
	for _, backend := range []string{"monty", "process"} {
		t.Run(backend, func(t *testing.T) {
			far := &book{lines: map[string]int{}}
			k := openEmbedded(t, home(t), withSandboxes(t), func(c *embedded.Config) {
				c.Tools = func([]string) (agentkernel.ToolSource, error) { return far, nil }
			})
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			killed, rounds := 0, kills(t, 12)
			for round := range rounds {
				far.mu.Lock()
				clear(far.lines)
				far.mu.Unlock()
				s := program(source)
				s.Backend, s.Tools, s.Allow = backend, []string{"/book.json"}, []string{"book"}
				p, err := k.Spawn(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				wait := time.NewTimer(time.Duration(rng.Int64N(int64(60 * time.Millisecond))))
				<-wait.C
				// Of the processes with an engine, some: an init, an engine, a zygote with all its children.
				for _, pid := range engines(t) {
					if rng.IntN(2) == 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
						killed++
					}
				}
				got, err := k.Wait(t.Context(), p.PID)
				if err != nil || got.State != agentkernel.StateExited {
					t.Errorf("round %d ended as %s: %v %v %s", round, got.State, got.Error, err, got.PauseNote)
				}
				far.mu.Lock()
				if len(far.lines) != 16 {
					t.Errorf("round %d wrote %d lines", round, len(far.lines))
				}
				for line, n := range far.lines {
					if n != 1 {
						t.Errorf("round %d wrote %s %d times", round, line, n)
					}
				}
				far.mu.Unlock()
				if out := stdoutOf(t, k, p.PID); out != "end 20000\n" {
					t.Errorf("round %d printed %q", round, out)
				}
			}
			if killed < rounds/2 {
				t.Errorf("only %d processes were killed in %d rounds: the test proves little", killed, rounds)
			}
		})
	}
}

// engines are the processes below this one that run an engine: Monty, or CPython.
func engines(t *testing.T) (found []int) {
	below := childrenOf(t, os.Getpid())
	for i := 0; i < len(below); i++ { // the list grows while it is walked
		below = append(below, childrenOf(t, below[i])...)
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", below[i]))
		if name := filepath.Base(exe); err == nil && (name == "monty" || strings.HasPrefix(name, "python")) {
			found = append(found, below[i])
		}
	}
	return found
}

func childrenOf(t *testing.T, parent int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// TestWithoutNetwork runs a program with a local tool server in a network namespace that has not even a
// loopback address.
func TestWithoutNetwork(t *testing.T) {
	if _, err := exec.LookPath("unshare"); err != nil || os.Geteuid() != 0 {
		t.Skip("NOT TESTED: running without network needs unshare and root")
	}
	cmd := exec.Command("unshare", "-n", os.Args[0], "-test.run=^TestRealFilesystemServer$|^TestJournalShowsWhatHappened$", "-test.v")
	cmd.Env = append(os.Environ(), "AGENTKERNEL_MONTY="+engine(t))
	_ = tooltest.NPM(t, "@modelcontextprotocol/server-filesystem") // skips or fails as it does
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS: Test") < 2 || strings.Contains(string(out), "SKIP") {
		t.Errorf("without network: %v\n%s", err, out)
	}
}

// TestProcessOutlivesItsKernelsStop: a kernel that is stopped in an orderly way leaves its processes as
// they are, and the next one continues them; nobody else does so unasked.
func TestProcessOutlivesItsKernelsStop(t *testing.T) {
	dir := home(t)
	k := openEmbedded(t, dir)
	p, err := k.Spawn(t.Context(), program("from kernel import sleep, state\nstate.set('a', 1)\nsleep(0.5)\nprint('done', state.get('a'))"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it sleeps", func() bool {
		got, err := k.Process(t.Context(), p.PID)
		return err == nil && len(got.WaitsFor) > 0
	})
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := embedded.OpenReader(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := reader.Process(t.Context(), p.PID); err != nil || got.State != agentkernel.StateUnfinished {
		t.Errorf("read without a kernel: %s %v", got.State, err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	k = openEmbedded(t, dir)
	info, err := k.Info(t.Context())
	if err != nil || info.Unfinished != 1 {
		t.Errorf("unfinished: %d %v", info.Unfinished, err)
	}
	if _, err := k.Wait(t.Context(), p.PID); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Errorf("waiting for what nobody continues: %v", err)
	}
	if _, err := k.Recover(t.Context(), p.PID); err != nil {
		t.Fatal(err)
	}
	got, err := k.Wait(t.Context(), p.PID)
	if err != nil || got.State != agentkernel.StateExited || got.Recoveries != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if d := got.Ended.Sub(got.Created); d < 400*time.Millisecond {
		t.Errorf("the sleep was cut short: %v", d)
	}
}
