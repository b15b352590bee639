package hosting

import (
	"strings"
	"testing"

	"agentkernel"
)

// TestTheMessageOfAFailureNamesTheException: it is that of a program in a sandbox, whoever hosts it: lists of processes have no more.
func TestTheMessageOfAFailureNamesTheException(t *testing.T) {
	for want, e := range map[string]agentkernel.HostedError{
		"KeyError: 'boom'":                 {Message: "'boom'", Exception: "KeyError"},
		"ValueError":                       {Exception: "ValueError"},
		"ValueError: written by the host":  {Message: "ValueError: written by the host", Exception: "ValueError"},
		"TypeError: TypeErrors are errors": {Message: "TypeErrors are errors", Exception: "TypeError"},
		"it failed":                        {Message: "it failed"}, // as Go says it
	} {
		_, failure, err := ending(&agentkernel.HostedEnd{Error: &e})
		if err != nil || failure.Message() != want || failure.Exception != e.Exception {
			t.Errorf("%+v: %q, %v", e, failure.Message(), err)
		}
	}
	long := agentkernel.HostedError{Message: "m", Exception: strings.Repeat("E", 1<<20)}
	if _, failure, err := ending(&agentkernel.HostedEnd{Error: &long}); err != nil || len(failure.Message()) > 200 {
		t.Errorf("%d bytes, %v", len(failure.Message()), err)
	}
}
