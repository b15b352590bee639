package process

import (
	"context"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
)

// Trial is what Try found.
type Trial struct {
	Python Interpreter
	Walls  []confine.Wall // of the program that ran
}

// Try runs a small program from beginning to end, as any other is run. The error says what mends it.
func (b *Backend) Try(ctx context.Context) (Trial, error) {
	python, problem := b.ready()
	if problem != nil {
		return Trial{}, problem
	}
	box, err := b.Start(ctx, agentkernel.StartRequest{Namespace: checkNamespace, Limits: agentkernel.DefaultLimits(),
		Program: agentkernel.Program{Name: "trial.py", Language: agentkernel.Python, Source: "6 * 7"}})
	if err != nil {
		return Trial{}, err
	}
	defer func() { _ = box.Close() }() // what it could say is known by then
	turn, err := box.Next(ctx, nil)
	switch {
	case err != nil:
		return Trial{}, err
	case turn.Kind != agentkernel.TurnExit || string(turn.Result) != "42":
		return Trial{}, agentkernel.Errorf(agentkernel.CodeCrashed, "process", "6 * 7 gave %s", turn.Result)
	}
	t := Trial{Python: python}
	if s, ok := box.(*sandbox); ok {
		t.Walls = s.Walls()
	}
	return t, nil
}

// Walls says what stands between the program and the machine; nil: nothing, as was asked for.
func (s *sandbox) Walls() []confine.Wall {
	if s.c.cell == nil {
		return nil
	}
	return s.c.cell.Plan.Walls
}
