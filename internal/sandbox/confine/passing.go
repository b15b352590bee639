package confine

import (
	"errors"
	"syscall"

	"agentkernel"
)

var (
	// errLost is in the error of what a spawner was asked for that ended meanwhile.
	errLost = errors.New("the spawner ended")
	// errUnborn is in the error of a child that was killed before it was let go. Nothing of its program has run, so that
	// another one can be made in its place.
	errUnborn = errors.New("the sandbox's first process was killed before it began")
)

// shortages are what this process or the machine has too little of at a moment, and may have enough of at the next.
var shortages = []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN}

// shortageOf is which of them err is; 0: none.
func shortageOf(err error) syscall.Errno {
	for _, e := range shortages {
		if errors.Is(err, e) {
			return e
		}
	}
	return 0
}

// Passing says whether err says nothing about the walls that can stand on this machine: a process was killed, or
// something was short that may be there at the next start.
func Passing(err error) bool {
	return errors.Is(err, errLost) || errors.Is(err, errUnborn) || shortageOf(err) != 0
}

// WithShortage is err, with what to do next where it is a shortage of open files.
func WithShortage(err *agentkernel.Error) *agentkernel.Error {
	switch shortageOf(err) {
	case syscall.EMFILE:
		return err.WithHint("the kernel may have too few open files: start it again after ulimit -n 4096")
	case syscall.ENFILE:
		return err.WithHint("the machine has too few open files: close some, or raise the setting fs.file-max")
	}
	return err
}
