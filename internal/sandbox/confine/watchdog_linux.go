package confine

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// watchdog looks at a sandbox's processes now and then, and kills the sandbox for a limit that nothing else
// enforces: memory where no cgroup counts it, CPU time over the whole tree, and any process that the system
// had to kill for memory.
type watchdog struct {
	process *Process
	load    load
	files   *filesLook
	cpu     cpuTotal
	hasty   bool // processes come and go, so that it has to look more often
	again   bool // it has looked at descriptors before it was time to
	ended   chan struct{}
	once    sync.Once
	done    sync.WaitGroup
	looks   atomic.Int64 // at descriptors
	most    atomic.Int64
	crowded atomic.Bool  // there were as many processes as may be, and no cgroup counted them
	cause   atomic.Value // string
}

// watch starts a watchdog, if there is something to watch.
func watch(p *Process) *watchdog {
	init := 0
	if p.control != nil {
		init = p.pid
	}
	w := &watchdog{process: p, ended: make(chan struct{}), load: load{most: p.cell.Config.Limits.Memory},
		files: newFilesLook(p.cell.Config, init, p.cell.group.counted.Memory, p.cell.spawner.watches.each)}
	switch p.cell.Config.Kind {
	case Zygote, Bare: // the one has no limits, the other's are its one process's own
		return w
	}
	w.done.Go(w.run)
	return w
}

const (
	// watchEvery is how often the watchdog looks, watchCloser how often while memory grows fast.
	watchEvery  = 50 * time.Millisecond
	watchCloser = 5 * time.Millisecond
	// watchShare is the part of the time that it may take for it, as a divisor.
	watchShare = 5
	// watchLatest is the longest time between two looks.
	watchLatest = time.Second
)

func (w *watchdog) run() {
	for wait := watchEvery; ; {
		timer := time.NewTimer(wait)
		select {
		case <-w.ended:
			timer.Stop()
			return
		case <-timer.C:
		}
		begun, before := time.Now(), w.most.Load()
		w.files.took, w.files.grows, w.again = 0, false, false
		if limit := w.look(); limit != "" {
			w.cause.Store(limit)
			w.process.Kill()
			return
		}
		wait = watchEvery
		rest := watchShare * (time.Since(begun) - w.files.took) // that has a time of its own
		if w.again {
			rest += w.files.took
		}
		if w.most.Load()-before > w.load.most/16 || w.files.blind > 0 || w.files.grows || w.hasty {
			wait = watchCloser
		}
		wait = max(wait, min(rest, watchLatest))
	}
}

// look names the limit that is exceeded, or "".
func (w *watchdog) look() string {
	limits, gr := w.process.cell.Config.Limits, w.process.cell.group
	w.process.tmp.look()
	idle := gr.counted.Memory && w.process.cell.spawner.machine.root && !w.files.lists.worth(gr, limits) // nobody has to look at the processes
	if gr.counted.Memory {
		if gr.outOfMemory() > 0 {
			return gr.whoseMemory()
		}
		if limits.CPUTime == 0 && idle {
			return ""
		}
	}
	var tree []int
	if limits.CPUTime > 0 {
		cpu, ok := gr.cpuUsed()
		if !ok {
			tree = treeOf(w.process.pid)
			cpu, w.hasty = w.cpu.of(tree)
		}
		if cpu > limits.CPUTime {
			return "cpu time"
		}
	}
	if idle {
		return ""
	}
	if tree == nil {
		tree = treeOf(w.process.pid)
	}
	all := seeAll(tree)
	due := w.files.due()
	if due {
		if limit := w.lookAtFiles(all); limit != "" {
			return limit
		}
	}
	if gr.counted.Memory {
		return ""
	}
	memory, tasks := w.load.of(all, w.files.sum)
	if !due && memory > limits.Memory && memory-w.files.sum.memory() <= limits.Memory {
		// What lay in a pipe at the last look may be a process's own memory by now, and count twice.
		w.again = true
		if limit := w.lookAtFiles(all); limit != "" {
			return limit
		}
		memory, tasks = w.load.of(all, w.files.sum)
	}
	if w.process.control != nil {
		tasks-- // the init
	}
	if !gr.counted.Pids && tasks >= limits.Pids {
		w.crowded.Store(true)
	}
	w.most.Store(max(w.most.Load(), memory))
	if memory > limits.Memory {
		return "memory"
	}
	return ""
}

// lookAtFiles looks at what the processes have open, and names the limit that is exceeded by it, or "".
func (w *watchdog) lookAtFiles(all []seen) string {
	defer w.looks.Add(1)
	return w.limitOf(w.files.of(all))
}

// limitOf names the limit that is exceeded by what processes have open, or "".
func (w *watchdog) limitOf(open openFiles) string {
	s := w.process.cell.spawner
	watches, locks := s.watches.exceeded(w.process, open.watches), s.locks.exceeded(w.process, open.locks)
	switch most := w.files.most; {
	case open.lists+open.buffers > most.lists: // no cgroup counts them
		w.most.Store(max(w.most.Load(), open.lists+open.buffers))
		return "memory"
	case open.descriptors > most.descriptors:
		return Descriptors
	case locks:
		return Locks
	case watches:
		return Watches
	case w.files.blind >= mostBlind:
		return HiddenMemory
	}
	return ""
}

// stop ends the watching. A limit that the system itself enforced is found here at the latest.
func (w *watchdog) stop() {
	w.once.Do(func() { close(w.ended) })
	w.done.Wait()
	w.process.cell.spawner.watches.drop(w.process)
	w.process.cell.spawner.locks.drop(w.process)
	gr := w.process.cell.group
	if gr.counted.Memory {
		if w.limit() == "" && gr.outOfMemory() > 0 {
			w.cause.Store(gr.whoseMemory())
		}
		w.most.Store(max(w.most.Load(), gr.peak()))
	}
	if s := w.process.exit; w.limit() == "" && s.Known && s.Status.Signaled() && s.Status.Signal() == unix.SIGXCPU {
		w.cause.Store("cpu time")
	}
}

func (w *watchdog) limit() string {
	s, _ := w.cause.Load().(string)
	return s
}

func (w *watchdog) peak() int64 { return w.most.Load() }

// treeOf lists a process and its descendants. In a sandbox that is all there is: orphans become children of
// its pid 1.
func treeOf(pid int) []int {
	children := childrenOf
	if _, err := os.Stat("/proc/thread-self/children"); err != nil { // a Linux without CONFIG_PROC_CHILDREN
		children = childrenByParent()
	}
	return descend(pid, children)
}

func descend(pid int, children func(int) []int) []int {
	tree := []int{pid}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children(tree[i])...)
	}
	return tree
}

// childrenByParent asks every process of the machine for its parent.
func childrenByParent() func(pid int) []int {
	byParent := map[int][]int{}
	entries, _ := os.ReadDir("/proc") // without it there is no tree
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if f := statFields(pid); len(f) > 1 {
			parent, _ := strconv.Atoi(f[1])
			byParent[parent] = append(byParent[parent], pid)
		}
	}
	return func(pid int) []int { return byParent[pid] }
}

// statFields are the fields of /proc/PID/stat after the name, which may hold anything (proc_pid_stat(5)); nil if
// the process is gone. The first is the state, field 3.
func statFields(pid int) []string { return fieldsOf("/proc/" + strconv.Itoa(pid) + "/stat") }

func fieldsOf(stat string) []string {
	b, _ := os.ReadFile(stat)
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

func childrenOf(pid int) (list []int) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, t := range threads {
		for _, word := range readWords(dir + "/" + t.Name() + "/children") {
			if n, err := strconv.Atoi(word); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}

// ticks is how many clock ticks a second has in /proc/PID/stat (USER_HZ).
const ticks = 100

// signalTree signals all processes of a tree, again until no new one has appeared.
func signalTree(pid int, sig unix.Signal) error {
	seen := map[int]bool{}
	for range 100 {
		fresh := false
		for _, n := range treeOf(pid) {
			if seen[n] {
				continue
			}
			seen[n], fresh = true, true
			if err := unix.Kill(n, sig); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		if !fresh {
			return nil
		}
	}
	return errors.New("it makes processes faster than they can be stopped")
}

// quietPasses is how often a tree must be seen standing still before it counts as stopped.
const quietPasses = 3

// stopTree stops all processes of a tree, and returns when they have stopped. A process that still runs may wake those
// that were stopped before it, and make new ones; so it looks again until nothing has moved for some passes.
func stopTree(pid int, patience time.Duration) error {
	for quiet, deadline := 0, time.Now().Add(patience); quiet < quietPasses; quiet++ {
		for _, n := range treeOf(pid) {
			if standsStill(n) {
				continue
			}
			quiet = -1
			if err := unix.Kill(n, unix.SIGSTOP); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		if quiet < 0 && time.Now().After(deadline) {
			return errors.New("its processes wake one another faster than they can be stopped")
		}
	}
	return nil
}

// standsStill says whether every thread of a process is stopped or has ended. The first of them says nothing about the
// others: it may have ended alone.
func standsStill(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, _ := os.ReadDir(dir) // it is gone: none
	for _, t := range threads {
		if f := fieldsOf(dir + t.Name() + "/stat"); len(f) > 0 && !strings.Contains("TtZX", f[0]) {
			return false
		}
	}
	return true
}

// cpuSeconds is a CPU time limit as RLIMIT_CPU takes it: whole seconds, rounded up; 0 is none.
func cpuSeconds(d time.Duration) uint64 {
	return uint64((d + time.Second - 1) / time.Second) //nolint:gosec // not negative
}
