package agentkernel

import "strings"

// limitFlags are the flags of the command line that set limits, by the names of the limits in JSON.
var limitFlags = map[string]string{"time": "--time", "wall": "--timeout", "memory": "--memory", "recursion": "--recursion", "output": "--output-limit",
	"calls": "--max-calls", "call_wait": "--call-timeout", "disk": "--disk", "cpus": "--cpus", "cpu_time": "--cpu-time", "pids": "--pids",
	"open_files": "--files", "file_size": "--file-size"}

// LimitFlag is the flag that sets a limit, which is named as in JSON; "": only a setting does.
func LimitFlag(limit string) string { return limitFlags[limit] }

// RaiseLimit is the hint for a program that a limit has ended: what raises it. Each [Reader] has its own name for that.
func RaiseLimit(limit string) string {
	if flag := LimitFlag(limit); flag != "" {
		return flag + " raises the " + strings.ReplaceAll(limit, "_", " ") + " limit, if the program is right"
	}
	return "the setting limits." + limit + " raises the " + strings.ReplaceAll(limit, "_", " ") + " limit, if the program is right"
}
