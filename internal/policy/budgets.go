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
