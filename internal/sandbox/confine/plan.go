package confine

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"

	"agentkernel"
)

// PlanVersion is the format of Plan; an executor refuses any other.
const PlanVersion = 1

// Plan is one sandbox as plain data: everything has been decided, nothing is left to choose. Two small
// executors carry it out, the spawner of this package for any program, and the Python zygote for a child
// that it forks. Both do the same, in this order:
//
//  1. The holder of the host's file system (the spawner; a zygote asks it with Spawner.Trees) opens Trees
//     and gives the executor one descriptor for each. The steps name them.
//  2. clone(Clone|SIGCHLD). The spawner's child blocks on a pipe before anything else; a zygote's, which writes its
//     own id maps, goes on.
//  3. For the child's pid, the parent writes Maps (if not nil) and joins Cgroups (whoever may write there: the
//     spawner for its own children, the kernel for those of a zygote). Then the child may run its program.
//  4. The child runs Setup, in order. The spawner's child is pid 1 of its namespace, an init: it forks here,
//     and its child continues. A zygote's child may continue as pid 1.
//  5. The child puts its descriptors in place and closes every other one.
//  6. The child runs Seal, in order. The last step installs the seccomp filter; from there on the process may
//     do only what a program may do.
//  7. The child starts the program: execve(Program), or the zygote's user code.
//
// A step that fails ends the child at once: a sandbox with a wall missing is never used. The executor reports
// the index of the step and errno, and [Plan.Explain] makes the error out of it.
type Plan struct {
	Version int    `json:"version"`
	Arch    string `json:"arch"` // GOARCH that Step.Nr is for
	// Clone holds the CLONE_NEW* flags.
	Clone uint64 `json:"clone"`
	// Maps are the id maps that the parent writes; nil where Setup's first steps do it from inside.
	Maps *Maps `json:"maps,omitempty"`
	// Cgroups are directories whose cgroup.procs takes the child's pid before it is let go; empty: none.
	Cgroups []string `json:"cgroups,omitempty"`
	// Trees are the host's directories and files that the sandbox sees.
	Trees []Tree `json:"trees,omitempty"`
	Setup []Step `json:"setup"`
	Seal  []Step `json:"seal"`
	// Program is what is started; a zygote uses Env and Dir alone.
	Program Program `json:"program"`
	// Walls says what is in force when the plan has been carried out, for people.
	Walls []Wall `json:"walls"`
}

// Program is what runs behind the walls. Paths are inside.
type Program struct {
	Path string   `json:"path,omitempty"`
	Args []string `json:"args,omitempty"` // Args[0] is the program's own name
	Env  []string `json:"env"`            // the whole environment, KEY=VALUE
	Dir  string   `json:"dir"`            // Seal changes to it
}

// Maps are the contents of /proc/PID/uid_map and gid_map. With DenySetgroups, "deny" is written to
// /proc/PID/setgroups before gid_map.
type Maps struct {
	UID           []IDMap `json:"uid"`
	GID           []IDMap `json:"gid"`
	DenySetgroups bool    `json:"deny_setgroups,omitempty"`
}

// IDMap is one line of an id map (user_namespaces(7)). Outside is as the parent of the new namespace counts.
type IDMap struct {
	Inside  uint32 `json:"inside"`
	Outside uint32 `json:"outside"`
	Count   uint32 `json:"count"`
}

// Tree is one piece of the host's file system, opened as a detached mount: open_tree(2) with OPEN_TREE_CLONE,
// then mount_setattr(2). The descriptor can be attached once, by move_mount(2), in any mount namespace.
type Tree struct {
	Name   string `json:"name"`   // what steps call it
	Source string `json:"source"` // absolute host path; no part of it may be a symbolic link
	// ReadOnly and NoExec are put on the whole tree; nosuid is put on every tree, nodev on all but Device.
	ReadOnly bool `json:"read_only,omitempty"`
	NoExec   bool `json:"no_exec,omitempty"`
	Device   bool `json:"device,omitempty"`
	// Owner, if not nil, shows what Owner.Host owns on disk as Owner.Shown (an idmapped mount): so a sandbox
	// under a high uid reads and writes a workspace whose files stay the caller's.
	Owner *Owner `json:"owner,omitempty"`
}

// Owner translates one owner and group, both as the initial user namespace counts them.
type Owner struct {
	HostUID  uint32 `json:"host_uid"`
	HostGID  uint32 `json:"host_gid"`
	ShownUID uint32 `json:"shown_uid"`
	ShownGID uint32 `json:"shown_gid"`
}

// Step is one system call, syscall(Nr, Args...), done exactly as written.
//
// In JSON: {"call":"mount","nr":165,"args":["tmpfs","/tmp","tmpfs",6,"size=1m"],"wall":"root"}.
// A result of -1 with an errno that is not in OK is a failure.
type Step struct {
	Call string `json:"call"` // its name, for people
	Nr   uint64 `json:"nr"`   // its number
	Args []Arg  `json:"args"` // at most six; missing ones are 0
	// Save keeps the result under this name, for Arg.Saved of later steps of the same list.
	Save string `json:"save,omitempty"`
	// OK lists errno values that do no harm here.
	OK []int `json:"ok,omitempty"`
	// Wall is the wall that this step builds, so that a failure can be explained.
	Wall string `json:"wall,omitempty"`
}

// Arg is one argument. Exactly one field counts; in JSON it is
//
//	a number                a number, passed as 64 bit two's complement
//	a string                the address of its UTF-8 bytes with a NUL behind them
//	null                    0
//	{"bytes":"<base64>"}    the address of a buffer with these bytes; the call may write into it
//	{"fd":"name"}           the descriptor of the tree with this name
//	{"saved":"name"}        what the step with this Save returned
//	{"filter":"<base64>"}   the address of a struct sock_fprog {u16 len; void *filter} over these
//	                        instructions (8 bytes each)
type Arg struct {
	Num    int64
	Str    *string
	Bytes  []byte
	FD     string
	Saved  string
	Filter []byte
}

// Num is a number.
func Num[T ~int | ~int64 | ~uint64 | ~uint32 | ~uintptr](n T) Arg { return Arg{Num: int64(n)} } //nolint:gosec // the bits count

// Str is a C string.
func Str(s string) Arg { return Arg{Str: &s} }

// Bytes is a buffer.
func Bytes(b []byte) Arg { return Arg{Bytes: b} }

// FD is the descriptor of a tree.
func FD(tree string) Arg { return Arg{FD: tree} }

// Saved is the result of an earlier step.
func Saved(name string) Arg { return Arg{Saved: name} }

// Filter is a seccomp program.
func Filter(program []byte) Arg { return Arg{Filter: program} }

type wireArg struct {
	Bytes  *string `json:"bytes,omitempty"`
	FD     string  `json:"fd,omitempty"`
	Saved  string  `json:"saved,omitempty"`
	Filter *string `json:"filter,omitempty"`
}

// MarshalJSON writes the form that Arg's comment shows.
func (a Arg) MarshalJSON() ([]byte, error) {
	encode := func(b []byte) *string { s := base64.StdEncoding.EncodeToString(b); return &s }
	switch {
	case a.Str != nil:
		return json.Marshal(*a.Str)
	case a.Bytes != nil:
		return json.Marshal(wireArg{Bytes: encode(a.Bytes)})
	case a.Filter != nil:
		return json.Marshal(wireArg{Filter: encode(a.Filter)})
	case a.FD != "" || a.Saved != "":
		return json.Marshal(wireArg{FD: a.FD, Saved: a.Saved})
	}
	return strconv.AppendInt(nil, a.Num, 10), nil
}

// UnmarshalJSON is the reverse of MarshalJSON.
func (a *Arg) UnmarshalJSON(b []byte) error {
	*a = Arg{}
	switch b = bytes.TrimSpace(b); {
	case len(b) == 0 || bytes.Equal(b, []byte("null")):
		return nil
	case b[0] == '"':
		a.Str = new(string)
		return json.Unmarshal(b, a.Str)
	case b[0] != '{':
		return json.Unmarshal(b, &a.Num)
	}
	var w wireArg
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	a.FD, a.Saved = w.FD, w.Saved
	for _, f := range []struct {
		from *string
		to   *[]byte
	}{{w.Bytes, &a.Bytes}, {w.Filter, &a.Filter}} {
		if f.from == nil {
			continue
		}
		var err error
		if *f.to, err = base64.StdEncoding.AppendDecode([]byte{}, []byte(*f.from)); err != nil {
			return fmt.Errorf("argument is not base64: %w", err)
		}
	}
	return nil
}

// Wall is one wall, as `inspect` shows it.
type Wall = agentkernel.Wall
