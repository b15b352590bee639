package confine

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// Explain makes the error out of what an executor reports: a step of Setup (seal false) or Seal failed.
func (p *Plan) Explain(seal bool, index int, errno syscall.Errno) *agentkernel.Error {
	stage := stageSetup
	if seal {
		stage = stageSeal
	}
	return explain(p, report{stage, uint32(index), uint32(errno)}) //nolint:gosec // small numbers
}

func explain(p *Plan, r report) *agentkernel.Error {
	errno := syscall.Errno(r.Errno)
	steps := p.Setup
	switch r.Stage {
	case stageSync:
		return agentkernel.Errorf(agentkernel.CodeCrashed, op, "the sandbox was given up before it began")
	case stageFork:
		return agentkernel.Errorf(agentkernel.CodeLimit, op, "no process could be made in the sandbox: %w", errno).
			WithHint("raise the process limit")
	case stagePlace:
		return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the program's descriptors could not be put in place: %w", errno)
	case stageExec:
		return notExecuted(p, errno)
	case stageSeal:
		steps = p.Seal
	}
	if int(r.Index) >= len(steps) {
		return agentkernel.Errorf(agentkernel.CodeInternal, op, "step %d of a plan with %d failed: %w", r.Index, len(steps), errno)
	}
	s := steps[r.Index]
	if s.Call == "chdir" && r.Stage == stageSeal {
		return agentkernel.Errorf(agentkernel.CodeNotFound, op, "the working directory %s: %w", p.Program.Dir, errno)
	}
	e := agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the wall %q cannot be built: %s: %w", s.Wall, s.describe(), errno)
	if hint := wallHint(s, errno); hint != "" {
		e = e.WithHint("%s", hint)
	}
	return e
}

// describe is the call with the arguments that a person can read.
func (s Step) describe() string {
	var words []string
	for _, a := range s.Args {
		if a.Str != nil && *a.Str != "" {
			words = append(words, *a.Str)
		}
	}
	return strings.Join(append([]string{s.Call}, words...), " ")
}

// notExecuted says why execve failed.
func notExecuted(p *Plan, errno syscall.Errno) *agentkernel.Error {
	path := p.Program.Path
	switch errno {
	case unix.ENOENT:
		return agentkernel.Errorf(agentkernel.CodeNotFound, op, "%s is not in the sandbox, or the loader or interpreter that it names is not", path).
			WithHint("it must lie in /usr, /bin or /lib or in a folder that is shown, and so must the loader or the interpreter that it names")
	case unix.ENOEXEC:
		return agentkernel.Errorf(agentkernel.CodeUnsupported, op, "%s is no program for this machine", path).
			WithHint("it is for another architecture, or a script without #!")
	case unix.EACCES:
		return agentkernel.Errorf(agentkernel.CodeDenied, op, "%s may not be executed", path).
			WithHint("it needs the executable bit, and every user must be able to read it and the directories above it")
	case unix.E2BIG:
		return invalid("the arguments and the environment of %s are too large", path)
	}
	return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "%s could not be started: %w", path, errno)
}

func wallHint(s Step, errno syscall.Errno) string {
	switch {
	case s.Wall == wallProc && errno == unix.EPERM:
		return "this machine is itself a container whose /proc is covered; start that container with an uncovered /proc " +
			"(docker: --security-opt systempaths=unconfined)"
	case errno == unix.EPERM || errno == unix.EACCES:
		if h := namespaceHint(); h != "" {
			return h
		}
		return "something above the kernel forbids it: a container's seccomp profile (docker: --security-opt seccomp=unconfined) or SELinux"
	case s.Call == "mount" && errno == unix.EINVAL && s.Wall == wallFiles:
		return "this Linux cannot mount an overlay for ordinary users (5.11 or later is needed), or not on this file system"
	case errno == unix.ENOSYS:
		return "Linux 5.12 or later is needed"
	}
	return ""
}

// forbidden explains why no user namespace could be made or mapped.
func forbidden(err error) *agentkernel.Error {
	e := agentkernel.Errorf(agentkernel.CodeUnavailable, op, "this machine does not let the kernel make a user namespace: %w", err)
	if h := namespaceHint(); h != "" {
		return e.WithHint("%s", h)
	}
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		return e.WithHint("too many namespaces: sudo sysctl user.max_user_namespaces=65536")
	case errors.Is(err, unix.EAGAIN):
		return e.WithHint("too many processes of this user: raise ulimit -u")
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return e.WithHint("a container's seccomp profile forbids it (docker: --security-opt seccomp=unconfined), or SELinux does")
	}
	return e
}

// namespaceHint names the setting of this machine that forbids user namespaces; "" if none is known.
func namespaceHint() string {
	for _, s := range []struct {
		file, bad, hint string
		rootToo         bool
	}{
		{"/proc/sys/user/max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=65536", true},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl kernel.unprivileged_userns_clone=1", false},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"an AppArmor profile for agentkernel with the rule `userns,` (docs: security), or sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0", false},
	} {
		b, err := os.ReadFile(s.file)
		if err == nil && strings.TrimSpace(string(b)) == s.bad && (s.rootToo || os.Geteuid() != 0) {
			return s.hint
		}
	}
	return ""
}
