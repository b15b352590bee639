package main

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"agentkernel/cmd/agentkernel/internal/console"
)

// helpFlag prints the help of the command that was named and stops there.
type helpFlag bool

// BeforeReset is kong's hook: it runs before anything is validated, so that help is always to be had.
func (helpFlag) BeforeReset(ctx *kong.Context, a *app) error {
	node := ctx.Selected()
	if node == nil {
		node = ctx.Model.Node
	}
	if wantsJSON(a.args) {
		return errors.Join(errHelp, a.printJSON(helped{node.FullPath(), helpText(node, false)}))
	}
	a.con.Out(helpText(node, a.con.OutColor()))
	return errors.Join(errHelp, a.outputError())
}

// IsBool lets the flag stand alone.
func (helpFlag) IsBool() bool { return true }

const helpFooter = `A program is ordinary Python that reaches the world only through tools and the kernel:
  from tools.filesystem import read_text_file     # an MCP server's tool is a function
  from kernel import sleep, state                 # and so is a system call

Start here:
  agentkernel setup                               install the engine, once
  agentkernel run -c 'print(6*7)'                 run a line
  agentkernel run report.py --tools mcp.json      run a file with the tools of your MCP servers
  agentkernel trace PID                           see what it did

More: agentkernel COMMAND --help. Exit codes and errors: docs/errors.md.
`

// helpText is the help page of the program or of a command.
func helpText(node *kong.Node, color bool) string {
	h := &helpPage{color: color}
	if node.Type == kong.ApplicationNode {
		h.line(node.Help)
		h.head("Usage")
		h.line("  agentkernel COMMAND [ARGUMENTS] [FLAGS]")
		h.commands(node)
		h.flags(node)
		h.b.WriteString("\n" + helpFooter)
		return h.b.String()
	}
	h.line(node.Help)
	h.head("Usage")
	h.line("  " + usage(node))
	h.commands(node)
	h.arguments(node)
	h.flags(node)
	if node.Detail != "" {
		h.b.WriteString("\n" + refill(node.Detail))
	}
	return h.b.String()
}

type helpPage struct {
	b     strings.Builder
	color bool
}

func (h *helpPage) line(text string) { h.b.WriteString(text + "\n") }

func (h *helpPage) head(title string) {
	if h.color {
		title = "\x1b[1m" + title + "\x1b[0m"
	}
	h.b.WriteString("\n" + title + "\n")
}

// helpWidth is how wide a help page is at most, in columns: half of a wide screen, and the whole of a small one.
const helpWidth = 100

// table writes names with what they mean, which continues below itself where a line is full.
func (h *helpPage) table(rows [][]string) {
	names := 0
	for _, r := range rows {
		names = max(names, utf8.RuneCountInString(r[0]))
	}
	var out [][]string
	for _, r := range rows {
		for i, line := range wrap(r[1], helpWidth-names-2) {
			if i > 0 {
				r = []string{""}
			}
			out = append(out, []string{r[0], line})
		}
	}
	h.b.WriteString(console.Table(out))
}

// refill wraps the prose of a text; lines that are indented stay as they are.
func refill(text string) string {
	var b strings.Builder
	var prose []string
	flush := func() {
		if len(prose) > 0 {
			b.WriteString(strings.Join(wrap(strings.Join(prose, " "), helpWidth), "\n") + "\n")
		}
		prose = nil
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || line[0] == ' ' {
			flush()
			b.WriteString(line + "\n")
		} else {
			prose = append(prose, line)
		}
	}
	flush()
	return b.String()
}

// wrap breaks a text between words into lines of at most width columns; a longer word has a line of its own.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// commands lists the commands of a node by group.
func (h *helpPage) commands(node *kong.Node) {
	group := ""
	var rows [][]string
	flush := func() {
		if len(rows) > 0 {
			h.head(group)
			h.table(rows)
		}
		rows = nil
	}
	for _, c := range node.Children {
		if c.Hidden {
			continue
		}
		title := "Commands"
		if c.Group != nil && node.Type == kong.ApplicationNode {
			title = c.Group.Title
		}
		if title != group {
			flush()
			group = title
		}
		rows = append(rows, []string{"  " + c.Name, c.Help})
	}
	flush()
}

func (h *helpPage) arguments(node *kong.Node) {
	var rows [][]string
	for _, p := range node.Positional {
		if p.Help != "" {
			rows = append(rows, []string{"  " + strings.ToUpper(p.Name), p.Help})
		}
	}
	if len(rows) > 0 {
		h.head("Arguments")
		h.table(rows)
	}
}

// flags lists the flags by group: the command's own first, those of all commands last.
func (h *helpPage) flags(node *kong.Node) {
	var titles []string
	rows := map[string][][]string{}
	for _, f := range flagsOf(node) {
		title := "Flags"
		if f.Group != nil {
			title = f.Group.Title
		}
		if _, ok := rows[title]; !ok {
			titles = append(titles, title)
		}
		rows[title] = append(rows[title], []string{"  " + flagText(f), f.Help})
	}
	for _, t := range titles {
		h.head(t)
		h.table(rows[t])
	}
}

func flagsOf(node *kong.Node) []*kong.Flag {
	var own []*kong.Flag
	for n := node; n != nil; n = n.Parent {
		for _, f := range n.Flags {
			if !f.Hidden {
				own = append(own, f)
			}
		}
	}
	return own
}

func flagText(f *kong.Flag) string {
	text := "    --" + f.Name
	if f.Short != 0 {
		text = fmt.Sprintf("-%c, --%s", f.Short, f.Name)
	}
	if !f.IsBool() {
		text += " " + placeholder(f)
	}
	return text
}

func placeholder(f *kong.Flag) string {
	if f.PlaceHolder != "" {
		return f.PlaceHolder
	}
	return strings.ToUpper(f.Name)
}

// usage is the command with its arguments: agentkernel run [FILE] [ARGS ...] [FLAGS].
func usage(node *kong.Node) string {
	if u, ok := usageLines[node.Name]; ok {
		return u
	}
	text := node.FullPath()
	if len(node.Children) > 0 {
		text += " COMMAND"
	}
	for _, p := range node.Positional {
		name := strings.ToUpper(p.Name)
		if p.IsCumulative() {
			name += " ..."
		}
		if !p.Required {
			name = "[" + name + "]"
		}
		text += " " + name
	}
	return text + " [FLAGS]"
}

// usageLines are those that cannot be told from the arguments alone.
var usageLines = map[string]string{
	"run":   "agentkernel run FILE | - | -c CODE  [FLAGS] [-- ARGS ...]",
	"kill":  "agentkernel kill PID ... | --all  [FLAGS]",
	"rerun": "agentkernel rerun PID [FLAGS] [-- ARGS ...]",
	"spawn": "agentkernel spawn FILE | - | -c CODE  [FLAGS] [-- ARGS ...]",
	"task":  "agentkernel task 'TASK' | -  [FLAGS]",
	"call":  "agentkernel tools call SERVER.TOOL [NAME=VALUE ... | '{\"json\": ...}'] [FLAGS]",
}

// examples is the last part of a help page.
func examples(lines ...string) string {
	return "Examples\n  " + strings.Join(lines, "\n  ") + "\n"
}

// helped is what help prints with --json.
type helped struct {
	Command string `json:"command"`
	Help    string `json:"help"`
}
