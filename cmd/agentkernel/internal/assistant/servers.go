package assistant

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/jsonc"
	"agentkernel/internal/lazy"
	"agentkernel/internal/nearest"
)

// Server is one server of a client's file, and what becomes of it.
type Server struct {
	Name   string
	Kept   string // why it stays with the client; "": it moves
	raw    []byte // as it stands in the client's file
	placed bool   // it named no folder to start in, and has got one
	config json.RawMessage
}

// needsClient are members of an entry that only the client can act on, and why.
var needsClient = map[string]string{
	"envFile":       "its environment comes from an envFile",
	"headersHelper": "its headers come from a command of the client's",
	"oauth":         "the client logs in to it",
	"auth":          "the client logs in to it",
	"sandbox":       "the client runs it in a sandbox of its own",
}

// asks are variables that an editor fills in by asking, or from what is open in it.
var asks = lazy.Regexp(`\$\{(input|command|config|workspaceFolder|workspaceRoot|workspaceFolderBasename|file|relativeFile|lineNumber|selectedText)\b[^}]*\}`)

// survey decides about each server of the client's file.
func (p *Place) survey(d *jsonc.Doc, keep []string) ([]Server, error) {
	members, _, err := d.Members(p.Client.Key)
	if err != nil {
		return nil, p.broken(err)
	}
	var names []string
	var out []Server
	for _, m := range members {
		if m.Key == Entry {
			continue
		}
		names = append(names, m.Key)
		s := Server{Name: m.Key, raw: m.Value}
		if slices.Contains(keep, m.Key) {
			s.Kept = "--keep"
		} else if s.config, s.placed, s.Kept = p.importable(m.Plain()); s.Kept == "" {
			s.config = json.RawMessage(strings.TrimSpace(string(s.config)))
		}
		out = append(out, s)
	}
	for _, k := range keep {
		if !slices.Contains(names, k) {
			e := agentkernel.Errorf(agentkernel.CodeInvalid, op, "--keep: there is no server %q in %s", k, p.File)
			if near := nearest.One(k, names); near != "" {
				return nil, e.WithHint("did you mean %q?", near)
			}
			return nil, e
		}
	}
	return out, nil
}

// importable gives an entry as AgentKernel's tools file has it, or why it has to stay.
func (p *Place) importable(plain json.RawMessage) (config json.RawMessage, placed bool, kept string) {
	var entry map[string]json.RawMessage
	if json.Unmarshal(plain, &entry) != nil {
		return nil, false, "it is no object"
	}
	for member, why := range needsClient {
		if _, there := entry[member]; there {
			return nil, false, why
		}
	}
	var known struct {
		Type, Transport, Command, URL, Cwd string
		Timeout                            json.RawMessage
		Args                               []string
	}
	if err := json.Unmarshal(plain, &known); err != nil {
		return nil, false, "it is not understood: " + strings.TrimPrefix(err.Error(), "json: ")
	}
	switch {
	case known.Type == "sse" || known.Transport == "sse":
		return nil, false, `type "sse" is the transport of 2024, which AgentKernel does not speak`
	case known.Command == "" && known.URL == "":
		return nil, false, `it has neither "command" nor "url"`
	}
	for _, v := range asks().FindAllString(string(plain), -1) {
		if name, _, _ := strings.Cut(strings.Trim(v, "${}"), ":"); p.Scope == Project && strings.HasPrefix(name, "workspaceFolder") && name != "workspaceFolderBasename" {
			continue // the folder of the tools file is the project's
		}
		return nil, false, v + " is filled in by the client"
	}
	placed = known.Command != "" && filepath.Dir(p.Tools) != p.Folder && !absolute(known.Cwd)
	if placed && p.Scope == User {
		for _, name := range append([]string{known.Cwd, known.Command}, known.Args...) {
			if relative(name) {
				return nil, false, fmt.Sprintf("%s is a place in the folder that the client is opened in, and here it would be one in %s: with an absolute path, or an absolute \"cwd\", it moves", name, p.Folder)
			}
		}
	}
	config, kept = p.adapt(plain, placed, known.Cwd, known.Timeout)
	return config, placed, kept
}

// absolute says of a folder whether it is one wherever the server is started: the kernel fills in ~ and variables.
func absolute(dir string) bool {
	return filepath.IsAbs(dir) || strings.HasPrefix(dir, "~") || strings.HasPrefix(dir, "$")
}

// relative says whether a word of a command line, or the value of a flag, is surely a path that begins in the folder of whoever starts the
// server. "src" may be one, and may be a word.
func relative(word string) bool {
	if strings.HasPrefix(word, "-") {
		_, word, _ = strings.Cut(word, "=")
	}
	return word == "." || word == ".." || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../")
}

// adapt writes what means something else in AgentKernel's tools file in its way; all other members stay as they are.
func (p *Place) adapt(plain json.RawMessage, placed bool, cwd string, timeout json.RawMessage) (json.RawMessage, string) {
	d, err := jsonc.Parse(plain)
	if err != nil {
		return nil, "it is not understood: " + err.Error()
	}
	set := func(key string, value any) {
		raw, merr := json.Marshal(value)
		if err == nil {
			err = merr
		}
		if err == nil {
			err = d.Set(nil, key, raw)
		}
	}
	// Claude Code counts a call's time in milliseconds, AgentKernel's file in seconds.
	var ms float64
	if p.Client.Name == "claude" && json.Unmarshal(timeout, &ms) == nil && ms > 0 {
		set("timeout", fmt.Sprintf("%gms", ms))
	}
	// Clients start a server in the project, or in the home directory; the tools file may lie elsewhere.
	if placed {
		set("cwd", filepath.Join(p.Folder, cwd))
	}
	if err != nil {
		return nil, "it is not understood: " + err.Error()
	}
	return d.Bytes(), ""
}

// broken says that the client's file is not understood.
func (p *Place) broken(err error) error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, op, "%s, %v; nothing was changed", p.File, err).
		WithHint("mend the file (%s itself cannot read it either), or name another one with --file", p.Client.Title)
}
