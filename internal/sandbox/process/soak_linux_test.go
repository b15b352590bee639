package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	mrand "math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/sandbox/confine"
)

// soakRuns is how many programs are run: 200 in the suite, 200 for each of AGENTKERNEL_SOAK in `make soak`.
func soakRuns(t *testing.T) int {
	t.Helper()
	s := os.Getenv("AGENTKERNEL_SOAK")
	if s == "" {
		return 200
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("AGENTKERNEL_SOAK=%q is not a number", s)
	}
	return 200 * n
}

// soaking is one soak test.
type soaking struct {
	t        *testing.T
	b        *Backend
	mark     string // in the names of files and the arguments of processes that programs make
	temp     string // what the kernel makes temporary files in
	folders  string // the folders of programs are in here
	upset    atomic.Int64
	well     atomic.Int64
	outcomes sync.Map // agentkernel.Code -> *atomic.Int64
	name     string   // of the spawner, and so of its cgroups
}

// Programs that end well, fail, crash, are killed from outside, run into limits, are given up at any moment, and whose
// zygote is killed: none leaves a process, a mount, a cgroup, a descriptor, a file or memory behind.
func TestSoak(t *testing.T) {
	s := &soaking{t: t, mark: "soak" + strings.ToLower(rand.Text()), temp: t.TempDir(), folders: t.TempDir()}
	t.Setenv("TMPDIR", s.temp)
	s.name = "processtest-" + s.mark
	spawner, err := confine.NewSpawner(confine.SpawnerConfig{Launcher: plainLauncher{}, Name: s.name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := spawner.Close(); err != nil {
			t.Error(err)
		}
		if left := s.groups(); left != 0 {
			t.Errorf("%d cgroups are left of a spawner that is closed", left)
		}
	})
	s.b = newBackend(t, func(c *Config) { c.Spawner, c.Grace = spawner, 50*time.Millisecond })
	mustExit(t, s.b, "print(1)")
	s.rounds(100) // caches are filled, the heap has its size
	before := s.rest()
	begun, n := time.Now(), soakRuns(t)
	s.rounds(n)
	after := s.rest()
	for deadline := time.Now().Add(time.Minute); after.beyond(before) != "" && time.Now().Before(deadline); {
		<-time.After(100 * time.Millisecond)
		after = s.rest()
	}
	took := time.Since(begun)
	t.Logf("%d programs in %s; before: %s; after: %s", n, took.Round(time.Second), before, after)
	s.outcomes.Range(func(code, count any) bool {
		t.Logf("ended with %q: %d", code, count.(*atomic.Int64).Load())
		return true
	})
	if left := after.beyond(before); left != "" {
		t.Errorf("left over: %s", left)
	}
	if s.well.Load() < int64(n)/30 {
		t.Errorf("only %d programs of those that should have ended well", s.well.Load())
	}
}

// rounds runs programs, eight at a time.
func (s *soaking) rounds(n int) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range next {
				s.one(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// soakPrograms are texts with the mark at %s. The first ends well.
var soakPrograms = []string{
	"open('/tmp/%s', 'w').write('x' * 10000)\nprint('well')",
	"open('/tmp/%s', 'w')\n1 / 0",
	"import os\nos._exit(3) # %s",
	"import os\nos.abort() # %s",
	"while True: pass # %s",
	"import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nimport subprocess\nsubprocess.run(['sleep', '1000', '--%[1]s'], stderr=-3)\nwhile True: pass",
	"import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 1000', '%s'])",
	"import os, time\nif os.fork() == 0:\n    os.setsid()\n    open('/tmp/%s', 'w')\n    time.sleep(1000)\nif os.fork() == 0:\n    while True: pass",
	"import kernel\nkernel.self() # %s",
	"x = []\nwhile True: x.append('%s' * 10000)",
	"import os\nfor i in range(100): os.open('/tmp/%s', os.O_CREAT)\nos.execv('/bin/true', ['true'])",
	"import time\nopen('/tmp/%s', 'w')\ntime.sleep(1000)",
}

// soakScripts are the same for a shell.
var soakScripts = []string{"echo well > /tmp/%s", "kill -9 $$ # %s", "(setsid sleep 1000 %[1]s &); sleep 1000 %[1]s", "exit 3 # %s", "while :; do :; done # %s"}

// one runs a program to some end.
func (s *soaking) one(i int) {
	upset := s.upset.Load()
	r := newRun(s.t, s.b, fmt.Sprintf(soakPrograms[mrand.IntN(len(soakPrograms))], s.mark))
	if mrand.IntN(10) == 0 {
		r.req.Program = shell(fmt.Sprintf(soakScripts[mrand.IntN(len(soakScripts))], s.mark))
	}
	healthy := mrand.IntN(10) == 0
	if healthy {
		r = newRun(s.t, s.b, fmt.Sprintf(soakPrograms[0], s.mark))
	} else {
		r.req.Limits.Time = agentkernel.Duration(time.Duration(20+mrand.IntN(60)) * time.Millisecond)
		r.req.Limits.Memory = 64 << 20
		r.req.Limits.Pids = 20 + mrand.IntN(3) // not always those of the children that wait
	}
	if mrand.IntN(20) == 0 {
		dir := s.folder()
		r.req.Mounts = []agentkernel.Mount{{Source: dir + "/w", Scratch: dir + "/s"}}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if !healthy && mrand.IntN(4) == 0 {
		defer time.AfterFunc(time.Duration(mrand.IntN(15000))*time.Microsecond, cancel).Stop()
	}
	box, err := s.b.Start(ctx, r.req)
	if err == nil {
		if !healthy {
			defer s.trouble(i, box)()
		}
		var turn agentkernel.Turn
		turn, err = box.Next(ctx, nil)
		if turn.Err != nil {
			err = turn.Err
		}
		err = errors.Join(err, box.Close())
	}
	s.judge(healthy, upset, err, r.out.String())
}

// judge says what is wrong with the end of a program.
func (s *soaking) judge(healthy bool, upset int64, err error, printed string) {
	code := agentkernel.CodeOf(err)
	if errors.Is(err, context.Canceled) {
		code = agentkernel.CodeCanceled
	}
	count, _ := s.outcomes.LoadOrStore(code, new(atomic.Int64))
	count.(*atomic.Int64).Add(1)
	calm := upset%2 == 0 && upset == s.upset.Load() // no zygote was being killed
	switch {
	case healthy && err == nil && printed == "well\n":
		s.well.Add(1)
	case healthy && calm:
		s.t.Errorf("a program that nobody disturbed ended with %v and printed %q", err, printed)
	case code == agentkernel.CodeInternal, err != nil && code == agentkernel.CodeUnavailable && calm:
		s.t.Errorf("a program ended with %v", err)
	}
}

// trouble comes from outside at a random moment; the function that it returns ends it.
func (s *soaking) trouble(i int, box agentkernel.Sandbox) (end func()) {
	var harm func()
	switch own, _ := box.(*sandbox); {
	case own != nil && i%500 == 499:
		harm = func() {
			s.upset.Add(1)
			own.c.z.kill(errors.New("the soak test wants it"))
			<-own.c.z.gone
			s.upset.Add(1)
		}
	case own != nil && i%5 == 1:
		harm = func() { own.c.signal(9) } // from outside, as by the system that is out of memory
	case i%5 == 2:
		harm = func() { _ = box.Close() }
	default:
		return func() {}
	}
	done := make(chan struct{})
	timer := time.AfterFunc(time.Duration(mrand.IntN(15000))*time.Microsecond, func() { defer close(done); harm() })
	return func() {
		if !timer.Stop() {
			<-done
		}
	}
}

// folder makes a workspace and the directory for its changes. They stay until the end: a start that is given up returns
// before its child is dead, which may still be mounting them.
func (s *soaking) folder() string {
	dir, err := os.MkdirTemp(s.folders, "")
	for _, name := range []string{"/w", "/s"} {
		err = errors.Join(err, os.Mkdir(dir+name, 0o755))
	}
	if err != nil {
		s.t.Error(err)
	}
	return dir
}

// leftovers is what there is while no program runs.
type leftovers struct {
	processes, marked, mounts, descriptors, groups, files, goroutines int
	heap, resident, others                                            int64 // bytes; others: of all processes below us
}

// rest waits until only children that wait are there, and counts.
func (s *soaking) rest() leftovers {
	s.t.Helper()
	mustExit(s.t, s.b, "print(1)")
	mustExit(s.t, s.b, "print(1)")
	mustExit(s.t, s.b, "print(1)") // the limits of those that wait are the usual ones again
	eventually(s.t, "two wait and nothing else", func() bool {
		st := s.b.Stats()
		return st.Children == 2 && st.Waiting == 2 && st.Zygotes == 1
	})
	eventually(s.t, "the cgroups of the others are gone", func() bool { return s.groups() <= mostGroups })
	runtime.GC() // what pools keep is let go by the second
	debug.FreeOSMemory()
	var l leftovers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l.heap, l.goroutines, l.groups = int64(m.HeapAlloc), runtime.NumGoroutine(), s.groups() //nolint:gosec // small
	l.resident = int64(proportional(os.Getpid()) * (1 << 20))
	for pid := range below(os.Getpid()) {
		if pid != os.Getpid() {
			l.processes++
			l.others += int64(proportional(pid) * (1 << 20))
		}
		l.mounts += linesOf(pid, "mountinfo")
		fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)) // gone: none
		l.descriptors += len(fds)
	}
	l.marked = s.markedProcesses()
	for _, dir := range []string{s.temp, "/tmp", "/dev/shm", "/var/tmp"} {
		found, _ := filepath.Glob(filepath.Join(dir, s.mark+"*")) // a good pattern
		l.files += len(found)
	}
	inTemp, _ := os.ReadDir(s.temp)
	l.files += len(inTemp)
	return l
}

// mostGroups are the cgroups of two that wait, and those that are kept to be used again: memory, pids, cpu and cpuacct.
const mostGroups = (2 + confine.KeptGroups) * 4

// slack is memory that may be more after many runs: a heap has no exact size, and pages shared with a process that has
// ended are no longer shared.
const slack = 24 << 20

// beyond says what is there that was not; "" if nothing.
func (l leftovers) beyond(before leftovers) string {
	var more []string
	for _, n := range []struct {
		what        string
		now, before int64
	}{
		{"processes", int64(l.processes), int64(before.processes)}, {"processes of programs", int64(l.marked), 0},
		{"mounts", int64(l.mounts), int64(before.mounts)}, {"cgroups", int64(l.groups), mostGroups},
		{"descriptors", int64(l.descriptors), int64(before.descriptors) + 6}, // of calls that are just under way
		{"files", int64(l.files), 0}, {"goroutines", int64(l.goroutines), int64(before.goroutines) + 6},
		{"bytes of heap", l.heap, before.heap + slack}, {"bytes of the kernel", l.resident, before.resident + slack},
		{"bytes of zygote and spawner", l.others, before.others + slack},
	} {
		if n.now > n.before {
			more = append(more, fmt.Sprintf("%d %s, %d before", n.now, n.what, n.before))
		}
	}
	return strings.Join(more, "; ")
}

func (l leftovers) String() string {
	return fmt.Sprintf("%d processes, %d mounts, %d cgroups, %d descriptors, %d goroutines, heap %s, memory %s and below it %s",
		l.processes, l.mounts, l.groups, l.descriptors, l.goroutines, bytesize.InMiB(l.heap), bytesize.InMiB(l.resident), bytesize.InMiB(l.others))
}

// groups counts the cgroups of sandboxes.
func (s *soaking) groups() (n int) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, "agentkernel."+s.name+"/") {
			n++
		}
		return nil // what is gone is gone
	})
	return n
}

// below lists a process and its descendants.
func below(root int) map[int]bool {
	tree := map[int]bool{root: true}
	for grew := true; grew; {
		grew = false
		for pid := range maps.Clone(tree) {
			tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // a good pattern
			for _, task := range tasks {
				text, _ := os.ReadFile(task) // gone: none
				for _, word := range strings.Fields(string(text)) {
					if n, err := strconv.Atoi(word); err == nil && !tree[n] {
						tree[n], grew = true, true
					}
				}
			}
		}
	}
	return tree
}

func linesOf(pid int, file string) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)) // gone: none
	return strings.Count(string(text), "\n")
}

// markedProcesses counts the machine's processes that a program has started, wherever they are.
func (s *soaking) markedProcesses() int {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline") // a good pattern
	return len(slices.DeleteFunc(all, func(file string) bool {
		text, _ := os.ReadFile(file) // gone: none
		return !strings.Contains(string(text), s.mark)
	}))
}
