package agentkernel

import (
	"fmt"
	"testing"
)

func TestMissingCommand(t *testing.T) {
	err := fmt.Errorf("the server paths does not start: %w: install it", NotOnPath("node"))
	if got := MissingCommand(err.Error()); got != "node" {
		t.Errorf("%v is about %q", err, got)
	}
	if got := MissingCommand("there is no node on the PATH that the env of its entry sets"); got != "" {
		t.Errorf("that of an entry of its own is taken for %q", got)
	}
}

func TestUnsetVariable(t *testing.T) {
	err := fmt.Errorf("server \"notes\": %w: set it", NotSet("TOKEN"))
	if got := UnsetVariable(err.Error()); got != "TOKEN" {
		t.Errorf("%v is about %q", err, got)
	}
	if got := UnsetVariable("environment variable TOKEN is not set in the environment: set it"); got != "" {
		t.Errorf("that of the command itself is taken for %q", got)
	}
}
