package confine

import (
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Argument is the hidden first argument that makes the executable a spawner.
const Argument = "__confine"

// Launcher starts and kills child processes so that none outlives the kernel; reaper.Reaper is one.
type Launcher interface {
	// Start starts cmd in a process group of its own.
	Start(cmd *exec.Cmd) error
	// Kill kills its whole group, and does nothing if the command has ended.
	Kill(cmd *exec.Cmd)
}

// SpawnerConfig says how to build sandboxes.
type SpawnerConfig struct {
	Launcher Launcher
	// Name is the data directory's, the same at each start, letters, digits and dashes: what an earlier
	// kernel of that name has left in cgroups is killed and removed.
	Name string
	// Executable is the program that becomes the spawner, one whose main calls Main; "" means this process's own,
	// if it has called Main, else agentkernel on PATH.
	Executable string
	// NoCgroups leaves cgroups alone, as on a machine where none can be made.
	NoCgroups bool
}

// Identity is who a sandbox is outside, as the machine counts: the caller for an ordinary user, a high number
// that nobody else has where the kernel runs as root.
type Identity struct {
	UID, GID uint32
}

// Exit is how a program ended.
type Exit struct {
	// Known says that Status is the program's own; false if the whole sandbox was killed, or adopted.
	Known  bool
	Status syscall.WaitStatus
	// Limit is the limit of the sandbox that ended it: "memory", MemoryOfAll, HiddenMemory, Watches, Locks, Descriptors, "cpu time", or "".
	Limit string
	Usage Usage
}

// MemoryOfAll is the limit of a sandbox that had less than its own when the memory ran out that all have: that of the machine, or of a
// group above.
const MemoryOfAll = "memory of all"

// HiddenMemory is the limit of a sandbox in which a process ran whose memory nothing could count.
const HiddenMemory = "hidden memory"

// Watches is the limit of a sandbox whose epolls wait for more than its part of what Linux lets the kernel's user have.
const Watches = "epoll watches"

// MostWatches is how many descriptors the epolls of a sandbox may wait for. A program waits for a descriptor or two in each process, or for
// a thousand in one; as many as these are found in some 20 ms, so that few are added meanwhile.
const MostWatches = 64 << 10

// Locks is the limit of a sandbox that holds more locks of files than MostLocks, or the most while all together hold more than MostLocksOfAll.
const Locks = "file locks"

// MostLocks is how many locks of files a sandbox may hold. They hang on the file, where everyone who closes it looks through them,
// also outside: an SQLite database has a handful for each connection.
const MostLocks = 4096

// MostLocksOfAll is how many all sandboxes of a kernel may hold together.
const MostLocksOfAll = 4 * MostLocks

// Descriptors is the limit of a sandbox whose processes have more descriptors together than Limits.Descriptors.
const Descriptors = "descriptors"

// Usage is what a sandbox has used.
type Usage struct {
	CPU         time.Duration // user and system, of processes that ended in good order
	Memory      int64         // the most at a time, bytes; by cgroup, else as the watchdog saw it
	RefusedPids int64         // how often a process or thread was refused by the process limit; 0 without cgroup
	PidsFull    bool          // without cgroup: there were once as many processes and threads as may be
	TmpFull     bool          // nothing more could be written to TmpDir; it is not known of a Child
}

// String is for messages: "exit 1", "killed by segmentation fault", "memory limit".
func (e Exit) String() string {
	switch {
	case e.Limit != "":
		return e.Limit + " limit"
	case !e.Known:
		return "killed"
	case e.Status.Signaled():
		return "killed by " + e.Status.Signal().String()
	}
	return "exit " + strconv.Itoa(e.Status.ExitStatus())
}
