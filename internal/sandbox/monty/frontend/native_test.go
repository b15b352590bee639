package frontend_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentkernel/internal/sandbox/monty/frontend"
)

// TestNativeTables: the engine has what the tables say, and lacks what Check refuses.
func TestNativeTables(t *testing.T) {
	b := engine(t)
	for module, list := range frontend.NativeNames() {
		if module == "__future__" {
			continue
		}
		names := strings.Fields(list)
		if !slices.IsSorted(names) && !slices.IsSortedFunc(names, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }) {
			t.Errorf("%s: the names are not sorted", module)
		}
		for _, n := range names {
			// names are bound one by one: a name that a shim shadows is asked of the engine by its module
			src := fmt.Sprintf("import %s\nx = %s\nprint(hasattr(x, %q))", module, module, n)
			if n == "environ" {
				continue // a question to the host
			}
			if got := run(t, b, program(src), nil, nil).text(); got != "True\n" {
				t.Errorf("%s.%s: %s", module, n, got)
			}
		}
	}
}
