package progress

import "agentkernel"

// maxLosses is how often in a row a process begins again whose sandbox was killed, without coming any further: its program
// may be what draws the kill (a kernel of the operating system that is out of memory takes the largest process).
const maxLosses = 3

// Losses count the sandboxes of a process that something from outside has killed. Nil: none.
type Losses struct {
	Times int   // in a row, since the journal grew last
	at    int64 // the last entry of the journal then
}

// Another counts one more; last is the last entry of the journal.
func (l *Losses) Another(last int64) *Losses {
	if l == nil || last > l.at {
		l = &Losses{}
	}
	return &Losses{Times: l.Times + 1, at: last}
}

// TooMany is the error that ends the process, whose sandbox was lost because of why once more; nil: it may begin again.
func (l *Losses) TooMany(why *agentkernel.Error) *agentkernel.Error {
	if l.Times <= maxLosses {
		return nil
	}
	return agentkernel.Errorf(why.Code, why.Op, "%s (it began again %d times, and each time it came no further)", why.Message(), maxLosses).
		WithHint("look for what kills it (memory, a watchdog: dmesg says)")
}
