package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"agentkernel"
)

func (h *server) findTools() []*definition {
	return []*definition{
		handle(&definition{name: "search_tools", minimal: true, shown: true, reads: true,
			say: "Find importable functions by what you want to do: imports, signatures, docs of the best. One search per function."}, searchTools),
		handle(&definition{name: "list_servers", reads: true, say: "Tool servers."}, listServers),
		handle(&definition{name: "list_available_tools", reads: true, say: "Names of all tools by server."}, listTools),
		handle(&definition{name: "get_server_tools", reads: true, say: "Signatures of a server's tools."}, serverTools),
	}
}

type searchInput struct {
	Query       string `json:"query"`
	DetailLevel string `json:"detail_level,omitempty" choices:"name,description,full"`
	MaxResults  int    `json:"max_results,omitempty" say:"default 6; 4 in full"`
}

// Where a search says nothing else: so many results, the first of them in full and the next with their signatures.
// One search is then enough to write a program, mostly.
const (
	defaultResults = 6
	defaultInFull  = 4 // where all are asked for in full
	bestInFull     = 1
	withSignature  = 4
)

// detailOf is how much is said of the result at a place.
func detailOf(asked string, at int) string {
	switch {
	case asked != "":
		return asked
	case at < bestInFull:
		return "full"
	case at < withSignature:
		return "signature"
	}
	return "description"
}

type searchOutput struct {
	Tools    []foundTool `json:"tools"`
	Total    int         `json:"total"`
	Problems []string    `json:"problems,omitempty"`
	query    string
}

// foundTool is one tool; what is there depends on the level of detail.
type foundTool struct {
	Import      string                  `json:"import"`
	Description string                  `json:"description,omitempty"`
	Signature   string                  `json:"signature,omitempty"`
	Doc         string                  `json:"doc,omitempty"`
	Effect      string                  `json:"effect,omitempty"`
	Observed    *agentkernel.ToolShape  `json:"observed,omitempty"`
	Changed     *agentkernel.ToolChange `json:"changed,omitempty"`
	refused     bool
}

func searchTools(ctx context.Context, c *call, in searchInput) (*searchOutput, error) {
	switch in.DetailLevel {
	case "", "name", "description", "full":
	default:
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "search_tools", "detail_level %.40q is not known: name, description or full", in.DetailLevel)
	}
	if in.MaxResults == 0 {
		in.MaxResults = defaultResults
		if in.DetailLevel == "full" {
			in.MaxResults = defaultInFull
		}
	}
	found, err := c.kernel().SearchTools(ctx, c.h.cfg.Spec.ToolFiles(), agentkernel.ToolQuery{Text: in.Query, Limit: in.MaxResults, Modules: c.h.local()})
	if err != nil {
		return nil, err
	}
	out := &searchOutput{Tools: []foundTool{}, Total: found.Total, Problems: found.Problems, query: in.Query}
	for i := range found.Tools {
		out.Tools = append(out.Tools, describe(&found.Tools[i], detailOf(in.DetailLevel, i)))
	}
	return out, nil
}

func counted(tools int) string {
	if tools == 1 {
		return "1 tool"
	}
	return fmt.Sprintf("%d tools", tools)
}

func (o *searchOutput) text() string {
	var b strings.Builder
	for _, t := range o.Tools {
		b.WriteString(t.text())
	}
	if len(o.Tools) == 0 {
		fmt.Fprintf(&b, "nothing found for %.200q among %s; try other words or an empty query\n", o.query, counted(o.Total))
	}
	for _, p := range o.Problems {
		fmt.Fprintf(&b, "not searched: %s\n", p)
	}
	return b.String()
}

func describe(t *agentkernel.Tool, detail string) foundTool {
	f := foundTool{Import: importLine(t)}
	if t.Changed != nil {
		changed := *t.Changed
		changed.Diff = "" // it is for people: what a server says of itself is not repeated to a model as news
		f.Changed, f.refused = &changed, t.Refused()
	}
	switch detail {
	case "description":
		f.Description = firstSentence(t.Description)
	case "signature":
		f.Description, f.Signature, f.Effect = firstSentence(t.Description), t.SeenSignature(), string(t.Effect)
	case "full":
		f.Signature, f.Doc, f.Effect, f.Observed = t.SeenSignature(), t.Doc, string(t.Effect), t.Observed
	}
	return f
}

func importLine(t *agentkernel.Tool) string {
	return fmt.Sprintf("from tools.%s import %s", t.PythonServer, t.PythonName)
}

func (f foundTool) text() string {
	s := f.Import
	if f.Description != "" {
		s += "  # " + f.Description
	}
	if f.Signature != "" {
		s += "\n  " + f.Signature + "  # " + f.Effect
	}
	if f.Doc != "" {
		s += "\n    " + indent(f.Doc)
	}
	if f.Observed != nil {
		s += "\n    " + indent(observed(f.Observed))
	}
	if c := f.Changed; c != nil && c.New {
		s += "\n    new: its server was known without it, so it counts as a write until the user accepts it"
	} else if c != nil {
		s += fmt.Sprintf("\n    changed: %s, since this tool was accepted on %s", strings.Join(c.What, ", "), c.Accepted.Format("2006-01-02"))
		if f.refused {
			s += "; it is refused until the user accepts it"
		}
	}
	return s + "\n"
}

func indent(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n    ") }

// observed says what results looked like where no schema does.
func observed(o *agentkernel.ToolShape) string {
	s := "Returns (observed in " + plural(o.Results, "result") + "): " + o.Type
	if o.Text != "" {
		s += ", the JSON text of " + o.Text + ": use json.loads"
	}
	if o.Members != "" {
		s += "\n    " + strings.ReplaceAll(o.Members, "\n", "\n    ")
	}
	return s
}

func plural(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// firstSentence keeps a description short.
func firstSentence(s string) string {
	const most = 160
	s = strings.Join(strings.Fields(s), " ")
	if i := strings.Index(s, ". "); i > 0 {
		s = s[:i+1]
	}
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most-1]) + "…"
	}
	return s
}

type serverInfo struct {
	Name       string `json:"name"`
	PythonName string `json:"python_name"`
	Transport  string `json:"transport"`
	Running    bool   `json:"running"`
	Problem    string `json:"problem,omitempty"`
}

type serverList struct {
	Servers []serverInfo `json:"servers"`
	Folders []string     `json:"folders,omitempty"` // that the client names as the user's
}

func listServers(ctx context.Context, c *call, _ nothing) (*serverList, error) {
	all, err := c.kernel().ToolServers(ctx, c.h.cfg.Spec.Tools)
	if err != nil {
		return nil, err
	}
	out := &serverList{Servers: []serverInfo{}, Folders: rootsOf(ctx, c.req.Session)}
	for _, s := range all {
		out.Servers = append(out.Servers, serverInfo{s.Name, s.PythonName, s.Transport, s.Running, s.Problem})
	}
	for _, name := range c.h.localServers() {
		out.Servers = append(out.Servers, serverInfo{Name: name, PythonName: name, Transport: "local", Running: true})
	}
	return out, nil
}

func (l *serverList) text() string {
	var b strings.Builder
	for _, folder := range l.Folders {
		b.WriteString("the user works in " + folder + "\n")
	}
	if len(l.Servers) == 0 {
		return b.String() + "no tool servers are configured"
	}
	for _, s := range l.Servers {
		b.WriteString("tools." + s.PythonName)
		if s.Name != s.PythonName {
			b.WriteString(" (" + s.Name + ")")
		}
		if s.Problem != "" {
			b.WriteString("  problem: " + s.Problem)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

type toolNames struct {
	Tools    map[string][]string `json:"tools"` // by server, both as programs import them
	Total    int                 `json:"total"`
	Problems []string            `json:"problems,omitempty"`
	order    []string
}

func listTools(ctx context.Context, c *call, _ nothing) (*toolNames, error) {
	found, err := c.kernel().SearchTools(ctx, c.h.cfg.Spec.ToolFiles(), agentkernel.ToolQuery{Limit: agentkernel.MaxToolMatches, Modules: c.h.local()})
	if err != nil {
		return nil, err
	}
	out := &toolNames{Tools: map[string][]string{}, Total: found.Total, Problems: found.Problems}
	for _, t := range found.Tools {
		if out.Tools[t.PythonServer] == nil {
			out.order = append(out.order, t.PythonServer)
		}
		out.Tools[t.PythonServer] = append(out.Tools[t.PythonServer], t.PythonName)
	}
	if n := len(found.Tools); n < found.Total {
		out.Problems = append(out.Problems, fmt.Sprintf("%d more tools are left out: search_tools finds them", found.Total-n))
	}
	return out, nil
}

func (l *toolNames) text() string {
	var b strings.Builder
	for _, server := range l.order {
		fmt.Fprintf(&b, "tools.%s: %s\n", server, strings.Join(l.Tools[server], ", "))
	}
	for _, p := range l.Problems {
		b.WriteString(p + "\n")
	}
	if b.Len() == 0 {
		return "no tools are configured"
	}
	return b.String()
}

type serverInput struct {
	ServerName string `json:"server_name"`
}

func serverTools(ctx context.Context, c *call, in serverInput) (*searchOutput, error) {
	if in.ServerName == "" {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "get_server_tools", "server_name is empty").WithHint("list_servers")
	}
	tools, err := c.toolsOf(ctx, in.ServerName)
	if err != nil {
		return nil, err
	}
	out := &searchOutput{Tools: []foundTool{}, Total: len(tools)}
	for i := range tools {
		out.Tools = append(out.Tools, describe(&tools[i], "signature"))
	}
	return out, nil
}

// toolsOf are the tools of a server, or of a folder of local tools.
func (c *call) toolsOf(ctx context.Context, server string) ([]agentkernel.Tool, error) {
	if !slices.Contains(c.h.localServers(), server) {
		return c.kernel().ListTools(ctx, c.h.cfg.Spec.ToolFiles(), server)
	}
	found, err := c.kernel().SearchTools(ctx, nil, agentkernel.ToolQuery{Server: server, Limit: agentkernel.MaxToolMatches, Modules: c.h.local()})
	return found.Tools, err
}

// local are the local tools that programs can import, as modules.
func (h *server) local() map[string]string { return h.cfg.Spec.Program.Modules }

// localServers are the folders of local tools, as programs name them.
func (h *server) localServers() []string {
	var names []string
	for module := range h.local() {
		if parts := strings.Split(module, "."); len(parts) == 3 && parts[0] == "tools" {
			names = append(names, parts[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
