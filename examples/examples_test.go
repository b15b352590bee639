// Package examples holds programs to read and run; its tests run each of them as its first lines say.
package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/regular"
	"agentkernel/internal/tool"
)

// engine is the executable of `make engine`.
func engine(t *testing.T) string {
	t.Helper()
	engine := os.Getenv("AGENTKERNEL_MONTY")
	if engine == "" {
		engine = "../.cache/monty/node_modules/@pydantic/monty-linux-x64-gnu/monty"
	}
	engine, err := filepath.Abs(engine)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(engine); err != nil {
		t.Fatalf("%v; run: make engine mcp data", err)
	}
	return engine
}

// kernel opens a kernel on an empty data directory.
func kernel(t *testing.T) agentkernel.Kernel {
	t.Helper()
	k, err := embedded.Open(t.Context(), embedded.Config{Home: filepath.Join(t.TempDir(), "home"), Engine: engine(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// run runs a program of this directory with examples/mcp.json and gives what it printed.
func run(t *testing.T, k agentkernel.Kernel, file string, allow ...string) string {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	modules, err := tool.LocalModules(filepath.Dir(file), regular.ReadIn)
	if err != nil {
		t.Fatal(err)
	}
	config, err := filepath.Abs("mcp.json")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	p, err := k.Run(t.Context(), agentkernel.Spec{
		Program: agentkernel.Program{Name: filepath.Base(file), Language: agentkernel.Python, Source: string(source), Modules: modules},
		Tools:   []string{config}, Allow: allow,
		Limits: agentkernel.Limits{Wall: agentkernel.Duration(2 * time.Minute)},
	}, func(e agentkernel.Event) error {
		out.WriteString(e.Text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if p.State != agentkernel.StateExited || p.ExitCode != 0 {
		t.Fatalf("%s %d: %v\n%s", p.State, p.ExitCode, p.Error, out.String())
	}
	return out.String()
}

// The sums are those that CPython computes from the same file.
const salesReport = `50,000 orders in sales.csv
revenue        29,180,363.22
per month       2,431,696.93
best seller   laptop, 64.1% of revenue
best month    2025-12   3,104,152.54
worst month   2025-02   1,842,688.58
quarter 1       6,117,222.02
quarter 2       6,570,351.51
quarter 3       7,657,485.97
quarter 4       8,835,303.72
`

const stockHistory = `10,000 rows, 5 symbols, 2018-01-01 to 2025-08-29
symbol   first    last  change  worst fall  best day
ALFA    122.46   61.51  -49.8%       73.9%  2021-09-29 +3.0%
BETA     35.26   16.86  -52.2%       71.7%  2021-08-24 +3.0%
DELT      8.52   34.31  302.7%       36.1%  2022-07-12 +3.0%
GAMA    303.99  683.54  124.9%       40.0%  2020-04-30 +3.0%
OMEG     61.24   22.00  -64.1%       80.5%  2022-07-29 +3.0%
`

const multiServer = `The sum of 4 and 4 is 8.
# Best sellers

- east buys most: laptop, 4,605,070.32
- north buys most: laptop, 4,599,246.15
- south buys most: laptop, 4,757,357.88
- west buys most: laptop, 4,750,324.92
`

const errorsAndRetry = `the tool says no: tool_error
not allowed: permission_denied
gave up after 2 attempts
after some attempts: here at last
the writer exited
`

func TestExamples(t *testing.T) {
	k := kernel(t)
	for _, c := range []struct {
		file  string
		allow []string
		want  string // all of it, or with ... in front its end
	}{
		{file: "hello_tools.py", want: "Echo: hello\nThe sum of 40 and 2 is 42.\n1 folder may be read\n" +
			"invalid_argument: get_sum: argument \"a\" must be float\n"},
		{file: "sales_report.py", want: salesReport},
		{file: "stock_history.py", want: stockHistory},
		{file: "multi_server_report.py", allow: []string{"memory", "filesystem"}, want: multiServer},
		{file: "errors_and_retry.py", allow: []string{"filesystem.write_file"}, want: errorsAndRetry},
		{file: "local_tools/main.py", want: "...2025-12 ##############################  5463 orders of 568.21\n"},
		{file: "parallel.py", want: "...\n  The sum of 9 and 81 is 90.\n"},
		{file: "children.py", want: "...\n 2262 in all\n"},
		{file: "resume_after_crash.py", allow: []string{"filesystem"},
			want: "...step 8 done\nstep 1, step 2, step 3, step 4, step 5, step 6, step 7, step 8, (more to come)\n"},
	} {
		t.Run(c.file, func(t *testing.T) {
			got := run(t, k, c.file, c.allow...)
			end, part := strings.CutPrefix(c.want, "...")
			if part && !strings.HasSuffix(got, end) || !part && got != c.want {
				t.Errorf("printed\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
