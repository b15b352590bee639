package process

import (
	"agentkernel"
	"agentkernel/internal/bytesize"
)

// tmpMost is the most that /tmp holds: it is memory.
const tmpMost = 64 << 20

// tmpBytes is what /tmp holds, for programs with these limits.
func tmpBytes(l agentkernel.Limits) int64 {
	if l.Disk <= 0 {
		return tmpMost
	}
	return max(min(l.Disk, tmpMost), 4<<10)
}

// struckLimit is the error for a limit that the system answers with an errno, which a program may handle: "pids",
// "open_files", "file_size", "cpu_time", and "tmp", which is the disk limit where that made /tmp smaller; nil for any other.
func struckLimit(name string, l agentkernel.Limits) *agentkernel.Error {
	switch name {
	case "pids":
		return limitError("pids", "the program wanted more processes and threads than its limit of %d at a time", l.Pids)
	case "open_files":
		return limitError("open_files", "a process of the program wanted more open files than its limit of %d", l.OpenFiles)
	case "file_size":
		if l.FileSize == l.Disk { // with a folder a file may be as large as all changes
			name = "disk"
		}
		return limitError(name, "the program wrote a file that is larger than %s", bytesize.InMiB(l.FileSize))
	case "cpu_time":
		return cpuLimit(l)
	case "tmp":
		if size := tmpBytes(l); size < tmpMost {
			return limitError("disk", "/tmp is full: it has %s for all its files", bytesize.InMiB(size))
		}
		return limitError("tmp", "/tmp is full: it has %s for all its files, and no more", bytesize.InMiB(tmpMost)).
			WithHint("a folder has more room: --workspace DIR, up to --disk")
	}
	return nil
}
