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

		{"What is 15% of 240?", "arithmetic", []string{"answer = 15 / 100 * 240"}},
		{"compute (3 + 4) * 5 - 2^10", "arithmetic", []string{"(3 + 4) * 5 - 2 ** 10"}},
		{"7 times 6", "arithmetic", []string{"7 * 6"}},
		{"calculate 1,234.50 + 007", "arithmetic", []string{"1234.50 + 7"}},
		{"calculate the square root of 2", "arithmetic", []string{"from math import sqrt", "sqrt(2)"}},
		{"max(1, 234, 5)", "arithmetic", []string{"max(1, 234, 5)"}},
		{"-3 - -4", "arithmetic", []string{"-3 - -4"}},
		{"sum of the numbers from 1 to 100", "arithmetic", []string{"range(1, 100 + 1)"}},
		{"average of 3, 5 and 10", "arithmetic", []string{"[3, 5, 10]", "statistics.mean"}},
		{"add up 1.5, 2.5 and 1000", "arithmetic", []string{"[1.5, 2.5, 1000]", "sum(numbers)"}},

		{"Process file_7.csv", "summary", []string{`PATH = "file_7.csv"`, "from tools.filesystem import read_text_file", "csv.DictReader"}},
		{"Analyze 'my data/sales 2026.csv'", "summary", []string{`PATH = "my data/sales 2026.csv"`}},
		{"summarize the json file data.json", "summary", []string{"json.loads"}},
		{"total amount by region in sales.csv", "grouping", []string{`column("amount", columns)`, `column("region", columns)`, "sum(values)"}},
		{"What is the average unit price per product in data/sales.csv?", "grouping", []string{`column("unit price", columns)`, `column("product", columns)`}},
		{"Analyze sales_data.csv (10M rows) and generate monthly revenue report", "grouping", []string{`column("revenue", columns)`, "LENGTH"}},
		{"total quantity by month in sales.csv", "grouping", []string{"period(columns, rows[0])"}},
		{"maximum of price in x.jsonl", "grouping", []string{"max(values)", "splitlines() if line.strip()"}},
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
		{"Analyze 1M row CSV", allTools, "none of those"},
		{"Scrape 50 websites", allTools, "none of those"},
		{"write me a poem about the sea", allTools, "none of those"},
		{"hello", allTools, "none of those"},
		{"42", allTools, "none of those"},
		{"Calculate fibonacci(30) and mail it to Bob", allTools, "none of those"},
		{"Calculate fibonacci(999999999999)", nil, "too large"},
		{"2 + ", nil, "none of those"},
		{"2 + (3", nil, "none of those"},
		{"2 3", nil, "none of those"},
		{"__import__('os').system('id')", allTools, "none of those"},
		{"sqrt(open('/etc/passwd'))", nil, "none of those"},
		{"Get weather for top 10 US cities, compare temperatures, generate chart", allTools, "none of those"},
		{"Get weather for Paris", nil, "none of those"},
		{"Process file_1.csv", nil, "reads text files"},
		{"Process a.csv and b.csv", allTools, "none of those"},
		{"Process a.csv and mail it to ann@example.org", allTools, "none of those"},
		{"total amount by region and product in sales.csv where year is 2025", allTools, "none of those"},
		{"delete all files in data", allTools, "none of those"},
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

// Each of these was once understood as something else than people mean, or may mean two things.
func TestMakeRefusesWhatItMightMisread(t *testing.T) {
	for _, task := range []string{"list the files here", "list files", "count the lines", "count the lines of sales.csv", "how many lines are in sales.csv",
		"show sales.csv", "what is in sales.csv", "show me the contents of sales.csv", "read sales.csv", "find TODO", "search for 'TODO' in src", "get weather for Paris",
		"call everything.get-sum a=2 b=3", "echo hello", "top 5 products by revenue in sales.csv", "square root of 16 + 9", "10% of 50 + 50", "-2 squared",
		"log(100)", "sin(90)", "round(2.5)", "5 - 3%", "sum of 100,200,300", "sum of 1,200 and 3", "max(1,234, 5)", "average of 1,5 and 2,5",
		"standard deviation of 1, 2, 3", "total amount in sales.csv (only north region)", "sum between 1 and 10", "sum of the numbers from 10 to 1", "10 over 3", "amount by region in sales.csv"} {
		if p, err := template.Make(task, allTools); !template.Refused(err) {
			t.Errorf("%q: %v, %s:\n%s", task, err, p.Recipe, p.Program.Source)
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
	for _, task := range []string{"Calculate fibonacci(30)", "add 2 and 3", "7 times 6", "median of 1, 2, 3"} {
		a, err1 := template.Make(task, nil)
		b, err2 := template.Make(task, allTools)
		if err1 != nil || err2 != nil || a.Program.Source != b.Program.Source {
			t.Errorf("%q: %v %v\n%s\n%s", task, err1, err2, a.Program.Source, b.Program.Source)
		}
	}
}

func TestNeedsAllow(t *testing.T) {
	p, err := template.Make("Process a.csv", allTools)
	if err != nil || len(p.NeedsAllow) != 0 || len(p.Tools) != 1 || p.Tools[0] != "filesystem.read_text_file" {
		t.Errorf("%v %v %v", p.Tools, p.NeedsAllow, err)
	}
}

// Names that are no identifiers never get into a program.
func TestHostileTool(t *testing.T) {
	bad := makeTool("x", "read_file", "", read, "str", "path: string")
	bad.PythonServer = "f; import os #"
	if p, err := template.Make("process a.csv", []agentkernel.Tool{bad}); err == nil {
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
