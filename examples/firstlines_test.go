package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"agentkernel/internal/sandbox/confine"
	"agentkernel/internal/tool/tooltest"
)

// firstLines are the commands in the first lines of an example: those indented by four spaces in its docstring, by five
// behind the mark of a comment. Two spaces and what stands behind them are a remark.
func firstLines(source string) []string {
	head, _, _ := strings.Cut(source, "\n\"\"\"\n")
	if strings.HasPrefix(source, "#") {
		head = notComment.Split(source, 2)[0]
	}
	var out []string
	for line := range strings.SplitSeq(head, "\n") {
		line, ok := strings.CutPrefix(strings.TrimPrefix(line, "# "), "    ")
		if !ok || strings.HasPrefix(line, " ") {
			continue
		}
		command, _, _ := strings.Cut(line, "      ")
		out = append(out, strings.TrimSpace(command))
	}
	return out
}

var notComment = regexp.MustCompile(`(?m)^[^#\n]`)

// Every example runs as its own first lines say, in order, in a fresh clone after the make that they name, with an empty
// home and no variable that points anywhere.
func TestFirstLines(t *testing.T) {
	if p := confine.Look().Problem; p != nil {
		t.Skipf("SKIPPED, NOTHING PROVED: no walls can stand here, and examples work in folders: %v", p)
	}
	python(t)
	exe, err := command()
	if err != nil {
		t.Fatal(err)
	}
	tooltest.NPM(t, "@modelcontextprotocol/server-memory")
	var files []string
	for _, pattern := range []string{"*.py", "python/*.py", "mcp/*.py", "local_tools/*.py", "tasks/*.py"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	r := newReader(t, exe)
	pid := "1"
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		commands := firstLines(string(source))
		switch file {
		case "mcp/client.py": // what the others import
			continue
		case "resume_after_crash.py": // the story of the README, which TestPages runs
			continue
		}
		if len(commands) == 0 {
			t.Errorf("%s: its first lines do not say how it is run", file)
		}
		for _, line := range commands {
			if strings.HasPrefix(line, "make ") {
				continue // the clone has been made
			}
			printed, exit := r.sh(strings.ReplaceAll(line, "PID", pid))
			if exit != 0 {
				t.Errorf("%s: exit code %d\n$ %s\n%s", file, exit, line, printed)
			}
			if strings.Contains(line, " spawn ") {
				pid = strings.TrimSpace(printed)
			}
			if m := receiptPID.FindStringSubmatch(printed); m != nil {
				pid = m[1]
			}
		}
	}
}

var receiptPID = regexp.MustCompile(`· pid (\d+)`)
