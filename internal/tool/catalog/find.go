package catalog

import (
	"context"
	"errors"
	"slices"
	"sync"

	"agentkernel"
	"agentkernel/internal/shellword"
	"agentkernel/internal/tool/search"
)

// SearchTools implements agentkernel.ToolSearcher.
func (s *source) SearchTools(ctx context.Context, q agentkernel.ToolQuery) (agentkernel.ToolMatches, error) {
	if err := q.Validate(); err != nil {
		return agentkernel.ToolMatches{}, err
	}
	local := localTools(&q)
	if len(local) > 0 && q.Server != "" {
		return mixed(agentkernel.ToolMatches{}, local, &q), nil
	}
	out, err := s.searchServed(ctx, &q)
	return mixed(out, local, &q), err
}

// searchServed ranks the tools of the servers.
func (s *source) searchServed(ctx context.Context, q *agentkernel.ToolQuery) (agentkernel.ToolMatches, error) {
	servers, err := s.Servers(ctx)
	if err != nil {
		return agentkernel.ToolMatches{}, err
	}
	if q.Server != "" {
		servers = slices.DeleteFunc(slices.Clone(servers), func(t agentkernel.ToolServer) bool {
			return t.Name != q.Server && t.PythonName != q.Server
		})
		if len(servers) == 0 { // the error names the nearest
			if _, err := s.ToolSource.Tools(ctx, q.Server); err != nil {
				return agentkernel.ToolMatches{}, err
			}
		}
	}
	out := agentkernel.ToolMatches{Tools: []agentkernel.Tool{}}
	listed := s.listAll(ctx, servers, &out)
	if err := ctx.Err(); err != nil {
		return out, err
	}
	if q.Server == "" {
		s.shelf.forget(servers)
	}
	if q.Text == "" {
		for _, tools := range listed {
			out.Tools = append(out.Tools, tools[:min(len(tools), q.Limit-len(out.Tools))]...)
		}
		return out, nil
	}
	hits, err := s.shelf.searcher.Find(ctx, q.Text, q.Server, q.Limit)
	if err != nil {
		out.Problems = append(out.Problems, agentkernel.AsError(err, agentkernel.CodeUnavailable, "").Message())
	}
	for _, h := range hits {
		out.Tools = append(out.Tools, s.shelf.describe(h))
	}
	return out, nil
}

// listAll asks all servers at once, those that run or whose list is not known; out gets the count and what went wrong.
func (s *source) listAll(ctx context.Context, servers []agentkernel.ToolServer, out *agentkernel.ToolMatches) [][]agentkernel.Tool {
	patient, cancel := context.WithTimeout(ctx, s.catalog.cfg.Patience)
	defer cancel()
	listed := make([][]agentkernel.Tool, len(servers))
	problems := make([]string, len(servers))
	var asking sync.WaitGroup
	for i, srv := range servers {
		asking.Go(func() {
			tools, err := s.listed(patient, &srv)
			if err != nil && errors.Is(patient.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
				problems[i] = srv.Name + ": has not answered yet; search again in a moment"
				if len(tools) > 0 {
					problems[i] = srv.Name + ": has not answered yet; what it had when it was asked last is shown"
				}
			} else if err != nil {
				problems[i] = srv.Name + ": " + agentkernel.AsError(err, agentkernel.CodeUnavailable, "").Message()
			}
			listed[i] = tools
		})
	}
	asking.Wait()
	for i := range servers {
		out.Total += len(listed[i])
		if problems[i] != "" {
			out.Problems = append(out.Problems, problems[i])
		}
	}
	return listed
}

// forget takes servers out that are not configured any more.
func (s *shelf) forget(servers []agentkernel.ToolServer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.servers {
		if !slices.ContainsFunc(servers, func(t agentkernel.ToolServer) bool { return t.Name == name }) {
			delete(s.servers, name)
			s.searcher.Remove(name)
		}
	}
}

// describe gives a tool that was found with what is known of it now.
func (s *shelf) describe(h search.Hit) agentkernel.Tool {
	s.mu.Lock()
	l := s.servers[h.Tool.Server]
	s.mu.Unlock()
	one := []agentkernel.Tool{h.Tool}
	if l != nil {
		l.record.describe(one)
	}
	return one[0]
}

// AcceptTools implements agentkernel.ToolPinner.
func (s *source) AcceptTools(ctx context.Context, server string, names ...string) (int, error) {
	tools, err := s.ToolSource.Tools(ctx, server) // as the server says, without what is known
	if err != nil || len(tools) == 0 {
		return 0, err
	}
	record := s.note(ctx, tools, s.justNow(tools)).record
	for _, name := range names {
		if !slices.ContainsFunc(tools, func(t agentkernel.Tool) bool { return t.Name == name || t.PythonName == name }) {
			return 0, agentkernel.Errorf(agentkernel.CodeNotFound, "tools", "server %s has no tool %q", server, name).
				WithHint("agentkernel tools list %s", shellword.Names(server))
		}
	}
	accepted := slices.DeleteFunc(slices.Clone(tools), func(t agentkernel.Tool) bool {
		return len(names) > 0 && !slices.Contains(names, t.Name) && !slices.Contains(names, t.PythonName)
	})
	return record.accept(s.catalog, accepted), nil
}
