// Package catalog knows of tools what their servers do not say: which of them fits a task (package search),
// what their results look like (package shape), and whether they are still what they were when they were
// accepted. It stands around a tool source and passes calls through.
//
// What it remembers is in two files a server, below the directory that it is given: in one, what each tool said of
// itself when it was accepted, and types and names of members of its results; in the other, the list of its tools. It
// must never keep a value of a result or an argument, and a file that cannot be read or
// written must never stop a call.
package catalog

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/tool/search"
)

// Config is what a Catalog needs. Source is needed; everything else has a useful zero value.
type Config struct {
	// Source gives the tools of configuration files.
	Source func(files []string) (agentkernel.ToolSource, error)
	Dir    string // where it remembers; "": nowhere
	// Embedder finds tools by meaning; nil: by words alone. Model names who makes its vectors.
	Embedder search.Embedder
	Model    string
	Logger   *slog.Logger
	Now      func() time.Time
	// Patience is how long a search waits for servers that are still starting; 0: 5 s.
	Patience time.Duration
}

// Catalog stands around tool sources. It is safe for concurrent use.
type Catalog struct {
	cfg     Config
	vectors *search.Vectors // nil: no embedder

	mu      sync.Mutex
	shelves map[string]*shelf  // by list of files
	order   []string           // of shelves, the oldest first
	records map[string]*record // by server and the file that configures it
}

// keptShelves is how many lists of files keep their index.
const keptShelves = 16

// New makes a catalog. Close writes what is not written yet.
func New(cfg Config) (*Catalog, error) {
	if cfg.Source == nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "catalog", "Config.Source is missing")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Patience <= 0 {
		cfg.Patience = 5 * time.Second
	}
	c := &Catalog{cfg: cfg, shelves: map[string]*shelf{}, records: map[string]*record{}}
	if cfg.Embedder != nil {
		v := search.VectorConfig{Embedder: cfg.Embedder, Model: cfg.Model, Now: cfg.Now, Problem: func(path string, err error) {
			cfg.Logger.Warn("the vectors of tools cannot be kept in their file", "file", path, "err", err)
		}}
		if cfg.Dir != "" {
			v.Path = filepath.Join(cfg.Dir, "vectors")
		}
		c.vectors = search.NewVectors(v)
	}
	return c, nil
}

// Set gives the tools of configuration files, with what the catalog knows of them.
func (c *Catalog) Set(files []string) (agentkernel.ToolSource, error) {
	inner, err := c.cfg.Source(files)
	if err != nil {
		return nil, err
	}
	return &source{ToolSource: inner, catalog: c, shelf: c.shelf(files)}, nil
}

// Close writes what was learned since it was written last.
func (c *Catalog) Close() error {
	c.mu.Lock()
	records := make([]*record, 0, len(c.records))
	for _, r := range c.records {
		records = append(records, r)
	}
	c.mu.Unlock()
	for _, r := range records {
		r.save(c)
	}
	return nil
}

func (c *Catalog) shelf(files []string) *shelf {
	key := strings.Join(files, "\x00")
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.shelves[key]; s != nil {
		return s
	}
	if len(c.order) >= keptShelves {
		delete(c.shelves, c.order[0])
		c.order = c.order[1:]
	}
	s := &shelf{searcher: search.NewSearcher(search.Default(), c.vectors), servers: map[string]*listing{}}
	c.shelves[key] = s
	c.order = append(c.order, key)
	return s
}

// shelf is what is known of the servers of one list of files.
type shelf struct {
	searcher *search.Searcher

	mu      sync.Mutex
	servers map[string]*listing // by configured name
	files   map[string]string   // server to the file that configures it
}

// listing is a server's tools as they were listed last.
type listing struct {
	tools      []agentkernel.Tool // as the server says
	index      map[string]int     // by either name
	record     *record
	provenance // guarded by the shelf
}

// source is an agentkernel.ToolSource with search and memory.
type source struct {
	agentkernel.ToolSource
	catalog *Catalog
	shelf   *shelf
}

var (
	_ agentkernel.ToolSearcher = (*source)(nil)
	_ agentkernel.ToolPinner   = (*source)(nil)
)

// Tools implements agentkernel.ToolSource.
func (s *source) Tools(ctx context.Context, server string) ([]agentkernel.Tool, error) {
	tools, err := s.ToolSource.Tools(ctx, server)
	if err != nil || len(tools) == 0 {
		return tools, err
	}
	l := s.note(ctx, tools, s.justNow(tools))
	out := slices.Clone(tools)
	l.record.describe(out)
	return out, nil
}

// Call implements agentkernel.ToolSource; the shape of the result is learned where nobody declares it.
func (s *source) Call(ctx context.Context, c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
	if admit := c.Admit; admit != nil {
		c.Admit = func(t agentkernel.Tool) error { return admit(s.asKnown(ctx, t)) }
	}
	r, err := s.ToolSource.Call(ctx, c)
	if err == nil && len(r.Value) > 0 {
		s.shelf.mu.Lock()
		l := s.shelf.servers[c.Server]
		s.shelf.mu.Unlock()
		if l != nil {
			if at, ok := l.index[c.Tool]; ok && len(l.tools[at].OutputSchema) == 0 {
				l.record.learn(s.catalog, l.tools[at].Name, r.Value)
			}
		}
	}
	return r, err
}

// asKnown gives a tool as its server describes it now with what is known of it: it may have changed since it was listed.
func (s *source) asKnown(ctx context.Context, t agentkernel.Tool) agentkernel.Tool {
	s.shelf.mu.Lock()
	l := s.shelf.servers[t.Server]
	s.shelf.mu.Unlock()
	var rec *record
	if l != nil {
		if at, ok := l.index[t.Name]; ok && l.tools[at].Name == t.Name {
			t.PythonServer = l.tools[at].PythonServer // another set may know the server under another name
			if sameTool(l.tools[at], t) {
				rec = l.record
			}
		}
	}
	one := []agentkernel.Tool{t}
	if rec == nil {
		rec = s.catalog.record(t.Server, s.configuredIn(ctx, t.Server))
		if rec.empty() { // nothing was accepted; the next list of all its tools is
			return t
		}
		rec.see(s.catalog, one, "")
	}
	rec.describe(one)
	return one[0]
}

// justNow is the provenance of a list that a server has just given.
func (s *source) justNow(tools []agentkernel.Tool) provenance {
	server := tools[0].Server
	return provenance{print: s.fingerprint(server), release: s.release(server), at: s.catalog.cfg.Now().UTC().Truncate(time.Second), live: true}
}

// note takes the tools of a server in, if they are not the ones that are known.
func (s *source) note(ctx context.Context, tools []agentkernel.Tool, from provenance) *listing {
	server := tools[0].Server
	tools = slices.Clone(tools)
	for i := range tools {
		tools[i].CostUSD = nil // the file may say another one tomorrow
	}
	s.shelf.mu.Lock()
	l := s.shelf.servers[server]
	same := l != nil && slices.EqualFunc(l.tools, tools, sameTool)
	keep := from.live && !(same && l.live && l.print == from.print && l.release == from.release)
	if same {
		l.provenance = from
	}
	s.shelf.mu.Unlock()
	if keep {
		s.keepList(server, s.configuredIn(ctx, server), tools, from)
	}
	if same {
		return l
	}
	rec := s.catalog.record(server, s.configuredIn(ctx, server))
	rec.see(s.catalog, tools, from.print)
	l = &listing{tools: tools, index: make(map[string]int, len(tools)), record: rec, provenance: from}
	for i := range tools {
		l.index[tools[i].PythonName] = i
	}
	for i := range tools {
		l.index[tools[i].Name] = i // the server's own name counts first
	}
	s.shelf.searcher.Replace(server, tools)
	s.shelf.mu.Lock()
	defer s.shelf.mu.Unlock()
	s.shelf.servers[server] = l
	return l
}

// configuredIn says which file configures a server; "" if that cannot be found out.
func (s *source) configuredIn(ctx context.Context, server string) string {
	s.shelf.mu.Lock()
	file, known := s.shelf.files[server]
	s.shelf.mu.Unlock()
	if known {
		return file
	}
	servers, err := s.Servers(ctx)
	if err != nil {
		return ""
	}
	s.shelf.mu.Lock()
	defer s.shelf.mu.Unlock()
	s.shelf.files = make(map[string]string, len(servers))
	for _, srv := range servers {
		s.shelf.files[srv.Name] = srv.Source
	}
	return s.shelf.files[server]
}

// sameTool compares what a server says of a tool. The texts of an unchanged listing are the same memory, so
// that this costs next to nothing.
func sameTool(a, b agentkernel.Tool) bool {
	return a.Name == b.Name && a.PythonName == b.PythonName && a.PythonServer == b.PythonServer && a.Effect == b.Effect &&
		a.Signature == b.Signature && a.Title == b.Title && a.Description == b.Description && a.Doc == b.Doc &&
		string(a.InputSchema) == string(b.InputSchema) && string(a.OutputSchema) == string(b.OutputSchema)
}
