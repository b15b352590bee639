package client

import (
	"context"
	"net/http"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// Feed hands a session its next cell and reports its events until the cell has run. If the connection breaks, a cell
// with a key is fed again, which follows it; without one that is an error, the cell runs on, and Events shows the rest.
func (c *Client) Feed(ctx context.Context, pid agentkernel.PID, p agentkernel.Cell, fn func(agentkernel.Event) error) (agentkernel.CellEnd, error) {
	if err := (&agentkernel.Program{Name: p.Name, Source: p.Source, Modules: p.Modules}).Validate(); err != nil {
		return agentkernel.CellEnd{}, err
	}
	f := &follower{c: c, fn: fn}
	req := request{op: "session", method: http.MethodPost, path: wire.ProcessPath(pid, "pieces"), body: p}
	err := f.once(ctx, req)
	if p.Key != "" {
		err = keyed(ctx, err, func() error { return f.once(ctx, req) })
	}
	if f.done.Cell != nil {
		return *f.done.Cell, err
	}
	return agentkernel.CellEnd{}, err
}

// EndSession lets a session that waits for a cell exit.
func (c *Client) EndSession(ctx context.Context, pid agentkernel.PID) (p agentkernel.Process, err error) {
	err = c.post(ctx, "session", wire.ProcessPath(pid, "end"), struct{}{}, &p)
	return p, err
}
