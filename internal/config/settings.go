package config

import (
	"cmp"
	"slices"
	"strings"

	"agentkernel"
)

// Setting is one key with what is in force: the value as a flag would take it, and where it was set.
type Setting struct {
	Key
	Values []string // one, or any number for a list; none: the kernel's own default applies
	Origin Origin
}

// Settings lists all keys in the order of docs/config.md with their values.
func (c *Config) Settings() []Setting {
	var out []Setting
	for _, k := range keyTable() {
		out = append(out, Setting{Key: k.public(), Values: k.value.get(c), Origin: c.origins[k.name]})
	}
	return out
}

// Defaults lists all keys with the values that are in force where nothing is set. Those without a value are
// chosen by the kernel. v has what this package does not know: the data directory, the time for idling, the log, and the limit
// that another follows.
func Defaults(v Values) []Setting {
	d := defaults()
	v.Namespace, v.Backend, v.Priority, v.OnUnknown, v.Durability, v.Restart = d.Namespace, d.Backend, d.Priority, d.OnUnknown, d.Durability, d.Restart
	d.Limits.FileSize = cmp.Or(v.Limits.Disk, d.Limits.Disk) // a file may be as large as all of them together
	v.Limits = d.Limits
	v.Log.Level, v.Log.Format = "info", "text"
	v.Python, v.IsolationNone, v.KeepFailed = "python3", "asked", "no"
	return (&Config{Values: v}).Settings()
}

// defaults are those of the keys that describe a process.
func defaults() Values {
	return Values{Namespace: "default", Backend: "auto", Priority: agentkernel.DefaultPriority, OnUnknown: agentkernel.UnknownRaise,
		Durability: agentkernel.DurabilityFull, Restart: agentkernel.RestartNever, Limits: agentkernel.DefaultLimits()}
}

// Kernel are the settings of kernels that were set, as texts: a kernel keeps those with which it was started, whatever the commands
// that attach to it are told.
func (c *Config) Kernel() map[string]string {
	set := map[string]string{}
	for _, k := range slices.Concat(kernelKeys(), logKeys()) {
		if k.name != "home" && c.origins[k.name].Kind != Default {
			set[k.name] = strings.Join(k.value.get(c), ", ")
		}
	}
	return set
}
