package confine

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// Machine is what this computer allows, as far as a look can tell; Spawner.Probe tries it.
type Machine struct {
	// Problem is why there can be no sandbox at all here, with what mends it; nil if there is none known.
	Problem *agentkernel.Error

	root         bool // over the whole machine, with a range of users to hand out
	nested       bool // in a user namespace already, where user 0 is somebody else outside
	uid, gid     uint32
	landlock     int // ABI; 0: none
	kcmp         bool
	lastCap      int
	maxOpenFiles uint64
	staging      string // an existing directory, to build new roots on
	groups       *groups
	filters      filters
}

// Look inspects the machine. It is cheap and changes nothing.
func Look() *Machine {
	m := &Machine{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())} //nolint:gosec // never negative on Linux
	all, zero := ownMap()
	m.nested = !zero
	m.root = os.Geteuid() == 0 && all
	m.landlock, m.kcmp = landlockABI(), canCompare()
	m.lastCap = 63
	if n, err := readInt("/proc/sys/kernel/cap_last_cap"); err == nil {
		m.lastCap = int(n)
	}
	var limit unix.Rlimit
	m.maxOpenFiles = 1024
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		m.maxOpenFiles = limit.Max
	}
	for _, dir := range []string{"/tmp", "/run", "/mnt", "/dev"} {
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			m.staging = dir
			break
		}
	}
	m.groups = findGroups()
	m.Problem = m.problem()
	return m
}

// ownMap says of this process's user namespace whether it has the range of users that sandboxes of root get,
// and whether user 0 in it is the machine's.
func ownMap() (all, zero bool) {
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false, true
	}
	for line := range strings.Lines(string(b)) {
		var in, out, count uint64
		if n, _ := fmt.Sscan(line, &in, &out, &count); n != 3 {
			continue
		}
		zero = zero || in == 0 && out == 0
		all = all || in <= firstUID && in+count >= firstUID+uidSlices*uidSlice
	}
	return all, zero
}

func (m *Machine) problem() *agentkernel.Error {
	// EFAULT or EINVAL says that the call exists.
	if _, _, e := unix.Syscall6(unix.SYS_MOUNT_SETATTR, ^uintptr(0), 0, 0, 0, 0, 0); e == unix.ENOSYS {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "this Linux is too old for the sandbox").WithHint("5.12 or later is needed")
	}
	if _, err := os.Stat("/proc/self/ns/user"); err != nil {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "this Linux has no user namespaces, or /proc is not mounted").
			WithHint("a kernel with CONFIG_USER_NS is needed")
	}
	if hint := namespaceHint(); hint != "" && !strings.Contains(hint, "AppArmor") { // a profile may allow us: try
		return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "this machine's settings forbid user namespaces").WithHint("%s", hint)
	}
	if m.uid == 0 && !m.root && !m.nested {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the kernel is user 0 in a user namespace without other users, and no program may be that").
			WithHint("run it as an ordinary user")
	}
	if m.staging == "" {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "there is no directory to build a root on").WithHint("make /tmp")
	}
	return nil
}

func landlockABI() int {
	abi, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0
	}
	return int(abi) //nolint:gosec // a small number
}

// walls is what will be in force, for people.
func (m *Machine) walls(c Config, id Identity, counted Counted) []Wall {
	on := func(name, format string, args ...any) Wall {
		return Wall{Name: name, On: true, How: fmt.Sprintf(format, args...)}
	}
	walls := []Wall{
		on(wallUser, "user %d outside, %d inside", id.UID, InsideUID),
		on("namespaces", "pid, mount, ipc, uts, cgroup"),
		on("no network", "an empty network namespace; socket and connect refused"),
		on(wallRoot, "read-only, with the runtime's files alone"),
		on(wallCaps, "all sets empty"),
		on(wallNoNew, "setuid files do nothing"),
	}
	if c.Kind == Bare {
		walls = append(walls, on(wallProc, "none is there"), on(wallTmp, "none is there: nothing can be written"),
			on(wallSeccomp, "allow-list of %d calls, no process, thread or socket among them", bareCount))
	} else {
		walls = append(walls, on(wallProc, "%s, read-only", map[bool]string{true: "own processes, host's secrets covered", false: "own processes only"}[c.FullProc]),
			on(wallTmp, "%s, %d files", size(c.TmpBytes), c.TmpInodes), on(wallSeccomp, "allow-list %s", c.Profile))
	}
	switch {
	case c.Kind == Zygote:
		walls = append(walls, Wall{Name: wallLandlock, On: false, How: "its children have it"})
	case m.landlock == 0:
		walls = append(walls, Wall{Name: wallLandlock, On: false, How: "this Linux has none: the mounts alone guard the files"})
	default:
		walls = append(walls, on(wallLandlock, "ABI %d", m.landlock))
	}
	if c.Kind == Bare {
		return append(walls, on("memory limit", "%s of address space", size(c.Limits.Memory)), on("process limit", "1"),
			on("CPU limit", "1: it has one thread"))
	}
	if !m.kcmp {
		walls = append(walls, Wall{Name: "inherited files", On: false, How: "they count again for each process that inherited them, and a program with many may be killed for a limit: " +
			"this Linux lacks kcmp (CONFIG_KCMP), or what runs the kernel forbids it (docker: --security-opt seccomp=unconfined)"})
	}
	return append(walls, counted.walls(c.Limits)...)
}

func size(n int64) string {
	for _, u := range []struct {
		name string
		of   int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.of && n%u.of == 0 {
			return fmt.Sprintf("%d %s", n/u.of, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

func readInt(path string) (int64, error) {
	b, err := readSmall(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
}
