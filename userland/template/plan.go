package template

import (
	"strings"
	"unicode/utf8"

	"agentkernel"
)

// Mode is how Plans of this package call themselves wherever users read it.
const Mode = "template"

// MaxTask bounds a task in bytes; a longer text is data or code, and no recipe fits it.
const MaxTask = 4 << 10

// Plan is what a task became.
type Plan struct {
	Mode    string              `json:"mode"`   // Mode
	Recipe  string              `json:"recipe"` // "fibonacci", "grouping", "tool call" ...
	Title   string              `json:"title"`  // what the program does, one line
	Program agentkernel.Program `json:"program"`
	// Tools are the tools that the program imports, as "server.tool".
	Tools []string `json:"tools"`
	// NeedsAllow are those of Tools that are not read-only: their calls need the user's permission.
	NeedsAllow []string `json:"needs_allow"`
}

// A recipe answers three things: a plan; nothing (nil, nil) if the task is not of its kind; or an error that
// says what is missing, when the task is of its kind and cannot be done.
type recipe func(t task, tools []agentkernel.Tool) (*Plan, error)

// recipes in order: those that need no tool stand first.
var recipes = []recipe{fibonacci, primes, aggregate, arithmetic, namedCall, dataset, searchText, searchNames, showFile, listFiles, toolCall}

// abilities is the list of examples in a refusal, one for each kind of recipe.
const abilities = `arithmetic ("what is 15% of 240?"), "fibonacci(30)", "primes below 100"; with a file tool ` +
	`"summarize sales.csv", "total amount by region in sales.csv", "list csv files in data", "search for 'TODO' in src"; ` +
	`one call of any tool ("get weather for Paris", "call server.tool name=value")`

const op = "task"

// Make plans a task. tools are those that the program may import; nil is fine. Errors: CodeInvalid (empty or
// too long), CodeUnsupported when no recipe covers the task; the hint says what can be done instead.
func Make(text string, tools []agentkernel.Tool) (Plan, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return Plan{}, agentkernel.Errorf(agentkernel.CodeInvalid, op, "the task is empty").WithHint("say what is to be done: %s", abilities)
	case !utf8.ValidString(text):
		return Plan{}, agentkernel.Errorf(agentkernel.CodeInvalid, op, "the task is not valid UTF-8").WithHint("send it as UTF-8")
	case len(text) > MaxTask:
		return Plan{}, agentkernel.Errorf(agentkernel.CodeInvalid, op, "the task has %d bytes; template mode reads at most %d", len(text), MaxTask).
			WithHint("large data belongs into a file that the program reads through a tool")
	}
	t := newTask(text)
	tools = importable(tools)
	for _, r := range recipes {
		plan, err := r(t, tools)
		if err != nil {
			return Plan{}, err
		}
		if plan != nil {
			return *plan, nil
		}
	}
	return Plan{}, refuse("no recipe covers it")
}

// Refused says whether err means that template mode cannot do the task, as against a task that is no task.
func Refused(err error) bool { return agentkernel.CodeOf(err) == agentkernel.CodeUnsupported }

func refuse(format string, args ...any) error {
	return agentkernel.Errorf(agentkernel.CodeUnsupported, op, "template mode (no model is configured) cannot do this task: "+format, args...).
		WithHint("it can do %s. Anything else: write the program yourself, or let a model write it", abilities)
}
