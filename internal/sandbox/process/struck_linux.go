package process

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/lazy"
	"agentkernel/internal/sandbox/confine"
)

// limitOfSignal is the limit for which the system sends a signal.
var limitOfSignal = map[syscall.Signal]string{unix.SIGXFSZ: "file_size", unix.SIGXCPU: "cpu_time"}

// limits are those in force, with what the walls have by default.
func (w *whole) limits() agentkernel.Limits { return inForce(w.req.Limits, w.cell) }

func inForce(l agentkernel.Limits, cell *confine.Cell) agentkernel.Limits {
	if cell != nil {
		l.FileSize, l.Pids, l.OpenFiles = cell.Config.Limits.FileSize, cell.Config.Limits.Pids, cell.Config.Limits.OpenFiles
	}
	return l
}

// tmpFull says whether it was /tmp that had no room: it is the only place to write, or it was seen full.
func (w *whole) tmpFull(exit confine.Exit) bool { return exit.Usage.TmpFull || len(w.req.Mounts) == 0 }

var refusedProcess = lazy.Regexp(`(?i)(fork|thread|clone|spawn|process)[^\n]*(resource temporarily unavailable|EAGAIN|errno[ =]11|os error 11)|can't start new thread|(cannot|can.t|unable to) fork`)

// struck names the limit for which a program has failed, as far as that can be seen from outside: the system answers such
// limits with an error, and what the program makes of it is its own. What it said last on stderr counts, in the words of
// the C library. "": none is known.
func (w *whole) struck(exit confine.Exit) string {
	code := exit.Status.ExitStatus()
	if code == 0 {
		return ""
	}
	if name := limitOfSignal[syscall.Signal(code-exitSignal)]; name != "" { // a shell whose command got it
		return name
	}
	said := w.said.String()
	switch {
	case exit.Usage.RefusedPids > 0, exit.Usage.PidsFull, refusedProcess().MatchString(said):
		return "pids"
	case strings.Contains(strings.ToLower(said), "too many open files"):
		return "open_files"
	case strings.Contains(said, "File too large"):
		return "file_size"
	case strings.Contains(said, "No space left on device") && w.tmpFull(exit):
		return "tmp"
	}
	return ""
}
