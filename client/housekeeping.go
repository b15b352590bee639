package client

import (
	"context"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// Prune forgets processes that have ended.
func (c *Client) Prune(ctx context.Context, o agentkernel.PruneOptions) (out agentkernel.Pruned, err error) {
	err = c.post(ctx, "prune", wire.Prefix+"/prune", o, &out)
	return out, err
}

// Storage says how much room the store takes, and how much it may take.
func (c *Client) Storage(ctx context.Context) (out agentkernel.Storage, err error) {
	err = c.get(ctx, "storage", wire.Prefix+"/storage", nil, &out)
	return out, err
}
