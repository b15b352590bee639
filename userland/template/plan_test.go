package template_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/sandbox/monty/frontend"
	"agentkernel/userland/template"
)

// makeTool is a tool as internal/tool would describe it; params are "name: type", with ? behind an optional name.
func makeTool(server, name, doc string, effect agentkernel.Effect, result string, params ...string) agentkernel.Tool {
	t := agentkernel.Tool{Server: server, Name: name, PythonServer: server, PythonName: strings.NewReplacer("-", "_").Replace(name),
		Description: doc, Effect: effect}
	properties := map[string]json.RawMessage{}
	for _, p := range params {
		arg, schema, _ := strings.Cut(p, ": ")
		arg, optional := strings.CutSuffix(arg, "?")
		python := map[string]string{"string": "str", "integer": "int", "number": "float", "boolean": "bool"}[schema]
		if !strings.HasPrefix(schema, "{") {
			schema = fmt.Sprintf(`{"type": %q}`, schema)
		}
		properties[arg] = json.RawMessage(schema)
		t.Params = append(t.Params, agentkernel.ToolParam{Name: arg, Python: arg, Type: python, Required: !optional})
	}
	t.InputSchema, _ = json.Marshal(map[string]any{"type": "object", "properties": properties})
	t.Signature = fmt.Sprintf("%s(%s) -> %s", t.PythonName, strings.Join(params, ", "), result)
	return t
}

var (
	read, write = agentkernel.EffectRead, agentkernel.EffectWrite

	fileTools = []agentkernel.Tool{
		makeTool("filesystem", "read_file", "Read a file.", read, "str", "path: string", "head?: number"),
		makeTool("filesystem", "read_text_file", "Read a text file.", read, "str", "path: string", "head?: number", "tail?: number"),
		makeTool("filesystem", "read_multiple_files", "Read several files.", read, "str", `paths: {"type": "array", "items": {"type": "string"}}`),
		makeTool("filesystem", "list_directory", "List a directory.", read, "str", "path: string"),
		makeTool("filesystem", "list_directory_with_sizes", "List a directory with sizes.", read, "str", "path: string"),
		makeTool("filesystem", "write_file", "Write a file.", write, "str", "path: string", "content: string"),
		makeTool("filesystem", "search_files", "Search.", read, "str", "path: string", "pattern: string"),
	}
	otherTools = []agentkernel.Tool{
		makeTool("weather", "get_weather", "Returns the current weather of a city.", read, "dict", "city: string", `unit?: {"enum": ["celsius", "fahrenheit"]}`),
		makeTool("weather", "get_forecast", "Forecast for the coming days.", read, "dict", "city: string", "days: integer"),
		makeTool("everything", "get-sum", "Returns the sum of two numbers.", read, "str", "a: number", "b: number"),
		makeTool("everything", "echo", "Echoes back the input string.", read, "str", "message: string"),
		makeTool("github", "search_issues", "Search issues.", read, "dict", "query: string", "repo?: string", "limit?: integer"),
		makeTool("github", "create_issue", "Create an issue in a repository.", write, "dict", "repo: string", "title: string", `labels?: {"type": "array", "items": {"type": "string"}}`),
		makeTool("mail", "send_message", "Send a message to a person.", write, "str", `to: {"type": "string", "format": "email"}`, "subject: string", "urgent?: boolean"),
		makeTool("stats", "describe_numbers", "Describe numbers.", read, "dict", `numbers: {"type": "array", "items": {"type": "number"}}`),
		makeTool("jobs", "run_job", "Run a job.", write, "dict", "name: string", `options: {"type": "object"}`),
		makeTool("crm", "get_customer", "Get a customer.", read, "dict", "id: string"),
		makeTool("shop", "get_customer", "Get a customer.", read, "dict", "id: string"),
	}
	allTools = append(append([]agentkernel.Tool{}, fileTools...), otherTools...)
)

func TestMake(t *testing.T) {
	for _, c := range []struct {
		task, recipe string
		has          []string // parts of the program
	}{
		{"Calculate fibonacci(30)", "fibonacci", []string{"answer = fibonacci(30)"}},
		{"what is the 10th Fibonacci number?", "fibonacci", []string{"answer = fibonacci(10)"}},
		{"fibonacci of 1,000", "fibonacci", []string{"answer = fibonacci(1000)"}},
		{"Please list the first 12 fibonacci numbers.", "fibonacci", []string{"fibonacci_numbers(12)"}},
		{"is 97 prime?", "primes", []string{"is_prime(97)"}},
		{"primes up to 30", "primes", []string{"limit = 31"}},
		{"primes below 30", "primes", []string{"limit = 30"}},
		{"how many primes are there below 1000", "primes", []string{"limit = 1000", "len(answer)"}},
		{"what are the first 5 primes", "primes", []string{"len(answer) < 5"}},

		{"What is 15% of 240?", "arithmetic", []string{"answer = 15 / 100 * 240"}},
		{"compute (3 + 4) * 5 - 2^10", "arithmetic", []string{"(3 + 4) * 5 - 2 ** 10"}},
		{"7 times 6", "arithmetic", []string{"7 * 6"}},
		{"calculate 1,234.50 + 007", "arithmetic", []string{"1234.50 + 7"}},
		{"calculate the square root of 2", "arithmetic", []string{"from math import sqrt", "sqrt(2)"}},
		{"sqrt(16) + factorial of 5", "arithmetic", []string{"sqrt(16) + factorial(5)"}},
		{"gcd(12, 18)", "arithmetic", []string{"answer = gcd(12, 18)"}},
		{"max(1,234, 5)", "arithmetic", []string{"max(1, 234, 5)"}},
		{"2 * pi * 6.5e3", "arithmetic", []string{"2 * pi * 6.5e3"}},
		{"-3 - -4", "arithmetic", []string{"-3 - -4"}},
		{"average of 3, 5 and 10", "arithmetic", []string{"[3, 5, 10]", "statistics.mean"}},
		{"add up 1.5, 2.5 and 1,000", "arithmetic", []string{"[1.5, 2.5, 1000]", "sum(numbers)"}},
		{"sum of the numbers from 1 to 100", "arithmetic", []string{"range(1, 100 + 1)"}},
		{"greatest common divisor of 12 and 18", "arithmetic", []string{"math.gcd(*numbers)"}},

		{"Process file_7.csv", "summary", []string{`PATH = "file_7.csv"`, "from tools.filesystem import read_text_file", "csv.DictReader"}},
		{"Analyze 'my data/sales 2026.csv'", "summary", []string{`PATH = "my data/sales 2026.csv"`}},
		{"summarize the json file data.json", "summary", []string{"json.loads"}},
		{"columns of a.tsv", "summary", []string{`mark = "\t"`}},
		{"total amount by region in sales.csv", "grouping", []string{`column("amount", columns)`, `column("region", columns)`, "sum(values)"}},
		{"What is the average unit price per product in data/sales.csv?", "grouping", []string{`column("unit price", columns)`, `column("product", columns)`}},
		{"count orders by region in sales.csv", "grouping", []string{`column("region", columns)`, "len(values)"}},
		{"how many rows are in sales.csv", "grouping", []string{"len(values)"}},
		{"top 5 products by revenue in sales.csv", "grouping", []string{`column("products", columns)`, "[:5]"}},
		{"group sales.csv by region and sum quantity", "grouping", []string{`column("quantity", columns)`}},
		{"Analyze sales_data.csv (10M rows) and generate monthly revenue report", "grouping", []string{`column("revenue", columns)`, "LENGTH"}},
		{"quantity by month in sales.csv", "grouping", []string{"period(columns, rows[0])"}},
		{"maximum of price in x.jsonl", "grouping", []string{"max(values)", "splitlines() if line.strip()"}},

		{"list files", "file list", []string{`entries(".")`}},
		{"list all csv files in data", "file list", []string{`entries("data")`, `endswith(".csv")`}},
		{"How many files are in data?", "file list", []string{"len(names)"}},
		{"find files named report*.txt in docs", "file search", []string{`PATTERN = "report*.txt"`, `files_below("docs")`}},
		{"find *.csv", "file search", []string{`PATTERN = "*.csv"`}},
		{"search for 'TODO' in src", "text search", []string{`TEXT = "TODO"`, `files_below("src")`}},
		{`which csv files contain "north" in data`, "text search", []string{`TEXT = "north"`, `endswith(".csv")`}},
		{"show the contents of notes/today.txt", "file contents", []string{`"notes/today.txt"`}},

		{"Get weather for Paris", "tool call", []string{"from tools.weather import get_weather", `get_weather(city="Paris")`, "json.dumps"}},
		{"what's the weather in New York in celsius?", "tool call", []string{`get_weather(city="New York", unit="celsius")`}},
		{"get forecast for San Francisco for 5 days", "tool call", []string{`get_forecast(city="San Francisco", days=5)`}},
		{"call everything.get-sum a=2 b=3.5", "tool call", []string{"get_sum(a=2, b=3.5)", "print(answer)"}},
		{"everything.get_sum(a=2, b=3)", "tool call", []string{"get_sum(a=2, b=3)"}},
		{`run jobs.run_job {"name": "nightly", "options": {"b": 1.0, "a": [true, null]}}`, "tool call",
			[]string{`run_job(name="nightly", options={"b": 1.0, "a": [True, None]})`}},
		{"echo 'hello, \"world\"'", "tool call", []string{`echo(message="hello, \"world\"")`}},
		{"echo hello world", "tool call", []string{`echo(message="hello world")`}},
		{"search issues about memory leaks in repo: owner/name limit 5", "tool call", []string{`search_issues(query="memory leaks", repo="owner/name", limit=5)`}},
		{`create issue in repo=me/x with title "it breaks" labels bug, urgent`, "tool call", []string{`create_issue(repo="me/x", title="it breaks", labels=["bug", "urgent"])`}},
		{`send message to ann@example.org subject "lunch" urgent`, "tool call", []string{`send_message(to="ann@example.org", subject="lunch", urgent=True)`}},
		{"describe numbers 1, 2.5 and -3", "tool call", []string{"describe_numbers(numbers=[1, 2.5, -3])"}},
		{"call shop.get_customer id=0012", "tool call", []string{`get_customer(id="0012")`}},
	} {
		p, err := template.Make(c.task, allTools)
		if err != nil {
			t.Errorf("%q: %v (%s)", c.task, err, agentkernel.AsError(err, "", "").Hint)
			continue
		}
		if p.Recipe != c.recipe {
			t.Errorf("%q became a %s, want %s:\n%s", c.task, p.Recipe, c.recipe, p.Program.Source)
		}
		for _, part := range c.has {
			if !strings.Contains(p.Program.Source, part) {
				t.Errorf("the program for %q lacks %q:\n%s", c.task, part, p.Program.Source)
			}
		}
		accepted(t, p)
	}
}

// accepted checks that the engine's front end takes the program.
func accepted(t *testing.T, p template.Plan) {
	t.Helper()
	if _, err := frontend.Check(p.Program); err != nil {
		t.Errorf("the program is refused: %v\n%s", err, p.Program.Source)
	}
	if len(p.Title) == 0 || strings.ContainsAny(p.Title, "\n\r") {
		t.Errorf("the title is %q", p.Title)
	}
}

// What no recipe covers in full is refused, and what is missing is said.
func TestMakeRefuses(t *testing.T) {
	for _, c := range []struct {
		task  string
		tools []agentkernel.Tool
		says  string // in message or hint
	}{
		{"Analyze 1M row CSV", allTools, "no recipe"},
		{"Scrape 50 websites", allTools, "no recipe"},
		{"write me a poem about the sea", allTools, "no recipe"},
		{"hello", allTools, "no recipe"},
		{"42", allTools, "no recipe"},
		{"Calculate fibonacci(30) and mail it to Bob", allTools, "no recipe"},
		{"Calculate fibonacci(999999999999)", nil, "too large"},
		{"2 + ", nil, "no recipe"},
		{"2 + (3", nil, "no recipe"},
		{"2 3", nil, "no recipe"},
		{"__import__('os').system('id')", allTools, "no recipe"},
		{"sqrt(open('/etc/passwd'))", nil, "no recipe"},
		{"Get weather for top 10 US cities, compare temperatures, generate chart", allTools, "no recipe"},
		{"Get weather for Paris", nil, "no recipe"},
		{"get weather", allTools, "city"},
		{"call everything.get-sum a=2", allTools, "argument b"},
		{"call everything.get-sum a=2 b=3 and then dance", allTools, "dance"},
		{"show issue 'x' in repo=me/x", otherTools[5:6], "no recipe"},
		{"get customer 'c1'", allTools, "crm.get_customer and shop.get_customer"},
		{"Process file_1.csv", nil, "reads text files"},
		{"Process a.csv and b.csv", allTools, "no recipe"},
		{"Process a.csv and mail it to ann@example.org", allTools, "no recipe"},
		{"total amount by region and product in sales.csv where year is 2025", allTools, "no recipe"},
		{"list files in data", otherTools, "lists directories"},
		{"delete all files in data", allTools, "no recipe"},
	} {
		p, err := template.Make(c.task, c.tools)
		if err == nil {
			t.Errorf("%q became a %s:\n%s", c.task, p.Recipe, p.Program.Source)
			continue
		}
		e := agentkernel.AsError(err, "", "")
		if !template.Refused(err) || !strings.Contains(e.Message()+" "+e.Hint, c.says) {
			t.Errorf("%q is refused with %q (%s), which does not say %q", c.task, e.Message(), e.Hint, c.says)
		}
		if !strings.Contains(e.Message(), "template mode") || e.Hint == "" {
			t.Errorf("%q: the refusal must name the mode and say what to do: %q (%q)", c.task, e.Message(), e.Hint)
		}
	}
}

func TestMakeInvalid(t *testing.T) {
	for _, task := range []string{"", " \n\t", "echo \xff", strings.Repeat("x", template.MaxTask+1)} {
		if _, err := template.Make(task, nil); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%.20q: %v", task, err)
		}
	}
}

// A task that is planned without tools is planned the same with them: callers may ask without first.
func TestToolsDoNotChangePureRecipes(t *testing.T) {
	for _, task := range []string{"Calculate fibonacci(30)", "add 2 and 3", "7 times 6", "is 97 prime", "median of 1, 2, 3"} {
		a, err1 := template.Make(task, nil)
		b, err2 := template.Make(task, allTools)
		if err1 != nil || err2 != nil || a.Program.Source != b.Program.Source {
			t.Errorf("%q: %v %v\n%s\n%s", task, err1, err2, a.Program.Source, b.Program.Source)
		}
	}
}

func TestNeedsAllow(t *testing.T) {
	p, err := template.Make(`send message to ann@example.org subject "x"`, allTools)
	if err != nil || len(p.NeedsAllow) != 1 || p.NeedsAllow[0] != "mail.send_message" {
		t.Errorf("%v %v", p.NeedsAllow, err)
	}
	p, err = template.Make("Process a.csv", allTools)
	if err != nil || len(p.NeedsAllow) != 0 || len(p.Tools) != 1 || p.Tools[0] != "filesystem.read_text_file" {
		t.Errorf("%v %v %v", p.Tools, p.NeedsAllow, err)
	}
}

// Names that are no identifiers never get into a program.
func TestHostileTool(t *testing.T) {
	bad := makeTool("x", "get_secret", "", read, "str", "key: string")
	bad.PythonName = "f; import os #"
	if p, err := template.Make("get secret for 'k'", []agentkernel.Tool{bad}); err == nil {
		t.Errorf("it became\n%s", p.Program.Source)
	}
}

// FuzzMake: whatever the text, there is a plan that the front end accepts, or a refusal.
func FuzzMake(f *testing.F) {
	for _, task := range []string{"Calculate fibonacci(30)", "sum of 1, 2", "Process \"a\\\"\nb.csv\"", "echo '\"\"\"\nimport os\n#'", "total {{x}} by y in z.csv",
		"call everything.echo message={\"a\": 1}", "search for '\\' in src", "[[[[", "describe numbers 1e999", "2**3**4!", "\xff\xfe", "echo \u2028x"} {
		f.Add(task)
	}
	f.Fuzz(func(t *testing.T, task string) {
		p, err := template.Make(task, allTools)
		if err != nil {
			if c := agentkernel.CodeOf(err); c != agentkernel.CodeUnsupported && c != agentkernel.CodeInvalid {
				t.Fatalf("%q: %v", task, err)
			}
			return
		}
		accepted(t, p)
	})
}
