package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"agentkernel"
	"agentkernel/internal/config"
)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The exit codes and error codes that docs/errors.md promises are those that the code has, and no others.
func TestErrorsAreDocumented(t *testing.T) {
	doc := readDoc(t, "errors.md")
	for _, code := range []int{agentkernel.ExitOK, agentkernel.ExitFailed, agentkernel.ExitUsage, agentkernel.ExitUnavailable, agentkernel.ExitStorage,
		agentkernel.ExitDenied, agentkernel.ExitTimeLimit, agentkernel.ExitInterrupted, agentkernel.ExitKilled, exitTerminated} {
		contains(t, "docs/errors.md", doc, fmt.Sprintf("\n| %d |", code))
	}
	rows := map[string][]string{} // of the table of codes: what happened, exit code, exception
	for _, cells := range cellsOf(doc) {
		if len(cells) == 4 && strings.HasPrefix(cells[0], "`") {
			rows[strings.Trim(cells[0], "`")] = cells[1:]
		}
	}
	source, err := os.ReadFile(filepath.Join("..", "..", "error.go"))
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^\tCode\w+ +Code = "(\w+)"`).FindAllSubmatch(source, -1)
	if len(codes) == 0 || len(codes) != len(rows) {
		t.Errorf("%d codes, and docs/errors.md has %d", len(codes), len(rows))
	}
	for _, m := range codes {
		c := agentkernel.Code(m[1])
		row, ok := rows[string(c)]
		if !ok || !c.Known() {
			t.Errorf("%s: documented %t, known %t", c, ok, c.Known())
			continue
		}
		if exit, _, _ := strings.Cut(row[1], ","); exit != fmt.Sprint(c.ExitCode()) {
			t.Errorf("docs/errors.md has the exit code %s for %s, which has %d", row[1], c, c.ExitCode())
		}
		if exception := strings.Trim(row[2], "`"); exception != "" && exception != c.GuestException() {
			t.Errorf("docs/errors.md has %s for %s, which raises %s", exception, c, c.GuestException())
		}
	}
	for _, cells := range cellsOf(doc) {
		if base := agentkernel.GuestBase(strings.Trim(cells[0], "`")); base != "" && len(cells) == 3 && cells[1] != "`"+base+"`" {
			t.Errorf("docs/errors.md says that %s is a kind of %s, and it is one of %s", cells[0], cells[1], base)
		}
	}
}

// cellsOf are the cells of the tables of a page, row by row.
func cellsOf(doc string) (rows [][]string) {
	for line := range strings.Lines(doc) {
		if inside, ok := strings.CutPrefix(strings.TrimSpace(line), "|"); ok {
			cells := strings.Split(strings.ReplaceAll(strings.TrimSuffix(inside, "|"), `\|`, "\x00"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "\x00", "|"))
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// What pages say that one sees is what the source says. Numbers, names and what is left out in between may be anything.
func TestMessagesOfPagesAreThoseOfTheSource(t *testing.T) {
	var source strings.Builder
	root := os.DirFS(filepath.Join("..", ".."))
	for _, dir := range []string{".", "internal", "cmd", "embedded", "client", "guest"} {
		if err := fs.WalkDir(root, dir, func(path string, e fs.DirEntry, err error) error {
			switch ext := filepath.Ext(path); {
			case err != nil:
				return err
			case dir == "." && e.IsDir() && path != ".":
				return fs.SkipDir
			case ext == ".py", ext == ".go" && !strings.HasSuffix(path, "_test.go"):
				text, err := fs.ReadFile(root, path)
				source.Write(text)
				return err
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	quoted := regexp.MustCompile("`([^`]+ [^`]+)`")
	vague := regexp.MustCompile(`\.\.\.|"[^"]*"|'[^']*'|\b\d[\w.]*(-\d+)?|\b[A-Z]{2,}\b|[,;:()]|\b(monty|process|python|description|session|N)\b|\w+\.example\.com`)
	checked := 0
	for _, page := range []string{"errors.md", "mcp.md", "integration.md"} {
		_, troubles, _ := strings.Cut(readDoc(t, page), "\n## Troubleshooting\n")
		for _, row := range cellsOf(troubles) {
			for _, m := range quoted.FindAllStringSubmatch(row[0], -1) {
				for _, piece := range vague.Split(m[1], -1) {
					if piece = strings.TrimSpace(piece); len(piece) < 9 || strings.HasPrefix(piece, "No matching distribution") { // pip's
						continue
					}
					if checked++; !strings.Contains(source.String(), piece) {
						t.Errorf("docs/%s: %q: nothing says %q", page, m[1], piece)
					}
				}
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d pieces of messages were looked at", checked)
	}
}

// Every setting stands in docs/config.md, with the flag that sets it and whether a project may.
func TestSettingsAreDocumented(t *testing.T) {
	doc := readDoc(t, "config.md")
	for _, k := range config.Keys() {
		i := strings.Index(doc, "\n| `"+k.Name+"` |")
		if i < 0 {
			t.Errorf("docs/config.md does not have %s", k.Name)
			continue
		}
		if n := strings.Count(doc, "\n| `"+k.Name+"` |"); n != 1 {
			t.Errorf("docs/config.md has %s %d times", k.Name, n)
		}
		line, _, _ := strings.Cut(doc[i+1:], "\n")
		if !strings.HasSuffix(line, "| "+k.Project.String()+" |") {
			t.Errorf("docs/config.md has it wrong whether a project file sets %s: %s", k.Name, line)
		}
		if strings.Contains(line, "list:") != k.List {
			t.Errorf("docs/config.md has it wrong whether %s is a list: %s", k.Name, line)
		}
	}
}

// The settings of which docs/config.md says that they belong to a kernel are those that a command compares with the kernel's.
func TestSettingsOfAKernelAreDocumented(t *testing.T) {
	_, line, _ := strings.Cut(readDoc(t, "config.md"), "\n`home`, ")
	line, _, found := strings.Cut(line, " belong to a kernel")
	if !found {
		t.Fatal("docs/config.md does not say what belongs to a kernel")
	}
	for _, k := range config.Keys() {
		c, err := config.Load(config.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range append(k.Form.Choices, "1m", "100", "state", "monty", "name env:VARIABLE example.com", "team 3", "team 70%", "team day usd 5", "fast openai:gpt-5-mini") {
			if err = c.SetFlag(k.Name, "--flag", text); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		table, _, _ := strings.Cut(k.Name, ".")
		if says := strings.Contains(line, "`"+table+"`"); says != (len(c.Kernel()) == 1) && k.Name != "home" {
			t.Errorf("docs/config.md says that %s belongs to a kernel: %t", k.Name, says)
		}
	}
}

// Every command and flag has a help text and stands in docs/cli.md; every command has examples.
func TestCommandsAreDocumented(t *testing.T) {
	doc := readDoc(t, "cli.md")
	a := &app{host: host{out: io.Discard, err: io.Discard}}
	parser, err := newParser(a)
	if err != nil {
		t.Fatal(err)
	}
	var check func(n *kong.Node)
	check = func(n *kong.Node) {
		for _, f := range n.Flags {
			if f.Help == "" {
				t.Errorf("%s --%s has no help", n.FullPath(), f.Name)
			}
		}
		if n.Type == kong.CommandNode {
			if !strings.Contains(doc, "`"+n.Name) && !strings.Contains(doc, n.Parent.Name+" "+n.Name+"`") {
				t.Errorf("docs/cli.md does not have %s", n.FullPath())
			}
			prose, _, _ := strings.Cut(helpText(n, false), "\nExamples\n") // commands are copied: they stay whole
			for _, line := range strings.Split(prose, "\n") {
				if utf8.RuneCountInString(line) > helpWidth {
					t.Errorf("the help of %s has a line of %d columns: %s", n.FullPath(), utf8.RuneCountInString(line), line)
				}
			}
			contains(t, "the help of "+n.FullPath(), n.Detail, "Examples\n  agentkernel "+strings.Split(n.FullPath(), " ")[1])
		}
		for _, c := range n.Children {
			check(c)
		}
	}
	check(parser.Model.Node)
	for _, n := range parser.Model.Children {
		if n.Name == "run" || n.Name == "spawn" {
			for _, f := range n.Flags {
				if f.Name != "code" {
					contains(t, "docs/cli.md", doc, "--"+f.Name)
				}
			}
		}
	}
}

// What AgentKernel's own tools cost a model is counted in one way, by install; pages have its numbers.
func TestTokensAreThoseThatInstallCounts(t *testing.T) {
	contains(t, "docs/mcp.md", strings.Join(strings.Fields(readDoc(t, "mcp.md")), " "),
		fmt.Sprintf("The whole surface costs %s tokens, with `--minimal`, which is `execute_code` and `search_tools` alone, %s", grouped(ownTokens(true)), grouped(ownTokens(false))))
	contains(t, "docs/integration.md", readDoc(t, "integration.md"), fmt.Sprintf("3,232 -> %s schema tokens", grouped(ownTokens(false))))
}
