package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestSandboxesTogetherLeaveSomething looks at the limits of the group in which those of all sandboxes are.
func TestSandboxesTogetherLeaveSomething(t *testing.T) {
	s := newSpawner(t)
	pids, err := readInt("/proc/sys/kernel/pid_max")
	if err != nil {
		t.Fatal(err)
	}
	info, err := readSmall("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	memory := kibibytes(string(info), "MemTotal")
	for _, h := range s.machine.groups.hierarchies {
		check := func(controller, file string, most int64) {
			if !slices.Contains(h.controllers, controller) {
				return
			}
			if n, err := readInt(filepath.Join(h.base, s.machine.groups.name, file)); err != nil || n <= 0 || n > most {
				t.Errorf("%s: %d of %d, %v", file, n, most, err)
			}
		}
		check(ctlPids, "pids.max", pids*3/4+1)
		check(ctlMemory, map[bool]string{false: "memory.limit_in_bytes", true: "memory.max"}[h.v2], memory*15/16+1)
	}
}

// TestWhoseMemoryRanOut: a program that is killed although it has less than it may have is not told that it reached its own limit.
func TestWhoseMemoryRanOut(t *testing.T) {
	s := newSpawner(t)
	for _, c := range []struct {
		above, own int64
		want       string
	}{{96 << 20, 512 << 20, MemoryOfAll}, {1 << 30, 96 << 20, "memory"}} {
		cfg := pythonConfig(t, "a = []\nwhile True: a.append(bytearray(1 << 20))")
		cfg.Limits.Memory = c.own
		cell, err := s.Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		counted := cell.group.counted.Memory
		_ = cell.Close()
		if !counted {
			t.Skip("no cgroup counts memory here")
		}
		for _, h := range s.machine.groups.hierarchies {
			if !slices.Contains(h.controllers, ctlMemory) {
				continue
			}
			dir, most := filepath.Join(h.base, s.machine.groups.name), strconv.FormatInt(c.above, 10)
			file, swap, swapped := "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", most
			if h.v2 {
				file, swap, swapped = "memory.max", "memory.swap.max", "0"
			}
			_ = writeFile(filepath.Join(dir, swap), swapped) // in version 1 the memory with the swap is never less than without: which goes first depends
			if err := writeFile(filepath.Join(dir, file), most); err != nil {
				t.Fatal(err)
			}
			if err := writeFile(filepath.Join(dir, swap), swapped); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		if exit := launchWhole(t, s, cfg).finish(t); exit.Limit != c.want {
			t.Errorf("%+v, want %q", exit, c.want)
		}
	}
}

// TestWhoseMemoryIsCounted has directories with the files of both versions: what a program read from disks counts as what it had, so that only
// version 2, which counts whose limit could not be met, knows it of one that had filled its limit with that.
func TestWhoseMemoryIsCounted(t *testing.T) {
	const own = 100 << 20
	for name, c := range map[string]struct {
		files map[string]string
		v2    bool
		want  string
	}{
		"its own":                            {map[string]string{"memory.max_usage_in_bytes": "104857600"}, false, "memory"},
		"that of all":                        {map[string]string{"memory.max_usage_in_bytes": "52428800"}, false, MemoryOfAll},
		"its own, most of it in the swap":    {map[string]string{"memory.max_usage_in_bytes": "52428800", "memory.memsw.max_usage_in_bytes": "104857600"}, false, "memory"},
		"that of all, some of it in it":      {map[string]string{"memory.max_usage_in_bytes": "52428800", "memory.memsw.max_usage_in_bytes": "62428800"}, false, MemoryOfAll},
		"nobody knows":                       {nil, false, "memory"},
		"version 2: its own":                 {map[string]string{"memory.events": "max 9\noom 1\noom_kill 3\n", "memory.peak": "104857600"}, true, "memory"},
		"version 2: that of all":             {map[string]string{"memory.events": "max 0\noom 0\noom_kill 3\n", "memory.peak": "52428800"}, true, MemoryOfAll},
		"version 2: that of all, full files": {map[string]string{"memory.events": "max 9\noom 0\noom_kill 3\n", "memory.peak": "104857600"}, true, MemoryOfAll},
		"an older one: its own":              {map[string]string{"memory.events": "max 9\noom 1\noom_kill 3\n"}, true, "memory"},
		"an older one: that of all":          {map[string]string{"memory.events": "max 0\noom 0\noom_kill 3\n"}, true, MemoryOfAll},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		gr := &group{dirs: map[string]string{ctlMemory: dir}, v2: map[string]bool{ctlMemory: c.v2}, limits: Limits{Memory: own}}
		if got := gr.whoseMemory(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestAGroupAboveCounts has the kernel in a group that may have less than the machine, as in a container.
func TestAGroupAboveCounts(t *testing.T) {
	for name, c := range map[string]struct {
		tree         map[string]string
		v2           bool
		memory, pids string
	}{
		"its own":      {map[string]string{"a/memory.max": "1600", "a/b/memory.max": "max", "a/pids.max": "400", "a/b/pids.max": "max"}, true, "1500", "300"},
		"of version 1": {map[string]string{"memory.limit_in_bytes": "9223372036854771712", "a/b/memory.limit_in_bytes": "1600", "a/b/pids.max": "400"}, false, "1500", "300"},
	} {
		top := t.TempDir()
		file := map[bool]string{false: "memory.limit_in_bytes", true: "memory.max"}[c.v2]
		c.tree["a/b/kernel/"+file], c.tree["a/b/kernel/pids.max"] = "", ""
		for p, text := range c.tree {
			if err := os.MkdirAll(filepath.Join(top, filepath.Dir(p)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(top, p), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		h := hierarchy{v2: c.v2, base: filepath.Join(top, "a/b"), controllers: []string{ctlMemory, ctlPids}}
		h.leaveToMachine(filepath.Join(h.base, "kernel"))
		for p, want := range map[string]string{file: c.memory, "pids.max": c.pids} {
			if got, err := os.ReadFile(filepath.Join(h.base, "kernel", p)); err != nil || string(got) != want {
				t.Errorf("%s, %s: %s, want %s, %v", name, p, got, want, err)
			}
		}
	}
}

func TestCgroupsAreFound(t *testing.T) {
	const (
		systemd = `30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate`
		hybrid  = `31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 23 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
34 23 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw`
		container = `40 39 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw`
	)
	for _, tc := range []struct {
		name, mounts, own string
		want              []string // path within the mount, by mount point
	}{
		{"systemd", systemd, "0::/user.slice/user-1000.slice/session-1.scope\n", []string{"/sys/fs/cgroup: user.slice/user-1000.slice/session-1.scope"}},
		{"hybrid", hybrid, "3:memory:/a/b\n2:cpu,cpuacct:/\n1:name=systemd:/x\n0::/y\n",
			[]string{"/sys/fs/cgroup/unified: y", "/sys/fs/cgroup/memory: a/b", "/sys/fs/cgroup/cpu,cpuacct: .", "/sys/fs/cgroup/systemd: x"}},
		{"container", container, "0::/docker/abc/app\n", []string{"/sys/fs/cgroup: app"}},
		{"container that sees another part", container, "0::/elsewhere\n", nil},
		{"nothing", "", "", nil},
		{"nonsense", "x y - cgroup2\n - \n", "::\n0\n", nil},
	} {
		var got []string
		for _, m := range cgroupMounts(tc.mounts) {
			if path, ok := m.ownPath(tc.own); ok {
				got = append(got, m.point+": "+path)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// TestVersion2IsDivided has directories with the files of cgroup v2 that say who may divide what.
func TestVersion2IsDivided(t *testing.T) {
	for _, tc := range []struct {
		name string
		tree map[string]string // directory: controllers / handed down / processes
		own  string
		base string
		why  string
		ctls string
	}{
		{name: "a service with Delegate=yes whose parent hands down", own: "a/b", base: "a", ctls: "memory pids cpu",
			tree: map[string]string{".": "-", "a": "memory pids cpu/memory pids cpu/", "a/b": "+memory pids cpu//1 2"}},
		{name: "two controllers only", own: "a", base: ".", ctls: "memory pids",
			tree: map[string]string{".": "memory pids/memory pids io/", "a": "+memory pids//7"}},
		{name: "nobody hands down", own: "a", why: "Delegate=yes",
			tree: map[string]string{".": "-memory pids cpu/memory pids cpu/", "a": "-memory pids cpu//7"}},
		{name: "no controllers at all", own: "a", tree: map[string]string{".": "hugetlb//", "a": "hugetlb//7"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			for dir, text := range tc.tree {
				dir = filepath.Join(root, dir)
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				text, locked := strings.CutPrefix(text, "-")
				text, busy := strings.CutPrefix(text, "+") // has processes of its own: it cannot hand down
				f := append(strings.Split(text, "/"), "", "")
				for i, name := range []string{"cgroup.controllers", "cgroup.subtree_control", "cgroup.procs"} {
					if busy && name == "cgroup.subtree_control" {
						continue
					}
					if locked && name == "cgroup.procs" {
						continue // even root cannot write what is not there
					}
					if err := os.WriteFile(filepath.Join(dir, name), []byte(f[i]), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			m := cgroupMount{point: root, v2: true}
			h, why := m.usable2(tc.own)
			if (h == nil) != (tc.base == "") || !strings.Contains(why, tc.why) || (tc.why == "" && why != "") {
				t.Fatalf("%+v, %q", h, why)
			}
			if h != nil && (h.base != filepath.Join(root, tc.base) || strings.Join(h.controllers, " ") != tc.ctls) {
				t.Errorf("%+v", h)
			}
		})
	}
}

func TestGroupsEnforce(t *testing.T) {
	m := Look()
	if len(m.groups.hierarchies) == 0 {
		t.Skipf("no cgroups can be made here: %s", m.groups.why)
	}
	s := newSpawner(t)
	gr, err := s.machine.groups.make(Limits{Memory: 32 << 20, Pids: 9, CPUs: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	for controller, want := range map[string][2]string{
		ctlMemory: {"memory.limit_in_bytes 33554432", "memory.max 33554432"},
		ctlPids:   {"pids.max 10", "pids.max 10"},
		ctlCPU:    {"cpu.cfs_quota_us 50000", "cpu.max 50000 100000"},
	} {
		dir, ok := gr.dirs[controller]
		if !ok {
			continue
		}
		file, value, _ := strings.Cut(want[map[bool]int{false: 0, true: 1}[gr.v2[controller]]], " ")
		if got := strings.Join(readWords(filepath.Join(dir, file)), " "); got != value {
			t.Errorf("%s is %q, want %q", file, got, value)
		}
	}
	if err := gr.remove(); err != nil {
		t.Error(err)
	}
	// Another kernel sweeps what looks abandoned; the next sandbox is made all the same.
	for _, h := range s.machine.groups.hierarchies {
		if err := os.Remove(filepath.Join(h.base, s.machine.groups.name)); err != nil {
			t.Fatal(err)
		}
	}
	if gr, err = s.machine.groups.make(Limits{Memory: 32 << 20, Pids: 9, CPUs: 0.5}); err != nil {
		t.Fatal(err)
	}
	if err := gr.remove(); err != nil {
		t.Error(err)
	}
}

// TestGroupsAreUsedAgain: as if they were new, or not at all.
func TestGroupsAreUsedAgain(t *testing.T) {
	s := newSpawner(t)
	g := s.machine.groups
	limits := Limits{Memory: 64 << 20, Pids: 9, CPUs: 0.5}
	made := func(l Limits) *group {
		t.Helper()
		gr, err := g.make(l)
		if err != nil {
			t.Fatal(err)
		}
		return gr
	}
	first := made(limits)
	if !g.keep(first) {
		t.Skip("these cgroups are not kept: they are not all of version 1")
	}
	if gr := made(limits); gr != first {
		t.Fatal("cgroups that were kept are not used again")
	}
	ate := exec.Command("python3", "-c", "import sys\nsys.stdin.read(1)\nx = b'x' * (32 << 20)\nprint(1)")
	in, err := ate.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := ate.Start(); err != nil {
		t.Fatal(err)
	}
	if err := join(first.counted.Dirs, ate.Process.Pid); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	if err := ate.Wait(); err != nil {
		t.Fatal(err)
	}
	if peak := first.peak(); peak < 32<<20 {
		t.Fatalf("the peak is %d", peak)
	}
	g.keep(first)
	if gr := made(limits); gr.peak() > keptMemory {
		t.Errorf("the peak of those before is told: %d", gr.peak())
	} else if gr != first {
		t.Log("too much memory was left")
	}

	busy := made(limits)
	sleeps := exec.Command("sleep", "1000")
	if err := sleeps.Start(); err != nil {
		t.Fatal(err)
	}
	if err := join(busy.counted.Dirs, sleeps.Process.Pid); err != nil {
		t.Fatal(err)
	}
	g.keep(busy)
	if gr := made(limits); gr == busy {
		t.Error("cgroups with somebody in them are used again")
	}
	if err := sleeps.Wait(); err == nil {
		t.Error("who was in them is still there")
	}

	other := made(limits)
	g.keep(other)
	limits.Pids++
	if gr := made(limits); gr == other {
		t.Error("cgroups with other limits are used")
	}
	old := made(limits)
	old.made = old.made.Add(-2 * keptFor)
	if g.keep(old) {
		t.Error("cgroups are kept that another kernel may sweep away")
	}
	for n := range KeptGroups + 1 {
		if kept := g.keep(&group{dirs: old.dirs, counted: Counted{}, made: time.Now()}); kept != (n < KeptGroups) {
			t.Errorf("%d are kept: %v", n+1, kept)
		}
	}
	if err := g.close(); err != nil {
		t.Error(err)
	}
	if g.keep(other) {
		t.Error("cgroups are kept that nobody will remove")
	}
}

// TestALimitIsSetWhileSignalsCome: version 1 gives up a change of a memory limit for any signal, such as those of the scheduler.
func TestALimitIsSetWhileSignalsCome(t *testing.T) {
	g := newSpawner(t).machine.groups
	gr, err := g.make(Limits{Memory: 64 << 20, Pids: 9, CPUs: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	defer gr.remove()
	dir := gr.dirs[ctlMemory]
	if dir == "" || gr.v2[ctlMemory] {
		t.Skip("memory is not counted by a cgroup of version 1, which alone lets a signal end it")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid, done := unix.Gettid(), make(chan struct{})
	var signals sync.WaitGroup
	signals.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG) // as the scheduler of Go sends it
			}
		}
	})
	defer signals.Wait()
	defer close(done)
	for i := range 2_000 {
		if err := writeFile(filepath.Join(dir, "memory.limit_in_bytes"), strconv.Itoa((64-i%2)<<20)); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
}

func TestOnlyAbandonedGroupsAreSwept(t *testing.T) {
	h := hierarchy{base: t.TempDir()}
	old := time.Now().Add(-2 * abandoned)
	for _, dir := range []string{"agentkernel.dead/1", "agentkernel.young", "agentkernel.busy/7/process", "other"} {
		if err := os.MkdirAll(filepath.Join(h.base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"agentkernel.dead/1", "agentkernel.dead", "agentkernel.busy/7/process", "agentkernel.busy/7", "agentkernel.busy", "other"} {
		if err := os.Chtimes(filepath.Join(h.base, dir), old, old); err != nil {
			t.Fatal(err)
		}
	}
	h.sweep()
	left, _ := filepath.Glob(h.base + "/*")
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	// agentkernel.dead lost a directory just now, and so looks young; it goes the next time.
	if diff := cmp.Diff([]string{"agentkernel.busy", "agentkernel.dead", "agentkernel.young", "other"}, left); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(h.base + "/agentkernel.dead/1"); !os.IsNotExist(err) {
		t.Error("an abandoned group is still there")
	}
}

// TestCPUIsShared gives a program a fifth of a processor and sees how long some work takes it. A busy machine makes
// that longer; only a quota that is not kept makes it shorter.
func TestCPUIsShared(t *testing.T) {
	s := newSpawner(t)
	cfg := pythonConfig(t, `
import time
begin = time.monotonic()
while time.process_time() < 0.4: pass
print(time.monotonic() - begin)`)
	cfg.Limits.CPUs = 0.2
	c, err := s.Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	counted := c.group.counted.CPU
	_ = c.Close()
	if !counted {
		t.Skip("no CPU cgroup can be made here")
	}
	r := launchWhole(t, s, cfg)
	if e := r.finish(t); e.String() != "exit 0" {
		t.Fatalf("%s\n%s", e, r.err)
	}
	took, err := strconv.ParseFloat(strings.TrimSpace(r.out.String()), 64)
	if err != nil || took < 1 {
		t.Errorf("0.4 s of work took %v s (%v), with a fifth of a processor", took, err)
	}
}
