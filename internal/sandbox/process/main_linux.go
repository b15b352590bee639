package process

import (
	"os"
	"path/filepath"

	"agentkernel/guest/command"
	"agentkernel/internal/sandbox/confine"
)

// Main belongs at the very beginning of main, and of TestMain: this executable is also the helper that builds walls,
// and the command `kernel` inside sandboxes. In such a process Main does not return.
func Main() {
	command.Main()
	confine.Main()
}

// OwnCommand is the present executable, for Config.Command, if users in sandboxes can execute it; "" otherwise.
func OwnCommand() string {
	file, err := os.Executable()
	if err != nil {
		return ""
	}
	if file, err = filepath.EvalSymlinks(file); err != nil {
		return ""
	}
	st, err := os.Stat(file)
	if err != nil || os.Geteuid() == 0 && st.Mode().Perm()&0o005 != 0o005 {
		return "" // root's sandboxes are other users
	}
	return file
}
