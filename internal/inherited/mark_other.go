//go:build !linux

package inherited

// folder names the open files of whoever looks.
const folder = "/dev/fd"

func markAll() bool { return false }
