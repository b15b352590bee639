package reaper

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"agentkernel"
)

// The records of one kernel incarnation are one directory, named by its owner: kernel.json and one file for
// each living child. Losing one costs little: the mark in the environment finds the child as well.
const kernelFile = "kernel.json"

// kernelRecord says when PIDs and start times of this directory mean something.
type kernelRecord struct {
	PID   int    `json:"pid"`
	Start int64  `json:"start"` // as in child
	Boot  string `json:"boot"`  // names the boot and the PID namespace
	// At is the directory of the records, as the file system numbers it: a copy of it has another number. "": a version before wrote them.
	At string `json:"at,omitempty"`
}

// numberOf is how the file system numbers a directory; "": that cannot be told.
func numberOf(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// process is the kernel's, if it still runs.
func (k *kernelRecord) process() (p proc, lives bool) {
	if k.PID <= 1 || k.PID == os.Getpid() || k.Boot != boot() {
		return p, false
	}
	p, ok := look(k.PID)
	return p, ok && p.start == k.Start && !p.dead
}

// child is one started command. Its process group has its PID as number.
type child struct {
	PID     int    `json:"pid"`
	Start   int64  `json:"start"`   // start time in the system's own unit; 0 if it was gone before it was read
	Session int    `json:"session"` // of the kernel, and so of the group
	Mark    string `json:"mark"`
	Command string `json:"command"` // base name, for people
	Guard   bool   `json:"guard,omitempty"`
}

func (c child) proc() proc { return proc{pid: c.PID, start: c.Start} }

func newChild(mark, command string, pid int) child {
	c := child{PID: pid, Mark: mark, Command: command}
	// The child is not waited for yet, so its PID cannot mean another process here.
	if p, ok := look(c.PID); ok {
		c.Start, c.Session = p.start, p.session
	}
	return c
}

func (c child) owns(mark string) bool { return mark == c.Mark }

func ownedBy(owner string) func(mark string) bool {
	return func(mark string) bool { return strings.HasPrefix(mark, owner+"/") }
}

func (c child) file(dir string) string {
	_, n, _ := strings.Cut(c.Mark, "/")
	return filepath.Join(dir, n+".json")
}

// save may fail (a full disk): the parent-death signal and the mark still hold, so the child may run.
func (c child) save(dir string) {
	if b, err := json.Marshal(c); err == nil {
		_ = os.WriteFile(c.file(dir), b, 0o600)
	}
}

func (c child) forget(dir string) { _ = os.Remove(c.file(dir)) }

func writeKernel(dir string) error {
	rec := kernelRecord{PID: os.Getpid(), Boot: boot(), At: numberOf(dir)}
	if p, ok := look(rec.PID); ok {
		rec.Start = p.start
	}
	b, err := json.Marshal(rec)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, kernelFile), b, 0o600)
	}
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeStorage, op, "children cannot be recorded: %w", err)
	}
	return nil
}

// readRecords reads what an incarnation recorded. Damaged files are skipped: a kernel that was killed while
// it wrote one leaves half a line, and the mark is in the directory's name.
func readRecords(dir string) (kernel kernelRecord, children []child, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return kernel, nil, err
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return kernel, nil, err
		}
		var c child
		switch {
		case e.Name() == kernelFile:
			_ = json.Unmarshal(b, &kernel)
		case json.Unmarshal(b, &c) == nil && c.PID > 1 && c.Start > 0:
			children = append(children, c)
		}
	}
	return kernel, children, nil
}

// removeRecords removes exactly what this package writes, and nothing that someone put beside it.
func removeRecords(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeStorage, op, "records of a dead kernel cannot be read: %w", err)
	}
	for _, e := range entries {
		name, isJSON := strings.CutSuffix(e.Name(), ".json")
		if _, err := strconv.ParseInt(name, 10, 64); isJSON && (err == nil || e.Name() == kernelFile) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	if err := os.Remove(dir); err != nil {
		return agentkernel.Errorf(agentkernel.CodeStorage, op, "records of a dead kernel cannot be removed: %w", err)
	}
	return nil
}
