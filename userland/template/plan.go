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
	Recipe  string              `json:"recipe"` // "fibonacci", "arithmetic", "grouping" or "summary"
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
var recipes = []recipe{fibonacci, aggregate, arithmetic, dataset}

// abilities is the list of examples in a refusal, one for each kind of recipe.
const abilities = `"what is 15% of 240?", "average of 3, 5 and 10", "fibonacci(30)"; with a folder, or a tool that reads files, ` +
	`"summarize sales.csv", "total amount by region in sales.csv"`

const op = "task"

// Make plans a task. tools are those that the program may import; nil is fine. Errors: CodeInvalid (empty or
// too long), CodeUnsupported when no recipe covers the task; the hint says what can be done instead.
func Make(text string, tools []agentkernel.Tool) (Plan, error) { return plan(text, false, tools) }

// MakeInFolder plans a task whose program works in a folder, as /workspace, and reads the files in it without a tool.
func MakeInFolder(text string) (Plan, error) { return plan(text, true, nil) }

func plan(text string, folder bool, tools []agentkernel.Tool) (Plan, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return Plan{}, agentkernel.Errorf(agentkernel.CodeInvalid, op, "the task is empty").WithHint("say what is to be done: %s", abilities)
	case !utf8.ValidString(text):
		return Plan{}, agentkernel.Errorf(agentkernel.CodeInvalid, op, "the task is not valid UTF-8").WithHint("send it as UTF-8")
	case len(text) > MaxTask:
		return Plan{}, agentkernel.Errorf(agentkernel.CodeInvalid, op, "the task has %d bytes; template mode reads at most %d", len(text), MaxTask).
			WithHint("large data belongs in a file that the program reads through a tool")
	}
	t := newTask(text)
	t.folder = folder
	for _, r := range recipes {
		made, err := r(t, tools)
		if err != nil {
			return Plan{}, err
		}
		if made != nil {
			return *made, nil
		}
	}
	return Plan{}, refuse("it is none of those that need no model")
}

// Refused says whether err means that template mode cannot do the task, as against a task that is no task.
func Refused(err error) bool { return agentkernel.CodeOf(err) == agentkernel.CodeUnsupported }

func refuse(format string, args ...any) error {
	return agentkernel.Errorf(agentkernel.CodeUnsupported, op, "template mode (no model is asked) cannot do this task: "+format, args...).
		WithHint("it can do %s. For all else there is agentkernel do, with a model, or write the program yourself", abilities)
}
