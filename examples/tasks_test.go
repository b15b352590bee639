package examples

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"agentkernel/internal/sandbox/confine"
)

// taskRun is what tasks/run.py prints. REPORT is the report of the month's revenue, READINGS what the file of readings holds.
const taskRun = `$ agentkernel do 'Calculate fibonacci(30)'
  832040
$ agentkernel do 'Get weather for Paris' --tools examples/tasks/mcp.json
  Paris: 17.5 °C, light rain
$ agentkernel do 'Get weather for top 10 US cities, compare temperatures, generate chart' --tools examples/tasks/mcp.json --workspace examples/data/tasks/charts
  warmest Phoenix, 38.5 °C; coolest Chicago, 18.5 °C; chart.svg has all ten
  chart.svg: 10 bars, the longest Phoenix, the shortest Chicago
$ agentkernel do 'Analyze sales_data.csv (10M rows) and generate monthly revenue report' --workspace examples/data/tasks/sales --time 10m
REPORT$ agentkernel mcp --workspace examples/data/tasks/background --allow-host 127.0.0.1:PORT --time 10m
  Analyze 1M row CSV: READINGS
  Scrape 50 websites: 50 prices; Shop 50 is cheapest, 100.9
  Calculate fibonacci(40): 102334155
  the sites were asked for 50 pages, 50 different ones
$ agentkernel mcp --tools examples/tasks/mcp.json
  file_0.csv: 10 rows, 0 in all
  file_1.csv: 10 rows, 55 in all
  ...
  file_99.csv: 10 rows, 5445 in all
  100 different results
`

// TestTaskSentences runs tasks/run.py with files of 100,000 and 10,000 rows.
func TestTaskSentences(t *testing.T) { taskSentences(t, 100_000, 10_000) }

// TestSoakTaskSentences runs the same with as many rows as the sentences say.
func TestSoakTaskSentences(t *testing.T) {
	if os.Getenv("AGENTKERNEL_SOAK") == "" {
		t.Skip("ten million rows are for make soak; TestTaskSentences has a hundredth of them")
	}
	taskSentences(t, 10_000_000, 1_000_000, "--full")
}

func taskSentences(t *testing.T, sales, readings int, flags ...string) {
	t.Helper()
	if p := confine.Look().Problem; p != nil {
		t.Skipf("SKIPPED, NOTHING PROVED: no walls can stand here, so no task has a folder: %v", p)
	}
	py, env := python(t), environment(t)
	got := runScript(t, env, py, append([]string{"examples/tasks/run.py"}, flags...)...)
	t.Cleanup(func() { _ = os.RemoveAll("data/tasks") }) // ten million rows are 400 MB
	got = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(got, "127.0.0.1:PORT")
	want := strings.NewReplacer("REPORT", revenueReport(t, sales), "READINGS", readingsOf(t, readings)).Replace(taskRun)
	if got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}

// linesOf calls what for the cells of each line of a file but its first.
func linesOf(t *testing.T, path string, what func(cells []string)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan(); s.Scan(); {
		what(strings.Split(s.Text(), ","))
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// revenueReport adds the file up as the task was to.
func revenueReport(t *testing.T, rows int) string {
	t.Helper()
	var cents [12]int64
	all, n := int64(0), 0
	linesOf(t, "data/tasks/sales/sales_data.csv", func(cells []string) {
		c := int64(number(t, cells[4]) * number(t, cells[5]) * 100) // prices end with .50: nothing is lost
		month := number(t, cells[0][5:7])
		cents[int(month)-1] += c
		all += c
		n++
	})
	if n != rows {
		t.Errorf("sales_data.csv has %d rows", n)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  report.md: 12 months of %s rows, revenue %s, most in 2025-12\n  | month | revenue |\n  |---|---:|\n", thousands(int64(n)), money(all))
	for m, c := range cents {
		fmt.Fprintf(&b, "  | 2025-%02d | %s |\n", m+1, money(c))
	}
	return b.String()
}

func readingsOf(t *testing.T, rows int) string {
	t.Helper()
	sum, low, high, n := 0.0, 1e9, -1e9, 0
	linesOf(t, "data/tasks/background/rows.csv", func(cells []string) {
		v := number(t, cells[1])
		sum, low, high, n = sum+v, min(low, v), max(high, v), n+1
	})
	if n != rows {
		t.Errorf("rows.csv has %d rows", n)
	}
	return fmt.Sprintf("rows.csv: %s rows, reading from %.1f to %.1f, %.3f on average", thousands(int64(n)), low, high, sum/float64(n))
}

func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func money(cents int64) string { return fmt.Sprintf("%s.%02d", thousands(cents/100), cents%100) }
