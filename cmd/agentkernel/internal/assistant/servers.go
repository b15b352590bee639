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
		} else if s.config, s.Kept = p.importable(m.Plain()); s.Kept == "" {
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
func (p *Place) importable(plain json.RawMessage) (config json.RawMessage, kept string) {
	var entry map[string]json.RawMessage
	if json.Unmarshal(plain, &entry) != nil {
		return nil, "it is no object"
	}
	for member, why := range needsClient {
		if _, there := entry[member]; there {
			return nil, why
		}
	}
	var known struct {
		Type, Transport, Command, URL, Cwd string
		Timeout                            json.RawMessage
	}
	if err := json.Unmarshal(plain, &known); err != nil {
		return nil, "it is not understood: " + strings.TrimPrefix(err.Error(), "json: ")
	}
	switch {
	case known.Type == "sse" || known.Transport == "sse":
		return nil, `type "sse" is the transport of 2024, which AgentKernel does not speak`
	case known.Command == "" && known.URL == "":
		return nil, `it has neither "command" nor "url"`
	}
	for _, v := range asks().FindAllString(string(plain), -1) {
		if name, _, _ := strings.Cut(strings.Trim(v, "${}"), ":"); p.Scope == Project && strings.HasPrefix(name, "workspaceFolder") && name != "workspaceFolderBasename" {
			continue // the folder of the tools file is the project's
		}
		return nil, v + " is filled in by the client"
	}
	return p.adapt(plain, entry, known.Cwd, known.Timeout)
}

// adapt writes what means something else in AgentKernel's tools file in its way; all other members stay as they are.
func (p *Place) adapt(plain json.RawMessage, entry map[string]json.RawMessage, cwd string, timeout json.RawMessage) (json.RawMessage, string) {
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
	if _, stdio := entry["command"]; stdio && filepath.Dir(p.Tools) != p.Folder && !filepath.IsAbs(cwd) && !strings.HasPrefix(cwd, "~") && !strings.HasPrefix(cwd, "$") {
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
