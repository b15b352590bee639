package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type testServer struct {
	*options
	server    *mcp.Server
	acting    sync.WaitGroup // appends under way
	counter   atomic.Int64
	cancelled atomic.Int64
	pings     atomic.Int64
	files     sync.Mutex
}

type (
	none     struct{}
	pathText struct {
		Path string `json:"path" jsonschema:"the file to append to"`
		Text string `json:"text" jsonschema:"one line without the newline"`
	}
	valueArgs struct {
		Value any `json:"value" jsonschema:"anything"`
	}
	sumArgs struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	sum struct {
		Sum int `json:"sum" jsonschema:"a plus b"`
	}
	messageArgs struct {
		Message string `json:"message"`
	}
	secondsArgs struct {
		Seconds float64 `json:"seconds"`
	}
	bigArgs struct {
		MB int `json:"mb" jsonschema:"megabytes of text"`
	}
	nameArgs struct {
		Name string `json:"name"`
	}
	wrapped struct {
		Result []int `json:"result"`
	}
)

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// build makes the server with its tools.
func (s *testServer) build() *mcp.Server {
	s.server = mcp.NewServer(&mcp.Implementation{Name: "tooltest", Version: "1"}, &mcp.ServerOptions{PageSize: s.pageSize})
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	tool := func(name, doc string, a *mcp.ToolAnnotations) *mcp.Tool {
		return &mcp.Tool{Name: name, Description: doc, Annotations: a}
	}
	var mild *mcp.ToolAnnotations
	if _, err := os.Stat(s.pull); s.pull != "" && err == nil {
		mild = readOnly
	}
	mcp.AddTool(s.server, tool("append_line", "Appends a line to a file and returns how many lines it has.", mild), s.appendLine)
	mcp.AddTool(s.server, tool("append_idempotent", "Appends a line once per idempotency key.",
		&mcp.ToolAnnotations{IdempotentHint: true}), s.appendIdempotent)
	mcp.AddTool(s.server, tool("add", "Adds two numbers.", readOnly),
		func(_ context.Context, _ *mcp.CallToolRequest, in sumArgs) (*mcp.CallToolResult, sum, error) {
			return nil, sum{in.A + in.B}, nil
		})
	mcp.AddTool(s.server, tool("numbers", "Returns a list in the generic wrapper.", readOnly),
		func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, wrapped, error) {
			return nil, wrapped{[]int{1, 2, 3}}, nil
		})
	mcp.AddTool(s.server, tool("echo", "Returns its argument as JSON text.", readOnly), echo)
	mcp.AddTool(s.server, tool("fail", "Fails with the message.", readOnly),
		func(_ context.Context, _ *mcp.CallToolRequest, in messageArgs) (*mcp.CallToolResult, any, error) {
			return nil, nil, errors.New(in.Message)
		})
	mcp.AddTool(s.server, tool("sleep", "Answers after a while.", readOnly), s.sleep)
	mcp.AddTool(s.server, tool("cancelled", "How many calls were cancelled.", readOnly),
		func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return text(fmt.Sprint(s.cancelled.Load())), nil, nil
		})
	mcp.AddTool(s.server, tool("big", "Returns much text.", readOnly),
		func(_ context.Context, _ *mcp.CallToolRequest, in bigArgs) (*mcp.CallToolResult, any, error) {
			return text(strings.Repeat("x", in.MB<<20)), nil, nil
		})
	mcp.AddTool(s.server, tool("image", "Returns text and a picture.", readOnly),
		func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a dot"},
				&mcp.ImageContent{MIMEType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n")}}}, nil, nil
		})
	mcp.AddTool(s.server, tool("counter", "Counts its calls since the server's start.", nil),
		func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return text(fmt.Sprint(s.counter.Add(1))), nil, nil
		})
	mcp.AddTool(s.server, tool("env", "Returns an environment variable.", readOnly),
		func(_ context.Context, _ *mcp.CallToolRequest, in nameArgs) (*mcp.CallToolResult, any, error) {
			return text(os.Getenv(in.Name)), nil, nil
		})
	mcp.AddTool(s.server, tool("pings", "How many pings have come.", readOnly),
		func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return text(fmt.Sprint(s.pings.Load())), nil, nil
		})
	s.addTrouble()
	s.addOddities()
	s.server.AddReceivingMiddleware(s.watch)
	return s.server
}

// watch counts pings, and swallows tools/list if it shall hang.
func (s *testServer) watch(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch {
		case method == "ping":
			s.pings.Add(1)
		case method == "tools/list" && s.hangList:
			<-context.Background().Done()
		}
		return next(ctx, method, req)
	}
}

// addTrouble adds the tools that misbehave.
func (s *testServer) addTrouble() {
	add := func(name, doc string, f func(context.Context)) {
		mcp.AddTool(s.server, &mcp.Tool{Name: name, Description: doc},
			func(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
				f(ctx)
				return text("done"), nil, nil
			})
	}
	add("crash", "Ends the server with a last word on stderr.", func(context.Context) {
		fmt.Fprintln(os.Stderr, "fatal: the disk caught fire")
		os.Exit(3)
	})
	add("hang", "Never answers.", func(ctx context.Context) {
		<-ctx.Done()
		s.cancelled.Add(1)
		<-context.Background().Done()
	})
	add("freeze", "Stops the whole process, as one that is deadlocked.", func(context.Context) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-context.Background().Done() // the signal may take a moment
	})
	add("garbage", "Writes a message to stdout that breaks off.", func(ctx context.Context) {
		_, _ = os.Stdout.WriteString("{\"jsonrpc\": \"2.0\", Traceback (most recent call last): oops\n")
		<-ctx.Done()
	})
	add("notjson_rpc", "Writes JSON to stdout that means to be a message and is none.", func(ctx context.Context) {
		_, _ = os.Stdout.WriteString("{\"jsonrpc\": \"2.0\", \"id\": {}, \"hello\": 1}\n")
		<-ctx.Done()
	})
	add("prints", "Prints to stdout, as a careless server does.", func(context.Context) {
		_, _ = os.Stdout.WriteString("DEBUG looking things up\n\ufeff\n{\"level\": \"info\"}\n[INFO] done\n")
	})
	add("floods", "Prints to stdout without an end.", func(ctx context.Context) {
		for line := strings.Repeat("y", 1000) + "\n"; ctx.Err() == nil; {
			if _, err := os.Stdout.WriteString(line); err != nil {
				return
			}
		}
	})
	add("close_stdout", "Closes its output and lives on.", func(ctx context.Context) {
		_ = os.Stdout.Close()
		<-ctx.Done()
	})
	add("leave_child", "Leaves a child behind that holds the pipes, and dies.", func(context.Context) {
		c := exec.Command("sleep", "600")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err == nil {
			fmt.Fprintf(os.Stderr, "child %d\n", c.Process.Pid)
		}
		os.Exit(4)
	})
}

// addOddities adds names that are no identifiers, exact JSON, and a tool that adds tools.
func (s *testServer) addOddities() {
	for _, name := range []string{"get-user.profile/v2", "class", "2fast", "get_user_profile_v2"} {
		s.server.AddTool(&mcp.Tool{Name: name, Description: "Says its own name.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"user-id":{"type":"integer"},"from":{"type":"string"}},"required":["user-id"]}`)},
			func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return text(name + " " + string(req.Params.Arguments)), nil
			})
	}
	s.server.AddTool(&mcp.Tool{Name: "exact", Description: "Structured content that must arrive as it is.",
		InputSchema:  json.RawMessage(`{"type":"object"}`),
		OutputSchema: json.RawMessage(`{"type":"object","properties":{"z":{"type":"number"},"a":{"type":"integer"}},"additionalProperties":true}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "see structured"}},
				StructuredContent: json.RawMessage(`{"z":1.0,"a":123456789012345678901234567890,"$ref":"#/x","list":[{"$bytes":"no"}]}`)}, nil
		})
	s.server.AddTool(&mcp.Tool{Name: "text_json", Description: "Declares an output schema and sends text only.",
		InputSchema:  json.RawMessage(`{"type":"object"}`),
		OutputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text(`{"n": 7}`), nil })
	mcp.AddTool(s.server, &mcp.Tool{Name: "add_tool", Description: "Adds a tool to this server."},
		func(_ context.Context, _ *mcp.CallToolRequest, in nameArgs) (*mcp.CallToolResult, any, error) {
			s.server.AddTool(&mcp.Tool{Name: in.Name, InputSchema: json.RawMessage(`{"type":"object"}`)},
				func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("new"), nil })
			return text("added"), nil, nil
		})
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in valueArgs) (*mcp.CallToolResult, any, error) {
	b, err := json.Marshal(in.Value)
	if err != nil {
		return nil, nil, err
	}
	return text(string(b)), nil, nil
}

func (s *testServer) sleep(ctx context.Context, _ *mcp.CallToolRequest, in secondsArgs) (*mcp.CallToolResult, any, error) {
	select {
	case <-time.After(time.Duration(in.Seconds * float64(time.Second))):
		return text("slept"), nil, nil
	case <-ctx.Done():
		s.cancelled.Add(1)
		return nil, nil, ctx.Err()
	}
}

func (s *testServer) appendLine(_ context.Context, _ *mcp.CallToolRequest, in pathText) (*mcp.CallToolResult, any, error) {
	s.acting.Add(1)
	defer s.acting.Done()
	if s.outlive {
		return s.appendLater(in)
	}
	if s.delay > 0 {
		time.Sleep(s.delay)
	}
	n, err := appendLine(in.Path, in.Text)
	if err != nil {
		return nil, nil, err
	}
	return text(fmt.Sprint(n)), nil, nil
}

// appendLater leaves the act to a process that no signal to this server's group reaches, and waits for it.
func (s *testServer) appendLater(in pathText) (*mcp.CallToolResult, any, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	c := exec.Command(self, "-delay", s.delay.String(), "-append", in.Path, in.Text)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Run(); err != nil {
		return nil, nil, err
	}
	n, err := countLines(in.Path)
	if err != nil {
		return nil, nil, err
	}
	return text(fmt.Sprint(n)), nil, nil
}

// appendIdempotent remembers the keys that it has seen in a file beside the target.
func (s *testServer) appendIdempotent(_ context.Context, req *mcp.CallToolRequest, in pathText) (*mcp.CallToolResult, any, error) {
	key, _ := req.Params.Meta["agentkernel/idempotency_key"].(string)
	if key == "" {
		return nil, nil, errors.New("no idempotency key in _meta")
	}
	s.files.Lock()
	defer s.files.Unlock()
	seen, err := os.ReadFile(in.Path + ".keys")
	if err != nil && !os.IsNotExist(err) {
		return nil, nil, err
	}
	if !bytes.Contains(append([]byte("\n"), seen...), []byte("\n"+key+"\n")) {
		if _, err := appendLine(in.Path, in.Text); err != nil {
			return nil, nil, err
		}
		if _, err := appendLine(in.Path+".keys", key); err != nil {
			return nil, nil, err
		}
	}
	n, err := countLines(in.Path)
	if err != nil {
		return nil, nil, err
	}
	return text(fmt.Sprint(n)), nil, nil
}

// appendLine appends one line durably and counts the lines.
func appendLine(path, line string) (int, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = f.WriteString(line + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, err
	}
	return countLines(path)
}

func countLines(path string) (int, error) {
	b, err := os.ReadFile(path)
	return bytes.Count(b, []byte("\n")), err
}

// serveHTTP serves streamable HTTP and prints the address.
func (s *testServer) serveHTTP() error {
	l, err := net.Listen("tcp", s.http)
	if err != nil {
		return err
	}
	server := s.build()
	fmt.Println(l.Addr())
	return http.Serve(l, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
}
