package monty

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// limitMemory caps the address space of a worker. The engine has its own limit for the program's heap; this
// is the wall behind it. It cannot be raised again by the worker, nor by us without privilege.
func limitMemory(pid int, wall uint64) error {
	lim := unix.Rlimit{Cur: wall, Max: wall}
	return unix.Prlimit(pid, unix.RLIMIT_AS, &lim, nil)
}

// heapMeter reads how much data a process has mapped. It keeps the file open: parking asks often.
type heapMeter struct{ file *os.File }

// size gives bytes; 0 if that cannot be told.
func (h *heapMeter) size(pid int) int64 {
	if h.file == nil {
		var err error
		if h.file, err = os.Open("/proc/" + strconv.Itoa(pid) + "/statm"); err != nil {
			return 0
		}
	}
	var buf [128]byte
	n, _ := h.file.ReadAt(buf[:], 0) // io.EOF always comes with it
	fields := bytes.Fields(buf[:n])  // size resident shared text lib data dt, in pages
	if len(fields) < 6 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[5]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

func (h *heapMeter) close() {
	if h.file != nil {
		_ = h.file.Close()
	}
}
