package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// open removes what an earlier kernel with this name has left and makes the directory for this one.
func (g *groups) open(name string) error {
	g.name = "agentkernel." + name
	for _, h := range g.hierarchies {
		if err := clearGroup(filepath.Join(h.base, g.name)); err != nil {
			return err
		}
		h.sweep()
		if err := h.found(g.name); err != nil {
			return err
		}
	}
	return nil
}

// found makes the directory of a kernel.
func (h *hierarchy) found(name string) error {
	dir := filepath.Join(h.base, name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("no cgroup can be made in %s: %w", h.base, err)
	}
	if h.v2 && len(h.controllers) > 0 {
		if err := writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+"+strings.Join(h.controllers, " +")); err != nil {
			return fmt.Errorf("%s does not get its controllers: %w", dir, err)
		}
	}
	h.leaveToMachine(dir)
	return nil
}

// What of the machine all sandboxes of a kernel leave to others, as divisors.
const (
	sparePids   = 4
	spareMemory = 16
)

// leaveToMachine bounds what all sandboxes of a kernel take together: each has its own limits, and a program may have many
// children. What a group above may have counts as the machine does: the kernel itself is often in there, as in a container. A machine
// that does not let it is as it was without.
func (h *hierarchy) leaveToMachine(dir string) {
	if slices.Contains(h.controllers, ctlPids) {
		pids, err := readInt("/proc/sys/kernel/pid_max")
		threads, err2 := readInt("/proc/sys/kernel/threads-max")
		if n := h.least(min(pids, threads), "pids.max"); err == nil && err2 == nil && n > sparePids {
			_ = writeFile(filepath.Join(dir, "pids.max"), strconv.FormatInt(n-n/sparePids, 10))
		}
	}
	if slices.Contains(h.controllers, ctlMemory) {
		file := "memory.limit_in_bytes"
		if h.v2 {
			file = "memory.max"
		}
		info, _ := readSmall("/proc/meminfo")
		if n := h.least(kibibytes(string(info), "MemTotal"), file); n > 0 {
			_ = writeFile(filepath.Join(dir, file), strconv.FormatInt(n-n/spareMemory, 10))
		}
	}
}

// least is n, or the least limit in such a file of the groups from base up, if that is less.
func (h *hierarchy) least(n int64, file string) int64 {
	for dir := h.base; ; dir = filepath.Dir(dir) {
		if limit, err := readInt(filepath.Join(dir, file)); err == nil && limit > 0 { // "max" is no number
			n = min(n, limit)
		}
		if dir == filepath.Dir(dir) {
			return n
		}
	}
}

// abandoned is how old an empty group must be to belong to no start that is under way.
const abandoned = 10 * time.Minute

// sweep removes old groups without processes, of kernels that were killed and never came back. A kernel that is
// alive makes its directory again when it needs it.
func (h *hierarchy) sweep() {
	for _, pattern := range []string{"agentkernel.*/*", "agentkernel.*"} {
		dirs, _ := filepath.Glob(filepath.Join(h.base, pattern)) // the patterns are good ones
		for _, dir := range dirs {
			if info, err := os.Stat(dir); err == nil && info.IsDir() && time.Since(info.ModTime()) > abandoned {
				_ = unix.Rmdir(dir) // refused where there is a process or a group in it
			}
		}
	}
}

func (g *groups) close() error {
	g.mu.Lock()
	g.closed, g.kept = true, nil
	g.mu.Unlock()
	var errs []error
	for _, h := range g.hierarchies {
		if g.name != "" {
			errs = append(errs, clearGroup(filepath.Join(h.base, g.name)))
		}
	}
	return errors.Join(errs...)
}

// clearGroup kills everything in a group and below, and removes it.
func clearGroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := clearGroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return removeGroup(dir)
}

// groupPatience bounds how long a group's last processes may take to die.
const groupPatience = 5 * time.Second

// removeGroup removes a group without groups below it, killing what is in it.
func removeGroup(dir string) error {
	deadline := time.Now().Add(groupPatience)
	for wait := 50 * time.Microsecond; ; wait *= 2 {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("cgroup %s cannot be removed: %w", dir, err)
		}
		for _, pid := range readWords(filepath.Join(dir, "cgroup.procs")) {
			if n, err := strconv.Atoi(pid); err == nil && n > 1 && n != os.Getpid() {
				_ = unix.Kill(n, unix.SIGKILL)
			}
		}
		<-time.After(min(wait, 10*time.Millisecond))
	}
}
