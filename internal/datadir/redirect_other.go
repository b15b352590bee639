//go:build !linux

package datadir

import (
	"os"

	"golang.org/x/sys/unix"
)

// redirect makes what is written to a standard stream go to f.
func redirect(f, stream *os.File) error { return unix.Dup2(int(f.Fd()), int(stream.Fd())) }
