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

// Note says why a process is paused before it makes a call; "": it need not be. call is what its journal would have of it, name
// its name in a sentence.
func Note(l *agentkernel.Limits, a *history.Account, call *agentkernel.Entry, name func() string) string {
	if a.Repeats == nil || l.Repeats.Off() || a.Repeats.Times < int64(l.Repeats) {
		return ""
	}
	times, since := a.Repeats.Row(history.CallPrint(call.Op, call.Args))
	if times == 0 {
		return ""
	}
	return agentkernel.NoProgress + fmt.Sprintf(advice.Repeats, clip.Short(name()), times, since.UTC().Format(time.RFC3339))
}
