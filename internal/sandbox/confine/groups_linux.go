package confine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// The cgroup controllers that are used.
const (
	ctlMemory  = "memory"
	ctlPids    = "pids"
	ctlCPU     = "cpu"
	ctlAcct    = "cpuacct" // counts CPU time; version 2 does so in every group
	ctlFreezer = "freezer" // which version 2 has built in; that of version 1 is not used: what it holds cannot be killed
)

// hierarchy is one mounted cgroup tree, as far as it can be used.
type hierarchy struct {
	v2          bool
	base        string   // the directory below which groups may be made
	controllers []string // of those above, what it offers
}

// groups makes cgroups. Sandboxes of one kernel are below one directory in each hierarchy.
type groups struct {
	hierarchies []hierarchy
	why         string // why a controller is missing, for people; "" if none is
	name        string // of the directory of this kernel
	count       atomic.Int64

	mu     sync.Mutex
	kept   []*group // without processes, to be used again; the one that was used last at the end
	closed bool
}

// findGroups looks for the cgroups that this process may divide further.
func findGroups() *groups {
	g := &groups{}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		g.why = "this Linux has no cgroups"
		return g
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		g.why = "the cgroup mounts cannot be read"
		return g
	}
	found := map[string]bool{}
	for _, m := range cgroupMounts(string(mounts)) {
		h, why := m.usable(string(own))
		if h == nil {
			if why != "" {
				g.why = why
			}
			continue
		}
		h.controllers = slices.DeleteFunc(h.controllers, func(c string) bool { return found[c] })
		for _, c := range h.controllers {
			found[c] = true
		}
		if len(h.controllers) > 0 {
			g.hierarchies = append(g.hierarchies, *h)
		}
	}
	if found[ctlMemory] && found[ctlPids] && found[ctlCPU] {
		g.why = ""
	} else if g.why == "" {
		g.why = "no cgroup with the memory, pids and cpu controllers is mounted"
	}
	return g
}

// has says whether sandboxes get groups with this controller.
func (g *groups) has(controller string) bool {
	return slices.ContainsFunc(g.hierarchies, func(h hierarchy) bool { return slices.Contains(h.controllers, controller) })
}

// cgroupMount is a line of mountinfo.
type cgroupMount struct {
	root, point string // what of the hierarchy is mounted where
	v2          bool
	controllers []string // version 1
}

// cgroupMounts reads mountinfo (proc_pid_mountinfo(5)); version 2 comes first.
func cgroupMounts(mountinfo string) []cgroupMount {
	var list []cgroupMount
	for line := range strings.SplitSeq(mountinfo, "\n") {
		front, back, ok := strings.Cut(line, " - ")
		f, r := strings.Fields(front), strings.Fields(back)
		if !ok || len(f) < 5 || len(r) < 3 {
			continue
		}
		m := cgroupMount{root: f[3], point: f[4]}
		switch r[0] {
		case "cgroup2":
			m.v2 = true
			list = slices.Insert(list, 0, m)
		case "cgroup":
			m.controllers = strings.Split(r[2], ",")
			list = append(list, m)
		}
	}
	return list
}

// usable finds where in the mounted hierarchy groups may be made; nil and a reason, if any, otherwise.
func (m cgroupMount) usable(own string) (*hierarchy, string) {
	path, ok := m.ownPath(own)
	if !ok {
		return nil, ""
	}
	if m.v2 {
		return m.usable2(path)
	}
	h := &hierarchy{base: filepath.Join(m.point, path)}
	for _, c := range []string{ctlMemory, ctlPids, ctlCPU, ctlAcct} {
		if slices.Contains(m.controllers, c) {
			h.controllers = append(h.controllers, c)
		}
	}
	if len(h.controllers) == 0 {
		return nil, ""
	}
	if unix.Access(h.base, unix.W_OK) != nil || unix.Access(filepath.Join(h.base, "cgroup.procs"), unix.W_OK) != nil {
		return nil, "this user may not make cgroups of version 1"
	}
	return h, ""
}

// ownPath is this process's place in the hierarchy, below the mount.
func (m cgroupMount) ownPath(own string) (string, bool) {
	for line := range strings.SplitSeq(own, "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		if (m.v2 && f[0] == "0") || (!m.v2 && f[1] != "" && slices.Contains(m.controllers, strings.Split(f[1], ",")[0])) {
			rel, err := filepath.Rel(m.root, f[2])
			if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
				return "", false
			}
			return rel, true
		}
	}
	return "", false
}

// usable2 goes up from our own group to one that may be divided and whose children have the controllers. A
// group with processes of its own cannot hand controllers down; only if we are alone in ours we step aside.
func (m cgroupMount) usable2(path string) (*hierarchy, string) {
	var have []string
	for dir := filepath.Join(m.point, path); ; dir = filepath.Dir(dir) {
		if unix.Access(dir, unix.W_OK) == nil && unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) == nil {
			offered := readWords(filepath.Join(dir, "cgroup.controllers"))
			have = intersect(offered)
			if len(have) > 0 && (handsDown(dir, have) || stepAside(dir, have)) {
				return &hierarchy{v2: true, base: dir, controllers: have}, ""
			}
		}
		if dir == m.point || len(dir) <= len(m.point) {
			break
		}
	}
	if len(intersect(readWords(filepath.Join(m.point, "cgroup.controllers")))) == 0 && !hasGroupAbove(m.point) {
		return nil, "" // the second half of a machine with both versions: the controllers are with the first
	}
	return nil, "this user may not divide its cgroup; run the kernel as a service with Delegate=yes, or by systemd-run --user --scope -p Delegate=yes"
}

func hasGroupAbove(point string) bool {
	_, err := os.Stat(filepath.Join(point, "cgroup.type")) // the root of the hierarchy has none
	return err == nil
}

func intersect(offered []string) (have []string) {
	for _, c := range []string{ctlMemory, ctlPids, ctlCPU} {
		if slices.Contains(offered, c) {
			have = append(have, c)
		}
	}
	return have
}

func readWords(path string) []string {
	b, _ := readSmall(path) // no file, no words
	return strings.Fields(string(b))
}

func handsDown(dir string, controllers []string) bool {
	down := readWords(filepath.Join(dir, "cgroup.subtree_control"))
	for _, c := range controllers {
		if !slices.Contains(down, c) {
			return false
		}
	}
	return true
}

// stepAside moves this process into a leaf of its group, if it is alone there, and has the group hand its
// controllers down.
func stepAside(dir string, controllers []string) bool {
	control := "+" + strings.Join(controllers, " +")
	if writeFile(filepath.Join(dir, "cgroup.subtree_control"), control) == nil {
		return true // the root group, or one without processes
	}
	procs := readWords(filepath.Join(dir, "cgroup.procs"))
	if len(procs) != 1 || procs[0] != strconv.Itoa(os.Getpid()) {
		return false
	}
	leaf := filepath.Join(dir, "agentkernel.self")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return false
	}
	return writeFile(filepath.Join(leaf, "cgroup.procs"), procs[0]) == nil &&
		writeFile(filepath.Join(dir, "cgroup.subtree_control"), control) == nil
}

// readSmall reads a file of the system's that is made as it is read. os.ReadFile would ask for its size first, and the
// runtime's poller whether it can wait for it.
func readSmall(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	b := make([]byte, 4096)
	for n := 0; ; {
		switch m, err := unix.Read(fd, b[n:]); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case m == 0:
			return b[:n], nil
		default:
			if n += m; n == len(b) {
				b = slices.Grow(b, n)[:2*n]
			}
		}
	}
}

// writeFile writes to a file that is there: none is made.
func writeFile(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		if _, err = unix.Write(fd, []byte(text)); !errors.Is(err, unix.EINTR) { // any signal ends the change of a memory limit, also one of the scheduler
			return err
		}
	}
}
