// Package eviction says whose sandbox goes first when there is no room for another one.
package eviction

import "agentkernel"

// Rank is what decides about a sandbox.
type Rank struct {
	Images  bool  // there are images of it
	Ready   bool  // it only lacks a slot
	LastRun int64 // when it last left its slot
	PID     agentkernel.PID
}

// Before compares two sandboxes that may go: those of which there are images go before those that have to be repeated, those
// that wait before those that are ready, of the waiting the one that has waited longest, of the ready the one that runs last.
func (r Rank) Before(o Rank) bool {
	switch {
	case r.Images != o.Images:
		return r.Images
	case r.Ready != o.Ready:
		return o.Ready
	case r.LastRun == o.LastRun:
		return r.PID < o.PID
	case r.Ready:
		return r.LastRun > o.LastRun
	}
	return r.LastRun < o.LastRun
}
