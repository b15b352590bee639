package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
)

// fork is a request that was not answered yet.
type fork struct {
	c    *child
	done chan error
}

// fork has a child made that waits, behind its walls, for what it shall do.
func (z *zygote) fork(ctx context.Context, limits agentkernel.Limits, mounts []agentkernel.Mount, stdin *os.File) (*child, error) {
	cell, err := z.body.cell(limits, mounts)
	if err != nil {
		return nil, err
	}
	c, err := z.forkInto(ctx, cell, planKeyOf(limits, mounts), stdin)
	if err == nil {
		return c, nil
	}
	if cell != nil {
		err = errors.Join(err, cell.Close())
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if _, ok := errors.AsType[*agentkernel.Error](err); ok {
		return nil, err
	}
	return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "process", "no child for the program: %w", err)
}

func (z *zygote) forkInto(ctx context.Context, cell *confine.Cell, key planKey, stdin *os.File) (*child, error) {
	l, far, err := newLine(z.cfg.MaxFrame)
	if err != nil {
		return nil, err
	}
	c := &child{line: l, z: z, cell: cell, pidfd: -1, ended: make(chan struct{})}
	f := &fork{c: c, done: make(chan error, 1)}
	id, err := z.expect(f)
	if err == nil {
		err = z.request(ctx, id, cell, key, far, stdin)
	}
	far.close()
	if err == nil {
		err = z.awaitFork(ctx, f)
	}
	if err == nil {
		if err = c.adopt(); err != nil {
			err = fmt.Errorf("%w: %w", errStillborn, err)
		}
	}
	if err != nil {
		c.kill(err)
		l.close()
		return nil, err
	}
	return c, nil
}

// expect notes a fork that is about to be asked for, and gives its number.
func (z *zygote) expect(f *fork) (int64, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.forks == nil {
		return 0, errZygoteGone
	}
	z.lastID++
	z.forks[z.lastID] = f
	return z.lastID, nil
}

// request asks for a child with the walls of a cell. Behind the child's own descriptors stand that of its standard
// input, if it has one, and its trees.
func (z *zygote) request(ctx context.Context, id int64, cell *confine.Cell, key planKey, far farEnds, stdin *os.File) error {
	fds := []int{far.sock, far.out, far.err}
	if stdin != nil {
		fds = append(fds, int(stdin.Fd()))
	}
	if cell != nil {
		trees, err := z.cfg.Spawner.Trees(ctx, cell.Plan)
		if err != nil {
			return err
		}
		for _, t := range trees {
			defer func() { _ = t.Close() }() // the zygote has its own
			fds = append(fds, int(t.Fd()))
		}
	}
	z.asking.Lock() // nobody may ask for a plan before it was sent, nor for one more when it was not the last
	defer z.asking.Unlock()
	plan := "-"
	if cell != nil {
		var err error
		if plan, err = z.teach(cell.Plan, key); err != nil {
			return err
		}
	}
	ordinary := len(fds) == 3
	if ordinary && plan == z.again {
		return z.ask(fmt.Appendf(nil, "%*d", forkedDigits, id), fds...)
	}
	z.again = ""
	if err := z.ask(fmt.Appendf(nil, "%-*d %s", forkedDigits, id, plan), fds...); err != nil {
		return err
	}
	if ordinary {
		z.again = plan
	}
	return nil
}

// keptPlans bounds how many plans we believe a zygote to know; it keeps some more.
const keptPlans = 200

// teach makes sure that the zygote knows a plan, and gives the plan's name there; z.asking is held. Children of one
// zygote whose walls have the same limits have the same steps; cgroups differ, but they are the kernel's to join.
func (z *zygote) teach(p *confine.Plan, key planKey) (string, error) {
	if name, known := z.plans[key]; known {
		return name, nil
	}
	steps, err := json.Marshal(nameless(p))
	if err != nil {
		return "", err
	}
	if len(z.plans) == keptPlans {
		clear(z.plans)
	}
	z.taught++
	name := fmt.Sprint("plan", z.taught)
	request, err := json.Marshal(planRequest{Plan: name, Steps: steps, Memory: key.limits.Memory})
	if err != nil {
		return "", err
	}
	if err := z.ask(request); err != nil {
		return "", err
	}
	z.plans[key] = name
	return name, nil
}

func (z *zygote) awaitFork(ctx context.Context, f *fork) error {
	late := time.NewTimer(forkWait)
	defer late.Stop()
	select {
	case err := <-f.done:
		return err
	case <-late.C:
		z.kill(fmt.Errorf("it did not fork within %s", forkWait))
		return errors.Join(errZygoteGone, <-f.done)
	case <-ctx.Done():
		return ctx.Err() // it comes all the same, and is killed then
	}
}
