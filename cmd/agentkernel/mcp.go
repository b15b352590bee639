package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/mcpserver"
)

type mcpCmd struct {
	HTTP        string   `name:"http" placeholder:"ADDRESS" help:"Serve many clients over streamable HTTP at this address (127.0.0.1:7778), instead of one on standard input."`
	TokenFile   string   `placeholder:"FILE" help:"With --http: the bearer tokens that are let in, one a line as TOKEN or USER TOKEN (default: one that is made, in the data directory)."`
	Origin      []string `sep:"none" placeholder:"URL" help:"With --http: a web origin whose pages may call; repeatable. Those of this machine may."`
	Host        []string `sep:"none" placeholder:"NAME" help:"With --http: a host name by which clients call, such as that of a proxy; repeatable. Addresses, localhost and the hosts of --origin count."`
	JWTKeys     string   `name:"jwt-keys" placeholder:"FILE" help:"With --http: let signed tokens (JWT) in, too, whose subject is the user: a JWKS file, PEM public keys or a shared secret."`
	JWTAudience string   `name:"jwt-audience" placeholder:"NAME" help:"With --jwt-keys: what tokens for this server have as aud."`
	JWTIssuer   string   `name:"jwt-issuer" placeholder:"NAME" help:"With --jwt-keys: what they have as iss (default: any)."`
	Minimal     bool     `help:"Offer execute_code and search_tools alone: under 500 tokens of schemas."`
	specFlags
	ProjectTools  []string `sep:"none" placeholder:"FILE" group:"access" help:"As --tools, for a file that others may write, such as the project's: it counts once you have accepted it (tools trust); repeatable."`
	AllowPackages bool     `group:"packages" help:"Let programs of execute_code have packages from your pip, wheels only. They are fetched outside the sandbox, with your network."`
}

func (mcpCmd) Help() string {
	return `For the configuration of an AI assistant: it gets a handful of small tools instead of the schemas of all your tools, and writes
programs that call them. There is nobody to ask, so whatever may change things is named with --allow.

` + examples(
		"agentkernel mcp --tools mcp.json --allow 'filesystem.write_*'",
		`{"mcpServers": {"agentkernel": {"command": "agentkernel", "args": ["mcp", "--tools", "/home/me/mcp.json"]}}}`,
		"agentkernel mcp --allow-packages                  execute_code takes packages: [\"polars>=1\"]",
		"agentkernel mcp --http 127.0.0.1:7778 --token-file tokens.txt --tools mcp.json",
		"agentkernel mcp --http 127.0.0.1:7778 --jwt-keys jwks.json --jwt-audience agentkernel --tools mcp.json",
	)
}

// localToolsFor are the local tools of a server that works in a folder: those of the folder, else of the working directory. Many
// projects have a folder of that name with other things in it, so what is wrong there is said, and keeps no server from starting.
func (a *app) localToolsFor(workspace string) map[string]string {
	parents := []string{"."}
	if workspace != "" {
		parents = []string{workspace, "."}
	}
	modules, err := a.modules("tools", parents)
	if err != nil {
		a.con.Note("no local tools: %s", asError(err).Message())
	}
	return modules
}

// mcpConfig is what the server is told.
type mcpConfig struct {
	spec     agentkernel.Spec
	minimal  bool
	packages func(ctx context.Context, source string, with []string) (host string, err error)                     // nil: not allowed
	listener net.Listener                                                                                         // nil: standard input and output
	over     mcpserver.HTTPConfig                                                                                 // with listener
	agent    func(ctx context.Context, k agentkernel.Kernel, namespace, task string) (agentkernel.Program, error) // nil: no model is configured
	leaving  func()                                                                                               // nil: there is nothing to do
}

func (c *mcpCmd) Run(a *app) error {
	if a.cli.JSON {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "mcp speaks its own JSON; leave --json out")
	}
	if c.HTTP == "" && (c.TokenFile+c.JWTKeys != "" || len(c.Origin)+len(c.Host) > 0) {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "--token-file, --jwt-keys, --origin and --host go with --http")
	}
	if c.JWTKeys == "" && c.JWTAudience+c.JWTIssuer != "" {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "--jwt-audience and --jwt-issuer go with --jwt-keys")
	}
	if c.Others = c.ProjectTools; len(c.Tools) > 0 && len(c.Others) > 0 {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "--tools and %s do not go together: a file that is named by either may be written into the other", projectToolsFlag)
	}
	spec, err := a.spec(&c.specFlags, agentkernel.Program{Language: agentkernel.Python, Modules: a.localToolsFor(c.Workspace)})
	if err != nil {
		return err
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	cfg := mcpConfig{spec: spec, minimal: c.Minimal, over: mcpserver.HTTPConfig{Origins: c.Origin, Hosts: c.Host}}
	if c.AllowPackages {
		cfg.packages = a.packagesFor()
	}
	if cfg.agent, err = a.agentFor(&spec); err != nil {
		return err
	}
	if c.HTTP != "" {
		if err := c.listen(a, &cfg); err != nil {
			return err
		}
	}
	k, err := a.kernel()
	if err != nil {
		if cfg.listener != nil {
			err = errors.Join(err, cfg.listener.Close())
		}
		return err
	}
	defer k.Close()
	if c, ok := k.Kernel.(revivable); ok {
		c.Revive(a.revive)
		cfg.leaving = func() { c.Revive(nil) } // whoever has shut the kernel down need not find another
	}
	a.mentionVariables(k, &spec)
	a.mentionAllow(k, &spec)
	if a.inTTY && c.HTTP == "" {
		a.con.Say("serving MCP on standard input, for an assistant that starts this command: it writes messages there, one JSON object a line. `agentkernel install CLIENT` sets one up; --http ADDRESS serves many; Ctrl-C ends it")
	}
	embedded.Ballast()
	return a.untilSignal(func(ctx context.Context) error { return a.mcp(ctx, k, cfg) })
}

// revivable is a connection that can have a kernel started.
type revivable interface {
	Revive(start func(ctx context.Context) error)
}

// revive starts a kernel if none runs. An assistant lives for days, and its model cannot.
func (a *app) revive(context.Context) error {
	_, k, err := a.attached()
	if err != nil {
		return err
	}
	return k.Close()
}

// untilSignal ends what is served in good order when the command is told to stop: sessions end, their programs with them.
// A second signal has its usual effect.
func (a *app) untilSignal(serve func(ctx context.Context) error) error {
	signals, ignore := a.signals()
	defer ignore()
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	var told atomic.Bool
	go func() {
		select {
		case <-signals:
			told.Store(true)
			ignore()
			cancel()
		case <-ctx.Done():
		}
	}()
	err := serve(ctx)
	if told.Load() && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// listen opens the address and finds the tokens and keys.
func (c *mcpCmd) listen(a *app, cfg *mcpConfig) error {
	says := "tokens are checked with the keys in " + c.JWTKeys
	if c.JWTKeys != "" {
		keys, _, err := a.credentials(c.JWTKeys)
		if err != nil {
			return err
		}
		cfg.over.JWT = &mcpserver.JWTConfig{Keys: keys, Audience: c.JWTAudience, Issuer: c.JWTIssuer}
	}
	if c.JWTKeys == "" || c.TokenFile != "" {
		file := c.TokenFile
		if file == "" {
			dir, err := a.dataDir()
			if err != nil {
				return err
			}
			file = filepath.Join(dir.Path(), "mcp-token")
			if err := ensureToken(file); err != nil {
				return err
			}
		}
		text, path, err := a.credentials(file)
		if err != nil {
			return err
		}
		if cfg.over.Tokens, err = mcpserver.ParseTokens(string(text)); err != nil {
			e := asError(err)
			e.Err = fmt.Errorf("%s: %w", path, e.Err)
			return e
		}
		says = "the bearer token is in " + path
	}
	err := cfg.over.Check()
	if err != nil {
		return err
	}
	if cfg.listener, err = listenAt("mcp", "--http", c.HTTP, "choose another address, such as 127.0.0.1:0"); err != nil {
		return err
	}
	if tcp, ok := cfg.listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		a.con.Say("warning: others reach %s without encryption (TLS), and may read the tokens: put a server that has TLS before 127.0.0.1, or listen there alone", tcp)
	}
	if name, _, err := net.SplitHostPort(c.HTTP); err == nil && name != "" {
		cfg.over.Hosts = append(cfg.over.Hosts, name)
	}
	a.con.Note("serving MCP at http://%s; %s", cfg.listener.Addr(), says)
	return nil
}

// credentials reads a file of tokens or keys; a relative path begins at the working directory.
func (a *app) credentials(file string) (content []byte, path string, err error) {
	if wd, err := a.workingDir(); err == nil && !filepath.IsAbs(file) {
		file = filepath.Join(wd, file)
	}
	if content, err = os.ReadFile(file); err != nil {
		return nil, file, fileError(file, err)
	}
	return content, file, nil
}

// ensureToken makes a token once; only the user can read it.
func ensureToken(file string) error {
	_, err := os.Lstat(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // never fails (crypto/rand)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // another command was quicker
	}
	if err == nil {
		_, err = f.WriteString(hex.EncodeToString(secret) + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return &agentkernel.Error{Code: agentkernel.CodeStorage, Op: "mcp", Err: err}
	}
	return nil
}
