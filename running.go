package agentkernel

import (
	"fmt"
	"regexp"
	"sync"
)

// OfRunningKernel stands in messages behind what a kernel keeps from its start: its environment and its settings. Whoever reads the message
// may have others, and is told which kernel that is.
const OfRunningKernel = "of the running kernel"

// NotOnPath is the cause of an error about a command that a kernel looks for on its PATH. [MissingCommand] reads the name back.
func NotOnPath(name string) error {
	return fmt.Errorf("there is no %s on the PATH %s", name, OfRunningKernel)
}

var missingCommand = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`there is no (\S+) on the PATH ` + OfRunningKernel)
})

// NotSet is the cause of an error about a variable that a kernel looks for in its environment. [UnsetVariable] reads the name back.
func NotSet(name string) error {
	return fmt.Errorf("environment variable %s is not set in the environment %s", name, OfRunningKernel)
}

var unsetVariable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`environment variable (\S+) is not set in the environment ` + OfRunningKernel)
})

// UnsetVariable is the variable that a message of [NotSet] is about; "": the message is about something else.
func UnsetVariable(message string) string {
	if m := unsetVariable().FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}

// MissingCommand is the command that a message of [NotOnPath] is about; "": the message is about something else.
func MissingCommand(message string) string {
	if m := missingCommand().FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}
