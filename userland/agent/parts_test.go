package agent

import (
	"path"
	"regexp"
	"slices"
	"testing"
)

// TestPartsDoNotCollide: the parts are one program, so a name that two of them define is that of the later one also where the earlier one uses
// it. That is how agents.py and check.py take over; nobody else means it.
func TestPartsDoNotCollide(t *testing.T) {
	meant := map[string][]string{"agents.py": {"begin", "called", "answered_by_calls"}, "check.py": {"checked"}}
	instead := map[string]string{"folder.py": "child.py", "task.py": "chat.py"} // one of them is joined
	defined := regexp.MustCompile(`(?m)^(?:def|class) (\w+)|^(\w+(?:, \w+)*) = `)
	by := map[string][]string{}
	for _, part := range []string{"head.py", "schema.py", "tools.py", "child.py", "folder.py", "pictures.py", "loop.py", "agents.py", "check.py", "chat.py", "task.py"} {
		for _, m := range defined.FindAllStringSubmatch(text(part), -1) {
			for _, name := range regexp.MustCompile(`\w+`).FindAllString(m[1]+m[2], -1) {
				for _, other := range by[name] {
					if other != part && other != instead[part] && !slices.Contains(meant[part], name) {
						t.Errorf("%s defines %s, which %s does, too", part, name, other)
					}
				}
				by[name] = append(by[name], part)
			}
		}
	}
	names, err := files.ReadDir(".")
	if err != nil || len(by) < 50 {
		t.Errorf("%d names are defined; %v", len(by), err)
	}
	seen := map[string]bool{}
	for _, parts := range by {
		for _, part := range parts {
			seen[part] = true
		}
	}
	for _, f := range names {
		if path.Ext(f.Name()) == ".py" && !seen[f.Name()] {
			t.Errorf("%s is not looked at", f.Name())
		}
	}
}
