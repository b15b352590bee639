package frontend_test

import (
	"os"
	"regexp"
	"testing"

	"agentkernel/internal/sandbox/monty/frontend"
)

// TestDocumented: docs/python.md names every module that programs may import and every builtin that is refused.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/python.md")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for _, w := range regexp.MustCompile(`[\w.]+\w`).FindAllString(string(text), -1) {
		words[w] = true
	}
	for _, m := range frontend.Importable() {
		switch m {
		case "__future__", "kernel", "kernel.aio", "urllib":
		default:
			if !words[m] {
				t.Errorf("docs/python.md does not name module %s", m)
			}
		}
	}
	for _, b := range frontend.MissingBuiltins() {
		switch b {
		case "__builtins__", "__import__", "__file__", "classmethod", "staticmethod", "aiter", "anext":
		default:
			if !words[b] {
				t.Errorf("docs/python.md does not name %s", b)
			}
		}
	}
}
