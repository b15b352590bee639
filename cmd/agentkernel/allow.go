package main

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/config"
	"agentkernel/internal/nearest"
	"agentkernel/internal/shellword"
)

// knownServer is a tool server as the notes on --allow see it.
type knownServer struct {
	agentkernel.ToolServer
	asked bool // tools are all that it has
	tools []agentkernel.Tool
}

// mentionAllow says which patterns of --allow allow nothing: a misspelt one looks as if it had helped. It starts no server, so of
// one that does not run it knows the name alone. Patterns of the settings are for many programs, and may fit none of one.
func (a *app) mentionAllow(k agentkernel.Kernel, spec *agentkernel.Spec) {
	if len(spec.Allow) == 0 || a.cfg.Origin("allow").Kind != config.Flag || a.cli.quiet() {
		return
	}
	listed, err := k.ToolServers(a.ctx, spec.Tools)
	if err != nil {
		return // what is wrong with the tools file is said elsewhere
	}
	servers := make([]knownServer, len(listed))
	for i, s := range listed {
		servers[i].ToolServer = s
		if s.Running {
			servers[i].tools, err = k.ListTools(a.ctx, spec.Tools, s.Name)
			servers[i].asked = err == nil
		}
	}
	for _, note := range idlePatterns(spec.Allow, servers) {
		a.con.Note("%s", note)
	}
}

// idlePatterns are notes on the patterns that no tool can match.
func idlePatterns(patterns []string, servers []knownServer) (notes []string) {
	for _, p := range patterns {
		if why := idlePattern(p, servers); why != "" {
			notes = append(notes, fmt.Sprintf("--allow %s allows nothing: %s", shellword.Quoted(p), why))
		}
	}
	return notes
}

// idlePattern says why no tool matches a pattern, with the nearest that does; "": one does, or may.
func idlePattern(pattern string, servers []knownServer) string {
	if len(servers) == 0 {
		return "there are no tool servers; --tools names a file of them"
	}
	var named []*knownServer
	for i := range servers {
		if servers[i].matches(pattern) {
			named = append(named, &servers[i])
		}
	}
	serverPart, toolPart, _ := strings.Cut(pattern, ".")
	if len(named) == 0 {
		var names []string
		for _, s := range servers {
			names = append(names, s.PythonName)
		}
		near := nearest.One(serverPart, names)
		if !strings.Contains(pattern, ".") && near == "" {
			return fmt.Sprintf("a pattern begins with the name of a tool server; did you mean %s?", withServer(pattern, servers))
		}
		return withQuestion(fmt.Sprintf("there is no tool server %q", serverPart), near)
	}
	var near []string
	full := map[string]string{}
	word := strings.TrimRight(toolPart, "*?")
	for _, s := range named {
		if !s.asked || slices.ContainsFunc(s.tools, func(t agentkernel.Tool) bool { return t.AllowedBy(pattern) }) {
			return ""
		}
		for _, t := range s.tools { // a pattern that names a beginning is compared with beginnings
			name := t.PythonName
			if word != toolPart {
				name = name[:min(len(name), len(word))]
			}
			if full[name] == "" {
				full[name] = s.PythonName + "." + t.PythonName
			}
			near = append(near, name)
		}
	}
	return withQuestion(fmt.Sprintf("%s has no such tool", named[0].PythonName), full[nearest.One(word, near)])
}

// withServer is the pattern that a tool's name alone was probably meant for: of the server that has it or one of nearly that name, else of one
// of which the tools are not known, else of any.
func withServer(toolName string, servers []knownServer) string {
	full, names := map[string]string{}, []string{}
	server := servers[0].PythonName
	for _, s := range slices.Backward(servers) {
		if !s.asked {
			server = s.PythonName
		}
		for _, t := range s.tools {
			full[t.PythonName] = s.PythonName + "." + t.PythonName
			names = append(names, t.PythonName)
		}
	}
	if full[toolName] == "" {
		toolName = cmp.Or(nearest.One(toolName, names), toolName)
	}
	return cmp.Or(full[toolName], server+"."+toolName)
}

// matches says whether a pattern means this server, or tools of it.
func (s *knownServer) matches(pattern string) bool {
	parts := []string{pattern}
	for i, c := range pattern { // names may have dots
		if c == '.' {
			parts = append(parts, pattern[:i])
		}
	}
	return slices.ContainsFunc(parts, func(part string) bool {
		for _, name := range []string{s.Name, s.PythonName} {
			if ok, err := path.Match(part, name); ok && err == nil {
				return true
			}
		}
		return part == "*"
	})
}

func withQuestion(text, near string) string {
	if near == "" {
		return text
	}
	return text + "; did you mean " + near + "?"
}

// asTyped is a command with its arguments as they are typed in a shell.
func asTyped(args ...string) string {
	for i, arg := range args {
		if filepath.IsAbs(arg) || !strings.HasPrefix(arg, "-") {
			args[i] = shellword.File(arg)
		}
	}
	return strings.Join(args, " ")
}
