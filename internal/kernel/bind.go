package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/nearest"
)

// bindTimeout bounds how long a process waits for the servers whose tools it imports.
const bindTimeout = time.Minute

// binding is what a program's imports of tools mean. It is shared by all processes that mean the same.
type binding struct {
	source agentkernel.ToolSource
	tools  []agentkernel.Tool

	once sync.Once // see noted
	note json.RawMessage
}

// unbound is the binding of a program that imports no tools. It is never changed.
var unbound = binding{source: noTools{}}

// find looks a tool up by either of its names.
func (b *binding) find(server, tool string) *agentkernel.Tool {
	for i := range b.tools {
		t := &b.tools[i]
		if (t.Server == server || t.PythonServer == server) && (t.Name == tool || t.PythonName == tool) {
			return t
		}
	}
	return nil
}

// bindings shares bindings of equal programs for as long as the kernel lives; a program that starts later
// than fresh looks at the servers again.
type bindings struct {
	now  func() time.Time
	mu   sync.Mutex
	made map[string]madeBinding
}

type madeBinding struct {
	b  *binding
	at time.Time
}

const (
	bindingFresh = 2 * time.Second
	bindingsKept = 256
)

func newBindings(cfg Config) *bindings {
	return &bindings{now: cfg.Now, made: map[string]madeBinding{}}
}

func (bs *bindings) get(key string) *binding {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	m, ok := bs.made[key]
	if !ok || bs.now().Sub(m.at) > bindingFresh {
		return nil
	}
	return m.b
}

func (bs *bindings) put(key string, b *binding) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if len(bs.made) >= bindingsKept {
		clear(bs.made)
	}
	bs.made[key] = madeBinding{b, bs.now()}
}

// noTools is the source of a process without tool configuration.
type noTools struct{}

func (noTools) Servers(context.Context) ([]agentkernel.ToolServer, error) { return nil, nil }
func (noTools) Tools(_ context.Context, server string) ([]agentkernel.Tool, error) {
	return nil, agentkernel.Errorf(agentkernel.CodeNotFound, "tool", "no tool server %q: no tools are configured", server).
		WithHint("pass the MCP configuration with --tools FILE")
}
func (noTools) Call(context.Context, agentkernel.ToolCall) (agentkernel.ToolResult, error) {
	return agentkernel.ToolResult{NotSent: true}, agentkernel.Errorf(agentkernel.CodeNotFound, "tool", "no tools are configured")
}

func (k *Kernel) toolSource(s *agentkernel.Spec) (agentkernel.ToolSource, error) {
	if len(s.Tools) == 0 || k.cfg.Tools == nil {
		return noTools{}, nil
	}
	return k.cfg.Tools(s.ToolFiles())
}

// pinTools notes what the tools files of a new process hold.
func (k *Kernel) pinTools(s *agentkernel.Spec) error {
	src, err := k.toolSource(s)
	if err != nil {
		return err
	}
	if d, ok := src.(agentkernel.ToolDigester); ok {
		s.ToolDigests = d.Digests()
	}
	return k.shadowed(s, src)
}

// shadowed refuses local tools with the name of a server: which of the two a program means, nobody could tell. A child has
// the local tools of its parent.
func (k *Kernel) shadowed(s *agentkernel.Spec, src agentkernel.ToolSource) error {
	if len(s.Tools) == 0 || len(s.Program.Modules) == 0 || s.Program.Language != agentkernel.Python || strings.HasPrefix(s.IdempotencyKey, childKey) {
		return nil
	}
	local := map[string]string{}
	for module := range s.Program.Modules {
		if rest, ok := strings.CutPrefix(module, "tools."); ok {
			server, _, _ := strings.Cut(rest, ".")
			if have, ok := local[server]; !ok || module < have {
				local[server] = module
			}
		}
	}
	if len(local) == 0 {
		return nil
	}
	servers, err := src.Servers(k.ctx)
	if err != nil {
		return err
	}
	for _, srv := range servers {
		if module, both := local[srv.PythonName]; both {
			return agentkernel.Errorf(agentkernel.CodeInvalid, "tools", "the local tool %s and the server %q of %s have one name: a program that imports tools.%s could mean either",
				strings.ReplaceAll(module, ".", "/")+".py", srv.Name, srv.Source, srv.PythonName).
				WithHint("rename the folder tools/%s, or the server", srv.PythonName)
		}
	}
	return nil
}

// shadowedBy is shadowed for the local tools that a piece brings into a session.
func (k *Kernel) shadowedBy(p *process, modules map[string]string) error {
	if len(modules) == 0 {
		return nil
	}
	src, err := k.toolSource(&p.spec.Spec)
	if err != nil {
		return err
	}
	return k.shadowed(&agentkernel.Spec{Tools: p.spec.Tools, Program: agentkernel.Program{Language: p.spec.Program.Language, Modules: modules}}, src)
}

// bind finds the tools that a program imports. It may start servers.
func (k *Kernel) bind(p *process) (*binding, error) {
	needs, b, err := k.boundBefore(p)
	if b != nil || err != nil {
		return b, err
	}
	src, err := k.toolSource(&p.spec.Spec)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(p.context(), bindTimeout)
	defer cancel()
	b = &binding{source: src}
	if ref, err := b.addAll(ctx, needs.Tools); err != nil {
		return nil, atLine(p, ref, err)
	}
	k.bindings.put(bindingKey(p.spec.ToolFiles(), needs.Tools), b)
	return b, nil
}

// boundBefore is bind without asking a server; nil: one has to be asked.
func (k *Kernel) boundBefore(p *process) (agentkernel.Needs, *binding, error) {
	p.mu.Lock()
	b := p.bound
	p.mu.Unlock()
	if b != nil {
		return agentkernel.Needs{}, b, nil
	}
	return k.boundFor(p.backend, &p.spec.Spec)
}

// boundFor is boundBefore for a process that need not be there yet.
func (k *Kernel) boundFor(b *backend, s *agentkernel.Spec) (agentkernel.Needs, *binding, error) {
	needs, err := b.Check(s.Program)
	switch {
	case err != nil:
		return needs, nil, err
	case len(needs.Tools) == 0:
		return needs, &unbound, nil
	}
	return needs, k.bindings.get(bindingKey(s.ToolFiles(), needs.Tools)), nil
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

// addAll binds imports. Their servers are asked all at once, since each may have to start; of several errors the first
// in the program counts, with the import that it is about.
func (b *binding) addAll(ctx context.Context, refs []agentkernel.ToolRef) (agentkernel.ToolRef, error) {
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
			tools, err := b.source.Tools(ctx, ref.Server)
			ch <- answer{tools, err}
		}()
		asked[ref.Server] = sync.OnceValue(func() answer { return <-ch })
	}
	for _, ref := range refs {
		got := asked[ref.Server]()
		if got.err != nil {
			return ref, got.err
		}
		if err := b.add(ref, got.tools); err != nil {
			return ref, err
		}
	}
	return agentkernel.ToolRef{}, nil
}

// add binds one import: a tool, or all of a server.
func (b *binding) add(ref agentkernel.ToolRef, tools []agentkernel.Tool) error {
	for i := range tools {
		t := &tools[i]
		if ref.Name != "*" && t.PythonName != ref.Name && t.Name != ref.Name {
			continue
		}
		if b.find(t.Server, t.Name) == nil {
			b.tools = append(b.tools, *t)
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

// atLine says where in the program a tool is imported.
func atLine(p *process, ref agentkernel.ToolRef, err error) error {
	e := agentkernel.AsError(err, agentkernel.CodeUnavailable, "import")
	if ref.Line == 0 {
		return e
	}
	c := *e
	c.Err = fmt.Errorf("%s, line %d: %w", p.spec.Program.Name, ref.Line, e.Err)
	return &c
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

// listTools lists one server's tools, or all.
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
