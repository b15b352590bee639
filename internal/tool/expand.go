package tool

import (
	"fmt"
	"path/filepath"
	"strings"

	"agentkernel"
	"agentkernel/internal/envname"
	"agentkernel/internal/lazy"
)

var variable = lazy.Regexp(`\$\{([^{}]*)\}`)

// expander replaces ${NAME}, ${env:NAME}, ${NAME:-default}, ${workspaceFolder} and ${userHome}, and
// remembers which values of the environment it brought in, because they may be secrets.
type expander struct {
	lookup func(string) (string, bool)
	actual func(string) (string, bool) // if not nil, lookup gives names to be shown, and this their values
	folder string                      // ${workspaceFolder}: the directory of the configuration file
	used   map[string]string
}

func (x *expander) expand(s string) (string, error) {
	if !strings.Contains(s, "${") {
		return s, nil
	}
	var failed error
	out := variable().ReplaceAllStringFunc(s, func(m string) string {
		v, err := x.value(m[2 : len(m)-1])
		if err != nil && failed == nil {
			failed = err
		}
		return v
	})
	return out, failed
}

func (x *expander) value(name string) (string, error) {
	switch name {
	case "workspaceFolder", "workspaceRoot":
		return x.folder, nil
	case "userHome":
		name = "HOME"
	}
	if kind, _, ok := strings.Cut(name, ":"); ok && (kind == "input" || kind == "command" || kind == "config") {
		return "", fmt.Errorf("${%s} asks an editor, and there is none here: put the value into an environment variable and write ${env:NAME}", name)
	}
	name = strings.TrimPrefix(name, "env:")
	name, fallback, hasFallback := strings.Cut(name, ":-")
	if !envname.Valid(name) {
		return "", fmt.Errorf("${%s} is not a variable: write ${NAME}, ${env:NAME}, ${NAME:-default} or ${workspaceFolder}", name)
	}
	v, ok := x.lookup(name)
	if !ok || v == "" && hasFallback {
		if hasFallback {
			return fallback, nil
		}
		return "", fmt.Errorf("%w: set it before the kernel starts, or write ${%s:-default}", agentkernel.NotSet(name), name)
	}
	if x.used == nil {
		x.used = map[string]string{}
	}
	x.used[name] = v
	return v, nil
}

// join puts a path below a folder. Of names of variables that stand for values nothing is known to filepath.Join: to it, ".." takes away a name
// that stands for many folders.
func (x *expander) join(folder, path string) string {
	if x.actual == nil || folder == "" || path == "" || !strings.Contains(folder+path, "${") {
		return filepath.Join(folder, path)
	}
	return folder + "/" + path
}

func (x *expander) all(list []string) ([]string, error) {
	out := make([]string, len(list))
	for i, s := range list {
		v, err := x.expand(s)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (x *expander) values(m map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(m))
	for k, s := range m {
		v, err := x.expand(s)
		if err != nil {
			return nil, err
		}
		out[k] = v
	}
	return out, nil
}
