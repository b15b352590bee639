package client

import (
	"context"
	"net/url"
	"time"

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

// Allowances says what has become of the allowances of a namespace; "": of all.
func (c *Client) Allowances(ctx context.Context, namespace string) ([]agentkernel.AllowanceState, error) {
	q := url.Values{}
	if namespace != "" {
		q.Set("namespace", namespace)
	}
	var list wire.AllowanceList
	err := c.get(ctx, "budget", wire.Prefix+"/allowances", q, &list)
	return list.Allowances, err
}

// ModelUsage says what calls to models have used.
func (c *Client) ModelUsage(ctx context.Context, q agentkernel.UsageQuery) (u agentkernel.ModelUsage, err error) {
	v := url.Values{}
	for _, key := range q.By {
		v.Add("by", string(key))
	}
	if q.Namespace != "" {
		v.Set("namespace", q.Namespace)
	}
	if q.Tree != 0 {
		v.Set("tree", q.Tree.String())
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	err = c.get(ctx, "usage", wire.Prefix+"/models/usage", v, &u)
	return u, err
}

// ModelLimits says what is known of the limits of models.
func (c *Client) ModelLimits(ctx context.Context) (l agentkernel.ModelLimits, err error) {
	err = c.get(ctx, "limits", wire.Prefix+"/models/limits", nil, &l)
	return l, err
}

// GiveKey hands over the key of a model.
func (c *Client) GiveKey(ctx context.Context, pid agentkernel.PID, model, key string) error {
	return c.post(ctx, "key", wire.Prefix+"/models/key", wire.KeyRequest{PID: pid, Model: model, Key: key}, nil)
}
