// Package command is the program that sandboxes find as `kernel` on their PATH: system calls for shell scripts and
// for whatever can start a command. It is part of the kernel's own executable, which sees by its name what it is to be.
//
// It runs inside a sandbox and is trusted with nothing. It must never import anything of the kernel: all that it
// has is a descriptor on which the kernel listens.
package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Name is what the executable must be called to be this command, and DoorVariable names, in the environment, the
// descriptor by which it reaches the kernel.
const (
	Name         = "kernel"
	DoorVariable = "AGENTKERNEL_DOOR"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // the call ended with an error
	exitUsage       = 2
	exitDenied      = 3
	exitUnknown     = 4 // a write whose outcome is unknown
	exitLimit       = 5
	exitUnreachable = 6 // the kernel cannot be reached from here
	exitTimeout     = 124
	exitInterrupted = 130
)

var exitByCode = map[string]int{
	"permission_denied": exitDenied, "outcome_unknown": exitUnknown, "limit_exceeded": exitLimit, "timeout": exitTimeout,
	"interrupted": exitInterrupted, "invalid_argument": exitUsage,
}

// Main does not return if this process was started in a sandbox as `kernel`. Call it at the very beginning of main.
func Main() {
	if len(os.Args) == 0 || filepath.Base(os.Args[0]) != Name || os.Getenv(DoorVariable) == "" {
		return
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, connect))
}

// dialer gives a connection with the kernel.
type dialer func() (io.ReadWriteCloser, error)

// run makes the call that the arguments ask for.
func run(args []string, in io.Reader, out, said io.Writer, dial dialer) int {
	op, params, err := parse(args, in)
	if errors.Is(err, errHelp) {
		fmt.Fprint(out, usage)
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(said, "kernel: %v\n", err)
		return exitUsage
	}
	conn, err := dial()
	if err != nil {
		fmt.Fprintf(said, "kernel: %v\n", err)
		return exitUnreachable
	}
	defer func() { _ = conn.Close() }()
	result, failure, err := call(conn, op, params)
	switch {
	case err != nil:
		fmt.Fprintf(said, "kernel: the kernel does not answer: %v\n", err)
		return exitUnreachable
	case failure != nil:
		fmt.Fprintf(said, "kernel: %s\n", failure.Text)
		if code, ok := exitByCode[failure.Code]; ok {
			return code
		}
		return exitFailed
	}
	if err := show(out, result); err != nil {
		fmt.Fprintf(said, "kernel: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// show prints a result: text as it is, nothing for null, anything else as a line of JSON.
func show(out io.Writer, result json.RawMessage) error {
	var text string
	switch {
	case len(result) == 0 || string(result) == "null":
		return nil
	case json.Unmarshal(result, &text) == nil:
		result = []byte(text)
	}
	_, err := fmt.Fprintf(out, "%s\n", result)
	return err
}
