package why

import (
	"strings"
	"testing"
)

// What is to be typed next can be: a hosted process has no rerun, and the program of a child is in no file.
func TestNextStepsCanBeTyped(t *testing.T) {
	for name, c := range map[string]struct {
		of            func(*run)
		want, mustNot string
	}{
		"diverged":   {func(r *run) { r.p.Backend = hosted }, "agentkernel inspect 12", "rerun"},
		"exception":  {func(r *run) { r.p.Parent = 9 }, "agentkernel trace 9 --full", "--with"},
		"tool_error": {func(r *run) { r.p.Parent, r.p.Name = 9, "program-1.py" }, "agentkernel trace 9 --full", "program-1.py"},
		"limit_time": {func(r *run) { r.p.Backend = hosted }, "agentkernel inspect 12", "rerun"},
	} {
		r := cases()[name]
		if r == nil {
			continue
		}
		c.of(r)
		var list []string
		for _, s := range Of(Input{Process: r.p, Entries: r.entries, Now: r.now}).Next {
			list = append(list, s.Command)
		}
		text := strings.Join(list, "\n")
		if !strings.Contains(text, c.want) || strings.Contains(text, c.mustNot) {
			t.Errorf("%s: %s", name, text)
		}
	}
}
