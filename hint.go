package agentkernel

import (
	"regexp"
	"strings"
	"sync"
)

// Reader is who reads a hint. Hints are written, kept and sent for a person at the command line, who alone can type what they name;
// for anybody else [Reader.Hint] says them anew. The Python SDK does that for its own users.
type Reader int

// The readers.
const (
	AtTerminal Reader = iota // a person with a command line
	OverMCP                  // a model with the tools of docs/mcp-tools.md
	InProgram                // a program, or who reads its traceback: nothing but system calls
)

// attribution stands before what the reader cannot do, and can only pass on.
const attribution = "for whoever runs agentkernel: "

// Commands are the commands of the command line that hints name; a test compares them with what there is.
var Commands = []string{"apply", "artifacts", "backup", "budget", "bug-report", "chat", "completion", "config", "devllm", "diff", "discard", "do", "doctor", "env", "export", "get", "halt",
	"import", "init", "inspect", "install", "kill", "llm", "logs", "man", "mcp", "pause", "prune", "ps", "recover", "replay", "rerun", "resolve", "restore",
	"resume", "run", "serve", "setup", "shutdown", "signal", "spawn", "sql", "start", "stop", "task", "thaw", "tools", "trace", "uninstall", "version", "wait", "why"}

var (
	// What only who runs agentkernel can do: flags (of other commands, too), our commands, settings. The command `kernel call` is for programs in a sandbox.
	operatorWords = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|[^\w-])--[a-z][a-z0-9-]*|\bagentkernel (?:-|(?:` + strings.Join(Commands, "|") + `)\b)|\bAGENTKERNEL_[A-Z]|` +
			`\bsettings? \S*[a-z]|\bset ` + "`" + `|\b(?:limits|storage|embeddings)\.[a-z]|\bagentkernel\.toml`)
	})
	// What joins a clause to the one before.
	joining    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:or|else|then)\b:? *`) })
	kernelCall = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bkernel call \S+ --json`) })
)

// PassedOn cuts a text that ends with a hint in brackets, some of which its reader was to pass on: into what is said before the hint, the
// hint without the words that say so, and what is behind it. A person at the command line is whom it was meant for. hint is "" where there
// is none. The text is what a program said, so the hint may be of its making.
func PassedOn(text string) (before, hint, after string) {
	at, end := strings.LastIndex(text, attribution), len(strings.TrimRight(text, "\n"))
	if at < 0 || text[end-1] != ')' {
		return text, "", ""
	}
	from := end - 1
	for depth := 1; depth > 0; {
		if from = strings.LastIndexAny(text[:from], "()"); from < 0 {
			return text, "", ""
		}
		if text[from] == '(' {
			depth--
		} else {
			depth++
		}
	}
	if from > at { // those brackets are part of what was passed on, which has none around it
		return text, "", ""
	}
	return text[:from], text[from+1:at] + text[at+len(attribution):end-1], text[end:]
}

// ForOperator says whether a text names what only who runs agentkernel can do, without saying that it is for them.
func ForOperator(text string) bool {
	text, _, _ = strings.Cut(text, attribution)
	return operatorWords().MatchString(kernelCall().ReplaceAllString(text, ""))
}

// equivalents are what a reader has in the place of a flag or a command.
var equivalents = [...]func() []equivalent{
	AtTerminal: func() []equivalent { return nil },
	OverMCP: sync.OnceValue(func() []equivalent {
		return []equivalent{
			{regexp.MustCompile("`?agentkernel tools (?:list|search)\\b(?: [^\\s`]+$)?`?"), "search_tools"},
			{regexp.MustCompile(`\bleave --(backend|timeout) out\b`), "leave $1 out"},
			{regexp.MustCompile(`--backend ([\w-]+)`), `backend "$1"`},
			{regexp.MustCompile(`--(backend|timeout)\b`), "$1"},
		}
	}),
	InProgram: sync.OnceValue(func() []equivalent {
		return []equivalent{{regexp.MustCompile("`?agentkernel tools list\\b(?: [^\\s`]+$)?`?"), "the system call tool.list"}}
	}),
}

type equivalent struct {
	re   *regexp.Regexp
	with string
}

// Hint is a hint, or a note that holds one, as this reader can use it: with the reader's own words where it has any; and what it cannot do,
// and all behind that, as something to pass on. It depends on nothing but the text, since what a program reads must be the same in a replay.
func (r Reader) Hint(text string) string {
	if r == AtTerminal || !ForOperator(text) {
		return text
	}
	if r == OverMCP {
		text = strings.ReplaceAll(text, NoTerminal, noTerminalOverMCP)
	}
	said, rest := "", text
	for _, clause := range clauses(text) {
		own := clause
		if ForOperator(clause) {
			for _, e := range equivalents[r]() {
				own = e.re.ReplaceAllString(own, e.with)
			}
		}
		if ForOperator(own) {
			return said + attribution + joining().ReplaceAllString(rest, "")
		}
		said, rest = said+own, rest[len(clause):]
	}
	return said
}

// clauses cuts a hint behind each "; " and " · " that is not in brackets or quotes.
func clauses(text string) []string {
	var out []string
	from, depth, quoted := 0, 0, false
	for i, c := range text {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(depth-1, 0)
		case '"', '`':
			quoted = !quoted
		case ' ':
			ends := strings.HasSuffix(text[from:i], ";") || strings.HasSuffix(text[from:i], " ·")
			if ends && depth == 0 && !quoted {
				out, from = append(out, text[from:i+1]), i+1
			}
		}
	}
	return append(out, text[from:])
}
