// Package progress says of a process that makes the same call over and over, and gets the same answer, that it makes no progress; and
// of one that begins again and again, since its sandbox is killed each time. What is counted is in its journal (history.Repeats,
// the last entry); the package decides by that alone, and stops nothing: that is the kernel's.
package progress

import (
	"fmt"
	"time"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/history"
)

// Stuck says why a process does not make a call; "": it does. call is what its journal would have of it, name
// its name in a sentence.
func Stuck(l *agentkernel.Limits, a *history.Account, call *agentkernel.Entry, name func() string) string {
	if a.Repeats == nil || l.Repeats.Off() || a.Repeats.Times < int64(l.Repeats) {
		return ""
	}
	times, since := a.Repeats.Row(history.CallPrint(call.Op, call.Args))
	if times == 0 {
		return ""
	}
	return fmt.Sprintf(advice.Repeats, clip.Short(name()), times, since.UTC().Format(time.RFC3339))
}

// Note is the note of a pause for what Stuck says.
func Note(why string) string { return agentkernel.NoProgress + why + advice.ResumeRepeats }

// Ends is the error with which a process ends for what Stuck says; nil: it is paused, and waits for somebody. A child ends, unless it is
// detached: its parent may wait for it, without a limit, and then stands still for a reason that nobody is told.
func Ends(s *agentkernel.Spec, why string) *agentkernel.Error {
	if s.Parent == 0 || s.Detached {
		return nil
	}
	return agentkernel.LimitErrorf("repeats", "repeats limit reached: %s", why).WithHint(advice.MoreRepeats)
}
