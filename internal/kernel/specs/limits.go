package specs

import "agentkernel"

// Smaller gives l, capped by what the parent has.
func Smaller(l, parent agentkernel.Limits) agentkernel.Limits {
	return agentkernel.Limits{
		Time: Lower(l.Time, parent.Time), Wall: Lower(l.Wall, parent.Wall), Memory: Lower(l.Memory, parent.Memory),
		Recursion: Lower(l.Recursion, parent.Recursion), Output: Lower(l.Output, parent.Output),
		Calls: Lower(l.Calls, parent.Calls), CallWait: Lower(l.CallWait, parent.CallWait),
		InFlight: Lower(l.InFlight, parent.InFlight), Processes: Lower(l.Processes, parent.Processes),
		Journal: Lower(l.Journal, parent.Journal), Disk: Lower(l.Disk, parent.Disk),
		CPUs: Lower(l.CPUs, parent.CPUs), CPUTime: Lower(l.CPUTime, parent.CPUTime), Pids: Lower(l.Pids, parent.Pids),
		OpenFiles: Lower(l.OpenFiles, parent.OpenFiles), FileSize: Lower(l.FileSize, parent.FileSize),
	}
}

// Lower is the smaller of two limits, of which 0 is none.
func Lower[T int | int64 | float64 | agentkernel.Duration](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
