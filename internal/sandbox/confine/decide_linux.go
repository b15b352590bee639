package confine

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// Decide turns what a caller wants into a plan for this machine. It looks at the directories named, and
// changes nothing. A Child's identity is its zygote's. Errors: CodeInvalid for what is wrong in cfg,
// CodeNotFound for a directory that is not there, CodeUnavailable for a wall that cannot stand here.
func (m *Machine) Decide(cfg Config, id Identity, counted Counted) (*Plan, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if m.Problem != nil {
		return nil, m.Problem
	}
	cfg = cfg.withDefaults()
	if id.UID == 0 && !m.nested {
		return nil, agentkernel.Errorf(agentkernel.CodeInternal, op, "no sandbox runs as user 0")
	}
	if uint64(cfg.Limits.OpenFiles) > m.maxOpenFiles {
		return nil, invalid("the open file limit is %d; this kernel itself may have %d", cfg.Limits.OpenFiles, m.maxOpenFiles).
			WithHint("start it with a higher hard limit: ulimit -Hn")
	}
	var err error
	if cfg.Masked, err = realPaths(cfg.Masked); err != nil {
		return nil, err
	}
	b := newBuilder(cfg)
	b.plan.Cgroups = counted.Dirs
	writable := []string{TmpDir}
	switch cfg.Kind {
	case Child:
		err = b.child(m, id, &writable)
	case Bare:
		writable = nil
		err = b.bare(m, id)
	default:
		err = b.root(m, id, &writable)
	}
	if err != nil {
		return nil, err
	}
	b.disarm(m.lastCap)
	b.seal(m, counted, writable)
	b.plan.Walls = m.walls(cfg, id, counted)
	return b.plan, nil
}

// bare plans a root that holds the runtime alone.
func (b *builder) bare(m *Machine, id Identity) error {
	b.namespaces(m, id)
	b.staging(m.staging)
	if err := b.runtime(); err != nil {
		return err
	}
	b.enter()
	b.hostName()
	return nil
}

// namespaces begins a sandbox from nothing.
func (b *builder) namespaces(m *Machine, id Identity) {
	b.plan.Clone = newNamespaces
	b.plan.Maps = &Maps{
		UID:           []IDMap{{InsideUID, id.UID, 1}},
		GID:           []IDMap{{InsideGID, id.GID, 1}},
		DenySetgroups: !m.root,
	}
	if m.root {
		b.identity()
	}
	b.dieWithParent()
}

func (b *builder) hostName() {
	b.wall = wallHost
	b.do("sethostname", unix.SYS_SETHOSTNAME, Str(hostName), Num(len(hostName)))
}

// root plans a sandbox from nothing.
func (b *builder) root(m *Machine, id Identity, writable *[]string) error {
	b.namespaces(m, id)
	b.staging(m.staging)
	for _, dir := range []string{"/proc", TmpDir, "/dev", "/etc"} {
		b.mkdir(dir)
	}
	b.tmp() // before the runtime, which may lie in it
	if err := b.runtime(); err != nil {
		return err
	}
	b.devices(m)
	b.systemFiles()
	if _, err := os.Stat(cpuInfo); err == nil { // how many processors there are; glibc looks here
		b.mkdir(cpuInfo)
		b.tree(Tree{Name: b.treeName("cpu"), Source: cpuInfo, ReadOnly: true, NoExec: true}, cpuInfo)
	}
	b.proc()
	if b.cfg.Kind == Zygote {
		for _, dir := range []string{WorkspaceDir, VolumesDir, lowerDir, upperDir} {
			b.mkdir(dir)
		}
	} else if err := b.files(id, m.root, writable); err != nil {
		return err
	}
	b.enter()
	b.hostName()
	return nil
}

// child plans what a fork of a zygote lacks.
func (b *builder) child(m *Machine, id Identity, writable *[]string) error {
	b.plan.Clone = newNamespaces
	if b.cfg.ShareNet {
		b.plan.Clone &^= unix.CLONE_NEWNET
	}
	b.dieWithParent()
	b.mapOneself()
	if err := b.files(id, m.root, writable); err != nil {
		return err
	}
	b.keep(b.tmp)
	b.proc()
	return nil
}

// keep brings what of the zygote's runtime the mount would cover to where it was.
func (b *builder) keep(mount func()) {
	b.wall = wallTmp
	for i, path := range b.cfg.kept {
		b.do("open_tree", unix.SYS_OPEN_TREE, cwd, b.at(path),
			Num(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)).Save = fmt.Sprintf("kept%d", i)
	}
	mount()
	for i, path := range b.cfg.kept {
		b.mkdir(path)
		b.do("move_mount", unix.SYS_MOVE_MOUNT, Saved(fmt.Sprintf("kept%d", i)), Str(""), cwd, b.at(path), Num(unix.MOVE_MOUNT_F_EMPTY_PATH))
		b.do("close", unix.SYS_CLOSE, Saved(fmt.Sprintf("kept%d", i)))
	}
}

const (
	cpuInfo  = "/sys/devices/system/cpu"
	hostName = "sandbox"
	lowerDir = "/.lower"
	upperDir = "/.upper"
	zeroFile = "/.zero"
)

// devices are the five that are safe for anyone, and the names that programs expect beside them.
func (b *builder) devices(m *Machine) {
	b.wall = wallRoot
	for _, name := range []string{"null", "full", "random", "urandom"} {
		b.device(name, "/dev/"+name)
	}
	switch {
	case m.landlock > 0:
		// Who may write this device can map it as shared memory, which no process is seen to have. Landlock lets nothing
		// be written outside of /dev.
		b.device("zero", zeroFile)
		b.symlink(zeroFile, "/dev/zero")
	case m.groups.has(ctlMemory):
		b.device("zero", "/dev/zero")
	}
	for _, l := range [][2]string{{"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"},
		{"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"}, {TmpDir, "/dev/shm"}} {
		b.symlink(l[0], l[1])
	}
}

// systemFiles are what libraries look up users and names in.
func (b *builder) systemFiles() {
	files := []File{
		{"/etc/passwd", fmt.Appendf(nil, "agent:x:%d:%d:agent:%s:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", InsideUID, InsideGID, TmpDir)},
		{"/etc/group", fmt.Appendf(nil, "agent:x:%d:\nnogroup:x:65534:\n", InsideGID)},
		{"/etc/hosts", []byte("127.0.0.1 localhost " + hostName + "\n::1 localhost\n")},
		{"/etc/nsswitch.conf", []byte("passwd: files\ngroup: files\nhosts: files\n")},
		{"/etc/hostname", []byte(hostName + "\n")},
	}
	for _, f := range append(files, b.cfg.Files...) {
		if !b.made[f.Path] {
			b.write(f.Path, f.Data)
		}
	}
}

// runtime mounts Config.Runtime, what lies higher first. What a mount shows already is not mounted again.
func (b *builder) runtime() error {
	mounts := slices.Clone(b.cfg.Runtime)
	slices.SortStableFunc(mounts, func(x, y Mount) int { return cmp.Compare(x.target(), y.target()) })
	var done []Mount // with real sources
	for _, mt := range mounts {
		info, err := os.Lstat(mt.Source)
		if err != nil {
			return missing("runtime", mt.Source, err)
		}
		above := slices.IndexFunc(done, func(d Mount) bool { return inside(mt.target(), d.Target) })
		if info.Mode()&os.ModeSymlink != 0 && above < 0 {
			to, err := os.Readlink(mt.Source)
			if err != nil {
				return missing("runtime", mt.Source, err)
			}
			b.symlink(to, mt.target())
			continue
		}
		source, err := filepath.EvalSymlinks(mt.Source)
		if err != nil {
			return missing("runtime", mt.Source, err)
		}
		if above >= 0 {
			if source == done[above].Source+strings.TrimPrefix(mt.target(), done[above].Target) {
				continue // seen already
			}
			if _, err := os.Stat(done[above].Source + strings.TrimPrefix(mt.target(), done[above].Target)); err != nil {
				return invalid("runtime: nothing can be mounted at %s: %s has no such place", mt.target(), done[above].Source)
			}
		} else if err := b.mountpoint(source, mt.target()); err != nil {
			return err
		}
		b.wall = wallRoot
		b.tree(Tree{Name: b.treeName("runtime"), Source: source, ReadOnly: true}, mt.target())
		if err := b.mask(source, mt.target(), true); err != nil {
			return err
		}
		done = append(done, Mount{Source: source, Target: mt.target()})
	}
	return nil
}

func (b *builder) mountpoint(source, target string) error {
	info, err := os.Stat(source)
	switch {
	case err != nil:
		return missing("runtime", source, err)
	case info.IsDir():
		b.mkdir(target)
	default:
		b.write(target, nil)
	}
	return nil
}

// seal plans what the program's own process does last.
func (b *builder) seal(m *Machine, counted Counted, writable []string) {
	b.steps = &b.plan.Seal
	b.wall = wallFiles
	if b.cfg.Kind != Bare { // which can do nothing with a terminal, and shares the scheduler's group with its kernel (sched(7))
		b.do("setsid", unix.SYS_SETSID).OK = []int{int(unix.EPERM)} // it leads a session already
	}
	b.do("umask", unix.SYS_UMASK, Num(0o22))
	b.do("chdir", unix.SYS_CHDIR, Str(b.cfg.Program.Dir))
	if b.cfg.Kind != Zygote {
		b.landlock(m.landlock, writable) // it would forbid the zygote's children to mount
	}
	b.rlimits(m, counted)
	b.seccomp(m.filters.get(b.cfg.Kind, b.cfg.Profile, counted.Memory))
}

func missing(what, path string, err error) *agentkernel.Error {
	code := agentkernel.CodeInvalid
	if os.IsNotExist(err) {
		code = agentkernel.CodeNotFound
	}
	return agentkernel.Errorf(code, op, "%s: %w", what, pathless(path, err))
}

// pathless is err with the path once.
func pathless(path string, err error) error {
	if pe, ok := err.(*os.PathError); ok { //nolint:errorlint // only the outermost wraps a path
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// inside says whether path lies below dir.
func inside(path, dir string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") && path != dir
}

// realPaths resolves what exists; what does not cannot be seen either.
func realPaths(paths []string) ([]string, error) {
	real := make([]string, 0, len(paths))
	for _, p := range paths {
		r, err := filepath.EvalSymlinks(p)
		switch {
		case os.IsNotExist(err):
			continue
		case err != nil:
			return nil, missing("masked directory", p, err)
		}
		real = append(real, r)
	}
	return real, nil
}
