package envname_test

import (
	"testing"

	"agentkernel/internal/envname"
)

func TestValid(t *testing.T) {
	for name, valid := range map[string]bool{
		"A": true, "_": true, "OPENAI_API_KEY": true, "x9": true,
		"": false, "9x": false, "sk-1": false, "A B": false, "A\n": false, "ä": false, "A.B": false, "A=": false,
	} {
		if envname.Valid(name) != valid {
			t.Errorf("%q is valid: %t", name, !valid)
		}
	}
}
