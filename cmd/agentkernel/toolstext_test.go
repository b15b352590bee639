package main

import (
	"strings"
	"testing"

	"agentkernel"
)

// A server may call its tools what it likes: what people are told to type stays one word.
func TestEffectTextQuotesNames(t *testing.T) {
	text := effectText(agentkernel.Tool{Server: "q", Name: "x'; touch /tmp/x; '", Effect: agentkernel.EffectWrite})
	if want := `--allow 'q.x'\''; touch /tmp/x; '\''', or`; !strings.Contains(text, want) {
		t.Errorf("%s; want %s", text, want)
	}
}
