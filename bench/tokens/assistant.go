package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/mcpserver"
)

// serverSpec is an entry of an MCP configuration file.
type serverSpec struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitempty"`
	// StartTimeout in seconds: a machine under load starts Node slowly.
	StartTimeout int `json:"startTimeout"`
}

// direct is an assistant that calls the servers itself.
type direct struct {
	meter
	sessions map[string]*mcp.ClientSession
}

func connect(ctx context.Context, transport mcp.Transport) (*mcp.ClientSession, error) {
	return mcp.NewClient(&mcp.Implementation{Name: "tokens", Version: "1"}, nil).Connect(ctx, transport, nil)
}

// load reads the tools and instructions of a server, as a model does at the beginning of each conversation.
func (m *meter) load(ctx context.Context, s *mcp.ClientSession) error {
	before := m.in
	if r := s.InitializeResult(); r != nil {
		if err := m.reads(r.Instructions); err != nil {
			return err
		}
	}
	for t, err := range s.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		m.tools++
		text, err := compact(map[string]any{"name": t.Name, "description": t.Description, "input_schema": t.InputSchema})
		if err != nil {
			return err
		}
		if err := m.reads(text); err != nil {
			return err
		}
	}
	m.fixed += m.in - before
	return nil
}

func (d *direct) open(ctx context.Context, servers map[string]serverSpec) error {
	d.sessions = map[string]*mcp.ClientSession{}
	for name, s := range servers {
		cmd := exec.Command(s.Command, s.Args...)
		cmd.Env = os.Environ()
		for k, v := range s.Env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		session, err := connect(ctx, &mcp.CommandTransport{Command: cmd})
		if err != nil {
			return fmt.Errorf("server %s: %w", name, err)
		}
		d.sessions[name] = session
		if err := d.load(ctx, session); err != nil {
			return fmt.Errorf("server %s: %w", name, err)
		}
	}
	return nil
}

func (d *direct) close() error {
	var errs []error
	for _, s := range d.sessions {
		// A server that does not go when its input ends is sent a signal, as MCP wants it. What it was asked is done by then.
		if err := s.Close(); !isExit(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func isExit(err error) bool {
	_, ok := errors.AsType[*exec.ExitError](err)
	return ok
}

// call is one turn with one call.
func (d *direct) call(ctx context.Context, server, tool string, arguments any) (string, error) {
	d.turns++
	return d.also(ctx, server, tool, arguments)
}

// also is a further call in the same turn.
func (d *direct) also(ctx context.Context, server, tool string, arguments any) (string, error) {
	return d.invoke(ctx, d.sessions[server], tool, arguments)
}

func (m *meter) invoke(ctx context.Context, s *mcp.ClientSession, tool string, arguments any) (string, error) {
	if err := m.writes(tool, arguments); err != nil {
		return "", err
	}
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return "", fmt.Errorf("%s: %w", tool, err)
	}
	var text strings.Builder
	for _, c := range res.Content {
		t, ok := c.(*mcp.TextContent)
		if !ok {
			return "", fmt.Errorf("%s answered with %T, which is not counted", tool, c)
		}
		text.WriteString(t.Text)
	}
	if res.IsError {
		return "", fmt.Errorf("%s: %s", tool, text.String())
	}
	return text.String(), m.reads(text.String())
}

// programs is an assistant that writes programs.
type programs struct {
	meter
	kernel  *embedded.Kernel
	session *mcp.ClientSession
	server  *mcpserver.Server
	stop    context.CancelFunc
	done    chan error
	shown   string // all that searches have shown
	way     way
}

// way is what the side of programs has and knows.
type way struct {
	name, say string
	// plain says that the client has all tools of `agentkernel mcp`, and that its model leaves search_tools its
	// defaults and looks at data before it writes a program for it. Otherwise it has execute_code and search_tools
	// alone, asks for one result in full, and knows what data looks like.
	plain                   bool
	goalSaved, goalSmallest float64
}

func ways() []way {
	return []way{
		{name: "small", say: "`agentkernel mcp --minimal`; the model asks for one result in full, and knows what the data looks like", goalSaved: .95, goalSmallest: 1.2},
		{name: "default", say: "`agentkernel mcp` as it comes; the model leaves `search_tools` its defaults, and prints some of the data before it writes the program", plain: true, goalSaved: .93, goalSmallest: 1.1},
	}
}

func (p *programs) open(ctx context.Context, engine, dir string, servers map[string]serverSpec) error {
	file := filepath.Join(dir, "mcp.json")
	raw, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err == nil {
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		return err
	}
	if p.kernel, err = embedded.Open(ctx, embedded.Config{Home: filepath.Join(dir, "k"), Engine: engine, Version: "bench"}); err != nil {
		return err
	}
	// With a planner execute_task is offered, as in the product; it is not called.
	unused := func(string, []agentkernel.Tool) (mcpserver.TaskPlan, error) {
		return mcpserver.TaskPlan{}, errors.New("not used here")
	}
	p.server, err = mcpserver.New(mcpserver.Config{Kernel: p.kernel, Version: "bench", Minimal: !p.way.plain, Plan: unused,
		Spec: agentkernel.Spec{Tools: []string{file}, Allow: []string{"*"}}})
	if err != nil {
		return err
	}
	for name := range servers { // they run, as those of the other side do
		if _, err := p.kernel.ListTools(ctx, []string{file}, name); err != nil {
			return err
		}
	}
	here, there := mcp.NewInMemoryTransports()
	serving, stop := context.WithCancel(ctx)
	p.stop, p.done = stop, make(chan error, 1)
	go func() { p.done <- p.server.Run(serving, there) }()
	if p.session, err = connect(ctx, here); err != nil {
		return err
	}
	return p.load(ctx, p.session)
}

func (p *programs) close() error {
	var errs []error
	if p.session != nil {
		errs = append(errs, p.session.Close())
	}
	if p.stop != nil {
		p.stop()
		if err := <-p.done; !errors.Is(err, context.Canceled) {
			errs = append(errs, err)
		}
		p.server.Close()
	}
	if p.kernel != nil {
		errs = append(errs, p.kernel.Close())
	}
	return errors.Join(errs...)
}

// find makes searches in one turn.
func (p *programs) find(ctx context.Context, most int, queries ...string) error {
	p.turns++
	for _, q := range queries {
		arguments := map[string]any{"query": q}
		if !p.way.plain {
			arguments["detail_level"], arguments["max_results"] = "full", most
		}
		text, err := p.invoke(ctx, p.session, "search_tools", arguments)
		if err != nil {
			return err
		}
		p.shown += text
	}
	return nil
}

var importLine = regexp.MustCompile(`(?m)^from (tools\.\w+) import (.+)$`)

// look runs a program that shows what the data looks like, if this model looks.
func (p *programs) look(ctx context.Context, code string) error {
	if !p.way.plain {
		return nil
	}
	_, err := p.run(ctx, code)
	return err
}

// run runs a program, whose functions a search must have shown.
func (p *programs) run(ctx context.Context, code string) (string, error) {
	for _, m := range importLine.FindAllStringSubmatch(code, -1) {
		for name := range strings.SplitSeq(m[2], ", ") {
			if !p.knows(m[1], name) {
				return "", fmt.Errorf("the program imports %s from %s, which no search has shown; they showed\n%s", name, m[1], p.shown)
			}
		}
	}
	p.turns++
	return p.invoke(ctx, p.session, "execute_code", map[string]any{"code": code})
}

// knows says whether a search has shown the import and the signature of a function.
func (p *programs) knows(module, name string) bool {
	for line := range strings.Lines(p.shown) {
		shown, _, _ := strings.Cut(line, "  #")
		if strings.TrimSpace(shown) == "from "+module+" import "+name {
			return strings.Contains(p.shown, "\n  "+name+"(")
		}
	}
	return false
}
