package confine

import (
	"slices"
	"strings"
	"time"
)

const op = "sandbox"

// Inside, every program is this user and group, whoever it is outside, on every machine.
const (
	InsideUID = 1000
	InsideGID = 1000
)

// Places inside a sandbox.
const (
	WorkspaceDir = "/workspace"
	VolumesDir   = "/volumes" // a volume is VolumesDir/Name
	TmpDir       = "/tmp"
)

// InSystem says whether every sandbox has a file of the machine, which is named without links, in the same place: it lies in
// one of the directories of SystemRuntime.
func InSystem(file string) bool {
	return slices.ContainsFunc(SystemRuntime(), func(m Mount) bool {
		return file == m.Source || strings.HasPrefix(file, m.Source+"/")
	})
}

// Kind says what a plan is for.
type Kind int

const (
	// Whole is a program that the spawner starts, with every wall.
	Whole Kind = iota
	// Zygote is a trusted process that forks a Child for each program and runs nothing of theirs itself. It has
	// the runtime's root, an empty network and no capabilities, but may make namespaces. What its children
	// are to see must be mounted by their own plans: it has no workspace and no volumes.
	Zygote
	// Child is a fork of a Zygote: what is missing to Whole.
	Child
	// Bare is for a program of one thread that computes, and speaks over the descriptors that it was given: its
	// root holds the runtime and nothing else, no /proc, no devices, no TmpDir, nothing that can be written; it can
	// make no process, thread or socket. One process needs no cgroup: Limits.Memory bounds its address space.
	Bare
)

func (k Kind) String() string {
	return [...]string{"whole", "zygote", "child", "bare"}[k]
}

// Profile names a seccomp allow-list.
type Profile string

// The profiles differ little: generic adds System V semaphores and message queues.
const (
	ProfilePython  Profile = "python"
	ProfileNode    Profile = "node"
	ProfileGeneric Profile = "generic"
)

// Config is what a caller wants of a sandbox. The zero value of a field is its default.
type Config struct {
	Kind    Kind
	Profile Profile // "" is ProfileGeneric; Bare has its own
	// Runtime is what the program needs of the host, read-only: see SystemRuntime. A Child has its zygote's.
	Runtime []Mount
	// Files are written into the read-only root, beside the built-in /etc/passwd, group, hosts and nsswitch.conf.
	Files []File
	// Workspace is at WorkspaceDir; nil: none, and the program starts in TmpDir.
	Workspace *Workspace
	Volumes   []Volume
	// Masked are host directories that no program may see wherever they lie: the data directory. Where a
	// mount holds one, an empty directory is put over it.
	Masked []string
	// TmpBytes and TmpInodes cap TmpDir; 0: 64 MiB and 16,384. The memory is the program's own.
	TmpBytes, TmpInodes int64
	// FullProc shows the whole /proc, with the host's secrets covered, instead of the processes alone: for
	// programs that read /proc/meminfo, cpuinfo or stat. It costs about 0.1 ms.
	FullProc bool
	// ShareNet leaves a Child in its zygote's network, which is as empty as its own would be. Saves 0.5 ms.
	ShareNet bool
	Limits   Limits
	Program  Program

	kept []string // a Child's: what of its zygote's runtime lies below TmpDir
}

// Mount shows a file or directory of the host, read-only. Where Source is a symbolic link (/bin on most
// systems), the link is made anew, and what it points to must be mounted too.
type Mount struct {
	Source string // absolute
	Target string // inside; "": the same
}

// File is a small file in the sandbox's root, readable by all, writable by none.
type File struct {
	Path string // inside, absolute
	Data []byte
}

// Access says how a workspace may be used.
type Access string

const (
	ReadOnly  Access = "ro"
	ReadWrite Access = "rw"      // changes are the host's at once
	Overlay   Access = "overlay" // changes go to Workspace.Scratch; the host's directory stays as it is
)

// Workspace is a directory of the host.
type Workspace struct {
	Source string // absolute, a directory, not a symbolic link
	Access Access // "" is ReadOnly
	// Scratch takes the changes of an Overlay: an empty directory, in which `upper` and `work` are made. The
	// upper directory is in overlayfs' format with userxattr (kernel documentation, filesystems/overlayfs):
	// a whiteout is a character device 0:0, an opaque directory has the attribute user.overlay.opaque=y.
	Scratch string
	// Own says that Source is a copy made for this sandbox alone, which lies in the data directory.
	Own bool
	// Hidden are paths in Source that the sandbox can neither read nor, if they end with a slash and so are
	// directories, list.
	Hidden []string
}

// Volume is a named directory of the host.
type Volume struct {
	Name     string // one path element
	Source   string
	ReadOnly bool
	Scratch  string   // as of Workspace: changes go there; "": Source itself is written
	Own      bool     // as of Workspace
	Hidden   []string // as of Workspace
}

// Limits of the whole process tree of a sandbox, if not said otherwise.
type Limits struct {
	Memory    int64         // bytes; 0: 512 MiB
	CPUs      float64       // how many at a time; 0: 1
	Pids      int           // processes and threads; 0: 256; Bare has 1
	CPUTime   time.Duration // 0: none
	OpenFiles int           // each process; 0: 1,024
	FileSize  int64         // each file, bytes; 0: 1 GiB
}

func (c Config) withDefaults() Config {
	setDefault(&c.Profile, ProfileGeneric)
	setDefault(&c.TmpBytes, 64<<20)
	setDefault(&c.TmpInodes, 16<<10)
	setDefault(&c.Limits.Memory, 512<<20)
	setDefault(&c.Limits.CPUs, 1)
	if c.Kind == Bare {
		c.Limits.Pids = 1
		setDefault(&c.Limits.OpenFiles, 64)
		setDefault(&c.Program.Dir, "/")
	}
	setDefault(&c.Limits.Pids, 256)
	setDefault(&c.Limits.OpenFiles, 1024)
	setDefault(&c.Limits.FileSize, 1<<30)
	if c.Workspace != nil {
		w := *c.Workspace
		setDefault(&w.Access, ReadOnly)
		c.Workspace = &w
		setDefault(&c.Program.Dir, WorkspaceDir)
	}
	setDefault(&c.Program.Dir, TmpDir)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (m Mount) target() string {
	if m.Target == "" {
		return m.Source
	}
	return m.Target
}

// Descriptors is how many descriptors the processes of a sandbox may have open together. The watchdog looks at each of them, and would see
// nothing else for seconds if all processes had as many as one may have.
func (l Limits) Descriptors() int { return max(16*l.OpenFiles, 64*l.Pids) }
