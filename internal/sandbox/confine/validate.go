package confine

import (
	"path/filepath"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/lazy"
)

var volumeName = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Validate says what of a Config can be seen to be wrong without looking at the machine; Machine.Plan looks
// at the rest. Errors: CodeInvalid.
func (c Config) Validate() error {
	c = c.withDefaults()
	if c.Kind < Whole || c.Kind > Bare {
		return invalid("there is no kind %d", int(c.Kind))
	}
	switch c.Profile {
	case ProfilePython, ProfileNode, ProfileGeneric:
	default:
		return invalid("there is no seccomp profile %q", c.Profile).WithHint("it is python, node or generic")
	}
	if err := c.Limits.validate(); err != nil {
		return err
	}
	if err := within("the size of /tmp", c.TmpBytes, 4<<10, maxBytes, "bytes"); err != nil {
		return err
	}
	if err := within("the number of files in /tmp", c.TmpInodes, 2, 1<<30, ""); err != nil {
		return err
	}
	if c.Kind == Zygote && (c.Workspace != nil || len(c.Volumes) > 0) {
		return invalid("a zygote has no workspace and no volumes: its children have them")
	}
	if c.Kind == Bare && (c.Workspace != nil || len(c.Volumes) > 0 || len(c.Files) > 0) {
		return invalid("a bare sandbox has no workspace, no volumes and no files beside its runtime")
	}
	if c.Kind == Child && (len(c.Runtime) > 0 || len(c.Files) > 0) {
		return invalid("a child has its zygote's runtime and files")
	}
	return c.validatePaths()
}

func (c Config) validatePaths() error {
	for _, m := range c.Runtime {
		if err := cleanPath("runtime", m.Source); err != nil {
			return err
		}
		if err := cleanPath("runtime", m.target()); err != nil {
			return err
		}
		for _, taken := range []string{WorkspaceDir, VolumesDir, "/proc", "/dev"} {
			if t := m.target(); t == taken || strings.HasPrefix(t, taken+"/") || t == "/" || t == TmpDir {
				return invalid("runtime: nothing can be mounted at %s: the sandbox has its own", t)
			}
		}
	}
	for _, f := range c.Files {
		if err := cleanPath("file", f.Path); err != nil {
			return err
		}
	}
	for _, m := range c.Masked {
		if err := cleanPath("masked directory", m); err != nil {
			return err
		}
	}
	if err := c.validateWorkspace(); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, v := range c.Volumes {
		if !volumeName().MatchString(v.Name) {
			return invalid("%q is no name for a volume", v.Name).WithHint("letters, digits, dot, dash and underscore, at most 64")
		}
		if names[v.Name] {
			return invalid("volume %q is there twice", v.Name)
		}
		names[v.Name] = true
		if err := cleanPath("volume "+v.Name, v.Source); err != nil {
			return err
		}
		if err := hideable("volume "+v.Name, v.Hidden); err != nil {
			return err
		}
		if v.Scratch == "" {
			continue
		}
		if err := cleanPath("the scratch directory of volume "+v.Name, v.Scratch); err != nil {
			return err
		}
	}
	if c.Kind != Child {
		if err := cleanPath("program", c.Program.Path); err != nil {
			return err
		}
		if len(c.Program.Args) == 0 {
			return invalid("the program has no arguments; the first is its own name")
		}
	}
	return c.validateStrings()
}

// validateStrings refuses what the kernel would cut off silently.
func (c Config) validateStrings() error {
	for _, list := range [][]string{c.Program.Args, c.Program.Env, {c.Program.Path, c.Program.Dir}} {
		for _, s := range list {
			if strings.ContainsRune(s, 0) {
				return invalid("arguments, environment and paths cannot hold a NUL character")
			}
		}
	}
	for _, kv := range c.Program.Env {
		if i := strings.IndexByte(kv, '='); i <= 0 {
			return invalid("an environment entry is not KEY=VALUE")
		}
	}
	return nil
}

func hideable(what string, paths []string) error {
	for _, p := range paths {
		if !filepath.IsLocal(p) || filepath.Clean(p) != strings.TrimSuffix(p, "/") || p == "." {
			return invalid("%q cannot be hidden in the %s", p, what)
		}
	}
	return nil
}

func (c Config) validateWorkspace() error {
	w := c.Workspace
	if w == nil {
		return nil
	}
	if err := cleanPath("workspace", w.Source); err != nil {
		return err
	}
	if err := hideable("workspace", w.Hidden); err != nil {
		return err
	}
	switch w.Access {
	case ReadOnly, ReadWrite:
		return nil
	case Overlay:
		return cleanPath("the workspace's scratch directory", w.Scratch)
	}
	return invalid("a workspace cannot be used %q", w.Access).WithHint("it is ro, rw or overlay")
}

const (
	maxBytes = 1 << 44 // 16 TiB: more is a mistake
	minBytes = 16 << 20
)

func (l Limits) validate() error {
	if err := within("the memory limit", l.Memory, minBytes, maxBytes, "bytes"); err != nil {
		return err
	}
	if err := within("the process limit", int64(l.Pids), 1, 1<<22, ""); err != nil {
		return err
	}
	if err := within("the open file limit", int64(l.OpenFiles), 16, 1<<20, ""); err != nil {
		return err
	}
	if err := within("the file size limit", l.FileSize, 1, maxBytes, "bytes"); err != nil {
		return err
	}
	if !(l.CPUs >= 0.01 && l.CPUs <= 4096) {
		return invalid("the CPU limit is %v; it must be from 0.01 to 4096", l.CPUs)
	}
	if l.CPUTime < 0 || (l.CPUTime > 0 && l.CPUTime < time.Millisecond) || l.CPUTime > 10*365*24*time.Hour {
		return invalid("the CPU time limit is %v; it must be from 1ms to ten years", l.CPUTime)
	}
	return nil
}

func within(what string, n, low, high int64, unit string) error {
	if n >= low && n <= high {
		return nil
	}
	if unit != "" {
		unit = " " + unit
	}
	return invalid("%s is %d%s; it must be from %d to %d", what, n, unit, low, high)
}

func cleanPath(what, path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
		return invalid("%s: %q is not an absolute path without dots and double slashes", what, path)
	}
	return nil
}

func invalid(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, op, format, args...)
}
