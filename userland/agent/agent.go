// Package agent has the programs behind `agentkernel do` and `agentkernel chat`: they ask a model for programs, run these, and end with a
// checked result, or go on with the conversation. The kernel runs it as an ordinary process, so that money, permission, limits and recovery are no concern of it.
//
//	head.py       imports, and what the program was told
//	schema.py     the check of a result
//	tools.py      what the model is told of the tools
//	child.py      a program is a child; or, where the task has a folder,
//	folder.py     a program runs in the process of the task
//	pictures.py   what the model looks at
//	loop.py       ask, run, show
//	agents.py     the model has sub-agents; left out where it has none
//	check.py      whoever has started the task checks results; left out where he does not
//	task.py       until there is a result; or, in a session,
//	chat.py       until there is an answer, and the user says the next thing
//	prompts/      all that the model is told in words
//
// The parts are one program: they are joined in this order. It is written so that it runs in Monty and in CPython, folder.py and chat.py in CPython alone. The package must never
// run anything itself.
package agent

import (
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

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
	// Checked has each result in the log, as a Step of the kind check, and waits then for a user signal with {"result": Number, "wrong": text}
	// that says what is wrong with it, which the model is told, or no text: it is the result of the task. The log has a Step of the kind checked then.
	Checked bool `json:"checked"`
	// Local are tools that travel with the programs; those of servers it finds itself.
	Local []agentkernel.Tool `json:"-"`
	// Images are pictures that the model is shown with the task: PNG, JPEG, GIF or WebP, each of at most MaxImage bytes, all of at most
	// MaxImages.
	Images []Picture `json:"-"`
	// Skills are those that the model is told of; SkillsFor finds them.
	Skills []agentkernel.Skill `json:"-"`
	// Save names the skill that a program is to be kept as; "": none is. The program only hands it over, in its log, as a Step of the kind
	// skill: whoever runs it saves it.
	Save string `json:"save"`
	// Rules are those of the folder, for whoever works in it; "": there are none that count.
	Rules string `json:"rules"`
	// Agents is how many sub-agents the model may have do parts of the task, in all; 0: none. Each is a child, with turns of its own within
	// the budget of the task.
	Agents int `json:"agents"`
	// Steps says that each step is written to the log, as a Step.
	Steps bool `json:"steps"`
}

// Bounds of what the model is shown, in bytes; pictures.py has the same.
const (
	MaxImage  = 3_750_000
	MaxImages = 10_000_000
)

// ReadStep reads a line of a task's log, as an event has it; false: it is none of its steps.
func ReadStep(line string) (s Step, ok bool) {
	text, ok := strings.CutPrefix(line, "debug: {")
	return s, ok && json.Unmarshal([]byte("{"+text), &s) == nil && slices.Contains([]string{"turn", "program", "output", "result", "skill", "check", "checked", "end"}, s.Kind)
}

// Step is what a task does, one after the other, as its log has it. Which fields are set depends on the kind.
type Step struct {
	Kind string `json:"kind"` // turn, program, output, result, skill, check, checked, end
	// Turn is the number of the answer, CostUSD what those so far have cost. Text is what the model says, or what a program printed, up to
	// 100,000 characters.
	Turn    int      `json:"turn,omitempty"`
	Text    string   `json:"text,omitempty"`
	CostUSD *float64 `json:"cost_usd,omitempty"`
	// Program is the number of a program, ProgramPID its process; 0: it runs in that of the task. Characters is how long its source is, or
	// what it printed.
	Program    int             `json:"program,omitempty"`
	ProgramPID agentkernel.PID `json:"program_pid,omitempty"`
	Characters *int            `json:"characters,omitempty"`
	// Value is the JSON of its last expression, up to 100,000 characters, Error what it failed with.
	Value    string `json:"value,omitempty"`
	Error    string `json:"error,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	// Result is that of the task, or the one that is to be checked: the first has the Number 1.
	Result json.RawMessage `json:"result,omitempty"`
	Number int             `json:"number,omitempty"`
	// Code is the program, up to 100,000 characters; all of it, where it is to be a skill.
	Code string `json:"code,omitempty"`
	// Reason is why the task has ended: "done", or why it is not.
	Reason string `json:"reason,omitempty"`
}

// Bounds of the skills that a model is told of.
const (
	maxSkills    = 50
	maxSkillCode = 32 << 10 // bytes of code that it can read
)

// skill is what the model is told of a skill.
type skill struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Import      string   `json:"import"`
	Functions   []string `json:"functions"`
	Code        string   `json:"code"` // "": it is too long
}

// SkillsFor are the skills of a namespace for a task: those that fit it first, each with its code. A kernel that keeps
// none has none, and who may not read them is told of none.
func SkillsFor(ctx context.Context, lib agentkernel.Library, namespace, task string) ([]agentkernel.Skill, error) {
	var found []agentkernel.Skill
	named := map[string]bool{}
	for _, text := range []string{task, ""} {
		if text == "" && len(found) >= maxSkills {
			break
		}
		some, err := lib.Skills(ctx, agentkernel.SkillQuery{Namespace: namespace, Text: text, Limit: maxSkills})
		if code := agentkernel.CodeOf(err); code == agentkernel.CodeUnsupported || code == agentkernel.CodeDenied {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range some {
			if named[some[i].Name] || len(found) >= maxSkills {
				continue
			}
			s, err := lib.Skill(ctx, namespace, some[i].Name, 0)
			if err != nil { // it was deleted meanwhile, or is damaged: a task needs none
				continue
			}
			named[s.Name] = true
			found = append(found, s)
		}
	}
	return found, nil
}

func told(skills []agentkernel.Skill) []skill {
	all := []skill{}
	for i := range skills {
		s := &skills[i]
		var names []string
		for _, f := range s.Functions {
			name, _, _ := strings.Cut(f, "(")
			names = append(names, name)
		}
		code := s.Code
		if len(code) > maxSkillCode {
			code = ""
		}
		all = append(all, skill{s.Name, s.Description, "from skills." + s.Name + " import " + strings.Join(names, ", "), s.Functions, code})
	}
	return all
}

// Picture is one that the model is shown.
type Picture struct {
	Name string // for messages: a path
	Data []byte
}

// CheckPictures refuses what the model cannot be shown.
func CheckPictures(pictures []Picture) error {
	total := 0
	for _, p := range pictures {
		switch total += len(p.Data); {
		case len(p.Data) > MaxImage:
			return TooLarge(p.Name)
		case total > MaxImages:
			return agentkernel.Errorf(agentkernel.CodeInvalid, "do", "the pictures up to %s have %d bytes; all of a task may have %d", p.Name, total, MaxImages).
				WithHint("make them smaller, or let programs read them: --workspace DIR")
		case !isImage(p.Data):
			return agentkernel.Errorf(agentkernel.CodeInvalid, "do", "%s is no PNG, JPEG, GIF or WebP", p.Name)
		}
	}
	return nil
}

// TooLarge is the error of a picture of more than MaxImage bytes.
func TooLarge(name string) error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, "do", "the picture %s is larger than %d bytes, the most that each provider takes", name, MaxImage).
		WithHint("make it smaller, or let programs read it: --workspace DIR")
}

// encoded are pictures as the program reads them.
func encoded(pictures []Picture) (texts []string) {
	for _, p := range pictures {
		texts = append(texts, base64.StdEncoding.EncodeToString(p.Data))
	}
	return texts
}

// isImage says whether bytes are a picture that models take, by how they begin.
func isImage(data []byte) bool {
	text := string(data[:min(len(data), 12)])
	for _, magic := range []string{"\x89PNG\r\n\x1a\n", "\xff\xd8\xff", "GIF87a", "GIF89a"} {
		if strings.HasPrefix(text, magic) {
			return true
		}
	}
	return strings.HasPrefix(text, "RIFF") && strings.HasSuffix(text, "WEBP")
}

// firstLine is that of each program of this package, by which it is known again.
const firstLine = "# agentkernel: a model does this"

// Does says whether a program is one of Program.
func Does(p *agentkernel.Program) bool {
	return !p.Session && strings.HasPrefix(p.Source, firstLine+"\n")
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
	return program(t, nameOf(t.Text), false)
}

// shownName is how many letters of a task its process is called by.
const shownName = 32

// nameOf is what a process is called that does a task: its first words.
func nameOf(text string) string {
	words := strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " ")))
	name := []rune(strings.Join(words, " "))
	if len(name) == 0 {
		return "task"
	}
	if len(name) <= shownName {
		return string(name)
	}
	cut := string(name[:shownName])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,.:;") + "…"
}

// Chat is the program of a conversation: a session, each cell of which is what Said returns. Its task has no text.
func Chat(t Task) (agentkernel.Program, error) {
	p, err := program(t, "chat", true)
	p.Session = true
	return p, err
}

// Talks says whether a program is one of Chat.
func Talks(p *agentkernel.Program) bool {
	return p.Session && strings.HasPrefix(p.Source, firstLine+"\n")
}

// Said is the cell of a conversation with which the user says something, and shows pictures. spent is what the conversation has cost so far: what
// was interrupted is forgotten, and was paid for all the same.
func Said(text string, spent agentkernel.NanoUSD, pictures ...Picture) string {
	b, _ := json.Marshal(text) // a string is always encoded, and JSON's are Python's
	if len(pictures) == 0 {
		return fmt.Sprintf("chat(%s, %d)", b, spent)
	}
	images, _ := json.Marshal(encoded(pictures))
	return fmt.Sprintf("chat(%s, %d, %s)", b, spent, images)
}

// LastProgram is the cell of a conversation whose value is the program that can be kept as a skill; null: none can.
const LastProgram = "last_program()"

func program(t Task, name string, talks bool) (agentkernel.Program, error) {
	if t.Turns == 0 {
		t.Turns = Turns
	}
	if t.Schema != nil && !json.Valid(t.Schema) {
		return agentkernel.Program{}, agentkernel.Errorf(agentkernel.CodeInvalid, "do", "the schema is no JSON")
	}
	var source strings.Builder
	source.WriteString(firstLine + "\n")
	runner := "child.py"
	if t.Folder || talks {
		runner = "folder.py"
		source.WriteString(importsOf(&t))
	}
	end := "task.py"
	if talks {
		end = "chat.py"
	}
	parts := []string{"head.py", "schema.py", "tools.py", runner, "pictures.py", "loop.py"}
	if t.Agents > 0 {
		parts = append(parts, "agents.py")
	}
	if t.Checked {
		parts = append(parts, "check.py")
	}
	join(&source, append(parts, end)...)
	var part strings.Builder // the program of a sub-agent
	if t.Agents > 0 {
		runner = "child.py"
		if t.Folder {
			runner = "folder.py"
			part.WriteString(importsOf(&t))
		}
		join(&part, "head.py", "schema.py", "tools.py", runner, "pictures.py", "loop.py", "task.py")
	}
	if err := CheckPictures(t.Images); err != nil {
		return agentkernel.Program{}, err
	}
	setup, err := json.Marshal(struct {
		Task
		Model   *string           `json:"model"`
		Keeps   bool              `json:"keeps"` // programs share their variables
		Local   []stub            `json:"local"`
		Skills  []skill           `json:"skills"`
		Prompts map[string]string `json:"prompts"`
		Part    string            `json:"part"`
		Words   words             `json:"words"`
	}{t, named(t.Model), talks, stubs(t.Local), told(t.Skills), prompts(), part.String(), words{agentkernel.NotSentAgain, agentkernel.OfProgram}})
	if err != nil {
		return agentkernel.Program{}, agentkernel.Errorf(agentkernel.CodeInternal, "do", "%w", err)
	}
	return agentkernel.Program{Name: name, Language: agentkernel.Python, Source: source.String(), Args: append([]string{string(setup)}, encoded(t.Images)...)}, nil
}

// words are those in the kernel's errors by which a task knows what it can do: a program gets of an error its code and its text alone.
type words struct {
	NotAgain  string `json:"not_again"`
	OfProgram string `json:"of_program"`
}

// join writes parts of a program one behind the other.
func join(b *strings.Builder, parts ...string) {
	for _, part := range parts {
		b.WriteString(text(part))
		b.WriteString("\n\n")
	}
}

// importsOf are the imports of a program in whose process the programs of a model run: what they may import.
func importsOf(t *Task) string {
	var b strings.Builder
	for _, server := range t.Servers {
		b.WriteString("import tools." + server + "\n")
	}
	b.WriteString(skillsOf(t.Skills))
	return b.String()
}

// skillsOf makes the skills modules that programs in the process of the task can import. None is run by that.
func skillsOf(skills []agentkernel.Skill) string {
	var b strings.Builder
	for i := range skills {
		b.WriteString("    import skills." + skills[i].Name + "\n")
	}
	if b.Len() == 0 {
		return ""
	}
	return "def skills_of_programs():\n" + b.String() + "\n\n"
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
	for _, name := range []string{"system", "schema", "nothing", "tools", "more", "chat", "skills", "save", "rules"} {
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
