// Package agent has the programs behind `agentkernel do` and `agentkernel chat`: they ask a model for programs, run these, and end with a
// checked result, or go on with the conversation. The kernel runs it as an ordinary process, so that money, permission, limits and recovery are no concern of it.
//
//	head.py       imports, and what the program was told
//	schema.py     the check of a result
//	tools.py      what the model is told of the tools
//	child.py      a program is a child; or, where the task has a folder,
//	folder.py     a program runs in the process of the task
//	loop.py       ask, run, show
//	told.py       whoever has started the task hears of each step, and may check results; left out where he need not
//	task.py       until there is a result; or, in a session,
//	chat.py       until there is an answer, and the user says the next thing
//	prompts/      all that the model is told in words
//
// The parts are one program: they are joined in this order. It is written so that it runs in Monty and in CPython, folder.py and chat.py in CPython alone. The package must never
// run anything itself.
package agent

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"agentkernel"
)

//go:embed *.py prompts/*.md
var files embed.FS

// Turns is how many answers of the model a task may take where nobody says.
const Turns = 20

// Task is what is to be done, and how.
type Task struct {
	Text   string          `json:"task"`
	Model  string          `json:"model,omitempty"` // an alias; "": the first one that is declared
	Schema json.RawMessage `json:"schema"`          // that the result has to fit; nil: none
	// Turns is how many answers of the model what the user says may take in a conversation; 0: as many as Turns says.
	Turns int `json:"turns"`
	// Watched says that somebody looks on: the model's words are shown as they come.
	Watched bool `json:"watched"`
	// Folder says that the task works in a folder. Its programs then run in its own process, which has to import for them what they may
	// import: all tools of Servers (names as in Python).
	Folder  bool     `json:"folder"`
	Servers []string `json:"-"`
	// Steps has each step in the log of the task, as JSON: {"task": {"step": {"turn", "said", "program", "output", "error", "exit_code",
	// "result", "pid"}}}, without a program for the result with which it ends.
	Steps bool `json:"-"`
	// Checked has each result in the log, {"task": {"result": {"number", "value"}}}, and waits then for a user signal with {"result": number,
	// "wrong": text} that says what is wrong with it, which the model is told, or no text: it is the result of the task.
	Checked bool `json:"checked"`
	// Local are tools that travel with the programs; those of servers it finds itself.
	Local []agentkernel.Tool `json:"-"`
}

// stub is what the model is told of a local tool, in the fields of tool.list and tool.describe.
type stub struct {
	Server      string             `json:"server"`
	Name        string             `json:"name"`
	Description string             `json:"description"`
	Import      string             `json:"import"`
	Signature   string             `json:"signature"`
	Doc         string             `json:"doc"`
	Effect      agentkernel.Effect `json:"effect"`
}

func stubs(tools []agentkernel.Tool) []stub {
	all := []stub{}
	for _, t := range tools {
		all = append(all, stub{t.Server, t.Name, t.Description, "from tools." + t.PythonServer + " import " + t.PythonName, t.Signature, t.Doc, agentkernel.EffectRead})
	}
	return all
}

// Program is the program that does a task.
func Program(t Task) (agentkernel.Program, error) {
	if strings.TrimSpace(t.Text) == "" {
		return agentkernel.Program{}, agentkernel.Errorf(agentkernel.CodeInvalid, "do", "no task was named").
			WithHint("agentkernel do 'Which region grew fastest in sales.csv?'")
	}
	return program(t, "do", false)
}

// Chat is the program of a conversation: a session, each piece of which is what Said returns. Its task has no text.
func Chat(t Task) (agentkernel.Program, error) {
	p, err := program(t, "chat", true)
	p.Session = true
	return p, err
}

// Talks says whether a program is one of Chat.
func Talks(p *agentkernel.Program) bool {
	return p.Session && strings.Contains(p.Source, "\ndef chat(said, nanos):\n")
}

// Said is the piece of a conversation with which the user says something. spent is what the conversation has cost so far: what was interrupted
// is forgotten, and was paid for all the same.
func Said(text string, spent agentkernel.NanoUSD) string {
	b, _ := json.Marshal(text) // a string is always encoded, and JSON's are Python's
	return fmt.Sprintf("chat(%s, %d)", b, spent)
}

func program(t Task, name string, talks bool) (agentkernel.Program, error) {
	if t.Turns == 0 {
		t.Turns = Turns
	}
	if t.Schema != nil && !json.Valid(t.Schema) {
		return agentkernel.Program{}, agentkernel.Errorf(agentkernel.CodeInvalid, "do", "the schema is no JSON")
	}
	var source strings.Builder
	runner := "child.py"
	if t.Folder || talks {
		runner = "folder.py"
		for _, server := range t.Servers {
			source.WriteString("import tools." + server + "\n")
		}
	}
	end := "task.py"
	if talks {
		end = "chat.py"
	}
	parts := []string{"head.py", "schema.py", "tools.py", runner, "loop.py"}
	if t.Steps || t.Checked {
		parts = append(parts, "told.py")
	}
	for _, part := range append(parts, end) {
		source.WriteString(text(part))
		source.WriteString("\n\n")
	}
	told, err := json.Marshal(struct {
		Task
		Model   *string           `json:"model"`
		Keeps   bool              `json:"keeps"` // programs share their variables
		Local   []stub            `json:"local"`
		Prompts map[string]string `json:"prompts"`
	}{t, named(t.Model), talks, stubs(t.Local), prompts()})
	if err != nil {
		return agentkernel.Program{}, agentkernel.Errorf(agentkernel.CodeInternal, "do", "%w", err)
	}
	return agentkernel.Program{Name: name, Language: agentkernel.Python, Source: source.String(), Args: []string{string(told)}}, nil
}

// named is nil where there is no name: the program then leaves the choice to the kernel.
func named(model string) *string {
	if model == "" {
		return nil
	}
	return &model
}

func prompts() map[string]string {
	all := map[string]string{}
	for _, name := range []string{"system", "schema", "nothing", "tools", "more", "chat"} {
		all[name] = text(path.Join("prompts", name+".md"))
	}
	return all
}

// text is a file of the package.
func text(name string) string {
	b, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded, or nothing was built
	}
	return string(b)
}
