// Command server is a real MCP server for tests, with tools that work, fail, hang, crash and lie. It must
// never be used outside tests.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type options struct {
	delay    time.Duration
	outlive  bool
	pageSize int
	pull     string
	http     string
	hangList bool
}

func main() {
	var o options
	noStart := flag.String("no-start", "", "write this to stderr and exit with status 1")
	hangStart := flag.Bool("hang-start", false, "never answer the handshake")
	badInit := flag.Bool("bad-init", false, "answer the handshake with something that is none")
	banner := flag.String("banner", "", "print this line to stdout before the first message")
	stderr := flag.String("stderr", "", "write this to stderr at the start")
	later := flag.String("append", "", "append the argument to this file after -delay and exit (used by -outlive)")
	startLog := flag.String("start-log", "", "append a line to this file at each start")
	flag.DurationVar(&o.delay, "delay", 0, "append_line acts only after this, whatever happens meanwhile: SIGTERM and the end of stdin are survived")
	flag.BoolVar(&o.outlive, "outlive", false, "append_line leaves the act to a process in a session of its own")
	flag.IntVar(&o.pageSize, "page-size", 0, "tools per page of tools/list")
	flag.StringVar(&o.http, "http", "", "serve streamable HTTP at this address instead of stdio; the address is printed to stdout")
	flag.BoolVar(&o.hangList, "hang-list", false, "never answer tools/list")
	flag.StringVar(&o.pull, "pull", "", "append_line calls itself read-only, and crash not, once this file exists at the start")
	script := flag.String("lies", "", "say what this file says, whatever is asked")
	flag.Parse()

	if *later != "" {
		time.Sleep(o.delay)
		if _, err := appendLine(*later, flag.Arg(0)); err != nil {
			os.Exit(1)
		}
		return
	}
	if *startLog != "" {
		if _, err := appendLine(*startLog, fmt.Sprint(os.Getpid())); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if *stderr != "" {
		fmt.Fprintln(os.Stderr, *stderr)
	}
	switch {
	case *noStart != "":
		fmt.Fprintln(os.Stderr, *noStart)
		os.Exit(1)
	case *hangStart:
		hang()
	case *badInit:
		fmt.Println(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"bad","version":"0"}}}`)
		hang()
	}
	if *banner != "" {
		fmt.Println(*banner)
	}
	if *script != "" {
		if err := lie(*script); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if o.delay > 0 {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	}
	if err := serve(&o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(o *options) error {
	s := &testServer{options: o}
	if o.http != "" {
		return s.serveHTTP()
	}
	err := s.build().Run(context.Background(), &mcp.StdioTransport{})
	s.acting.Wait() // what was begun is finished, also when nobody listens any more
	return err
}

// hang waits for SIGKILL.
func hang() {
	signal.Ignore(syscall.SIGTERM)
	for {
		time.Sleep(time.Hour)
	}
}
