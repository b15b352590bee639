package client

import (
	"context"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// Budget says what has become of the budget of a process.
func (c *Client) Budget(ctx context.Context, pid agentkernel.PID) (s agentkernel.BudgetState, err error) {
	err = c.get(ctx, "budget", wire.ProcessPath(pid, "budget"), nil, &s)
	return s, err
}

// AddBudget raises the budget of a process.
func (c *Client) AddBudget(ctx context.Context, pid agentkernel.PID, more agentkernel.Budget) (s agentkernel.BudgetState, err error) {
	err = c.post(ctx, "budget", wire.ProcessPath(pid, "budget"), more, &s)
	return s, err
}
