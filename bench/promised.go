package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/embedded"
)

var promisedSection = section{
	name: "promised", title: "Promised by the AgentKernel README, and measured",
	about: "The promises are those of the project of that name with which users will compare. Pooled: a program in a kernel that runs. First call: `agentkernel run hello.py` " +
		"in a data directory that does not exist yet: key, database and lock are made, a kernel is started in the background and runs the program. Token reduction: bytes " +
		"of tool results that stayed inside the sandbox against bytes that the program printed, in the example of the README (examples/sales_report.py).",
	run: measurePromised,
}

func measurePromised(ctx context.Context, b *bench) ([]table, error) {
	k, err := b.open(ctx, embedded.Config{})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	attached, err := b.commandLine()
	if err != nil {
		return nil, err
	}
	if err := attached.run(ctx, "42\n", "run", "hello.py"); err != nil {
		return nil, err
	}
	n := b.pick(10, 5, 1)
	contenders := []contender{
		{name: "pooled execution, in a program: under 100 ms", role: roleOurs, n: 10 * n, run: func(ctx context.Context) error {
			return runAndCheck(ctx, k, python("hello.py", hello), "42\n")
		}},
		{name: "pooled execution, as a command: under 100 ms", role: roleOurs, n: n, run: func(ctx context.Context) error {
			return attached.run(ctx, "42\n", "run", "hello.py")
		}},
		{name: "first call: about 500 ms", role: roleOurs, n: (n + 1) / 2, block: b.firstCalls},
	}
	results, err := contest(ctx, b.pick(6, 3, 1), b.tell, contenders)
	if err = errors.Join(err, attached.stop()); err != nil {
		return nil, err
	}
	rows := latencies(contenders, results)
	rows[0].judge("p99 under 100 ms", rows[0].P99 < 100_000)
	rows[1].judge("p99 under 100 ms", rows[1].P99 < 100_000)
	rows[2].judge("p50 at most 500 ms", rows[2].P50 <= 500_000)
	return []table{{Rows: append(rows, b.tokenRow(ctx))}}, nil
}

// firstCalls measures n first calls, each in a new data directory. Ending the kernel is not counted.
func (b *bench) firstCalls(ctx context.Context, n int) ([]time.Duration, error) {
	samples := make([]time.Duration, 0, n)
	for range n {
		c, err := b.commandLine()
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		if err := c.run(ctx, "42\n", "run", "hello.py"); err != nil {
			return nil, err
		}
		samples = append(samples, time.Since(begin))
		if err := c.stop(); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// tokenRow runs the sales report and says what share of the bytes never left the sandbox.
func (b *bench) tokenRow(ctx context.Context) row {
	r := row{What: "token reduction, sales report: 85 to 98 %", Role: roleOurs}
	program, tools := filepath.Join("examples", "sales_report.py"), filepath.Join("examples", "mcp.json")
	for _, file := range []string{program, tools} {
		if _, err := os.Stat(filepath.Join(b.root, file)); err != nil {
			r.Skipped = file + " is missing"
			return r
		}
	}
	used, err := b.usage(ctx, program, tools)
	if err != nil {
		b.tell("the sales report failed: %v", err)
		r.Skipped = "the sales report does not run here"
		return r
	}
	if used.BytesIn == 0 || used.Output == 0 {
		r.Skipped = "the sales report called no tool or printed nothing"
		return r
	}
	share := 100 * (1 - float64(used.Output)/float64(used.BytesIn))
	r.Value = fmt.Sprintf("%.2f %% (%d kB stayed inside, %d bytes came out)", share, used.BytesIn/1000, used.Output)
	r.judge("at least 98 %", share >= 98)
	return r
}

// usage runs a program with tools from the repository's root and gives what it used.
func (b *bench) usage(ctx context.Context, program, tools string) (agentkernel.Usage, error) {
	c, err := b.commandLine()
	if err != nil {
		return agentkernel.Usage{}, err
	}
	cmd := exec.CommandContext(ctx, c.path, "run", "--json", "--embedded", "--tools", tools, program)
	cmd.Dir, cmd.Env = b.root, c.at.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return agentkernel.Usage{}, fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	var result struct {
		Usage agentkernel.Usage `json:"usage"`
	}
	err = json.Unmarshal(out.Bytes(), &result)
	return result.Usage, err
}
