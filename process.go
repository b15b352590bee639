package agentkernel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// PID names a process for as long as its store exists; PIDs are never used twice. The first is 1.
type PID int64

// ParsePID reads a PID as users write it.
func ParsePID(s string) (PID, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || s[0] == '+' {
		return 0, Errorf(CodeInvalid, "pid", "%q is not a pid: pids are whole numbers from 1", s)
	}
	return PID(n), nil
}

func (p PID) String() string { return strconv.FormatInt(int64(p), 10) }

// State is where a process stands. Created and the terminal states are journalled; ready, running and
// waiting are derived from what is in flight.
type State string

// The states. StateUnfinished is a process whose journal has no terminal entry and that no kernel
// carries on at the moment: its kernel died or was stopped. `recover` makes it ready.
const (
	StateReady      State = "ready"
	StateRunning    State = "running"
	StateWaiting    State = "waiting"
	StateUnfinished State = "unfinished"
	StateExited     State = "exited"
	StateFailed     State = "failed"
	StateKilled     State = "killed"
)

// Terminal says whether a process in this state has ended.
func (s State) Terminal() bool {
	return s == StateExited || s == StateFailed || s == StateKilled
}

// Language is the language of a program.
type Language string

// The languages. Of all but Python each run is its own: the kernel cannot repeat one from its journal (see
// [Restart]).
const (
	Python  Language = "python"
	Node    Language = "node"    // JavaScript for Node.js; Name says which kind: .mjs, .cjs or .js
	Go      Language = "go"      // a package main
	Script  Language = "script"  // text whose first line names its interpreter: #!/bin/sh
	Command Language = "command" // an executable: Source is its name, Args follow
)

// Languages are all of them.
func Languages() []Language { return []Language{Python, Node, Go, Script, Command} }

// Replayable says whether a program of the language does the same again when it is answered the same.
func (l Language) Replayable() bool { return l == Python || l == "" }

// Restart says what becomes of a process that cannot be replayed when its kernel has died while it ran.
type Restart string

const (
	RestartNever   Restart = "never"    // it ends as failed, with CodeCrashed (default)
	RestartOnCrash Restart = "on-crash" // it begins anew; what it did stays done, its state is kept
)

// Program is what a process runs. It is pinned: editing the file afterwards changes nothing for a
// process that has been created.
type Program struct {
	Name     string   `json:"name"`           // file name for tracebacks: "report.py", "<string>", "<stdin>"
	Language Language `json:"language"`       // how to read Source
	Source   string   `json:"source"`         // UTF-8 text
	Args     []string `json:"args,omitempty"` // sys.argv[1:]
	// Modules are importable sources that travel with the program, by dotted name:
	// "tools.report.monthly" for the local tool tools/report/monthly.py, "skills.x" for a skill. Of a program in
	// Node or Go they are its other files, by path relative to the program's own.
	Modules map[string]string `json:"modules,omitempty"`
	// Host is an absolute path on the kernel's machine that the sandbox is shown, read-only: a Command's
	// executable where it is none of the system's, the node_modules of a program in Node, the virtual environment of
	// one in Python. It is not copied.
	Host string `json:"host,omitempty"`
	// Session says that the program does not end after its last statement: it keeps its variables and waits
	// for more code (syscall proc.next, [Sessions]).
	Session bool `json:"session,omitempty"`
	// Earlier are the sources of the cells that ran before this one in the same session, but for those that were
	// Plain. A backend needs them to understand what this one imports.
	Earlier []string `json:"earlier,omitempty"`
	// Cells is how many ran before this one.
	Cells int `json:"pieces,omitempty"`
}

// MaxSource bounds the text of a program and of each of its modules, in bytes.
const MaxSource = 16 << 20

// MaxArgs bounds how many arguments a program has; each takes some memory of the kernel, however short.
const MaxArgs = 100_000

// MaxName bounds the name of a program, in bytes: it stands in tables, tracebacks and every event.
const MaxName = 1 << 10

// Validate refuses text that is too long or not UTF-8 (CodeSyntax with line and byte): JSON would mend it
// silently, and another program would run than the caller gave.
func (p *Program) Validate() error {
	if err := validText(p.Name, p.Source); err != nil {
		return err
	}
	for name, source := range p.Modules {
		if err := validText(name, source); err != nil {
			return err
		}
	}
	if len(p.Args) > MaxArgs {
		return Errorf(CodeInvalid, "program", "the program has %d arguments; the limit is %d", len(p.Args), MaxArgs).
			WithHint("a program reads its data through a tool, or from one argument")
	}
	for i, arg := range p.Args {
		if err := validText(fmt.Sprintf("argument %d", i+1), arg); err != nil {
			return err
		}
	}
	if len(p.Name) > MaxName {
		return Errorf(CodeInvalid, "program", "the program's name is %d bytes long; the limit is %d", len(p.Name), MaxName)
	}
	return validText("the program's name", p.Name)
}

// NotText is the last line on the standard error of a program that printed what is not UTF-8.
const NotText = "agentkernel: some of the output is not UTF-8: each such byte became U+FFFD. Write it to a file in the workspace; agentkernel get copies files byte for byte\n"

func validText(what, text string) error {
	if len(text) > MaxSource {
		return Errorf(CodeInvalid, "program", "%s is %d bytes long; the limit is %d", what, len(text), MaxSource).
			WithHint("a program reads its data through a tool")
	}
	if utf8.ValidString(text) {
		return nil
	}
	line, col := 1, 1
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		if col += n; r == '\n' {
			line, col = line+1, 1
		}
		i += n
	}
	return Errorf(CodeSyntax, "program", "%s is not valid UTF-8: line %d, byte %d", what, line, col).WithHint("save it as UTF-8")
}

// Duration is a time.Duration that JSON writes and reads as text ("1m30s").
type Duration time.Duration

// MarshalText writes "1m30s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads "1m30s".
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return Errorf(CodeInvalid, "duration", "%q is not a duration: write 500ms, 30s or 5m", b)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string { return time.Duration(d).String() }

// OnUnknown says what happens to a write whose outcome a crash left unknown.
type OnUnknown string

const (
	UnknownRaise OnUnknown = "raise" // the program is handed OutcomeUnknown (default)
	UnknownPause OnUnknown = "pause" // the process is paused and says so
)

// Durability says when what a process did is on the disk.
type Durability string

const (
	// DurabilityFull is the default: what leaves the kernel is durable first.
	DurabilityFull Durability = "full"
	// DurabilityRelaxed lets replies and output leave before the journal is durable. External calls still
	// wait for their intent. A power cut may lose the last few milliseconds of a run that was answered.
	DurabilityRelaxed Durability = "relaxed"
)

// RootOf is the root of the tree of a process with these ancestors, the root first.
func RootOf(pid PID, ancestors []PID) PID {
	if len(ancestors) > 0 {
		return ancestors[0]
	}
	return pid
}

// Spec is everything that is needed to create a process.
type Spec struct {
	Program Program `json:"program"`
	// Backend is the one that the creator asked for; "" or "auto": the kernel chooses. Which it is, Process.Backend says.
	Backend string `json:"backend,omitempty"`
	// Isolation is the weakest boundary behind which the program may run; "": that of the backend. A child's is never
	// weaker than its parent's.
	Isolation Isolation `json:"isolation,omitempty"`
	Namespace string    `json:"namespace,omitempty"` // tenant; "" is "default"
	Parent    PID       `json:"parent,omitempty"`    // 0: no parent
	Priority  int       `json:"priority,omitempty"`  // lower is more urgent; 0 means the default, 10
	Limits    Limits    `json:"limits,omitzero"`
	Budget    Budget    `json:"budget,omitzero"`
	OnBudget  OnBudget  `json:"on_budget,omitempty"`
	// Budgets are those of the processes above that have a budget. The kernel fills it in.
	Budgets []PID `json:"budgets,omitempty"`
	// BudgetsUSD says that one of those bounds money, BudgetsTime that one bounds the time that programs run. The kernel fills them in.
	BudgetsUSD  bool `json:"budgets_usd,omitempty"`
	BudgetsTime bool `json:"budgets_time,omitempty"`
	// Ancestors are the processes above, the root of the tree first, the parent last. The kernel fills it in.
	Ancestors []PID `json:"ancestors,omitempty"`
	// Detached says that signals to a process above it do not reach it, unless they are for the whole tree.
	Detached bool `json:"detached,omitempty"`
	// DetachedFrom is the nearest process above that is detached; 0: none is. The kernel fills it in.
	DetachedFrom PID `json:"detached_from,omitempty"`
	// Deadline is when the process is asked to stop, as SignalStop asks, with DefaultGrace; zero: never. It is a moment, which no
	// pause, no halt and no time without a kernel moves; MaxDeadline bounds it. A child's is not later than its parent's,
	// unless it is detached.
	Deadline time.Time `json:"deadline,omitzero"`
	// Tools are the MCP configuration files ({"mcpServers": ...}) whose servers the program may import,
	// as absolute paths. The files are read when a server is needed, so that no secret enters the store.
	Tools []string `json:"tools,omitempty"`
	// ToolDigests are the SHA-256 of the contents of Tools that count, in hex, by path. What is not there the
	// kernel fills in when the process is created: what is written to a file later does not count for it.
	ToolDigests map[string]string `json:"tool_digests,omitempty"`
	// Allow are patterns of calls that may run although they are not read-only: "filesystem.write_*",
	// "github.*", "*". A pattern without a dot is a server.
	Allow []string `json:"allow,omitempty"`
	// AllowHosts are the hosts that http.fetch reaches: "api.github.com", "*.example.com", "example.com:8080". None:
	// no network. docs/http.md has the rules.
	AllowHosts []string `json:"allow_hosts,omitempty"`
	// Deny are capabilities taken from the default set: "proc.spawn", "state".
	Deny       []string   `json:"deny,omitempty"`
	OnUnknown  OnUnknown  `json:"on_unknown,omitempty"`
	Durability Durability `json:"durability,omitempty"`
	// Restart is for programs that cannot be replayed.
	Restart Restart `json:"restart,omitempty"`
	// IdempotencyKey makes creation repeatable: a second Spec with the same key in the same namespace
	// returns the first process, and is refused if its program or arguments are others.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// Past makes the process a rerun: calls that it makes as the process named there did are answered from
	// that one's journal.
	Past *Past `json:"past,omitempty"`
	// Workspace is the folder that the program works in; Volumes are further ones.
	Workspace *Workspace `json:"workspace,omitempty"`
	Volumes   []Volume   `json:"volumes,omitempty"`
	// Stdin is the absolute path of a file on the kernel's machine whose bytes are the program's standard input. The
	// kernel copies it when the process is created, at most Limits.Disk. A rerun reads the copy of its past.
	Stdin string `json:"stdin,omitempty"`
	// Models are declarations of language models, as the setting models has them, for the process and the children that it starts. They
	// come before those of the setting: the first one is the default, and an alias of theirs hides that of the setting. Their keys are
	// given (key=given, Models.GiveKey), or there are none.
	Models []string `json:"models,omitempty"`
	// Interactive says that the creator listens to the process's events and answers EventAsk. Its children are interactive, too, but for
	// those that it detaches: who listens to it hears what they ask.
	Interactive bool `json:"interactive,omitempty"`
}

// DefaultPriority is the priority of a process whose Spec says none.
const DefaultPriority = 10

// Validate says what is wrong with a Spec before anything is created.
func (s *Spec) Validate() error {
	switch {
	case s.Program.Language != "" && s.Backend != "hosted" && !slices.Contains(Languages(), s.Program.Language):
		return Errorf(CodeUnsupported, "spec", "language %q is not supported; supported: python, node, go, script, command", s.Program.Language)
	case s.Restart != "" && s.Restart != RestartNever && s.Restart != RestartOnCrash:
		return Errorf(CodeInvalid, "spec", "restart %q is not known: never or on-crash", s.Restart)
	case s.Program.Host != "" && !path.IsAbs(s.Program.Host):
		return Errorf(CodeInvalid, "spec", "%q is not an absolute path", s.Program.Host)
	case s.Priority < 0 || s.Priority > 1000:
		return Errorf(CodeInvalid, "spec", "priority %d is out of range: 1 (urgent) to 1000, 10 is the default", s.Priority)
	case s.OnUnknown != "" && s.OnUnknown != UnknownRaise && s.OnUnknown != UnknownPause:
		return Errorf(CodeInvalid, "spec", "on-unknown %q is not known: raise or pause", s.OnUnknown)
	case s.Durability != "" && s.Durability != DurabilityFull && s.Durability != DurabilityRelaxed:
		return Errorf(CodeInvalid, "spec", "durability %q is not known: full or relaxed", s.Durability)
	case s.Past != nil && (s.Past.PID < 1 || s.Past.From < 0):
		return Errorf(CodeInvalid, "spec", "the past is call %d of process %d, which cannot be", s.Past.From, s.Past.PID)
	case s.Past != nil && slices.Contains(s.Past.Again, ""):
		return Errorf(CodeInvalid, "spec", "a pattern of the calls to make again is empty").WithHint("--again 'github.*'")
	}
	if name, why := s.Limits.Problem(); name != "" {
		return Errorf(CodeInvalid, "spec", "limits.%s: %s", name, why)
	}
	return cmp.Or(s.validateLists(), s.Budget.Validate(), s.OnBudget.Validate(), s.Isolation.Validate(), s.validateFiles(), ValidateNamespace(s.Namespace), s.Program.Validate())
}

// MaxList bounds how many texts a list of a Spec has, and MaxListed each of them, in bytes: errors name them.
const (
	MaxList   = 10_000
	MaxListed = 4 << 10
)

// validateLists bounds the lists of patterns and names.
func (s *Spec) validateLists() error {
	again := []string(nil)
	if s.Past != nil {
		again = s.Past.Again
	}
	for _, list := range []struct {
		name  string
		texts []string
	}{{"tools", s.Tools}, {"allow", s.Allow}, {"allow_hosts", s.AllowHosts}, {"deny", s.Deny}, {"past.again", again}} {
		if n := len(list.texts); n > MaxList {
			return Errorf(CodeInvalid, "spec", "%s has %d entries; the limit is %d", list.name, n, MaxList)
		}
		for _, text := range list.texts {
			if len(text) > MaxListed {
				return Errorf(CodeInvalid, "spec", "%s: %.40q... is %d bytes long; the limit is %d", list.name, text, len(text), MaxListed)
			}
		}
	}
	return nil
}

// MaxNamespace bounds the name of a namespace, in bytes.
const MaxNamespace = 200

// ValidateNamespace refuses a name that begins with $: such a namespace is the kernel's own. Recordings of strangers are
// replayed in one, and nothing else may share their workers. It also refuses what cannot be shown in a line.
func ValidateNamespace(name string) error {
	if strings.HasPrefix(name, "$") {
		return Errorf(CodeInvalid, "spec", "the namespace %.100q begins with $, as only those of the kernel do", name).WithHint("choose another name")
	}
	if len(name) > MaxNamespace || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return Errorf(CodeInvalid, "spec", "the namespace %.100q is more than one line of text, or longer than %d bytes", name, MaxNamespace)
	}
	return nil
}

// Process is what is known of a process at one moment.
type Process struct {
	PID       PID      `json:"pid"`
	Parent    PID      `json:"parent,omitempty"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"` // the program's name
	Backend   string   `json:"backend,omitempty"`
	Language  Language `json:"language,omitempty"`
	// Replayable says that after a crash the process stands where its journal says. False: see Restart.
	Replayable bool   `json:"replayable"`
	Priority   int    `json:"priority"`
	State      State  `json:"state"`
	Paused     bool   `json:"paused,omitempty"`
	PauseNote  string `json:"pause_note,omitempty"` // why it is paused, if the kernel paused it; see YourAnswer
	// PausedFor is that for programs; nil: it is not paused.
	PausedFor *PauseCause `json:"paused_for,omitempty"`
	// Halted says what the hold is over because of which it stands still: "the kernel"; "": there is none.
	Halted string `json:"halted,omitempty"`
	// StopBy is when it is killed, since it was asked to stop; zero: nobody has asked.
	StopBy time.Time `json:"stop_by,omitzero"`
	// Deadline is that of its Spec; zero: it has none.
	Deadline time.Time `json:"deadline,omitzero"`
	Resident bool      `json:"resident,omitempty"` // has a sandbox in memory
	Walls    []Wall    `json:"walls,omitempty"`    // of that sandbox, or of the last that it had; Processes.Process alone tells them
	// WaitsSince is when it began to wait; zero: it does not.
	WaitsSince time.Time `json:"waits_since,omitzero"`
	// WakeAt is when the clock wakes it, for the end of a sleep, of a timeout or of a limit; zero: it does not wait for the clock.
	WakeAt   time.Time `json:"wake_at,omitzero"`
	WaitsFor []string  `json:"waits_for,omitempty"` // operations in flight: "tool.call filesystem.write_file"; see YourAnswer

	ExitCode int             `json:"exit_code"`
	Result   json.RawMessage `json:"result,omitempty"` // the value of the program's last expression
	Error    *Error          `json:"error,omitempty"`  // why it failed or was killed
	// UnderWay are the writes without an answer when it exited: "tool.call filesystem.write_file". They may have happened. Of one that
	// failed or was killed Error.Hint names them.
	UnderWay []string `json:"under_way,omitempty"`
	// Left are files that lay in its working directory when it ended, some of them, where it had no workspace: they went with
	// the sandbox. Hidden files and those of tempfile and mktemp are not named, for they are not meant to stay.
	Left []string `json:"left,omitempty"`

	Created time.Time `json:"created"`
	Ended   time.Time `json:"ended,omitzero"`

	Usage       Usage  `json:"usage"`
	Fingerprint string `json:"fingerprint,omitempty"` // engine and guest library versions
	Recoveries  int    `json:"recoveries,omitempty"`  // times it was continued after its kernel died
	Moved       *Move  `json:"moved,omitempty"`       // the kernel chose the backend, and chose again
}

// Move is a change of backend in the middle of a process: the program began anew on Process.Backend, its calls and output
// up to there answered and compared by the journal.
type Move struct {
	From string    `json:"from"` // the backend before
	At   time.Time `json:"at"`
	Why  string    `json:"why"` // the error that ended the program there, one line
}

// Same says whether the error that ended a process is the one for which it had moved: then it was the program's own, and the move is of no
// interest. Backends word some messages differently.
func (m *Move) Same(e *Error) bool {
	if e == nil {
		return false
	}
	message, _, _ := strings.Cut(e.Message(), "\n")
	return m.Why == message || e.Exception != "" && (m.Why == e.Exception || strings.HasPrefix(m.Why, e.Exception+":"))
}

// Usage is what a process has used.
type Usage struct {
	Syscalls  int64         `json:"syscalls"`
	ToolCalls int64         `json:"tool_calls"`
	Waits     int64         `json:"waits"`      // times the program had to wait for something
	Running   time.Duration `json:"running_ns"` // inside the sandbox
	Output    int64         `json:"output"`     // bytes printed
	BytesIn   int64         `json:"bytes_in"`   // bytes of tool results that stayed inside
}

// bytesPerToken is how tokens of tool results are estimated, which no model counts.
const bytesPerToken = 4

// TokensInside estimates how many tokens of tool results never went to a model.
func (u Usage) TokensInside() int64 { return (u.BytesIn + bytesPerToken - 1) / bytesPerToken }

// TokensOut estimates how many tokens the program printed.
func (u Usage) TokensOut() int64 { return (u.Output + bytesPerToken - 1) / bytesPerToken }

// EventKind is what an Event reports.
type EventKind string

const (
	EventCreated EventKind = "created" // Process is set
	EventOutput  EventKind = "output"  // Stream and Text are set
	EventState   EventKind = "state"   // Process is set: paused, resumed, recovered, moved
	EventAsk     EventKind = "ask"     // Ask is set: the process waits for an answer
	EventLog     EventKind = "log"     // Text is set: a line of kernel.log
	EventPast    EventKind = "past"    // Text is set: how far a rerun went along its past
	EventBudget  EventKind = "budget"  // Text is set: most of the process's budget is spent
	EventIdle    EventKind = "idle"    // Idle is set: a session has run a cell and waits for the next
	EventEnd     EventKind = "end"     // Process is set; the last event of a process
)

// Event is one thing that happened to a process, for those who watch it. Events up to and including
// Seq are in the journal when they are seen (EventAsk excepted). An EventAsk may be of a process below the one that is watched: then
// it has the PID of that one, and Seq is 0.
type Event struct {
	Kind    EventKind `json:"kind"`
	PID     PID       `json:"pid"`
	Seq     int64     `json:"seq"` // journal position; ask again from here after a broken connection
	At      time.Time `json:"at"`
	Stream  string    `json:"stream,omitempty"` // "stdout" or "stderr"
	Text    string    `json:"text,omitempty"`
	Ask     *Ask      `json:"ask,omitempty"`
	Idle    *Idle     `json:"idle,omitempty"`
	Process *Process  `json:"process,omitempty"`
}

// WaitsForKey is in an entry of Process.WaitsFor, behind the call, as long as its model waits for the key that somebody gives it
// (Models.GiveKey); how follows.
const WaitsForKey = ", waits for its key"

// YourAnswer begins an entry of Process.WaitsFor for a call about which a human is asked; the tool's name follows. It begins
// Process.PauseNote, too, where the process is paused since nobody was there to answer, and ends it behind a pause by hand.
const YourAnswer = "your answer: "

// NoProgress begins Process.PauseNote where the process is paused since it made the same call, with the same answer, too often in a row.
const NoProgress = "no progress: "

// OfProgram is in Process.PauseNote, and in the error of a call, where the tools that are meant are functions of a program that has ended.
const OfProgram = "are functions of the program that started this process, and it has ended or has closed its agent"

// ErrOfProgram is in the chain of the error of a call, or of an import, that says so. What a server prints may have the same words.
var ErrOfProgram = errors.New(OfProgram)

// NotSentAgain is in the error of a question to a model whose answer broke off, where a budget or an allowance keeps the kernel from
// sending it again: it may have been charged for.
const NotSentAgain = "is not sent again under a budget or an allowance"

// Asks is the call about which a human is asked, or was when the process was paused; "": there is none.
func (p *Process) Asks() string {
	notes := p.WaitsFor
	if p.Paused {
		notes = append(slices.Clip(notes), p.PauseNote)
	}
	for _, note := range notes {
		if _, call, ok := strings.Cut(note, YourAnswer); ok {
			return call
		}
	}
	return ""
}

// Unheard says that the process is paused since nobody was there to answer what it asks.
func (p *Process) Unheard() bool { return p.Paused && strings.HasPrefix(p.PauseNote, YourAnswer) }

// Repeats says that the process is paused for calls without progress; see NoProgress.
func (p *Process) Repeats() bool { return p.Paused && strings.HasPrefix(p.PauseNote, NoProgress) }

// NotTakenUp says that Kernel.Recover left the process as it was: a file with a payload of it is missing or damaged, or there is no
// room in memory to repeat its journal beside others. Error says which, PauseNote what to do.
func (p *Process) NotTakenUp() bool { return p.State == StateUnfinished && p.Paused && p.Error != nil }

// Ask is a question to the human behind an interactive process: may this call run?
type Ask struct {
	ID   int64  `json:"id"`   // the call's number
	Call string `json:"call"` // "filesystem.write_file"
	// Pattern is the pattern of Spec.Allow that means this tool and no other; "": nothing else is allowed with an answer.
	Pattern string          `json:"pattern,omitempty"`
	Effect  Effect          `json:"effect"`
	Args    json.RawMessage `json:"args"`
}

// Answer answers an Ask.
type Answer string

const (
	AnswerYes    Answer = "yes"    // this call
	AnswerAlways Answer = "always" // this call and further ones of the same tool, for this process as long as it lives; not for its children
	AnswerNo     Answer = "no"
)

// Receipt is the line with which a run ends, for humans.
func (p *Process) Receipt() string {
	end := p.Ended
	if end.IsZero() {
		end = time.Now()
	}
	s := fmt.Sprintf("%s · %s · %s", p.describeState(), humanDuration(end.Sub(p.Created)), plural(p.Usage.ToolCalls, "tool call"))
	tokens := "tokens"
	if p.Usage.TokensInside() == 1 {
		tokens = "token"
	}
	s += fmt.Sprintf(" · %s · %s %s stayed inside, %s came out · pid %d", plural(p.Usage.Waits, "wait"),
		humanCount(p.Usage.TokensInside()), tokens, humanCount(p.Usage.TokensOut()), p.PID)
	if p.Moved != nil && !p.Moved.Same(p.Error) {
		s += fmt.Sprintf(" · moved from %s to %s: %s", p.Moved.From, p.Backend, p.Moved.Why)
	}
	for _, call := range p.UnderWay {
		s += " · " + InDoubt(call)
	}
	return s
}

// InDoubt says what to do about a write that was under way when its process ended.
func InDoubt(call string) string {
	return call + " was under way: look whether it happened before it is done again"
}

func (p *Process) describeState() string {
	switch {
	case p.State == StateExited && p.ExitCode != 0:
		return fmt.Sprintf("exited %d", p.ExitCode)
	case p.Paused:
		return "paused"
	}
	return string(p.State)
}

func humanDuration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

func humanCount(n int64) string {
	switch {
	case n < 10_000:
		return strconv.FormatInt(n, 10)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

func plural(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
