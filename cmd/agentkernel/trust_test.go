package main

import (
	"fmt"
	"strings"
	"testing"

	"agentkernel/cmd/agentkernel/internal/console"
)

// TestWhatIsAcceptedIsShown: of rules the beginning, and how much more there is; of a tools file every command, be they many.
func TestWhatIsAcceptedIsShown(t *testing.T) {
	var shown screen
	a := &app{con: console.New(console.Config{Out: &shown, Err: &shown})}
	a.workingDir = func() (string, error) { return "/p", nil }
	a.sayRules("/p/AGENTS.md", strings.Repeat("be kind\n", shownRules+30))
	modules := map[string]string{}
	var servers []string
	for i := range shownRules + 30 {
		modules[fmt.Sprintf("tools.s.f%d", i)] = ""
		servers = append(servers, fmt.Sprintf(`"s%d": {"command": "run-%d"}`, i, i))
	}
	a.sayLocal(modules)
	a.sayServers("/p/mcp.json", []byte(`{"mcpServers": {`+strings.Join(servers, ",")+`}}`))
	text := shown.String()
	for _, want := range []string{"... 30 lines more: read them before you accept them", "... 30 files more: read them before you accept them"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	for i := range servers {
		if want := fmt.Sprintf(`"s%d": ["run-%d"]`, i, i); !strings.Contains(text, want) {
			t.Errorf("%s is not shown", want)
		}
	}
}
