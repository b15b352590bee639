package main

import (
	"embed"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"agentkernel"
)

//go:embed completions
var completionScripts embed.FS

// completionWords stands in the place of a shell, where the scripts ask what may come next.
const completionWords = "words"

type completionCmd struct {
	Shell string   `arg:"" enum:"bash,zsh,fish,words" help:"bash, zsh or fish."`
	Words []string `arg:"" optional:"" passthrough:"" help:""`
}

func (completionCmd) Help() string {
	return `Prints a script that makes the shell complete commands, flags, PIDs and files. make install puts it where shells
look for it.

` + examples("agentkernel completion bash > ~/.local/share/bash-completion/completions/agentkernel",
		"agentkernel completion zsh > ~/.zfunc/_agentkernel      with fpath+=~/.zfunc before compinit",
		"agentkernel completion fish > ~/.config/fish/completions/agentkernel.fish")
}

func (c *completionCmd) Run(a *app) error {
	if c.Shell == completionWords { // what the scripts ask for
		words := c.Words
		if len(words) > 0 && words[0] == "--" {
			words = words[1:]
		}
		return a.complete(words)
	}
	if len(c.Words) > 0 {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "unexpected argument %s", c.Words[0]).WithHint("agentkernel completion --help")
	}
	if a.cli.JSON {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "completion has no --json: a script is for a shell")
	}
	script, err := completionScripts.ReadFile("completions/agentkernel." + c.Shell)
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeInternal, "completion", "%w", err)
	}
	a.con.Out(string(script))
	return a.outputError()
}

// wholeModel is the command line with all its commands.
func wholeModel() (*kong.Kong, error) {
	return newParser(&app{host: host{out: io.Discard, err: io.Discard}})
}

// candidate is a word that may stand next, with what it means.
type candidate struct{ word, doc string }

// files is the answer that means: whatever the shell completes by itself.
const files = ":files"

// complete prints what may stand in place of the last word, one a line, a tab before its meaning.
func (a *app) complete(words []string) error {
	parser, err := wholeModel()
	if err != nil {
		return err
	}
	last := ""
	if len(words) > 0 {
		words, last = words[:len(words)-1], words[len(words)-1]
	}
	var b strings.Builder
	for _, c := range a.candidates(parser.Model.Node, words, last) {
		if strings.HasPrefix(c.word, last) || c.word == files {
			b.WriteString(strings.TrimRight(c.word+"\t"+c.doc, "\t") + "\n")
		}
	}
	a.con.Out(b.String())
	return a.outputError()
}

func (a *app) candidates(node *kong.Node, words []string, last string) []candidate {
	var pending *kong.Flag // whose value comes next
	arguments := 0
	helps := len(words) > 0 && words[0] == "help"
	if helps {
		words = words[1:]
	}
	for _, w := range words {
		switch flag := findFlag(node, w); {
		case w == "--":
			return []candidate{{files, ""}}
		case w == "=": // bash makes a word of it
		case pending != nil:
			switch pending.Name {
			case "home": // its processes are meant
				a.cli.Home = w
			case "tools": // its servers
				a.named = append(a.named, w)
			}
			pending = nil
		case flag != nil && !flag.IsBool() && !strings.Contains(w, "="):
			pending = flag
		case strings.HasPrefix(w, "-") && w != "-":
		default:
			if child := findChild(node, w); child != nil && arguments == 0 {
				node = child
				continue
			}
			arguments++
		}
	}
	switch {
	case pending != nil:
		return a.values(node, pending.Value)
	case strings.HasPrefix(last, "-"):
		return flagCandidates(node)
	case len(node.Children) > 0 && arguments == 0:
		return commandCandidates(node)
	case len(node.Positional) == 0 || helps:
		return nil
	}
	return a.values(node, node.Positional[min(arguments, len(node.Positional)-1)])
}

func findChild(node *kong.Node, name string) *kong.Node {
	for _, c := range node.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func findFlag(node *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(word, "=")
	for _, f := range flagsOf(node) {
		if name == "--"+f.Name || f.Short != 0 && name == "-"+string(f.Short) {
			return f
		}
	}
	return nil
}

func flagCandidates(node *kong.Node) []candidate {
	var out []candidate
	for _, f := range flagsOf(node) {
		out = append(out, candidate{"--" + f.Name, f.Help})
	}
	return out
}

func commandCandidates(node *kong.Node) []candidate {
	var out []candidate
	for _, c := range node.Children {
		if !c.Hidden {
			out = append(out, candidate{c.Name, c.Help})
		}
	}
	return out
}

// values are those of an argument or a flag: of a list of choices, PIDs, or whatever the shell knows.
func (a *app) values(node *kong.Node, v *kong.Value) []candidate {
	name := strings.ToLower(v.Name)
	if v.Flag != nil {
		name = strings.ToLower(placeholder(v.Flag))
	}
	switch {
	case v.Enum != "":
		var out []candidate
		for e := range v.EnumMap() {
			if e != completionWords {
				out = append(out, candidate{e, ""})
			}
		}
		slices.SortFunc(out, func(x, y candidate) int { return strings.Compare(x.word, y.word) })
		return out
	case v.Flag != nil && flagWords[v.Flag.Name] != nil:
		var out []candidate
		for _, word := range flagWords[v.Flag.Name]() {
			out = append(out, candidate{word, ""})
		}
		return out
	case name == "tool" || name == "server":
		return a.toolCandidates(name == "tool")
	case name == "signal":
		var out []candidate
		for _, s := range agentkernel.Signals() {
			out = append(out, candidate{string(s), ""})
		}
		return out
	case name == "pid" || name == "pids" || node.Name == "diff":
		return a.pidCandidates(node.Name)
	case slices.Contains([]string{"file", "dir", "program", "args", "with"}, name):
		return []candidate{{files, ""}}
	}
	return nil
}

// flagWords are the values of flags that are kept as text, for whoever reads the settings.
var flagWords = map[string]func() []string{
	"backend":    func() []string { return []string{"auto", "monty", "process"} },
	"isolation":  func() []string { return []string{"interpreter", "process", "kernel", "vm", "none"} },
	"on-unknown": func() []string { return []string{string(agentkernel.UnknownRaise), string(agentkernel.UnknownPause)} },
	"durability": func() []string {
		return []string{string(agentkernel.DurabilityFull), string(agentkernel.DurabilityRelaxed)}
	},
	"on-budget": func() []string { return []string{"pause", "raise", "kill"} },
	"restart":   func() []string { return []string{string(agentkernel.RestartNever), string(agentkernel.RestartOnCrash)} },
	"lang": func() (words []string) {
		for _, l := range agentkernel.Languages() {
			words = append(words, string(l))
		}
		return words
	},
}

// toolCandidates are the local tools, and those of servers that run, or the names of servers alone. Nothing is started for it.
func (a *app) toolCandidates(tools bool) []candidate {
	var out []candidate
	add := func(list []agentkernel.Tool) {
		for _, t := range list {
			out = append(out, candidate{t.PythonServer + "." + t.PythonName, oneLine(firstLine(t.Description))})
		}
	}
	if tools {
		add(a.localHere(""))
	}
	ask := a.askTTY
	a.askTTY = nil // nobody is asked while a word is completed
	files, err := a.toolFiles(&toolFiles{Tools: a.named})
	a.askTTY = ask
	if err != nil || len(files) == 0 || a.running() == nil {
		return out
	}
	k, _, err := a.readable()
	if err != nil {
		return out
	}
	defer k.Close()
	servers, err := k.ToolServers(a.ctx, files)
	if err != nil {
		return out
	}
	for _, s := range servers {
		if !tools {
			out = append(out, candidate{s.PythonName, ""})
		} else if s.Running {
			list, _ := k.ListTools(a.ctx, files, s.Name) // without those that cannot be had
			add(list)
		}
	}
	return out
}

// pidCandidates are the newest processes that the command can do something with. No kernel is started for it.
func (a *app) pidCandidates(command string) []candidate {
	const most = 50
	living := slices.Contains([]string{"kill", "stop", "signal", "pause", "resume", "recover", "wait", "add"}, command)
	k, _, err := a.readable() // nothing may be said here
	if err != nil {
		return nil
	}
	defer k.Close()
	list, err := k.List(a.ctx, agentkernel.Filter{Unfinished: living, Limit: most})
	if err != nil {
		return nil
	}
	var out []candidate
	for _, p := range list {
		out = append(out, candidate{p.PID.String(), oneLine(p.Name + ", " + stateText(p))})
	}
	return out
}

// oneLine is text that cannot be mistaken for a further candidate or a control sequence.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}
