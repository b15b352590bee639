package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// The exit codes and error codes that docs/errors.md promises are those that the code has.
func TestErrorsAreDocumented(t *testing.T) {
	doc := readDoc(t, "errors.md")
	for _, code := range []int{agentkernel.ExitOK, agentkernel.ExitFailed, agentkernel.ExitUsage, agentkernel.ExitUnavailable, agentkernel.ExitStorage,
		agentkernel.ExitDenied, agentkernel.ExitTimeLimit, agentkernel.ExitInterrupted, agentkernel.ExitKilled, exitTerminated} {
		contains(t, "docs/errors.md", doc, fmt.Sprintf("\n| %d |", code))
	}
	lines := map[string]string{}
	for line := range strings.SplitSeq(doc, "\n") {
		if cells := strings.Split(line, " | "); len(cells) == 4 && strings.HasPrefix(line, "| `") {
			lines[strings.Trim(cells[0], "| `")] = cells[2] + " " + cells[3]
		}
	}
	for _, c := range []agentkernel.Code{agentkernel.CodeInvalid, agentkernel.CodeSyntax, agentkernel.CodeUnsupported, agentkernel.CodeNotFound,
		agentkernel.CodeConflict, agentkernel.CodeDenied, agentkernel.CodeLimit, agentkernel.CodeTimeout, agentkernel.CodeUnavailable,
		agentkernel.CodeTool, agentkernel.CodeOutcomeUnknown, agentkernel.CodeSessionLost, agentkernel.CodeInterrupted, agentkernel.CodeKilled,
		agentkernel.CodeProgram, agentkernel.CodeDiverged, agentkernel.CodeCrashed, agentkernel.CodeCorrupt, agentkernel.CodeVersion,
		agentkernel.CodeStorage, agentkernel.CodeCanceled, agentkernel.CodeInternal} {
		if !c.Known() {
			t.Errorf("%s is not known to be a code", c)
		}
		line, ok := lines[string(c)]
		if !ok {
			t.Errorf("docs/errors.md does not explain the code %s", c)
			continue
		}
		contains(t, "the line of "+string(c), line, fmt.Sprint(c.ExitCode()))
		if strings.Contains(line, "`") {
			contains(t, "the line of "+string(c), line, "`"+c.GuestException()+"`")
		}
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
		for _, text := range append(k.Form.Choices, "1m", "100", "x") {
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
