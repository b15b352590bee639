package tool

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Preview says, one line a server, what a configuration file would start if it were accepted. It is read as the
// Hub reads it: whoever shows it by another reader can be shown something else than what is started. Values
// of the user's own environment stand as their names, and those of variables that look like secrets not at all.
func Preview(file string, content []byte, lookup func(string) (string, bool)) ([]string, error) {
	entries, err := parseConfig(file, content, func(name string) (string, bool) {
		v, ok := lookup(name)
		if v != "" {
			v = "${" + name + "}"
		}
		return v, ok
	})
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var lines []string
	for _, e := range entries {
		if seen[e.name] { // the first one counts
			continue
		}
		seen[e.name] = true
		lines = append(lines, e.preview())
	}
	return lines, nil
}

func (e *entry) preview() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q: ", e.name)
	switch {
	case e.problem != nil:
		fmt.Fprintf(&b, "nothing, for now: %q", e.problem.Message())
		return b.String()
	case e.disabled:
		b.WriteString("nothing, it is disabled: ")
	}
	if e.transport == "http" {
		fmt.Fprintf(&b, "connects to %q", e.url)
		for _, name := range slices.Sorted(maps.Keys(e.headers)) {
			fmt.Fprintf(&b, " with %q", name)
		}
		return b.String()
	}
	fmt.Fprintf(&b, "%q", append([]string{e.command}, e.args...))
	fmt.Fprintf(&b, " in %q", e.cwd)
	for _, name := range slices.Sorted(maps.Keys(e.env)) {
		value := fmt.Sprintf("%q", e.env[name])
		if secretName().MatchString(name) {
			value = "(hidden)"
		}
		fmt.Fprintf(&b, " %q=%s", name, value)
	}
	return b.String()
}
