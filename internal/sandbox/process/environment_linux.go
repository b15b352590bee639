package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// pythonFor gives the interpreter of a program: the backend's own, or that of its virtual environment (Program.Host).
//
// The interpreter of an environment is not asked anything: it runs what is installed there (.pth files) when it starts,
// which is for a sandbox to do. What has to be known follows from the interpreter that the environment was made with,
// and that must be the backend's.
func (b *Backend) pythonFor(p agentkernel.Program) (Interpreter, *agentkernel.Error) {
	base, problem := b.ready()
	if problem != nil || p.Host == "" {
		return base, problem
	}
	if st, err := os.Stat(filepath.Join(p.Host, "pyvenv.cfg")); err != nil || !st.Mode().IsRegular() {
		return base, agentkernel.Errorf(agentkernel.CodeUnavailable, "python", "there is no virtual environment at %s (any more)", p.Host).
			WithHint("agentkernel env ls shows those that were built; --with builds one again")
	}
	env := base
	env.Executable = filepath.Join(p.Host, "bin", "python")
	mine, err := filepath.EvalSymlinks(base.Executable)
	if err != nil {
		return base, missing("%s: %w", base.Executable, err)
	}
	if its, err := filepath.EvalSymlinks(env.Executable); err != nil || its != mine {
		return base, agentkernel.Errorf(agentkernel.CodeUnavailable, "python", "the virtual environment %s was made with another Python than %s, which runs programs here", p.Host, mine).
			WithHint("set `python` to the one that it was made with, then agentkernel shutdown; or make it anew")
	}
	env.Prefixes = append(slices.Clone(base.Prefixes), p.Host)
	env.Strange, env.Data = true, false // nothing of it is imported before a program's walls stand
	return env, nil
}

// identity tells a virtual environment from another that was there before under the same path: a zygote would go on
// seeing the one that was deleted.
func identity(host string) string {
	if host == "" {
		return ""
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(host, "pyvenv.cfg"), &st); err != nil {
		return host // whoever starts it says so
	}
	return fmt.Sprintf("%s\x00%d %d %d", host, st.Dev, st.Ino, st.Ctim.Nano())
}
