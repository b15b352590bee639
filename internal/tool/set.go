package tool

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
)

// set is the agentkernel.ToolSource of one list of files.
type set struct {
	hub   *Hub
	files []string

	view       atomic.Pointer[view]
	refreshing sync.Mutex
	digests    map[string]string // of the files, by path; guarded by refreshing
}

// Digests implements agentkernel.ToolDigester.
func (s *set) Digests() map[string]string {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	return maps.Clone(s.digests)
}

// view is what the files said at one moment; it never changes.
type view struct {
	entries []*entry
	servers []*server // in the order of the files
	python  map[*server]string
	prices  map[*server]prices
	byName  map[string]*server
	byPy    map[string]*server
}

func (v *view) find(name string) *server {
	if s := v.byName[name]; s != nil {
		return s
	}
	return v.byPy[name]
}

// refresh reads the files again if they have changed. Servers that this set has used stay as they are;
// the others follow the files.
func (s *set) refresh() (*view, error) {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	var entries []*entry
	digests := make(map[string]string, len(s.files))
	for _, f := range s.files {
		list, path, digest, err := s.hub.entries(f)
		if err != nil {
			return nil, err
		}
		digests[path] = digest
		for _, e := range list {
			if !slices.ContainsFunc(entries, func(have *entry) bool { return have.name == e.name }) {
				entries = append(entries, e)
			}
		}
	}
	s.digests = digests
	old := s.view.Load()
	if old != nil && slices.Equal(old.entries, entries) {
		return old, nil
	}
	var next *view
	if old == nil {
		next = s.hub.view(s.files, entries)
	} else {
		next = s.hub.newView(entries, old.used())
	}
	s.view.Store(next)
	return next, nil
}

// used are the servers of a view that were started.
func (v *view) used() []*server {
	var out []*server
	for _, srv := range v.servers {
		if srv.used.Load() {
			out = append(out, srv)
		}
	}
	return out
}

// maxViews is how many views are kept for new sets.
const maxViews = 256

// view gives a new set the view that other sets of the same files have, if it still holds.
func (h *Hub) view(files []string, entries []*entry) *view {
	key := strings.Join(files, "\x00")
	h.mu.Lock()
	known := h.views[key]
	h.mu.Unlock()
	if known != nil && slices.Equal(known.entries, entries) {
		return known
	}
	v := h.newView(entries, nil)
	h.mu.Lock()
	if len(h.views) >= maxViews {
		clear(h.views)
	}
	h.views[key] = v
	h.mu.Unlock()
	return v
}

// newView maps entries to servers; those in keep take the place of entries with their name.
func (h *Hub) newView(entries []*entry, keep []*server) *view {
	v := &view{entries: entries, python: map[*server]string{}, prices: map[*server]prices{}, byName: map[string]*server{}, byPy: map[string]*server{}}
	for _, e := range entries {
		var srv *server
		if at := slices.IndexFunc(keep, func(s *server) bool { return s.entry.name == e.name }); at >= 0 {
			srv = keep[at]
			keep = slices.Delete(slices.Clone(keep), at, at+1)
		} else {
			srv = h.server(e)
		}
		v.servers, v.prices[srv] = append(v.servers, srv), e.prices
	}
	for _, srv := range keep { // no longer in a file, and still in use
		v.servers, v.prices[srv] = append(v.servers, srv), srv.entry.prices
	}
	names := make([]string, len(v.servers))
	for i, srv := range v.servers {
		names[i] = srv.entry.name
	}
	python := PythonNames(names)
	for _, srv := range v.servers {
		v.python[srv] = python[srv.entry.name]
		v.byName[srv.entry.name] = srv
		v.byPy[v.python[srv]] = srv
	}
	return v
}

// find looks a server up; a name that is not known makes the files be read again.
func (s *set) find(name string) (*server, *view, error) {
	v := s.view.Load()
	srv := v.find(name)
	if srv == nil || srv.entry.refuses() != nil {
		fresh, err := s.refresh()
		if err != nil {
			return nil, nil, err
		}
		v, srv = fresh, fresh.find(name)
	}
	if srv == nil {
		var names []string
		for _, have := range v.servers {
			names = append(names, have.entry.name)
		}
		return nil, nil, agentkernel.Errorf(agentkernel.CodeNotFound, "tool", "there is no tool server %q", name).
			WithHint("%s", didYouMean(name, names, "configured servers"))
	}
	return srv, v, nil
}

// Servers implements agentkernel.ToolSource.
func (s *set) Servers(ctx context.Context) ([]agentkernel.ToolServer, error) {
	v, err := s.refresh()
	if err != nil {
		return nil, err
	}
	out := make([]agentkernel.ToolServer, 0, len(v.servers))
	for _, srv := range v.servers {
		out = append(out, srv.describe(v.python[srv]))
	}
	return out, nil
}

// Tools implements agentkernel.ToolSource.
func (s *set) Tools(ctx context.Context, name string) ([]agentkernel.Tool, error) {
	srv, v, err := s.find(name)
	if err != nil {
		return nil, err
	}
	inst, err := srv.running(ctx)
	if err != nil {
		return nil, err
	}
	if inst.tools.Load() != nil { // else toolset itself limits it
		var cancel context.CancelFunc
		ctx, cancel = limited(ctx, inst.startLimit)
		defer cancel()
	}
	began, python := time.Now(), v.python[srv]
	ts, err := inst.toolset(ctx, python)
	if err != nil {
		if overdue(ctx) {
			srv.late(inst, listMethod, began)
		}
		return nil, agentkernel.AsError(err, agentkernel.CodeUnavailable, "tool.list")
	}
	tools := slices.Clone(ts.tools)
	for i := range tools {
		tools[i].PythonServer = python // another set may know the server under another name
		tools[i].CostUSD = v.prices[srv].of(&tools[i])
	}
	return tools, v.prices[srv].check(srv.entry, tools)
}

// Fingerprint is a hash of what configures a server, for lists of tools that are kept; "" if it may not be started.
func (s *set) Fingerprint(name string) string {
	srv := s.view.Load().find(name)
	if srv == nil || srv.entry.refuses() != nil {
		return ""
	}
	return srv.entry.hash
}

// Release is name and version that a server gave of itself when it was started last; "": it was not since this kernel
// began.
func (s *set) Release(name string) string {
	srv := s.view.Load().find(name)
	if srv == nil {
		return ""
	}
	inst := srv.current.Load()
	if inst == nil {
		return ""
	}
	said := inst.session.InitializeResult()
	if said == nil || said.ServerInfo == nil {
		return ""
	}
	return said.ServerInfo.Name + " " + said.ServerInfo.Version
}
