package client

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// Info says which kernel this is.
func (c *Client) Info(ctx context.Context) (info agentkernel.KernelInfo, err error) {
	err = c.get(ctx, "info", wire.Prefix+"/info", nil, &info)
	return info, err
}

// Spawn creates a process and returns once it is durable.
func (c *Client) Spawn(ctx context.Context, s agentkernel.Spec) (p agentkernel.Process, err error) {
	if err := s.Program.Validate(); err != nil {
		return p, err
	}
	create := func() error { return c.post(ctx, "spawn", wire.Prefix+"/processes", s, &p) }
	if err = create(); s.IdempotencyKey != "" { // the key makes it the same process
		err = keyed(ctx, err, create)
	}
	return p, err
}

// SpawnMany creates many processes of one Spec and returns once all are durable.
func (c *Client) SpawnMany(ctx context.Context, s agentkernel.Spec, each []agentkernel.Instance) ([]agentkernel.PID, error) {
	if err := s.ValidateMany(each); err != nil {
		return nil, err
	}
	all := true
	for i := range each {
		all = all && each[i].IdempotencyKey != ""
	}
	var made wire.Many
	create := func() error {
		return c.post(ctx, "spawn", wire.Prefix+"/processes/many", wire.ManyRequest{Spec: s, Each: each}, &made)
	}
	err := create()
	if all { // the keys make them the same processes
		err = keyed(ctx, err, create)
	}
	return made.PIDs, err
}

// Process is one process.
func (c *Client) Process(ctx context.Context, pid agentkernel.PID) (p agentkernel.Process, err error) {
	err = c.get(ctx, "process", wire.ProcessPath(pid, ""), nil, &p)
	return p, err
}

// List gives a page of processes, newest first.
func (c *Client) List(ctx context.Context, f agentkernel.Filter) ([]agentkernel.Process, error) {
	q := selection(f)
	setNumber(q, "limit", int64(f.Limit))
	var list wire.ProcessList
	err := c.get(ctx, "list", wire.Prefix+"/processes", q, &list)
	return list.Processes, err
}

// Count says how many processes a filter selects.
func (c *Client) Count(ctx context.Context, f agentkernel.Filter) (int, error) {
	var count wire.Count
	err := c.get(ctx, "list", wire.Prefix+"/processes/count", selection(f), &count)
	return count.Count, err
}

// selection is a filter as the parameters of a request, but for its limit.
func selection(f agentkernel.Filter) url.Values {
	q := url.Values{}
	if f.Namespace != "" {
		q.Set("namespace", f.Namespace)
	}
	if f.Unfinished {
		q.Set("unfinished", "true")
	}
	if f.Active {
		q.Set("active", "true")
	}
	if f.Key != "" {
		q.Set("key", f.Key)
	}
	setNumber(q, "parent", int64(f.Parent))
	setNumber(q, "before", int64(f.Before))
	return q
}

// Wait returns when the process has ended or is paused.
func (c *Client) Wait(ctx context.Context, pid agentkernel.PID) (p agentkernel.Process, err error) {
	err = c.get(ctx, "wait", wire.ProcessPath(pid, "wait"), nil, &p)
	return p, lost(pid, err)
}

// Signal sends a signal.
func (c *Client) Signal(ctx context.Context, pid agentkernel.PID, sig agentkernel.Signal, with ...agentkernel.SignalOptions) error {
	body := wire.SignalRequest{Signal: sig}
	if len(with) > 0 {
		body.SignalOptions = with[0]
	}
	return c.post(ctx, "signal", wire.ProcessPath(pid, "signal"), body, nil)
}

// Answer answers an EventAsk.
func (c *Client) Answer(ctx context.Context, pid agentkernel.PID, ask int64, a agentkernel.Answer) error {
	return c.post(ctx, "answer", wire.ProcessPath(pid, "answers"), wire.AnswerRequest{Ask: ask, Answer: a}, nil)
}

// Resolve decides about a write whose outcome nobody knows.
func (c *Client) Resolve(ctx context.Context, pid agentkernel.PID, call int64, r agentkernel.Resolution) error {
	if err := r.Validate(); err != nil {
		return err // what is not JSON could not be sent
	}
	return c.post(ctx, "resolve", wire.ProcessPath(pid, "resolutions"), wire.ResolveRequest{Call: call, Resolution: r}, nil)
}

// Recover continues unfinished processes: the one named, or all (0).
func (c *Client) Recover(ctx context.Context, pid agentkernel.PID) ([]agentkernel.Process, error) {
	var list wire.ProcessList
	err := c.post(ctx, "recover", wire.Prefix+"/recover", wire.RecoverRequest{PID: pid}, &list)
	return list.Processes, err
}

// Journal reads the entries of a process from a position on, in as many exchanges as it takes.
func (c *Client) Journal(ctx context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	var all []agentkernel.Entry
	for {
		q := url.Values{}
		setNumber(q, "from", from)
		if limit > 0 {
			setNumber(q, "limit", int64(limit-len(all)))
		}
		var page wire.EntryPage
		if err := c.get(ctx, "journal", wire.ProcessPath(pid, "journal"), q, &page); err != nil {
			return nil, err
		}
		for i := range page.Entries {
			page.Entries[i].ReadNote()
		}
		all = append(all, page.Entries...)
		if page.Next <= from || limit > 0 && len(all) >= limit {
			return all, nil
		}
		from = page.Next
	}
}

// Spec is what a process was created with, program text included.
func (c *Client) Spec(ctx context.Context, pid agentkernel.PID) (s agentkernel.Spec, err error) {
	err = c.get(ctx, "spec", wire.ProcessPath(pid, "spec"), nil, &s)
	return s, err
}

// State is the working set of a process.
func (c *Client) State(ctx context.Context, pid agentkernel.PID) (map[string]json.RawMessage, error) {
	var set wire.WorkingSet
	err := c.get(ctx, "state", wire.ProcessPath(pid, "state"), nil, &set)
	return set.State, err
}

// ToolServers lists the servers of MCP configuration files, which the kernel reads: absolute paths.
func (c *Client) ToolServers(ctx context.Context, files []string) ([]agentkernel.ToolServer, error) {
	var list wire.ServerList
	err := c.get(ctx, "tools", wire.Prefix+"/tools/servers", url.Values{"files": files}, &list)
	return list.Servers, err
}

// ListTools lists the tools of a server, or of all ("").
func (c *Client) ListTools(ctx context.Context, files []string, server string) ([]agentkernel.Tool, error) {
	q := url.Values{"files": files}
	if server != "" {
		q.Set("server", server)
	}
	var list wire.ToolList
	err := c.get(ctx, "tools", wire.Prefix+"/tools", q, &list)
	return list.Tools, err
}

// Shutdown asks the kernel to end; it returns when the kernel has agreed. The data directory is free a
// moment later.
func (c *Client) Shutdown(ctx context.Context) error {
	return c.post(ctx, "shutdown", wire.Prefix+"/shutdown", struct{}{}, nil)
}

func setNumber(q url.Values, name string, n int64) {
	if n != 0 {
		q.Set(name, strconv.FormatInt(n, 10))
	}
}

// Halt lets what a hold is over stand still.
func (c *Client) Halt(ctx context.Context, h agentkernel.Hold) error {
	return c.post(ctx, "halt", wire.Prefix+"/halt", holdBody(h), nil)
}

// Thaw ends a hold.
func (c *Client) Thaw(ctx context.Context, h agentkernel.Hold) error {
	return c.post(ctx, "thaw", wire.Prefix+"/thaw", holdBody(h), nil)
}

// holdBody is a hold as a request has it: what is empty is left out.
func holdBody(h agentkernel.Hold) any {
	body := map[string]any{}
	if h.Namespace != "" {
		body["namespace"] = h.Namespace
	}
	if h.Tree != 0 {
		body["tree"] = h.Tree
	}
	if h.Why != "" {
		body["why"] = h.Why
	}
	return body
}
