package kernel_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"agentkernel"
)

// calls makes the calls of a hosted program that has one lane.
type calls struct {
	agentkernel.Host
	mu   sync.Mutex
	lane string
	n    int64
}

func (r *rig) attach(t *testing.T, pid agentkernel.PID) (*calls, error) {
	t.Helper()
	h, err := r.Attach(t.Context(), pid, agentkernel.Attaching{})
	return &calls{Host: h}, err
}

func (c *calls) Syscall(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
	c.mu.Lock()
	c.n++
	wait := c.Issue(agentkernel.HostedCall{Place: agentkernel.Place{Lane: c.lane, N: c.n}, Op: op, Args: args})
	c.mu.Unlock()
	return wait(ctx)
}
