//go:build !linux

package command

import (
	"errors"
	"io"
)

// connect fails: there are no sandboxes here.
func connect() (io.ReadWriteCloser, error) {
	return nil, errors.New("there are no sandboxes on this system")
}
