package tool

import (
	"context"
	"log/slog"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
	"agentkernel/internal/incoming"
)

// Config is what a Hub needs. Its zero value works.
type Config struct {
	Launcher Launcher         // nil: Groups
	Clock    func() time.Time // nil: time.Now; decides when a failing server is tried again
	Logger   *slog.Logger     // nil: nothing is logged
	Version  string           // of the kernel, told to servers
	// LookupEnv is where ${NAME}, PATH and HOME come from; nil: os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// Changed is asked when a file does not hold any more what the digest beside its name says (see
	// agentkernel.PinFile): no error, and its content counts all the same. Nil: it does not.
	Changed func(file string, content []byte) error

	StartTimeout time.Duration // for start and handshake; 0: 20 s
	CallTimeout  time.Duration // where neither call nor server says one; 0: 120 s
	PingTimeout  time.Duration // for the answer to a ping, after a call that timed out; 0: 30 s
	StopGrace    time.Duration // from closing a server's stdin to SIGKILL; 0: 500 ms
	Concurrency  int           // calls at once per server that says nothing; 0: 16
	MaxMessage   int64         // bytes of one message of a server; 0: 64 MiB
	// Room is what all that is being received has together; nil: one of its own, for any machine.
	Room *incoming.Room
}

func (c Config) withDefaults() Config {
	if c.Launcher == nil {
		c.Launcher = Groups{}
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.LookupEnv == nil {
		c.LookupEnv = os.LookupEnv
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	c.StartTimeout = positive(c.StartTimeout, 20*time.Second)
	c.CallTimeout = positive(c.CallTimeout, 120*time.Second)
	c.PingTimeout = positive(c.PingTimeout, 30*time.Second)
	c.StopGrace = positive(c.StopGrace, 500*time.Millisecond)
	c.Concurrency = positive(c.Concurrency, 16)
	c.MaxMessage = positive(c.MaxMessage, 64<<20)
	if c.Room == nil {
		c.Room = incoming.New(math.MaxInt64)
	}
	return c
}

func positive[T ~int | ~int64](v, d T) T {
	if v <= 0 {
		return d
	}
	return v
}

// Hub owns the tool servers of a kernel. Safe for concurrent use.
type Hub struct {
	cfg       Config
	instances *instanceConfig
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	work      sync.WaitGroup
	secrets   atomic.Pointer[redactor] // the certain ones of all servers; nil: none yet

	mu      sync.Mutex
	closed  bool
	files   map[string]*configFile // by path: what they hold now
	pinned  map[string]*configFile // by path and digest: what they held
	servers map[serverKey]*server
	views   map[string]*view // the newest of each list of files, shared by the sets that see the same
}

// serverKey says when two sets share a server: same file, same name, same content.
type serverKey struct{ file, name, hash string }

// New prepares a Hub; nothing is started.
func New(cfg Config) (*Hub, error) {
	cfg = cfg.withDefaults()
	h := &Hub{cfg: cfg, files: map[string]*configFile{}, pinned: map[string]*configFile{}, servers: map[serverKey]*server{},
		views: map[string]*view{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.instances = &instanceConfig{launcher: cfg.Launcher, lookup: cfg.LookupEnv, log: cfg.Logger, version: cfg.Version,
		maxMessage: cfg.MaxMessage, room: cfg.Room, startTimeout: cfg.StartTimeout, grace: cfg.StopGrace}
	return h, nil
}

// Set gives the tools that a list of MCP configuration files (absolute paths) configures. Where two files
// name the same server, the first file counts. Nothing is started. Errors: CodeNotFound if a file does not
// exist, CodeInvalid with line and column if one is not understood.
func (h *Hub) Set(files []string) (agentkernel.ToolSource, error) {
	s := &set{hub: h, files: files}
	if _, err := s.refresh(); err != nil {
		return nil, err
	}
	return s, nil
}

// Close stops all servers and returns when they are gone. Calls in flight fail.
func (h *Hub) Close() error {
	h.mu.Lock()
	h.closed = true
	servers := make([]*server, 0, len(h.servers))
	for _, s := range h.servers {
		servers = append(servers, s)
	}
	h.mu.Unlock()
	var stopping sync.WaitGroup
	for _, s := range servers {
		stopping.Go(s.close)
	}
	stopping.Wait()
	h.cancel()
	h.work.Wait()
	return nil
}

// server gives the server of an entry, the one that runs already if there is one.
func (h *Hub) server(e *entry) *server {
	key := serverKey{e.file, e.name, e.hash}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.servers[key]
	if s == nil || s.entry.problem != nil { // a problem may be gone by now
		h.succeeds(e)
		s = newServer(h, e)
		s.closed = h.closed
		h.servers[key] = s
	}
	return s
}
