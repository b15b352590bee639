package lazy_test

import (
	"testing"

	"agentkernel/internal/lazy"
)

func TestRegexp(t *testing.T) {
	digits := lazy.Regexp(`^[0-9]+$`)
	if !digits().MatchString("42") || digits().MatchString("4x") {
		t.Error("the expression is another")
	}
	if a, b := digits(), digits(); a != b {
		t.Error("compiled twice")
	}
}

// TestWrongExpression: a wrong expression fails the tests of its package, not the first user who needs it.
func TestWrongExpression(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a wrong expression was taken")
		}
	}()
	lazy.Regexp(`(`)
}
