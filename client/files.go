package client

import (
	"context"
	"net/http"
	"net/url"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// Changes says what a process has done to its workspace and volumes.
func (c *Client) Changes(ctx context.Context, pid agentkernel.PID) (changes agentkernel.Changes, err error) {
	err = c.get(ctx, "files", wire.ProcessPath(pid, "changes"), nil, &changes)
	return changes, err
}

// Apply writes the changes of a process to its folders.
func (c *Client) Apply(ctx context.Context, pid agentkernel.PID, o agentkernel.ApplyOptions) (applied agentkernel.Applied, err error) {
	err = c.post(ctx, "apply", wire.ProcessPath(pid, "apply"), o, &applied)
	return applied, err
}

// Discard throws the changes of a process away.
func (c *Client) Discard(ctx context.Context, pid agentkernel.PID) error {
	return c.post(ctx, "discard", wire.ProcessPath(pid, "discard"), struct{}{}, nil)
}

// OpenFile opens one file of a process. Content is read from the kernel as the caller reads it, and fails if it ends
// too early.
func (c *Client) OpenFile(ctx context.Context, pid agentkernel.PID, name agentkernel.FileName) (agentkernel.File, error) {
	q := url.Values{}
	setText(q, "volume", name.Volume)
	setText(q, "path", name.Path)
	if name.Before {
		q.Set("before", "true")
	}
	req := request{op: "get", method: http.MethodGet, path: wire.ProcessPath(pid, "file"), query: q}
	resp, err := c.ask(ctx, req)
	if err != nil {
		return agentkernel.File{}, err
	}
	return agentkernel.File{Size: resp.ContentLength, Media: resp.Header.Get(wire.HeaderMedia), Content: resp.Body}, nil
}
