// Package mcpserver offers a kernel to MCP clients: a coding assistant loads a handful of small tools instead
// of the schemas of all, finds the functions that it needs by searching, and writes programs that call them.
//
//	server.go   Config, New, stdio           http.go      streamable HTTP: bearer token, Origin
//	access.go   who may call over HTTP, and whose a session is
//	register.go tables of tools, arguments   schema.go    their schemas, short
//	execute.go  execute_code                 clients.go   who is connected, and their sessions
//	task.go     execute_task, sampling.go    artifacts.go files that programs leave
//	tasks.go    background tasks = processes progress.go  what a client hears while a program runs
//	find.go     servers and tools            library.go   state files and skills
//	protocol.go what each version of MCP has
//	resources.go output, code and state by address;   prompts.go  a prompt with the tools for a task
//
// It is a caller of the Kernel interface and knows nothing else of the kernel, so that it serves one in its own
// process and one behind a socket alike. Nothing that a program reads or computes reaches the client's model
// unless the program prints or returns it. A client sees only its own user's sessions, tasks and state files.
package mcpserver

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
)

// Config says what is offered.
type Config struct {
	Kernel  agentkernel.Kernel
	Version string
	// Spec is the template of each program: tools, permissions, limits, namespace. Its Program is replaced.
	Spec agentkernel.Spec
	// Minimal offers execute_code and search_tools alone.
	Minimal bool
	// Plan writes the program of a task in plain language; nil: execute_task is not offered.
	Plan func(task string, tools []agentkernel.Tool) (TaskPlan, error)
	// Agent gives the program with which a model of the kernel's own does a task in a namespace; nil: none is configured.
	Agent func(ctx context.Context, namespace, task string) (TaskPlan, error)
	// Packages gives the environment (Program.Host) with these packages and those that the program itself names, building
	// it if need be; "": none is needed. Nil: execute_code installs no packages.
	Packages func(ctx context.Context, source string, with []string) (host string, err error)
	// Leaving is called when the client of standard input goes, before its sessions are ended; nil: nobody needs to know.
	Leaving func()
	Logger  *slog.Logger
	Now     func() time.Time // for progress; nil: time.Now
}

// TaskPlan is the program of a task.
type TaskPlan struct {
	Program agentkernel.Program
	Mode    string // "template": no model wrote it; "model": a model of the kernel's does the task
	Recipe  string
	Budget  agentkernel.Budget // of the process; whoever is beyond it is refused
}

// instructions is what the client's model is told once.
const instructions = `Runs Python in a sandbox where tools are importable functions. Prefer one program over many tool calls: ` +
	`loop, filter and aggregate inside it, print only what you need. Find functions with search_tools, then: ` +
	`from tools.<server> import <function>. print() or the last expression is what you get back. Variables last between calls. No network or files except through tools.`

// server is what the handlers share.
type server struct {
	cfg       Config
	clients   *clients
	strangers *strangers
}

// ofOneUser keeps what the server answers from caches that others read: it says what one user's programs did, and which tools they have.
// Without it the protocol means that anybody may.
func ofOneUser(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" }

// New makes the server; run it on any transport of the SDK. Close ends the sessions that are left.
func New(cfg Config) (*Server, error) {
	if cfg.Kernel == nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "Config.Kernel is missing")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Spec.Namespace == "" {
		cfg.Spec.Namespace = "default"
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "agentkernel", Title: "AgentKernel", Version: cfg.Version},
		&mcp.ServerOptions{Instructions: instructions, Logger: cfg.Logger, PageSize: 1000, SetCacheable: ofOneUser})
	h := &server{cfg: cfg, clients: newClients(cfg), strangers: newStrangers(maxStrangers)}
	s.AddReceivingMiddleware(h.byProtocol)
	for _, d := range h.tools() {
		if d.offered(&cfg) {
			d.add(s, h)
		}
	}
	if !cfg.Minimal {
		h.addResources(s)
		h.addPrompts(s)
	}
	return &Server{Server: s, h: h}, nil
}

// Server is an MCP server in front of a kernel.
type Server struct {
	*mcp.Server
	h *server
}

// Close ends the sessions of all clients. Calls under way are answered as where a connection broke: what they run goes on, as
// background tasks do.
func (s *Server) Close() { s.h.clients.close() }

// ServeStdio serves one client on standard input and output until it goes away or ctx ends.
func ServeStdio(ctx context.Context, cfg Config) error {
	s, err := New(cfg)
	if err != nil {
		return err
	}
	leave := sync.OnceFunc(func() {
		if cfg.Leaving != nil {
			cfg.Leaving()
		}
		s.h.clients.hangUpAll()
	})
	defer s.Close()
	defer leave() // who ends its server has gone
	out := &oneWriter{Writer: os.Stdout}
	in := &untilEnd{ReadCloser: newLines(os.Stdin, out), ended: leave}
	defer context.AfterFunc(ctx, leave)() // the SDK would wait for the calls under way here, too
	return s.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out, MaxLineLength: maxRequest})
}

// untilEnd tells when a stream ends: the SDK would wait for the calls under way, whose client has gone.
type untilEnd struct {
	io.ReadCloser
	ended func()
}

func (u *untilEnd) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil {
		u.ended()
	}
	return n, err
}
