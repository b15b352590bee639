package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"agentkernel"
	"agentkernel/embedded"
)

var growthSection = section{
	name: "growth", title: "What a call costs on the disk",
	about: "How much larger the database is after many calls of one process, with its kernel stopped and the log written back, divided by their number. " +
		"Arguments and results are a few bytes; what they have more is added.",
	run: measureGrowth,
}

func measureGrowth(ctx context.Context, b *bench) ([]table, error) {
	n := b.pick(20_000, 5_000, 200)
	var rows []row
	for _, c := range []struct{ what, program string }{
		{"`kernel.now()`", "from kernel import now\nfor i in range(%d):\n    now()"},
		{"`state.set(key, number)`", "from kernel import state\nfor i in range(%d):\n    state.set('position', i)"},
		{"a tool call, `get_order(7)` → `{\"id\": 7}`", "from tools.shop import get_order\nfor i in range(%d):\n    get_order(7)"},
	} {
		bytes, err := b.growth(ctx, c.program, n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.what, err)
		}
		rows = append(rows, figure(c.what, roleOurs, "%.0f bytes", bytes))
	}
	return []table{{Rows: rows}}, nil
}

// growth is by how many bytes one call of a program makes the database larger.
func (b *bench) growth(ctx context.Context, program string, calls int) (float64, error) {
	home, err := b.dir()
	if err != nil {
		return 0, err
	}
	size := func(calls int) (int64, error) {
		k, err := b.open(ctx, embedded.Config{Home: home, Tools: newToolbox(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"id": 7}`), nil
		}).forKernel})
		if err != nil {
			return 0, err
		}
		spec := withTools("calls.py", fmt.Sprintf(program, calls))
		spec.Limits.Repeats = agentkernel.AnyRepeats
		if err := runAndCheck(ctx, k, spec, ""); err != nil {
			_ = k.Close()
			return 0, err
		}
		if err := k.Close(); err != nil {
			return 0, err
		}
		info, err := os.Stat(filepath.Join(home, "kernel.db"))
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	}
	before, err := size(1) // the tables, the program
	if err != nil {
		return 0, err
	}
	after, err := size(calls)
	return float64(after-before) / float64(calls), err
}
