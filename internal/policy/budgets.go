package policy

import (
	"context"

	"agentkernel"
)

// Budget says what the budget of a process of the namespace is.
func (s *scope) Budget(ctx context.Context, pid agentkernel.PID) (agentkernel.BudgetState, error) {
	if err := s.own(ctx, "budget", pid, agentkernel.RightRead); err != nil {
		return agentkernel.BudgetState{}, err
	}
	return s.k.Budget(ctx, pid)
}

// AddBudget raises it.
func (s *scope) AddBudget(ctx context.Context, pid agentkernel.PID, more agentkernel.Budget) (agentkernel.BudgetState, error) {
	if err := s.own(ctx, "budget", pid, agentkernel.RightAnswer); err != nil {
		return agentkernel.BudgetState{}, err
	}
	return s.k.AddBudget(ctx, pid, more)
}

// Allowances says what has become of those of the namespace.
func (s *scope) Allowances(ctx context.Context, namespace string) ([]agentkernel.AllowanceState, error) {
	if err := s.may("budget", agentkernel.RightRead); err != nil {
		return nil, err
	}
	if namespace != "" && namespace != s.namespace {
		return nil, nil
	}
	return s.k.Allowances(ctx, s.namespace)
}

// ModelUsage says what the calls of the namespace have used.
func (s *scope) ModelUsage(ctx context.Context, q agentkernel.UsageQuery) (agentkernel.ModelUsage, error) {
	if err := s.may("usage", agentkernel.RightRead); err != nil {
		return agentkernel.ModelUsage{}, err
	}
	if q.Namespace != "" && q.Namespace != s.namespace {
		return agentkernel.ModelUsage{}, q.Validate()
	}
	q.Namespace = s.namespace
	return s.k.ModelUsage(ctx, q)
}

// ModelLimits are those of keys that all namespaces share.
func (s *scope) ModelLimits(context.Context) (agentkernel.ModelLimits, error) {
	return agentkernel.ModelLimits{}, s.ownerAlone("limits")
}

// GiveKey hands over the key of a model that a process of the namespace has brought. Those of the setting are of keys that all namespaces
// share.
func (s *scope) GiveKey(ctx context.Context, pid agentkernel.PID, model, key string) error {
	if pid == 0 {
		return s.ownerAlone("key")
	}
	if err := s.own(ctx, "key", pid, agentkernel.RightTools); err != nil {
		return err
	}
	return s.k.GiveKey(ctx, pid, model, key)
}
