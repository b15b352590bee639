// Package limits says which limit of a process something goes beyond, and what can be done about that. It is told what was
// used, and never ends or stops anything: that is the kernel's.
package limits

import (
	"fmt"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/kernel/advice"
)

// watchdogGrace is what a backend gets beyond the time limit to end the program by itself.
const watchdogGrace = 5 * time.Second

// maxDepth is how many processes may stand above a process.
const maxDepth = 32

func reached(name, limit, used string) *agentkernel.Error {
	return agentkernel.LimitErrorf(name, "%s limit of %s reached (used %s)", name, limit, used)
}

// Calls ends a process that makes more calls than it may; nil: it may make this one.
func Calls(l *agentkernel.Limits, number int64) *agentkernel.Error {
	if number <= l.Calls {
		return nil
	}
	return reached("calls", fmt.Sprint(l.Calls), fmt.Sprint(number)).WithHint(advice.MoreCalls)
}

// TimeLeft is how long a program may run on that has run for so long, before the kernel ends it.
func TimeLeft(l *agentkernel.Limits, ran time.Duration) time.Duration {
	return max(time.Duration(l.Time)-ran, 0) + watchdogGrace
}

// Journal ends a process with whose journals, its own and its tree's, too much was written; nil: it was not. most is what the kernel can have
// in memory to repeat one.
func Journal(l *agentkernel.Limits, written, most int64) *agentkernel.Error {
	switch {
	case written <= min(l.Journal, most):
		return nil
	case most < l.Journal:
		return reached("journal", bytesize.Text(most), bytesize.Text(written)).WithHint(advice.MoreMemory)
	}
	return reached("journal", bytesize.Text(l.Journal), bytesize.Text(written)).WithHint(advice.PassByName)
}

// Disk ends a process whose changes to its folders hold too much; nil: they do not.
func Disk(l *agentkernel.Limits, used int64, pid agentkernel.PID) *agentkernel.Error {
	if used <= l.Disk {
		return nil
	}
	return reached("disk", bytesize.Text(l.Disk), bytesize.Text(used)).WithHint(advice.MoreDisk, pid)
}

// DiskOfTree ends a process, or refuses a child, where the changes of all processes below a root hold together more than the root
// may have; nil: they do not.
func DiskOfTree(limit, used int64, root agentkernel.PID) *agentkernel.Error {
	if used <= limit {
		return nil
	}
	return agentkernel.LimitErrorf("disk", "disk limit of %s reached (used %s by all processes below process %d together)", bytesize.Text(limit), bytesize.Text(used), root).
		WithHint(advice.MoreDiskOfTree)
}

// Time ends a process that has run for too long.
func Time(l *agentkernel.Limits, used time.Duration) *agentkernel.Error {
	return reached("time", l.Time.String(), used.String())
}

// Wall ends a process that has lived for too long.
func Wall(l *agentkernel.Limits, lived time.Duration, pid agentkernel.PID) *agentkernel.Error {
	return reached("wall", l.Wall.String(), lived.Round(time.Millisecond).String()).WithHint(advice.WallCountsWaiting, pid)
}

// Output gives what a process that has printed so many bytes may print of a text; nil: all of it. Else the error ends it.
func Output(l *agentkernel.Limits, printed int64, text string) (fits string, full *agentkernel.Error) {
	if printed+int64(len(text)) <= l.Output {
		return text, nil
	}
	return strings.ToValidUTF8(text[:max(l.Output-printed, 0)], ""), reached("output", bytesize.Text(l.Output), "more")
}

// InFlight is the answer to a call that comes while so many are under way; nil: it may be one more.
func InFlight(l *agentkernel.Limits, underWay int) *agentkernel.Error {
	if underWay < l.InFlight {
		return nil
	}
	return agentkernel.LimitErrorf("in_flight", "%d calls are under way, which is the limit", l.InFlight).WithHint(advice.TakeSome)
}

// Depth is the answer to a call that would start a child below so many ancestors; nil: it may.
func Depth(op string, above int) error {
	if above < maxDepth {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeLimit, op, "%d processes stand above this one already, which is the limit", maxDepth)
}

// Processes is the answer to a call that would start one more process than may live in a tree.
func Processes(l *agentkernel.Limits) error {
	return agentkernel.LimitErrorf("processes", "%d processes of this tree live, which is its limit", l.Processes).WithHint(advice.WaitForSome)
}

// ExitCode is that of a process which an error ends: of one whose time was over it says so, whoever measured it.
func ExitCode(e *agentkernel.Error) int {
	limit, _ := e.Limit()
	if limit == "time" || limit == "wall" || e.Code == agentkernel.CodeKilled && e.Op == agentkernel.OpDeadline {
		return agentkernel.ExitTimeLimit
	}
	return e.Code.ExitCode()
}
