package tool

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/nearest"
	"agentkernel/internal/sys"
)

// Box finds the tools of programs. It implements sys.Toolbox.
type Box struct {
	open func(files []string) (agentkernel.ToolSource, error)
	now  func() time.Time

	mu   sync.Mutex
	made map[string]madeBinding
}

var _ sys.Toolbox = (*Box)(nil)

// madeBinding is shared by equal programs for as long as it is fresh; a program that starts later looks at the servers again.
type madeBinding struct {
	b  *sys.Binding
	at time.Time
}

const (
	bindingFresh = 2 * time.Second
	bindingsKept = 256
)

// New makes a toolbox. open gives the tools of a list of MCP configuration files; nil: there are none. now tells the time;
// nil: time.Now.
func New(open func(files []string) (agentkernel.ToolSource, error), now func() time.Time) *Box {
	if open == nil {
		open = func([]string) (agentkernel.ToolSource, error) { return noTools{}, nil }
	}
	if now == nil {
		now = time.Now
	}
	return &Box{open: open, now: now, made: map[string]madeBinding{}}
}

// noTools is the source of a process without tool configuration.
type noTools struct{}

func (noTools) Servers(context.Context) ([]agentkernel.ToolServer, error) { return nil, nil }
func (noTools) Tools(_ context.Context, server string) ([]agentkernel.Tool, error) {
	return nil, agentkernel.Errorf(agentkernel.CodeNotFound, "tool", "no tool server %q: no tools are configured", server).
		WithHint("pass the MCP configuration with --tools FILE")
}
func (noTools) Turn(string, string, time.Time) agentkernel.ToolTurn { return nil }
func (noTools) Call(context.Context, agentkernel.ToolCall) (agentkernel.ToolResult, error) {
	return agentkernel.ToolResult{NotSent: true}, agentkernel.Errorf(agentkernel.CodeNotFound, "tool", "no tools are configured")
}

// Source gives the tools of a Spec.
func (b *Box) Source(s *agentkernel.Spec) (agentkernel.ToolSource, error) {
	if len(s.Tools) == 0 {
		return noTools{}, nil
	}
	return b.open(s.ToolFiles())
}

// Open gives the tools of a list of configuration files.
func (b *Box) Open(files []string) (agentkernel.ToolSource, error) {
	return b.Source(&agentkernel.Spec{Tools: files})
}

// Pin notes in the Spec of a new process what its tools files hold.
func (b *Box) Pin(s *agentkernel.Spec) error {
	src, err := b.Source(s)
	if err != nil {
		return err
	}
	if d, ok := src.(agentkernel.ToolDigester); ok {
		s.ToolDigests = d.Digests()
	}
	return nil
}

// Shadowed refuses local tools with the name of a server of the Spec: a program that imports it could mean either.
func (b *Box) Shadowed(ctx context.Context, s *agentkernel.Spec, modules map[string]string) error {
	if len(modules) == 0 || len(s.Tools) == 0 || s.Program.Language != agentkernel.Python {
		return nil
	}
	local := localTools(modules)
	if len(local) == 0 {
		return nil
	}
	servers, err := b.ToolServers(ctx, s.ToolFiles())
	if err != nil {
		return err
	}
	for _, srv := range servers {
		if names, both := local[srv.PythonName]; both {
			return agentkernel.Errorf(agentkernel.CodeInvalid, "tools", "the local tool %s and the server %q of %s have one name: a program that imports tools.%s could mean either",
				strings.TrimSuffix("tools/"+srv.PythonName+"/"+strings.ReplaceAll(names[0], ".", "/"), "/")+".py", srv.Name, srv.Source, srv.PythonName).
				WithHint("rename the folder tools/%s, or the server", srv.PythonName)
		}
	}
	return nil
}

// unbound is the binding of a program that imports no tools.
var unbound sys.Binding

// Bound is the binding of imports if no server has to be asked for it; else nil.
func (b *Box) Bound(s *agentkernel.Spec, refs []agentkernel.ToolRef) *sys.Binding {
	if len(refs) == 0 {
		return &unbound
	}
	key := bindingKey(s.ToolFiles(), refs)
	b.mu.Lock()
	defer b.mu.Unlock()
	m, ok := b.made[key]
	if !ok || b.now().Sub(m.at) > bindingFresh {
		return nil
	}
	return m.b
}

// Bind finds the tools that a program imports, which may start servers. An error comes with the import that it is about.
func (b *Box) Bind(ctx context.Context, s *agentkernel.Spec, refs []agentkernel.ToolRef) (*sys.Binding, agentkernel.ToolRef, error) {
	if len(refs) == 0 {
		return &unbound, agentkernel.ToolRef{}, nil
	}
	local := localTools(s.Program.Modules)
	for _, ref := range refs {
		if names := local[ref.Server]; names != nil && ref.Name != "*" { // no server has the name of their folder
			return nil, ref, agentkernel.Errorf(agentkernel.CodeNotFound, "tool", "there is no local tool tools/%s/%s.py", ref.Server, ref.Name).
				WithHint("%s", nearest.Question(ref.Name, names))
		}
	}
	src, err := b.Source(s)
	if err != nil {
		return nil, agentkernel.ToolRef{}, err
	}
	tools, ref, err := imported(ctx, src, refs, local)
	if err != nil {
		return nil, ref, err
	}
	made := &sys.Binding{Tools: tools}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.made) >= bindingsKept {
		clear(b.made)
	}
	b.made[bindingKey(s.ToolFiles(), refs)] = madeBinding{made, b.now()}
	return made, agentkernel.ToolRef{}, nil
}

// localTools are the names of the local tools among the modules of a program in Python, by folder.
func localTools(modules map[string]string) map[string][]string {
	local := map[string][]string{}
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		if rest, ok := strings.CutPrefix(module, "tools."); ok {
			folder, name, _ := strings.Cut(rest, ".")
			local[folder] = append(local[folder], name)
		}
	}
	return local
}

// Gone implements sys.Toolbox.
func (b *Box) Gone(ctx context.Context, s *agentkernel.Spec) *agentkernel.Error {
	src, err := b.Source(s)
	if hosts, ok := src.(agentkernel.ToolHosts); ok && err == nil {
		err = hosts.Gone(ctx)
	}
	if err == nil || !errors.Is(err, agentkernel.ErrOfProgram) { // whatever else is wrong, the import says
		return nil
	}
	return agentkernel.AsError(err, agentkernel.CodeUnavailable, "tool")
}

// bindingKey names what imports mean. Their order counts: a backend may put it into its images, and one of another order
// would not be loaded.
func bindingKey(files []string, refs []agentkernel.ToolRef) string {
	var s strings.Builder
	for _, f := range files {
		s.WriteString(f)
		s.WriteByte(0)
	}
	for _, r := range refs {
		s.WriteString("\x01" + r.Server + "\x00" + r.Name)
	}
	return s.String()
}

// imported finds what imports mean. Their servers are asked all at once, since each may have to start; of several errors the
// first in the program counts, with the import that it is about. A server that is not there may be a misspelt folder of local
// tools.
func imported(ctx context.Context, src agentkernel.ToolSource, refs []agentkernel.ToolRef, local map[string][]string) (
	tools []agentkernel.Tool, about agentkernel.ToolRef, err error) {
	type answer struct {
		tools []agentkernel.Tool
		err   error
	}
	asked := map[string]func() answer{}
	for _, ref := range refs {
		if asked[ref.Server] != nil {
			continue
		}
		ch := make(chan answer, 1)
		go func() {
			tools, err := src.Tools(ctx, ref.Server)
			ch <- answer{tools, err}
		}()
		asked[ref.Server] = sync.OnceValue(func() answer { return <-ch })
	}
	var b sys.Binding
	for _, ref := range refs {
		got := asked[ref.Server]()
		if got.err != nil {
			if near := nearest.Question(ref.Server, slices.Sorted(maps.Keys(local))); near != "" && agentkernel.CodeOf(got.err) == agentkernel.CodeNotFound {
				return nil, ref, agentkernel.AsError(got.err, "", "").WithHint("%s", near)
			}
			return nil, ref, got.err
		}
		if err := add(&b, ref, got.tools); err != nil {
			return nil, ref, err
		}
	}
	return b.Tools, agentkernel.ToolRef{}, nil
}

// add binds one import: a tool, or all of a server.
func add(b *sys.Binding, ref agentkernel.ToolRef, tools []agentkernel.Tool) error {
	for i := range tools {
		t := &tools[i]
		if ref.Name != "*" && t.PythonName != ref.Name && t.Name != ref.Name {
			continue
		}
		if b.Find(t.Server, t.Name) == nil {
			b.Tools = append(b.Tools, *t)
		}
		if ref.Name != "*" {
			return nil
		}
	}
	if ref.Name == "*" {
		return nil
	}
	return noSuchTool(ref.Server, ref.Name, tools)
}

// maxNamed is how many tools of a server an error names.
const maxNamed = 30

func noSuchTool(server, name string, tools []agentkernel.Tool) *agentkernel.Error {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.PythonName
	}
	e := agentkernel.Errorf(agentkernel.CodeNotFound, "tool", "server %q has no tool %q", server, name)
	if q := nearest.Question(name, names); q != "" {
		return e.WithHint("%s", q)
	}
	if len(names) > 0 && len(names) <= maxNamed {
		return e.WithHint("it has: %s", strings.Join(names, ", "))
	}
	return e.WithHint("agentkernel tools list")
}

// ToolServers lists the servers of configuration files.
func (b *Box) ToolServers(ctx context.Context, files []string) ([]agentkernel.ToolServer, error) {
	src, err := b.Open(files)
	if err != nil {
		return nil, err
	}
	return src.Servers(ctx)
}

// ListTools lists the tools of a server, or of all ("").
func (b *Box) ListTools(ctx context.Context, files []string, server string) ([]agentkernel.Tool, error) {
	src, err := b.Open(files)
	if err != nil {
		return nil, err
	}
	return listTools(ctx, src, server)
}

func listTools(ctx context.Context, src agentkernel.ToolSource, server string) ([]agentkernel.Tool, error) {
	if server != "" {
		return src.Tools(ctx, server)
	}
	servers, err := src.Servers(ctx)
	if err != nil {
		return nil, err
	}
	var all []agentkernel.Tool
	for _, s := range servers {
		tools, err := src.Tools(ctx, s.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, tools...)
	}
	return all, nil
}

// SearchTools finds tools by what somebody wants to do.
func (b *Box) SearchTools(ctx context.Context, files []string, q agentkernel.ToolQuery) (agentkernel.ToolMatches, error) {
	if err := q.Validate(); err != nil {
		return agentkernel.ToolMatches{}, err
	}
	src, err := b.Open(files)
	if err != nil {
		return agentkernel.ToolMatches{}, err
	}
	if _, none := src.(noTools); none && len(q.Modules) > 0 {
		if src, err = b.open(nil); err != nil {
			return agentkernel.ToolMatches{}, err
		}
	}
	if s, ok := src.(agentkernel.ToolSearcher); ok {
		return s.SearchTools(ctx, q)
	}
	if _, none := src.(noTools); none {
		return agentkernel.ToolMatches{Tools: []agentkernel.Tool{}}, nil
	}
	return agentkernel.ToolMatches{}, agentkernel.Errorf(agentkernel.CodeUnsupported, "tools", "the tools of this kernel cannot be searched").
		WithHint("agentkernel tools list")
}

// AcceptTools accepts tools as they are now.
func (b *Box) AcceptTools(ctx context.Context, files []string, server string, names []string) (int, error) {
	src, err := b.Open(files)
	if err != nil {
		return 0, err
	}
	if p, ok := src.(agentkernel.ToolPinner); ok {
		return p.AcceptTools(ctx, server, names...)
	}
	return 0, agentkernel.Errorf(agentkernel.CodeUnsupported, "tools", "this kernel does not remember what tools looked like")
}
