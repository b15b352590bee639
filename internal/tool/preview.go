package tool

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/envname"
)

// Preview says, one line a server, what a configuration file would start if it were accepted. It is read as the
// Hub reads it: another reader could show something else than what is started. Values of the user's own environment are
// shown as their names. Of headers, and of variables that look like secrets, only the names that they take are shown.
func Preview(file string, content []byte, lookup func(string) (string, bool)) ([]string, error) {
	entries, err := parseConfigAs(file, content, func(name string) (string, bool) {
		v, ok := lookup(name)
		if v != "" {
			v = "${" + name + "}"
		}
		return v, ok
	}, lookup)
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

// Variables are the names of the variables of the environment whose values a configuration file takes.
func Variables(file string, content []byte) ([]string, error) {
	names := map[string]bool{}
	_, err := parseConfig(file, content, func(name string) (string, bool) {
		names[name] = true
		return "x", true
	})
	return slices.Sorted(maps.Keys(names)), err
}

// Unpriced are the servers of a configuration file of whose tools it does not say what they cost.
func Unpriced(file string, content []byte) ([]string, error) {
	entries, err := parseConfig(file, content, func(string) (string, bool) { return "x", true })
	var names []string
	for _, e := range entries {
		if e.prices == nil && !e.disabled && !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	}
	return names, err
}

func (e *entry) preview() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q: ", e.name)
	switch {
	case e.problem != nil:
		problem := strings.ReplaceAll(e.problem.Message(), " "+agentkernel.OfRunningKernel, "") // this is not yet read by one
		problem = strings.TrimPrefix(printable(strings.ReplaceAll(problem, "\n", " ")), fmt.Sprintf("server %q ", e.name))
		b.WriteString("nothing, for now: " + strings.TrimPrefix(problem, fmt.Sprintf("(%s, %s): ", e.file, e.where)))
		if r := e.later; r != nil {
			then := &entry{transport: e.transport, command: r.Command, args: r.Args, env: r.Env, cwd: e.laterFolder(), url: r.URL, headers: r.Headers}
			is := "is "
			if e.transport == "http" {
				is = ""
			}
			b.WriteString("; then it " + is + then.starts())
		}
		return b.String()
	case e.disabled:
		b.WriteString("nothing, it is disabled: ")
	}
	return b.String() + e.starts()
}

// laterFolder is where a server would run whose variables are not all set: as the file says it, where it begins with a variable.
func (e *entry) laterFolder() string {
	cwd := e.later.Cwd
	at := variable().FindStringIndex(cwd)
	switch {
	case filepath.IsAbs(cwd), cwd == "~", strings.HasPrefix(cwd, "~/"), at != nil && at[0] == 0:
		return cwd
	case cwd == "":
		return filepath.Dir(e.file)
	}
	return filepath.Dir(e.file) + "/" + cwd // uncleaned: the value of a variable in it may be of many folders
}

// starts is what is started, or connected to.
func (e *entry) starts() string {
	var b strings.Builder
	if e.transport == "http" {
		fmt.Fprintf(&b, "connects to %q", e.url)
		for _, name := range slices.Sorted(maps.Keys(e.headers)) {
			fmt.Fprintf(&b, " with %q", name)
			if of := taken(e.headers[name]); of != "" {
				b.WriteString(" of " + of)
			}
		}
		return b.String()
	}
	fmt.Fprintf(&b, "%q", append([]string{e.command}, e.args...))
	fmt.Fprintf(&b, " in %q", e.cwd)
	for _, name := range slices.Sorted(maps.Keys(e.env)) {
		value := fmt.Sprintf("%q", e.env[name])
		if secretName().MatchString(name) {
			if value = "(hidden)"; taken(e.env[name]) != "" {
				value = "(hidden, of " + taken(e.env[name]) + ")"
			}
		}
		fmt.Fprintf(&b, " %q=%s", name, value)
	}
	return b.String()
}

// taken names the variables of the user's environment whose values are in value.
func taken(value string) string {
	var names []string
	for _, m := range variable().FindAllStringSubmatch(value, -1) {
		if envname.Valid(m[1]) && !slices.Contains(names, m[0]) {
			names = append(names, m[0])
		}
	}
	return strings.Join(names, ", ")
}
