package mcpserver_test

import (
	"strings"
	"testing"

	"agentkernel/internal/mcpserver"
)

// TestTokensThatOthersKnow: a public key or a document, which somebody gave in the place of a file of tokens, lets nobody in.
func TestTokensThatOthersKnow(t *testing.T) {
	const key = "AAAAC3NzaC1lZDI1NTE5AAAAIJwYg3D8mWl0oE0m1oVQ0pGmJ3pO9y1u8kR2yXr5bq0T"
	for _, text := range []string{
		"ssh-ed25519 " + key, key, "ann " + key, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`,
		"<html><title>404NotFoundNotFoundNotFoundNotFound</title>", "ann MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
	} {
		if tokens, err := mcpserver.ParseTokens(text); err == nil || !strings.Contains(err.Error(), "a public key or a document") {
			t.Errorf("%s: %v, %v", text, tokens, err)
		}
	}
	for _, text := range []string{"0f7c2d1e9b8a46535f4e3d2c1b0a99887766554433221100ffeeddccbbaa0011", "ann AAAAtJmVzc2hnY2R3cWxrYWpzZGhmbGtqYXNk", `bob x9!{"Zk2#mQ8$vL5^pW1&rT7*yU4(nB6)`} {
		if tokens, err := mcpserver.ParseTokens(text); err != nil || len(tokens) != 1 {
			t.Errorf("%s: %v, %v", text, tokens, err)
		}
	}
}
