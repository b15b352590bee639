package process

import (
	"fmt"
	"time"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/clip"
	"agentkernel/internal/sandbox/confine"
)

func failTurn(e *agentkernel.Error) agentkernel.Turn {
	return agentkernel.Turn{Kind: agentkernel.TurnFail, Err: e}
}

func limitError(limit, format string, args ...any) *agentkernel.Error {
	return agentkernel.LimitErrorf(limit, limit+" limit reached: "+format, args...)
}

// maxTraceback bounds what a guest may put into an error.
const maxTraceback = 256 << 10

// programFailed is the turn for an error that nobody in the program caught.
func programFailed(m *message, limits agentkernel.Limits, ran time.Duration) agentkernel.Turn {
	e := &agentkernel.Error{Code: agentkernel.CodeProgram, Op: "run", Exception: clip.At(m.Exception, 256),
		Traceback: clip.At(m.Traceback, maxTraceback), Err: fmt.Errorf("%s", clip.At(m.Message, maxTraceback))}
	var limit *agentkernel.Error
	switch m.Limit {
	case "time":
		switch limit = timeLimit(limits, ran); {
		case ran >= time.Duration(limits.Time):
		case limits.CPUTime > 0: // the system told it, and not the kernel
			limit = cpuLimit(limits)
		default:
			limit = unseenTime(limits, cpuTime(limits))
		}
	case "memory":
		limit = memoryLimit(limits)
	case "recursion":
		limit = limitError("recursion", "calls were nested deeper than the limit of %d", limits.Recursion)
	default:
		limit = struckLimit(m.Limit, limits)
	}
	if limit != nil {
		limit.Traceback, limit.Exception = e.Traceback, e.Exception
		return failTurn(limit)
	}
	if m.Syntax {
		e.Code = agentkernel.CodeSyntax
	}
	return failTurn(e)
}

func timeLimit(l agentkernel.Limits, ran time.Duration) *agentkernel.Error {
	return limitError("time", "the program ran for %s, its limit is %s", ran.Round(time.Millisecond), l.Time)
}

// unseenTime is the error for a program that computed while it waited, until it had all the CPU time that --time gives.
func unseenTime(l agentkernel.Limits, cpu time.Duration) *agentkernel.Error {
	return limitError("time", "threads and processes of the program have computed for %s, also while it waited; more than that a running time of %s does not give", cpu, l.Time)
}

// cpuTime is the CPU time that a program may have. Where none is set, it may be what as many processors as are allowed can give in
// the running time, and some more: processes may run on while the program as a whole waits.
func cpuTime(l agentkernel.Limits) time.Duration {
	if l.CPUTime > 0 {
		return time.Duration(l.CPUTime)
	}
	return time.Duration(float64(l.Time)*max(1, min(l.CPUs, 4096))) + cpuSlack
}

// cpuSlack is CPU time that a program may use beyond its running time: the kernel's clock is the first to end it.
var cpuSlack = 10 * time.Second

func cpuLimit(l agentkernel.Limits) *agentkernel.Error {
	return limitError("cpu_time", "the program and what it started used their CPU time of %s", l.CPUTime)
}

func memoryLimit(l agentkernel.Limits) *agentkernel.Error {
	return limitError("memory", "the program needed more memory than its limit of %s", bytesize.InMiB(l.Memory))
}

// sandboxLimit is the error for a limit that sandboxes have of themselves; nil if it is one of the program's.
func sandboxLimit(limit string, l agentkernel.Limits) *agentkernel.Error {
	switch limit {
	case confine.MemoryOfAll:
		return memoryOfAll()
	case confine.HiddenMemory:
		return hiddenMemory()
	case confine.Watches:
		return watchesLimit()
	case confine.Locks:
		return locksLimit()
	case confine.Descriptors:
		return descriptorsLimit(confine.Limits{OpenFiles: l.OpenFiles, Pids: l.Pids})
	}
	return nil
}

func memoryOfAll() *agentkernel.Error {
	return limitError("all_memory", "the memory ran out that all programs have together, of the machine or of the cgroup in which the kernel runs; this one had not reached its own limit").
		WithHint("run fewer programs at a time, or have each use less; a container in which the kernel runs may be given more")
}

func hiddenMemory() *agentkernel.Error {
	return limitError("hidden_memory", "the program ran a process that the kernel may not look into, so that what Linux keeps for it could not be counted").
		WithHint("run no file that it may execute and not read; or start the kernel as root, who may look into all")
}

func watchesLimit() *agentkernel.Error {
	return limitError("watches", "the program's epolls waited for more than %d descriptors, or for too many of those for which Linux lets all programs of this user wait (fs.epoll.max_user_watches)", confine.MostWatches).
		WithHint("wait for fewer descriptors, in fewer epolls, or in fewer programs at a time")
}

func locksLimit() *agentkernel.Error {
	return limitError("locks", "the program held more than %d locks of files, or the most while all programs of this kernel held more than %d; whoever closes a file has to look through all of its locks", confine.MostLocks, confine.MostLocksOfAll).
		WithHint("hold fewer locks at a time: one range in place of many")
}

func descriptorsLimit(l confine.Limits) *agentkernel.Error {
	return limitError("open_files", "the program's processes had more than %d files, pipes and sockets open together", l.Descriptors()).
		WithHint("close in each process what it does not need, or start fewer; together they may have 16 for each of --files %d, or 64 for each of --pids %d, whichever is more", l.OpenFiles, l.Pids)
}

func outputLimit(l agentkernel.Limits) *agentkernel.Error {
	return limitError("output", "the program printed more than its limit of %s", bytesize.InMiB(l.Output))
}
