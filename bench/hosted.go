package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/embedded"
	"agentkernel/internal/api"
)

var hostedSection = section{
	name: "hosted", title: "A call of a program that lives elsewhere",
	about: "One `log.write` of a Go program that is a process of the kernel, over the socket: sent, dispatched, journalled, answered; `durable` is the default: its answer leaves when it is on the disk. " +
		"Floor: one entry committed to the bare store, in the same run. Peer: a `GET /info` over the same socket.",
	run: measureHosted,
}

// hostedGoal is what a call may cost beside its commit.
const hostedGoal = 150 * time.Microsecond

func measureHosted(ctx context.Context, b *bench) (_ []table, err error) {
	commit, closeStore, err := b.commitFloor(ctx)
	if closeStore != nil {
		defer closeStore()
	}
	if err != nil {
		return nil, err
	}
	k, err := b.open(ctx, embedded.Config{})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	c, stop, err := b.served(ctx, k)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	durable, err := hostedCall(ctx, c, agentkernel.DurabilityFull)
	if err != nil {
		return nil, err
	}
	relaxed, err := hostedCall(ctx, c, agentkernel.DurabilityRelaxed)
	if err != nil {
		return nil, err
	}
	n := b.pick(100, 50, 5)
	contenders := []contender{
		{name: "one entry, committed to the bare store", role: roleFloor, n: n, run: commit},
		{name: "GET /info on the socket", role: rolePeer, n: n, run: func(ctx context.Context) error {
			_, err := c.Info(ctx)
			return err
		}},
		{name: "hosted call, durable", role: roleOurs, n: n, run: durable},
		{name: "hosted call, relaxed", role: roleOurs, n: n, run: relaxed},
	}
	results, err := contest(ctx, b.pick(20, 10, 2), b.tell, contenders)
	if err != nil {
		return nil, err
	}
	rows := latencies(contenders, results)
	goal := time.Duration(rows[0].P50*float64(time.Microsecond)) + hostedGoal
	rows[2].judge("p50 at most one commit + "+span(hostedGoal), rows[2].P50 <= micros(goal))
	rows[3].judgeP50(hostedGoal)
	return []table{{Rows: rows}}, nil
}

// served serves a kernel on a socket, and gives a client of it.
func (b *bench) served(ctx context.Context, k agentkernel.Kernel) (*client.Client, func() error, error) {
	dir, err := b.dir()
	if err != nil {
		return nil, nil, err
	}
	socket := filepath.Join(dir, "k.sock")
	ln, err := api.ListenUnix(socket)
	if err != nil {
		return nil, nil, err
	}
	s, err := api.New(api.Config{Kernel: k, Version: "bench", IdleAfter: -1})
	if err != nil {
		return nil, nil, errors.Join(err, ln.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	stop := func() error { return errors.Join(s.Shutdown(ctx), <-ended) }
	c, err := client.Dial(ctx, client.Options{Socket: socket, Version: "bench"})
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return c, func() error { return errors.Join(c.Close(), stop()) }, nil
}

// hostedCall makes the caller the host of a process, and gives what makes one call of it.
func hostedCall(ctx context.Context, c *client.Client, d agentkernel.Durability) (func(context.Context) error, error) {
	s := agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "bench"}, Durability: d}
	p, err := c.Spawn(ctx, s)
	if err != nil {
		return nil, err
	}
	h, err := c.Attach(ctx, p.PID, agentkernel.Attaching{})
	if err != nil {
		return nil, err
	}
	n := int64(0)
	return func(ctx context.Context) error {
		n++
		_, err := h.Issue(agentkernel.HostedCall{Place: agentkernel.Place{N: n}, Op: "log.write", Args: json.RawMessage(`{"message":"x"}`)})(ctx)
		return err
	}, nil
}
