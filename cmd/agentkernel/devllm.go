package main

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/internal/devllm"
)

type devllmCmd struct {
	Listen  string   `default:"127.0.0.1:7779" placeholder:"ADDRESS" help:"Where it listens (127.0.0.1:7779); port 0 is any that is free."`
	Profile string   `default:"openai" placeholder:"NAME" help:"Whom it behaves like: openai (default), anthropic, azure, ollama, vllm or openrouter."`
	Script  string   `placeholder:"FILE" help:"Answers, in YAML; without it each is an echo, or fits the schema that is asked for."`
	Key     []string `sep:"none" placeholder:"KEY" help:"A made-up key that is let in, and no other; repeatable. Never a real one: other users of this machine can read command lines."`

	Limit    []string `sep:"none" placeholder:"NAME=N" help:"A limit a minute: requests, input, output or total (tokens), 0 for none; window=10s checks them in windows, burst=5s is what a bucket holds, foreign=0.3 is what others use; repeatable."`
	Fault    []string `sep:"none" placeholder:"KIND" help:"Something that goes wrong for the next request: 500, 503, 529, 429, quota, html, stall, cut, malformed, error-event or no-usage; more behind commas: cut,after_events=3,count=2; repeatable."`
	SpendCap string   `placeholder:"USD" help:"What may be spent, in dollars, before every request is refused."`

	NoHeaders    bool `help:"Say nothing of limits in headers."`
	NoRetryAfter bool `help:"Do not say when to come again."`

	FirstToken time.Duration `default:"0" zero:"at once" placeholder:"SPAN" help:"How long the first token takes (default 0s)."`
	PerToken   time.Duration `default:"0" zero:"at once" placeholder:"SPAN" help:"How long each further token takes (default 0s)."`
	EchoTokens int64         `default:"32" placeholder:"N" help:"How long an echo is, in tokens (default 32)."`
	Reasoning  int64         `default:"0" zero:"none" placeholder:"N" help:"Tokens of reasoning before each answer that no rule decides (default 0)."`
	Chunk      int           `default:"4" placeholder:"N" help:"Tokens of an event of a stream (default 4)."`

	Record   string `placeholder:"DIR" help:"Pass requests on to --upstream and keep the answers here, without keys."`
	Upstream string `placeholder:"URL" help:"With --record: the provider, such as https://api.openai.com."`
	Replay   string `placeholder:"DIR" help:"Answer with what --record has kept, and with nothing else."`
	Log      string `placeholder:"FILE" help:"Add a line of JSON for each request to this file; - is standard output."`
}

func (devllmCmd) Help() string {
	return `No model answers: the answers are a script's, or echoes. Limits, headers, errors, streams and prompt caches are those of the
provider that --profile names, so that a client can be tried without a key, without a bill, and against a provider that
misbehaves on request. GET /devllm/totals says what it charged; POST /devllm/limits and /devllm/faults change it while it
runs. docs/devllm.md has the rest.

` + examples("agentkernel devllm",
		"agentkernel devllm --profile anthropic --script answers.yaml --first-token 300ms --per-token 20ms",
		"agentkernel devllm --limit requests=60 --limit total=20000 --limit window=10s --fault 529,count=3",
		"agentkernel devllm --record calls --upstream https://api.openai.com")
}

func (c *devllmCmd) Run(a *app) error {
	options, closeLog, err := c.options(a)
	if err != nil {
		return devllmError(err)
	}
	defer closeLog()
	server, err := devllm.New(options)
	if err != nil {
		return devllmError(err)
	}
	door, err := listenAt("devllm", "--listen", c.Listen, "choose another address, or any port that is free: --listen 127.0.0.1:0")
	if err != nil {
		return err
	}
	return c.serve(a, server, door)
}

// serve answers until a signal comes.
func (c *devllmCmd) serve(a *app, server *devllm.Server, door net.Listener) error {
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(stop)
	if tcp, ok := door.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		a.con.Say("warning: others reach %s, and may change its limits and read its log", tcp)
	}
	url := "http://" + door.Addr().String()
	if a.cli.JSON {
		if err := a.printJSON(map[string]string{"url": url, "profile": c.Profile}); err != nil {
			return err
		}
	} else {
		a.con.Note("serving %s at %s (ctrl-c stops it)", c.what(), url)
	}
	web := &http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(door) }()
	select {
	case err := <-ended:
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "devllm", "%s cannot be listened on any more: %w", url, err)
	case <-stop:
	case <-a.ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = web.Shutdown(ctx) // streams that take longer are cut
	_ = web.Close()
	total := server.Totals(devllm.Filter{})
	if !a.cli.JSON && c.Record+c.Replay == "" {
		a.con.Note("%d requests, %d tokens read, %d made, $%s", total.Requests, total.Tokens.Input(), total.Tokens.Answer(), total.USD)
	}
	if err := server.RecordingError(); err != nil {
		return devllmError(err)
	}
	return nil
}

func (c *devllmCmd) what() string {
	switch {
	case c.Record != "":
		return "what " + c.Upstream + " answers, and keeping it,"
	case c.Replay != "":
		return "the recordings of " + c.Replay
	}
	return "the profile " + c.Profile
}

func (c *devllmCmd) options(a *app) (o devllm.Options, closeLog func(), err error) {
	closeLog = func() {}
	var ok bool
	if o.Profile, ok = devllm.ProfileByName(c.Profile); !ok {
		o.Profile.Name = c.Profile // New says what is wrong
	}
	for _, text := range c.Limit {
		if o.Profile.Limits, err = devllm.ParseLimit(o.Profile.Limits, text); err != nil {
			return o, closeLog, err
		}
	}
	for _, text := range c.Fault {
		f, err := devllm.ParseFault(text)
		if err != nil {
			return o, closeLog, err
		}
		o.Faults = append(o.Faults, f)
	}
	if c.NoHeaders {
		o.Profile.Headers = "none"
	}
	if c.NoRetryAfter {
		o.Profile.RetryAfter = "none"
	}
	if c.SpendCap != "" {
		usd, err := strconv.ParseFloat(c.SpendCap, 64)
		if err != nil || !(usd > 0 && usd < 1e6) {
			return o, closeLog, agentkernel.Errorf(agentkernel.CodeInvalid, "devllm", "--spend-cap: %q is no amount of dollars above zero", c.SpendCap).WithHint("--spend-cap 0.50")
		}
		o.SpendCap = int64(math.Ceil(usd * 1e9))
	}
	dir, err := a.workingDir()
	if err != nil {
		return o, closeLog, err
	}
	if c.Script != "" {
		if o.Script, err = devllm.LoadScript(under(dir, c.Script)); err != nil {
			return o, closeLog, err
		}
	}
	o.Keys, o.FirstToken, o.PerToken = c.Key, c.FirstToken, c.PerToken
	o.EchoTokens, o.Reasoning, o.Chunk = c.EchoTokens, c.Reasoning, c.Chunk
	o.Upstream = c.Upstream
	if c.Record != "" {
		o.Record = under(dir, c.Record)
	}
	if c.Replay != "" {
		o.Replay = under(dir, c.Replay)
	}
	o.Log, closeLog, err = c.log(a, dir)
	return o, closeLog, err
}

func (c *devllmCmd) log(a *app, dir string) (w io.Writer, closeLog func(), err error) {
	switch c.Log {
	case "":
		return nil, func() {}, nil
	case "-":
		return a.out, func() {}, nil
	}
	f, err := os.OpenFile(under(dir, c.Log), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, func() {}, agentkernel.Errorf(agentkernel.CodeInvalid, "devllm", "--log: %w", err).WithHint("name a file that can be written, or - for standard output")
	}
	return f, func() { _ = f.Close() }, nil
}

// under is a path that begins at the working directory if it is relative.
func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// devllmError is what the server says of its options, as an error of this command.
func devllmError(err error) error {
	b, ok := errors.AsType[*devllm.BadOption](err)
	if !ok {
		return err
	}
	return agentkernel.Errorf(agentkernel.CodeInvalid, "devllm", "%s", strings.TrimSuffix(b.Message, ".")).WithHint("%s", b.Hint)
}
