package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
)

// client is one connected MCP client: one MCP session of the SDK.
type client struct {
	id   string // no other client has it
	user string // "" where nobody is told apart (stdio)
	// principal is who began the MCP session, and the only one who may use it; "" on stdio. Two principals may be one user.
	principal string
	// here ends when the client goes: calls under way end with it.
	here   context.Context
	goAway context.CancelCauseFunc
	used   int64        // when its last request came, in uses of all; guarded by clients.mu
	calls  atomic.Int32 // that it makes

	mu      sync.Mutex // one cell at a time is fed by one client
	session *session   // its own, that calls without a session use; nil: not begun

	said     sync.Map // notes that it has heard
	attempts attempts

	turn     chan struct{} // holds one: the human is asked one question at a time
	askingMu sync.Mutex
	approved []string            // patterns of calls that the human has allowed for as long as the client is here
	parked   map[string]*running // calls whose question the client was handed, by requestState
}

// namespace is where the processes and skills of a user are: each has a namespace, so that nobody sees or imports
// anything of another, and no sandbox serves two. A user's name has no slash, so no two can be taken for one.
func (cfg *Config) namespace(user string) string {
	if user == "" {
		return cfg.Spec.Namespace
	}
	return cfg.Spec.Namespace + "/" + user
}

func (c *call) namespace() string { return c.h.cfg.namespace(c.client.user) }

// session is a process that keeps a user's variables between calls.
type session struct {
	pid agentkernel.PID
	// principal is whose it is.
	principal string
	cells     atomic.Int64 // how many it was fed
	ran       sync.Map     // backends on which a cell of it has run
	shown     sync.Map     // artifacts of which a client has seen the picture
	taken     atomic.Int64 // how often it had been recovered when it was taken up last
	// unsettled is the cell of which no client was told what became of it; it runs before any other. nil: none.
	unsettled atomic.Pointer[attempt]

	// Guarded by clients.mu.
	feeding int   // calls that feed it
	used    int64 // when the last of them began or ended, in uses of all sessions
}

// clients knows who is connected and which sessions are open.
type clients struct {
	cfg Config

	mu       sync.Mutex
	byServer map[*mcp.ServerSession]*client
	owners   map[string]string // MCP session -> principal
	sessions map[agentkernel.PID]*session
	starting map[string]int // principal -> sessions that begin
	uses     int64
	closed   bool
	ending   sync.WaitGroup
	alone    bool // the client is at standard input: when the server ends, it has gone, too
	// answering are the calls over HTTP that have no answer yet. None is added once closed.
	answering sync.WaitGroup
}

// Bounds of the sessions that are open at once: each may hold a sandbox, or an image on the disk. One principal alone shall
// not keep all others out.
const (
	maxSessions    = 1000
	maxOwnSessions = 100 // of one principal
)

// maxOwnClients bounds the MCP sessions of one principal: one that was begun and never used costs memory, too.
const maxOwnClients = 500

// endPatience is how long the end of a session may take.
const endPatience = 5 * time.Second

func newClients(cfg Config) *clients {
	return &clients{cfg: cfg, byServer: map[*mcp.ServerSession]*client{}, owners: map[string]string{}, sessions: map[agentkernel.PID]*session{},
		starting: map[string]int{}}
}

// of is the client of a request. When it goes, its own session ends.
func (cs *clients) of(ss *mcp.ServerSession, extra *mcp.RequestExtra) (*client, error) {
	user, principal := "", ""
	if extra != nil && extra.TokenInfo != nil {
		user, principal = extra.TokenInfo.UserID, principalOf(extra.TokenInfo)
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "mcp", "%w", errEnding).WithHint(sameCall)
	}
	if c := cs.byServer[ss]; c != nil {
		if c.principal != principal { // Handler lets no such request through
			return nil, agentkernel.Errorf(agentkernel.CodeDenied, "mcp", "this MCP session belongs to another user")
		}
		cs.uses++
		c.used = cs.uses
		return c, nil
	}
	if old := cs.idlest(principal); old != nil {
		go func() { _ = old.Close() }() // leave follows, which takes the lock
	}
	cs.uses++
	c := &client{id: rand.Text(), user: user, principal: principal, turn: make(chan struct{}, 1), used: cs.uses}
	c.here, c.goAway = context.WithCancelCause(context.Background())
	cs.byServer[ss] = c
	if id := ss.ID(); id != "" {
		cs.owners[id] = principal
	} else {
		cs.alone = true
	}
	cs.ending.Go(func() {
		_ = ss.Wait() // it ends when the client goes, or Close of the SDK's server
		cs.leave(ss, c)
	})
	return c, nil
}

// idlest is the MCP session that ends for one more of a principal: of those that make no call, the one that has said nothing
// for the longest. nil: there is room, or all make calls; cs.mu is held.
func (cs *clients) idlest(principal string) (idlest *mcp.ServerSession) {
	own, used := 0, int64(math.MaxInt64)
	for ss, c := range cs.byServer {
		if c.principal != principal || c.here.Err() != nil {
			continue
		}
		if own++; c.calls.Load() == 0 && c.used < used {
			idlest, used = ss, c.used
		}
	}
	if own < maxOwnClients || idlest == nil {
		return nil
	}
	cs.byServer[idlest].goAway(nil) // it is not counted again
	return idlest
}

// owns says whether an MCP session exists and was begun by the principal.
func (cs *clients) owns(principal, id string) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	owner, known := cs.owners[id]
	return known && owner == principal
}

// leave ends what a client that has gone leaves behind.
func (cs *clients) leave(ss *mcp.ServerSession, c *client) {
	c.goAway(nil)
	cs.mu.Lock()
	delete(cs.byServer, ss)
	delete(cs.owners, ss.ID())
	cs.mu.Unlock()
	c.mu.Lock()
	s := c.session
	c.session = nil
	c.mu.Unlock()
	if s != nil && !cs.goesOn(s) {
		cs.end(s)
	}
}

// enter counts a call over HTTP until its answer is sent; false: no call is taken any more.
func (cs *clients) enter() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !cs.closed {
		cs.answering.Add(1)
	}
	return !cs.closed
}

// awaitAnswers waits until the calls under way are answered, for a while.
func (cs *clients) awaitAnswers() {
	answered := make(chan struct{})
	go func() {
		cs.answering.Wait()
		close(answered)
	}()
	patience := time.NewTimer(endPatience)
	defer patience.Stop()
	select {
	case <-answered:
	case <-patience.C:
	}
}

// ended says whether no call is taken any more.
func (cs *clients) ended() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.closed
}

// goesOn says whether a session runs code that nobody was told the outcome of when the server ended. It is asked for again, at
// the next server.
func (cs *clients) goesOn(s *session) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.closed && !cs.alone && (s.feeding > 0 || s.unsettled.Load() != nil)
}

// hangUp ends the calls of a client that says goodbye while they run: the SDK would wait for them.
func (cs *clients) hangUp(id string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for ss, c := range cs.byServer {
		if id != "" && ss.ID() == id {
			c.goAway(nil)
		}
	}
}

// hangUpAll is hangUp of the one client of standard input.
func (cs *clients) hangUpAll() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.byServer {
		c.goAway(nil)
	}
}

// end lets a session exit, or kills it if it is busy.
func (cs *clients) end(s *session) {
	cs.mu.Lock()
	delete(cs.sessions, s.pid)
	cs.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	if _, err := cs.cfg.Kernel.EndSession(ctx, s.pid); err != nil {
		switch err := cs.cfg.Kernel.Signal(ctx, s.pid, agentkernel.SignalKill); agentkernel.CodeOf(err) {
		case "", agentkernel.CodeConflict:
		case agentkernel.CodeUnavailable: // the kernel has gone, and the session with it
		default:
			cs.cfg.Logger.Warn("a session could not be ended", "pid", s.pid, "err", err)
		}
	}
}

// close ends all sessions but those whose code is under way; no client is served any more.
func (cs *clients) close() {
	cs.mu.Lock()
	cs.closed = true
	open := make([]*mcp.ServerSession, 0, len(cs.byServer))
	for ss, c := range cs.byServer {
		open = append(open, ss)
		if cs.alone {
			c.goAway(nil)
		} else {
			c.goAway(errEnding)
		}
	}
	cs.mu.Unlock()
	cs.awaitAnswers() // a session of the SDK that closes sends none
	for _, ss := range open {
		_ = ss.Close()
	}
	cs.ending.Wait()
	cs.mu.Lock()
	left := make([]*session, 0, len(cs.sessions))
	for _, s := range cs.sessions {
		left = append(left, s)
	}
	cs.mu.Unlock()
	for _, s := range left {
		if !cs.goesOn(s) {
			cs.end(s)
		}
	}
}

// begin makes a session for the user of a call, on the backend if one is named.
func (cs *clients) begin(ctx context.Context, c *call, backend string) (*session, error) {
	principal := c.client.principal
	oldest, err := cs.reserve(principal)
	if err != nil {
		return nil, err
	}
	defer cs.release(principal)
	if oldest != nil {
		cs.end(oldest)
	}
	spec := cs.cfg.Spec
	spec.Namespace = c.namespace()
	spec.Program = agentkernel.Program{Name: sessionName, Language: agentkernel.Python, Session: true, Modules: spec.Program.Modules}
	if backend != "" {
		spec.Backend = backend
	}
	spec.Limits = sessionLimits(spec.Limits)
	spec = c.interactive(spec)
	pid, err := cs.spawn(ctx, spec)
	if err != nil {
		return nil, err
	}
	s := &session{pid: pid, principal: principal}
	cs.mu.Lock()
	cs.uses++
	s.used = cs.uses
	cs.sessions[s.pid] = s
	cs.mu.Unlock()
	return s, nil
}

// reserve makes room for one more session of a principal until release. The session that it gives has to end for that: the
// principal has as many as it may, and this one was idle for the longest. Errors: CodeLimit.
func (cs *clients) reserve(principal string) (oldest *session, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	all, own := len(cs.sessions), cs.starting[principal]
	for _, n := range cs.starting {
		all += n
	}
	for _, s := range cs.sessions {
		if s.principal != principal {
			continue
		}
		own++
		if s.feeding == 0 && s.unsettled.Load() == nil && (oldest == nil || s.used < oldest.used) {
			oldest = s
		}
	}
	switch {
	case own < maxOwnSessions && all >= maxSessions:
		return nil, agentkernel.Errorf(agentkernel.CodeLimit, "session", "%d sessions are open; the limit is reached", maxSessions).
			WithHint("use session \"none\"")
	case own < maxOwnSessions:
		oldest = nil
	case oldest == nil:
		return nil, agentkernel.Errorf(agentkernel.CodeLimit, "session", "%d sessions of this user run code; the limit is reached", maxOwnSessions).
			WithHint("use session \"none\"")
	default:
		delete(cs.sessions, oldest.pid)
	}
	cs.starting[principal]++
	return oldest, nil
}

// release gives back what reserve has taken: the session has begun, or will not.
func (cs *clients) release(principal string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.starting[principal]--; cs.starting[principal] == 0 {
		delete(cs.starting, principal)
	}
}

// feeding notes that a session is in use until done.
func (cs *clients) feeding(s *session) (done func()) {
	use := func(n int) {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		cs.uses++
		s.feeding, s.used = s.feeding+n, cs.uses
	}
	use(1)
	return func() { use(-1) }
}

var errBegun = errors.New("the session waits for its first cell")

// spawn starts a session and returns when it waits for its first cell. If the client goes before that, it ends.
func (cs *clients) spawn(ctx context.Context, spec agentkernel.Spec) (pid agentkernel.PID, err error) {
	running, known, stop := untilKnown(ctx)
	defer stop()
	p, err := cs.cfg.Kernel.Run(running, spec, func(ev agentkernel.Event) error {
		pid = ev.PID
		known()
		if ev.Kind == agentkernel.EventIdle {
			return errBegun
		}
		return nil
	})
	switch {
	case errors.Is(err, errBegun) && ctx.Err() == nil:
		return pid, nil
	case err != nil:
		if pid != 0 {
			cs.end(&session{pid: pid})
		}
		if ctx.Err() != nil {
			err = agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "session")
		}
		return 0, err
	case p.Error != nil:
		return 0, p.Error
	}
	return 0, agentkernel.Errorf(agentkernel.CodeConflict, "session", "the session ended before it began").WithPID(pid)
}

// untilKnown is a context for Kernel.Run that ends with another one, but not before it is known what Run has made: else
// nobody could end it. A kernel that does not say so is not waited for long.
func untilKnown(ctx context.Context) (running context.Context, known func(), stop func()) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	born := make(chan struct{})
	undo := context.AfterFunc(ctx, func() {
		patience := time.NewTimer(endPatience)
		defer patience.Stop()
		select {
		case <-born:
		case <-patience.C:
		case <-running.Done():
		}
		cancel()
	})
	return running, sync.OnceFunc(func() { close(born) }), func() { undo(); cancel() }
}

// sessionLimits are those of a session, which runs many cells: what the template says, or ten times what
// one program may have. A wall limit holds for each cell instead.
func sessionLimits(l agentkernel.Limits) agentkernel.Limits {
	const cells = 10
	d := agentkernel.DefaultLimits()
	d.Time *= cells
	d.Output *= cells
	d.Calls *= cells
	l.Wall = 0
	return l.WithDefaults(d)
}

// find is a session by its id, if it is the principal's.
func (cs *clients) find(principal string, pid agentkernel.PID) *session {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if s := cs.sessions[pid]; s != nil && s.principal == principal {
		return s
	}
	return nil
}

// forget drops a session whose process has ended by itself.
func (cs *clients) forget(c *client, s *session) {
	cs.mu.Lock()
	delete(cs.sessions, s.pid)
	cs.mu.Unlock()
	if c.session == s { // c.mu is held by the caller
		c.session = nil
	}
}
