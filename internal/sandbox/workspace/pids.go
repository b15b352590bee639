package workspace

import "agentkernel"

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
