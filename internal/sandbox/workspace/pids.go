package workspace

import (
	"cmp"
	"slices"

	"agentkernel"
)

// pidsIn are the names that are PIDs.
func pidsIn(names []string) (out []agentkernel.PID) {
	for _, name := range names {
		if pid, err := agentkernel.ParsePID(name); err == nil && pid.String() == name {
			out = append(out, pid)
		}
	}
	return out
}

// PIDs lists the processes of which there is something in the directory.
func (s *Store) PIDs() ([]agentkernel.PID, error) {
	names, err := s.names()
	return pidsIn(names), err
}

// Holding lists the processes whose layers hold something that nobody has applied or discarded, the newest first. Those that still run
// are among them, and so is one whose files are as they were in the end.
func (s *Store) Holding() ([]agentkernel.PID, error) {
	pids, err := s.PIDs()
	return slices.DeleteFunc(newestFirst(pids), func(pid agentkernel.PID) bool { return !s.holds(pid) }), err
}

// HoldingIn is Holding of the directory of a kernel that may run elsewhere, for whoever only reads. It looks at so many processes at most, and
// says at how many older ones it did not.
func HoldingIn(dir string, most int) (pids []agentkernel.PID, older int, err error) {
	s := New(Config{Dir: dir})
	if pids, err = s.PIDs(); err != nil {
		return nil, 0, err
	}
	if newestFirst(pids); len(pids) > most {
		older, pids = len(pids)-most, pids[:most]
	}
	return slices.DeleteFunc(pids, func(pid agentkernel.PID) bool { return !s.holds(pid) }), older, nil
}

func newestFirst(pids []agentkernel.PID) []agentkernel.PID {
	slices.SortFunc(pids, func(a, b agentkernel.PID) int { return cmp.Compare(b, a) })
	return pids
}
