package confine

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// Counted says what a sandbox's cgroups enforce over its whole tree. The zero value: nothing, there are none.
type Counted struct {
	Dirs              []string // for Plan.Cgroups
	Memory, Pids, CPU bool
	Freezer           bool   // the tree can be frozen from outside
	CPUTime           bool   // all CPU time of the tree is known, also of processes that nobody waited for
	Version           string // "1" or "2"
	Why               string // why something is missing
}

func (c Counted) walls(l Limits) []Wall {
	how := "cgroup version " + c.Version + ", "
	wall := func(name string, on bool, by, instead string) Wall {
		if on {
			return Wall{Name: name, On: true, How: how + by}
		}
		return Wall{Name: name, On: true, How: instead + " (" + c.Why + ")"}
	}
	cpus := strconv.FormatFloat(l.CPUs, 'g', -1, 64)
	walls := []Wall{
		wall("memory limit", c.Memory, size(l.Memory), size(l.Memory)+", by a watchdog that looks every "+watchEvery.String()),
		wall("process limit", c.Pids, strconv.Itoa(l.Pids), strconv.Itoa(l.Pids)+", by RLIMIT_NPROC of the user namespace"),
	}
	if c.Memory {
		walls = append(walls, Wall{Name: "kernel memory", On: true, How: how + "counted with the program's own"})
	} else {
		walls = append(walls, Wall{Name: "kernel memory", On: false, How: "page tables, pipes, sockets and descriptors are counted by looking; " +
			"what is on its way between sockets is not (" + c.Why + ")"})
	}
	if c.CPU {
		walls = append(walls, Wall{Name: "CPU limit", On: true, How: how + cpus})
	} else {
		walls = append(walls, Wall{Name: "CPU limit", On: false, How: "only a cgroup can slow a program down (" + c.Why + ")"})
	}
	if l.CPUTime > 0 {
		walls = append(walls, Wall{Name: "CPU time limit", On: true, How: l.CPUTime.String() + ", RLIMIT_CPU and a watchdog" + c.uncountedCPU()})
	}
	files := Wall{Name: "file limits", On: true, How: fmt.Sprintf("%d open, %s each", l.OpenFiles, size(l.FileSize))}
	return append(walls, files)
}

// uncountedCPU says what of the CPU time is missed without a cgroup.
func (c Counted) uncountedCPU() string {
	if c.CPUTime {
		return ""
	}
	return "; processes that live for a few milliseconds and that nobody waits for are not counted (" + c.Why + ")"
}

// group is one sandbox's cgroups.
type group struct {
	counted Counted
	dirs    map[string]string // by controller
	v2      map[string]bool
	limits  Limits
	made    time.Time

	cpuBefore time.Duration // what its counter said when the sandbox got it
}

// cpuPeriod is the period of CPU quotas, in microseconds.
const cpuPeriod = 100_000

// quota is the time on processors in a period, in microseconds.
func (l Limits) quota() int { return max(1000, int(l.CPUs*cpuPeriod)) }

// make gives the cgroups of a sandbox, with its limits set: some that were used before, or new ones.
func (g *groups) make(l Limits) (*group, error) {
	if gr := g.again(l); gr != nil {
		gr.cpuBefore, _ = gr.cpuCounter()
		return gr, nil
	}
	n := g.count.Add(1)
	gr := &group{dirs: map[string]string{}, v2: map[string]bool{}, counted: Counted{Why: g.why}, limits: l, made: time.Now()}
	for _, h := range g.hierarchies {
		dir := filepath.Join(h.base, g.name, strconv.FormatInt(n, 10))
		err := unix.Mkdir(dir, 0o755)
		if errors.Is(err, unix.ENOENT) { // another kernel has swept it away
			if err = h.found(g.name); err == nil {
				err = unix.Mkdir(dir, 0o755)
			}
		}
		if err != nil {
			return nil, errors.Join(agentkernel.Errorf(agentkernel.CodeUnavailable, op, "no cgroup for the sandbox: %w", err), gr.remove())
		}
		gr.counted.Dirs = append(gr.counted.Dirs, dir)
		for _, c := range h.controllers {
			gr.dirs[c], gr.v2[c] = dir, h.v2
		}
		gr.counted.Version = map[bool]string{true: "2", false: "1"}[h.v2]
		if h.v2 {
			gr.dirs[ctlFreezer], gr.v2[ctlFreezer] = dir, true
		}
	}
	if err := gr.limit(l); err != nil {
		return nil, errors.Join(agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the sandbox's cgroup refuses a limit: %w", err), gr.remove())
	}
	_, gr.counted.Memory = gr.dirs[ctlMemory]
	_, gr.counted.Pids = gr.dirs[ctlPids]
	_, gr.counted.CPU = gr.dirs[ctlCPU]
	_, gr.counted.Freezer = gr.dirs[ctlFreezer]
	_, gr.counted.CPUTime = gr.dirs[ctlAcct]
	gr.counted.CPUTime = gr.counted.CPUTime || gr.counted.Freezer
	return gr, nil
}

// setting is one limit, in both versions' words. Optional files are not on every machine: swap may not be
// counted, and a tree not be killed as one.
type setting struct {
	controller, v1, v2 string
	value1, value2     string
	optional           bool
}

func (gr *group) limit(l Limits) error {
	memory := strconv.FormatInt(l.Memory, 10)
	quota := strconv.Itoa(l.quota())
	for _, s := range []setting{
		{ctlMemory, "memory.limit_in_bytes", "memory.max", memory, memory, false},
		{ctlMemory, "memory.memsw.limit_in_bytes", "memory.swap.max", memory, "0", true},
		{ctlMemory, "", "memory.oom.group", "", "1", true},
		{ctlPids, "pids.max", "pids.max", strconv.Itoa(l.Pids + 1), strconv.Itoa(l.Pids + 1), false}, // and the init
		{ctlCPU, "cpu.cfs_period_us", "", strconv.Itoa(cpuPeriod), "", false},
		{ctlCPU, "cpu.cfs_quota_us", "cpu.max", quota, quota + " " + strconv.Itoa(cpuPeriod), false},
	} {
		dir, ok := gr.dirs[s.controller]
		file, value := s.v1, s.value1
		if gr.v2[s.controller] {
			file, value = s.v2, s.value2
		}
		if !ok || file == "" {
			continue
		}
		if err := writeFile(filepath.Join(dir, file), value); err != nil && (!s.optional || !errors.Is(err, unix.ENOENT)) {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// remove kills what is left in the cgroups and removes them.
func (gr *group) remove() error {
	var errs []error
	for _, dir := range gr.counted.Dirs {
		errs = append(errs, removeGroup(dir))
	}
	return errors.Join(errs...)
}

// freeze stops or continues the whole tree, and returns when it is so.
func (gr *group) freeze(stop bool, patience time.Duration) error {
	dir, want := gr.dirs[ctlFreezer], "0"
	if stop {
		want = "1"
	}
	if err := writeFile(filepath.Join(dir, "cgroup.freeze"), want); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; {
		if (counter(filepath.Join(dir, "cgroup.events"), "frozen") == 1) == stop {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("its cgroup does not freeze")
		}
		<-time.After(time.Millisecond)
	}
}

// counter reads one line "name number" of a file; 0 if it is not there.
func counter(path, name string) int64 {
	b, _ := readSmall(path) // no file, no count
	for line := range strings.SplitSeq(string(b), "\n") {
		if v, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseInt(v, 10, 64)
			return n
		}
	}
	return 0
}

// outOfMemory is how often the system had to kill a process of the sandbox for its memory limit.
func (gr *group) outOfMemory() int64 {
	dir := gr.dirs[ctlMemory]
	if gr.v2[ctlMemory] {
		return counter(filepath.Join(dir, "memory.events"), "oom_kill")
	}
	return counter(filepath.Join(dir, "memory.oom_control"), "oom_kill")
}

// whoseMemory is the limit for which a process was killed: the sandbox's own, or that of all. Version 2 counts in a group how often
// its own limit could not be met, and not what a group above could not do. For version 1 it is that of all if the sandbox never had
// nearly as much as its own, and its own where nobody knows what it had.
func (gr *group) whoseMemory() string {
	all := false
	if gr.v2[ctlMemory] {
		all = counter(filepath.Join(gr.dirs[ctlMemory], "memory.events"), "oom") == 0
	} else if peak := gr.peak(); peak > 0 {
		all = peak < gr.limits.Memory-gr.limits.Memory/8
	}
	if all {
		return MemoryOfAll
	}
	return "memory"
}

// refusedPids is how often the sandbox was refused a process or thread.
func (gr *group) refusedPids() int64 {
	return counter(filepath.Join(gr.dirs[ctlPids], "pids.events"), "max")
}

// tasks is how many processes and threads there are; where nobody counts them, more than there can be.
func (gr *group) tasks() int64 {
	n, err := readInt(filepath.Join(gr.dirs[ctlPids], "pids.current"))
	if err != nil || !gr.counted.Pids {
		return 1 << 20
	}
	return n
}

// mostWithSwap is the file of version 1 that counts also what is in the swap; not there where nobody counts that.
const mostWithSwap = "memory.memsw.max_usage_in_bytes"

// peak is the most memory that the sandbox has had, in bytes; 0 if it is not known. Its limit counts what is in the swap in version 1, and lets nothing
// into it in version 2.
func (gr *group) peak() int64 {
	dir := gr.dirs[ctlMemory]
	if gr.v2[ctlMemory] {
		n, _ := readInt(filepath.Join(dir, "memory.peak"))
		return n
	}
	n, _ := readInt(filepath.Join(dir, "memory.max_usage_in_bytes"))
	both, _ := readInt(filepath.Join(dir, mostWithSwap))
	return max(n, both)
}
