//go:build !linux

package monty

// limitMemory does nothing here: only Linux can cap another process. The engine's own limit holds.
func limitMemory(int, uint64) error { return nil }

// heapMeter cannot read another process's memory here.
type heapMeter struct{}

func (heapMeter) size(int) int64 { return 0 }
func (heapMeter) close()         {}
