package main

import (
	"context"
	"fmt"
	"time"
)

// role is what a measured thing is to the comparison.
type role string

const (
	roleFloor role = "floor" // the same work with nothing of ours around it
	rolePeer  role = "peer"  // how else one could do it
	roleOurs  role = "ours"
)

// contender is one of those that take turns.
type contender struct {
	name string
	role role
	// n is how many runs make a block.
	n int
	// run is one run; its duration is the sample. Exactly one of run and block is set, or skip.
	run func(ctx context.Context) error
	// block makes a block of n samples by itself.
	block func(ctx context.Context, n int) ([]time.Duration, error)
	// skip says why it is not measured: "not installed".
	skip string
}

// absent is a contender that is listed and not measured.
func absent(name string, r role, why string) contender {
	return contender{name: name, role: r, skip: why}
}

// measure makes one block.
func (c contender) measure(ctx context.Context, n int) ([]time.Duration, error) {
	if c.block != nil {
		return c.block(ctx, n)
	}
	samples := make([]time.Duration, 0, n)
	for range n {
		begin := time.Now()
		if err := c.run(ctx); err != nil {
			return nil, err
		}
		samples = append(samples, time.Since(begin))
	}
	return samples, nil
}

// contest lets the contenders take turns for a number of rounds: A B C A B C. One short block of each goes
// before and is thrown away. The result has one series for each contender, in their order.
func contest(ctx context.Context, rounds int, tell func(string, ...any), contenders []contender) ([]series, error) {
	results := make([]series, len(contenders))
	for round := -1; round < rounds; round++ {
		for i, c := range contenders {
			if c.skip != "" {
				continue
			}
			n := c.n
			if round < 0 {
				n = (n + 9) / 10
			}
			block, err := c.measure(ctx, n)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			if round >= 0 {
				results[i] = append(results[i], block)
			}
		}
		if round >= 0 {
			tell("round %d of %d", round+1, rounds)
		}
	}
	return results, nil
}
