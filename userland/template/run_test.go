package template_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/tool/tooltest"
	"agentkernel/userland/template"
)

func engine(t *testing.T) string {
	t.Helper()
	return tooltest.Engine(t, "NO PLANNED PROGRAM IS RUN")
}

func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// files are what the programs work on.
func files(t *testing.T) string {
	dir := t.TempDir()
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	writeFile(t, dir, "sales.csv", "date,region,product,unit_price,quantity\n"+
		"2026-01-05,north,\"desk, large\",100.50,2\n2026-01-20,south,chair,40,5\n2026-02-03,north,chair,40,\n2026-02-11,west,lamp,9.99,10\n")
	writeFile(t, dir, "semi.csv", "\ufeffname;n\na;1\nb;2\n")
	writeFile(t, dir, "dates.csv", "ordered,sent,n\n2026-01-05,2026-02-01,1\n")
	writeFile(t, dir, "empty.csv", "a,b\n")
	writeFile(t, dir, "data.json", `{"count": 2, "items": [{"kind": "x", "n": 1}, {"kind": "y", "n": 2.5}]}`)
	writeFile(t, dir, "plain.json", `{"name": "n", "list": [1, 2], "nested": {"a": 1}}`)
	writeFile(t, dir, "log.jsonl", "{\"level\": \"info\", \"ms\": 3}\n{\"level\": \"error\", \"ms\": 9}\n\n{\"level\": \"info\", \"ms\": 5}\n")
	writeFile(t, dir, "docs/a.txt", "one\nTODO: two\n")
	writeFile(t, dir, "docs/deep/b.txt", "nothing here\n")
	writeFile(t, dir, "docs/deep/c.md", "also TODO\n")
	return dir
}

// TestPlannedProgramsRun runs what the planner writes, on the real engine with a real file server.
func TestPlannedProgramsRun(t *testing.T) {
	dir := files(t)
	server := tooltest.NPM(t, "@modelcontextprotocol/server-filesystem")
	config := tooltest.Config(t, map[string]tooltest.Server{
		"filesystem": {"command": "node", "args": []string{server, dir}, "cwd": dir},
		"test":       tooltest.Stdio(t),
	})
	k, err := embedded.Open(t.Context(), embedded.Config{Home: filepath.Join(t.TempDir(), "home"), Engine: engine(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	tools, err := k.ListTools(t.Context(), []string{config}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ task, stdout, fails string }{
		{task: "Calculate fibonacci(30)", stdout: "832040\n"},
		{task: "what is 15% of 240", stdout: "36.0\n"},
		{task: "log10(1000) + log2(8) + ceil(1.2) + min(1, 2)", stdout: "9.0\n"},
		{task: "2 ** 100", stdout: "1267650600228229401496703205376\n"},
		{task: "sqrt(2) * floor(3.7) + abs(-1)", stdout: "5.242640687119286\n"},
		{task: "average of 3, 5 and 10", stdout: "6\n"},
		{task: "median of 1, 2, 3, 10", stdout: "2.5\n"},
		{task: "Process sales.csv", stdout: "sales.csv: 4 rows, 5 columns\n" +
			"  date: text, 4 distinct, most frequent 2026-01-05 (1), 2026-01-20 (1), 2026-02-03 (1)\n" +
			"  region: text, 3 distinct, most frequent north (2), south (1), west (1)\n" +
			"  product: text, 3 distinct, most frequent chair (2), desk, large (1), lamp (1)\n" +
			"  unit_price: number, 9.99 to 100.50, mean 47.62, sum 190.49\n" +
			"  quantity: number, 2 to 10, mean 5.67, sum 17\n    empty in 1 rows\n"},
		{task: "Summarize empty.csv", stdout: "empty.csv: 0 rows, 0 columns\n"},
		{task: "Summarize semi.csv", stdout: "semi.csv: 2 rows, 2 columns\n  name: text, 2 distinct, most frequent a (1), b (1)\n  n: number, 1 to 2, mean 1.50, sum 3\n"},
		{task: "analyze plain.json", stdout: "plain.json: an object with 3 members\n  name: n\n  list: list of 2\n  nested: object of 1\n"},
		{task: "analyze data.json", stdout: "data.json: 2 rows, 2 columns\n  kind: text, 2 distinct, most frequent x (1), y (1)\n  n: number, 1 to 2.50, mean 1.75, sum 3.50\n"},
		{task: "total quantity by region in sales.csv", stdout: "sum of quantity by region\n  west                 10\n  south                 5\n  north                 2\n1 rows without a number in quantity were left out\n"},
		{task: "average unit price per product in sales.csv", stdout: "mean of unit_price by product\n  desk, large            100.50\n  chair                   40.00\n  lamp                     9.99\n"},
		{task: "Analyze sales.csv (10M rows) and generate monthly quantity report", stdout: "sum of quantity by month\n  2026-01                 7\n  2026-02                10\n1 rows without a number in quantity were left out\n"},
		{task: "median of ms in log.jsonl", stdout: "median of ms: 5\n"},
		{task: "total price by product in sales.csv", fails: "no column 'price'"},
		{task: "monthly n in dates.csv", fails: "several columns with dates (ordered, sent)"},
		{task: "total revenue by region in sales.csv", fails: "no column 'revenue'; its columns: date, region, product, unit_price, quantity"},
		{task: "total of product in sales.csv", fails: "holds no numbers"},
		{task: "total of n by kind in plain.json", fails: "is not a table"},
		{task: "process missing.csv", fails: "missing.csv"},
	} {
		t.Run(c.task, func(t *testing.T) {
			t.Parallel()
			plan, err := template.Make(c.task, tools)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			p, err := k.Run(t.Context(), agentkernel.Spec{Program: plan.Program, Tools: []string{config}}, func(e agentkernel.Event) error {
				out.WriteString(e.Text)
				return nil
			})
			if err != nil {
				t.Fatalf("%v\n%s", err, plan.Program.Source)
			}
			switch failed := p.State != agentkernel.StateExited; {
			case failed != (c.fails != ""):
				t.Errorf("%s: %v\n%s\n%s", p.State, p.Error, out.String(), plan.Program.Source)
			case failed && !strings.Contains(p.Error.Message(), c.fails):
				t.Errorf("it failed with %q, which does not say %q", p.Error.Message(), c.fails)
			case !failed && out.String() != c.stdout:
				t.Errorf("printed\n%s\nwant\n%s\n%s", out.String(), c.stdout, plan.Program.Source)
			}
		})
	}
}

// A table of 50,000 rows is summarised within the default limits.
func TestLargeTable(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("date,region,quantity,price\n")
	for i := range 50_000 {
		fmt.Fprintf(&b, "2026-%02d-01,r%d,%d,%d.5\n", i%12+1, i%7, i%9, i%100)
	}
	writeFile(t, dir, "big.csv", b.String())
	server := tooltest.NPM(t, "@modelcontextprotocol/server-filesystem")
	config := tooltest.Config(t, map[string]tooltest.Server{"filesystem": {"command": "node", "args": []string{server, dir}, "cwd": dir}})
	k, err := embedded.Open(t.Context(), embedded.Config{Home: filepath.Join(t.TempDir(), "home"), Engine: engine(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	tools, err := k.ListTools(t.Context(), []string{config}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range []string{"summarize big.csv", "total price by month in big.csv"} {
		plan, err := template.Make(task, tools)
		if err != nil {
			t.Fatal(err)
		}
		p, err := k.Run(t.Context(), agentkernel.Spec{Program: plan.Program, Tools: []string{config}}, func(agentkernel.Event) error { return nil })
		if err != nil || p.State != agentkernel.StateExited {
			t.Errorf("%s: %v %s %v", task, err, p.State, p.Error)
		}
		t.Logf("%s: %v in the sandbox", task, p.Usage.Running)
	}
}
