package tool

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/internal/incoming"
	"agentkernel/internal/portowner"
)

// The protocol versions that are offered, in this order. The handshake of 2025-11-25 is understood by every
// server that keeps a session; a server that refuses it is started again with the newest one, whose first
// message ("server/discover") old servers do not expect.
var protocols = [...]string{"2025-11-25", ""}

// instance is one incarnation of a server: from a start to its end.
type instance struct {
	id      string
	entry   *entry
	log     *slog.Logger
	session *mcp.ClientSession
	proc    *process  // stdio only
	conn    *lineConn // stdio only
	wire    *wire     // HTTP only

	halt       context.Context // ends when stop is called: calls in flight end with it
	cancel     context.CancelFunc
	gone       chan struct{} // closed when the session has ended
	stopping   atomic.Bool   // stop was called
	closing    atomic.Bool   // it is ended from here, not by its own death
	lost       atomic.Bool   // the HTTP server does not know the session any more
	dropped    chan struct{} // closed when lost becomes true
	answered   atomic.Bool   // it has answered a call
	failed     atomic.Bool   // it has not, and counts as a failure of its server
	asked      bool          // a ping is under way, see late; guarded by server.mu
	unanswered time.Time     // when the newest call was sent that timed out; guarded by server.mu
	stopOnce   sync.Once
	grace      time.Duration
	maxMessage int64
	startLimit time.Duration // for the handshake, and for the first list of tools

	stale    atomic.Bool // its tools have changed
	tools    atomic.Pointer[toolset]
	listing  chan struct{} // holds one token: the right to ask for the list
	unlisted error         // why there will be none; guarded by the token
}

type instanceConfig struct {
	launcher     Launcher
	lookup       func(string) (string, bool)
	log          *slog.Logger
	version      string
	maxMessage   int64
	room         *incoming.Room
	startTimeout time.Duration
	grace        time.Duration
}

// startInstance starts or connects to a server and shakes hands. Errors: CodeUnavailable, CodeTimeout.
func startInstance(ctx context.Context, e *entry, c *instanceConfig) (*instance, error) {
	var err error
	for _, version := range protocols {
		var inst *instance
		if inst, err = startWith(ctx, e, c, version); err == nil {
			return inst, nil
		}
		if refusal(err) == nil {
			break
		}
	}
	return nil, err
}

func startWith(ctx context.Context, e *entry, c *instanceConfig, version string) (*instance, error) {
	limit := positive(e.startTimeout, c.startTimeout)
	inst := &instance{id: newIncarnation(), entry: e, log: c.log.With("server", e.name), grace: c.grace, maxMessage: c.maxMessage, startLimit: limit,
		gone: make(chan struct{}), dropped: make(chan struct{}), listing: make(chan struct{}, 1)}
	inst.listing <- struct{}{}
	inst.halt, inst.cancel = context.WithCancel(context.WithoutCancel(ctx))
	transport, err := inst.open(c)
	if err != nil {
		return nil, inst.startError(err, "")
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// A server that hangs may also not read: closing its pipes is what surely ends the handshake.
	defer context.AfterFunc(ctx, inst.abort)()
	client := mcp.NewClient(&mcp.Implementation{Name: "agentkernel", Version: c.version}, &mcp.ClientOptions{
		Logger:                 slog.New(slog.DiscardHandler), // it would log what servers send
		Capabilities:           &mcp.ClientCapabilities{},     // no roots: the configuration says what a server may touch
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { inst.stale.Store(true) },
	})
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		timedOut := ""
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			timedOut = "the handshake within " + limit.String()
		}
		inst.stop()
		return nil, inst.startError(err, timedOut)
	}
	inst.session = session
	go func() {
		_ = session.Wait()
		close(inst.gone)
	}()
	return inst, nil
}

// open starts the process or prepares the wire.
func (inst *instance) open(c *instanceConfig) (mcp.Transport, error) {
	if inst.entry.transport == "http" {
		w, err := newWire(inst.entry, c.maxMessage, c.room)
		if err != nil {
			return nil, err
		}
		inst.wire = w
		return w.transport(), nil
	}
	p, err := startProcess(inst.entry, c.launcher, c.lookup)
	if err != nil {
		return nil, err
	}
	inst.proc, inst.conn = p, newLineConn(p, c.maxMessage)
	inst.conn.room, inst.conn.clean = c.room, inst.entry.secrets.text
	inst.conn.printed = func(line string) {
		c.log.Warn("tool server prints to stdout, where only messages belong: passed over", "server", inst.entry.name, "line", line)
	}
	return inst.conn, nil
}

func (inst *instance) abort() {
	if inst.conn != nil {
		_ = inst.conn.Close()
	}
}

// alive says whether a call can be sent.
func (inst *instance) alive() bool {
	if inst.stopping.Load() || inst.closing.Load() || inst.lost.Load() || inst.conn != nil && !inst.conn.usable() {
		return false
	}
	select {
	case <-inst.gone:
		return false
	default:
		return true
	}
}

// drop gives the instance up: the HTTP server does not know its session any more.
func (inst *instance) drop() {
	if !inst.lost.Swap(true) {
		close(inst.dropped)
	}
}

// close stops a healthy instance.
func (inst *instance) close() {
	inst.closing.Store(true)
	inst.stop()
}

// stop ends the instance and everything it started; it returns when all is gone.
func (inst *instance) stop() {
	inst.stopping.Store(true)
	inst.cancel()
	inst.stopOnce.Do(func() {
		inst.abort()
		if inst.proc != nil {
			inst.proc.stop(inst.grace)
		}
		if inst.session != nil {
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				_ = inst.session.Close()
			}()
			select {
			case <-closed:
			case <-time.After(inst.grace): // an HTTP server that does not answer the DELETE
			}
		}
		if inst.wire != nil {
			inst.wire.base.CloseIdleConnections()
		}
	})
}

// unsupportedVersion is how the SDK says that a server answered with a protocol version which it does not know; the error has
// no type.
const unsupportedVersion = "unsupported protocol version"

// networkText is what is wrong with a connection, without the requests that met it: "connection refused (127.0.0.1:9)".
func networkText(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
			return errno.Error() + " (" + op.Addr.String() + ")"
		}
	}
	return err.Error()
}

// startError says why a server did not start, with its last words. timedOut is what it did not answer, and within
// what time; "": there was another reason.
func (inst *instance) startError(err error, timedOut string) *agentkernel.Error {
	e := inst.entry
	code := agentkernel.CodeUnavailable
	var what string
	wireErr := refusal(err)
	switch {
	case timedOut != "":
		code = agentkernel.CodeTimeout
		what = "did not answer " + timedOut
	case wireErr != nil:
		what = fmt.Sprintf("refused the handshake: %s", wireErr.Message)
	case strings.Contains(err.Error(), unsupportedVersion): // the SDK hangs up then, so that a process has ended besides
		known := mcp.SupportedProtocolVersions()
		what = fmt.Sprintf("did not start: %s; known are %s to %s", err, known[len(known)-1], known[0])
	case inst.proc == nil:
		what = "did not start: " + networkText(err)
	case inst.conn.failure() != nil:
		what = "did not start: " + inst.conn.failure().Error()
	default:
		what = "did not start: "
		if fate := inst.proc.fate(); fate != "" && !inst.killedByUs() {
			what += "it " + fate
		} else {
			what += err.Error()
		}
	}
	if e.program != 0 && timedOut == "" && wireErr == nil {
		return agentkernel.Errorf(code, "tool.start", "%w", e.programEnded()).WithHint("%s", runAgain)
	}
	if other, ok := errors.AsType[*portowner.Other](err); ok {
		return agentkernel.Errorf(code, "tool.start", "server %q was sent nothing, since there may be a key in its headers or url: %w", e.name, other).
			WithHint("%s; it is in %s, %s", portowner.Hint, e.file, e.where)
	}
	if e.transport == "http" {
		if status := inst.refusedWith(); status == http.StatusUnauthorized || status == http.StatusForbidden {
			return agentkernel.Errorf(code, "tool.start", "server %q refused access (HTTP %d)", e.name, status).
				WithHint("check \"headers\" in %s, %s", e.file, e.where)
		}
		what = strings.ReplaceAll(what, "did not start", "cannot be reached")
	}
	out := &agentkernel.Error{Code: code, Op: "tool.start",
		Err: &startFailure{text: failureText(fmt.Sprintf("server %q %s%s", e.name, what, inst.lastWords()), maxServerError, &e.secrets), cause: wireErr}}
	if timedOut != "" {
		return out.WithHint("%s", inst.longerStart())
	}
	return out.WithHint("see %s, %s", e.file, e.where)
}

// longerStart is what to do about a server that took longer to start than it may. What downloads it first is slow once.
func (inst *instance) longerStart() string {
	e := inst.entry
	hint := fmt.Sprintf("see %s, %s; a longer limit: \"startTimeout\" there", e.file, e.where)
	if name := filepath.Base(e.command); slices.Contains([]string{"npx", "uvx", "bunx", "pipx"}, name) {
		hint += fmt.Sprintf("; %s may still be downloading it: run its command once by hand", name)
	}
	return hint
}

// refusal is the server's own answer in an error of the SDK, nil if there is none: the SDK uses the codes
// between for itself.
func refusal(err error) *jsonrpc.Error {
	w, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || w.Code <= -32003 && w.Code >= -32005 {
		return nil
	}
	return w
}

// refusedWith is the HTTP status with which the server turned the last message away, 0 if it did not.
func (inst *instance) refusedWith() int64 {
	if inst.wire == nil {
		return 0
	}
	return inst.wire.refused.Load()
}

// startFailure keeps the protocol error behind a message without showing its text again.
type startFailure struct {
	text  string
	cause *jsonrpc.Error
}

func (f *startFailure) Error() string { return f.text }

func (f *startFailure) Unwrap() error {
	if f.cause == nil {
		return nil
	}
	return f.cause
}

// killedByUs: the end says nothing, because stop brought it about.
func (inst *instance) killedByUs() bool {
	return inst.proc.cmd.ProcessState != nil && !inst.proc.cmd.ProcessState.Exited() && inst.stopping.Load()
}

// lastWords is the end of the server's stderr, and what it printed to stdout that was no message.
func (inst *instance) lastWords() string {
	if inst.proc == nil {
		return ""
	}
	var b strings.Builder
	if s := inst.proc.stderr.String(); s != "" {
		b.WriteString("; its stderr ends with:\n" + s)
	}
	if s := inst.conn.words.String(); s != "" {
		b.WriteString("; it printed to stdout:\n" + s)
	}
	return b.String()
}

// death says why the instance ended in the middle of something.
func (inst *instance) death() string {
	switch {
	case inst.proc != nil:
	case inst.refusedWith() == http.StatusNotFound: // which ends the session; whoever called may be about to say so
		return "it answered with HTTP 404"
	default:
		return "the connection was lost"
	}
	if err := inst.conn.failure(); err != nil {
		return err.Error()
	}
	if inst.closing.Load() {
		return "it was stopped"
	}
	if fate := inst.proc.fate(); fate != "" {
		return "it " + fate
	}
	return "it closed its output"
}

func newIncarnation() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
