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
	for _, w := range words {
		switch flag := findFlag(node, w); {
		case w == "--":
			return []candidate{{files, ""}}
		case w == "=": // bash makes a word of it
		case pending != nil:
			if pending.Name == "home" { // its processes are meant
				a.cli.Home = w
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
	case len(node.Positional) == 0:
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
	case name == "signal":
		var out []candidate
		for _, s := range []agentkernel.Signal{agentkernel.SignalInterrupt, agentkernel.SignalKill, agentkernel.SignalPause, agentkernel.SignalResume} {
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

// pidCandidates are the newest processes that the command can do something with. No kernel is started for it.
func (a *app) pidCandidates(command string) []candidate {
	const most = 50
	living := slices.Contains([]string{"kill", "pause", "resume", "recover", "wait"}, command)
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
