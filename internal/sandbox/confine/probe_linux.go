package confine

import (
	"context"
	"os"

	"agentkernel"
)

// Probe builds one sandbox with every wall, runs this executable in it, which ends at once, and says what came
// of it. It takes some milliseconds.
func (s *Spawner) Probe(ctx context.Context) Report {
	if p := s.machine.Problem; p != nil {
		return Report{Problem: p}
	}
	walls, err := s.probe(ctx)
	return Report{Problem: agentkernel.AsError(err, agentkernel.CodeUnavailable, op), Walls: walls}
}

func (s *Spawner) probe(ctx context.Context) ([]Wall, error) {
	const inside = "/agentkernel"
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c, err := s.Prepare(Config{
		Runtime: append(SystemRuntime(), Mount{Source: self, Target: inside}),
		Program: Program{Path: inside, Args: []string{"agentkernel", Argument, roleTrue}, Env: []string{}},
	})
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	p, err := s.Start(ctx, c, []*os.File{null, null, null})
	if err != nil {
		return nil, err
	}
	exit, err := p.Wait(ctx)
	if err != nil {
		p.Kill()
		return nil, err
	}
	if !exit.Known || exit.Status.ExitStatus() != 0 {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, op, "a sandbox was built, but the program in it did not run: %s", exit)
	}
	return p.Walls(), nil
}
