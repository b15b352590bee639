package confine

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// census is what sandboxes take while they run: descriptors of the kernel and of the spawner, by what they
// are, the spawner's children, and cgroups but those that are kept for the next.
type census struct {
	kernel, spawner  map[string]int
	children, groups int
}

// count takes a census. The spawner must run.
func count(t *testing.T, s *Spawner) census {
	t.Helper()
	spawner := s.helper.cmd.Process.Pid
	if os.Geteuid() != 0 { // the process in the user namespace
		inner := childrenOf(spawner)
		if len(inner) != 1 {
			t.Fatalf("the outer spawner has %d children, not the spawner alone", len(inner))
		}
		spawner = inner[0]
	}
	c := census{kernel: descriptorsOf(t, os.Getpid()), spawner: descriptorsOf(t, spawner), children: len(childrenOf(spawner))}
	kept := s.machine.groups.keptDirs()
	for _, h := range s.machine.groups.hierarchies {
		dir := filepath.Join(h.base, s.machine.groups.name)
		entries, _ := os.ReadDir(dir) // gone is empty
		for _, e := range entries {
			if e.IsDir() && !slices.Contains(kept, filepath.Join(dir, e.Name())) {
				c.groups++
			}
		}
	}
	return c
}

// keptDirs are the cgroups that wait to be used again.
func (g *groups) keptDirs() (dirs []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, gr := range g.kept {
		dirs = append(dirs, gr.counted.Dirs...)
	}
	return dirs
}

// descriptorsOf counts what a process has open: "pipe:[123]", "anon_inode:[pidfd]", a path. What is closed
// while it looks is not there.
func descriptorsOf(t *testing.T, pid int) map[string]int {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]int{}
	for _, n := range names {
		if what, err := os.Readlink(filepath.Join(dir, n.Name())); err == nil {
			open[what]++
		}
	}
	return open
}

// beyond says what c has that before did not have; "" if nothing. What was open before and is no longer is no
// leak: it is of an earlier test.
func (c census) beyond(before census) string {
	var more []string
	if c.children > before.children {
		more = append(more, fmt.Sprintf("the spawner has %d children", c.children))
	}
	if c.groups > before.groups {
		more = append(more, fmt.Sprintf("%d cgroups", c.groups))
	}
	for _, p := range []struct {
		who         string
		now, before map[string]int
	}{{"the kernel", c.kernel, before.kernel}, {"the spawner", c.spawner, before.spawner}} {
		for _, what := range slices.Sorted(maps.Keys(p.now)) {
			if n := p.now[what] - p.before[what]; n > 0 {
				more = append(more, fmt.Sprintf("%s has %d of %s", p.who, n, what))
			}
		}
	}
	if n := len(more) - 10; n > 0 {
		more = append(more[:10], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(more, ", ")
}
