package examples

import (
	"bytes"
	"encoding/json"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel/embedded"
	"agentkernel/internal/quickexit"
	"agentkernel/internal/sandbox/confine"
	"agentkernel/internal/tool/tooltest"
	"agentkernel/internal/usertest"
)

func TestMain(m *testing.M) {
	quickexit.Main()
	embedded.Main() // does not return if this process is to be the sandboxes' spawner
	code := m.Run()
	_ = os.RemoveAll(built)
	os.Exit(code)
}

// built is the folder of the command, once it is built.
var built = filepath.Join(os.TempDir(), "akx-command-"+strconv.Itoa(os.Getpid()))

// command builds ./agentkernel as users have it, once.
var command = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "agentkernel")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-X main.version=0.0.0-examples", "-o", path, "agentkernel/cmd/agentkernel")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", &exec.Error{Name: string(out), Err: err}
	}
	return path, nil
})

// environment is that of a user with ./agentkernel, an engine, and a data directory of this test.
func environment(t *testing.T) []string {
	t.Helper()
	path, err := command()
	if err != nil {
		t.Fatal(err)
	}
	tooltest.NPM(t, "@modelcontextprotocol/server-memory") // says loudly what is missing
	home, err := os.MkdirTemp("", "akx")                   // short: a socket is to fit into it
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "AGENTKERNEL_COMMAND="+path, "AGENTKERNEL_HOME="+filepath.Join(home, "k"), "AGENTKERNEL_ENGINE="+engine(t),
		"HOME="+home, "XDG_CONFIG_HOME=", "PYTHONDONTWRITEBYTECODE=1", "PATH="+filepath.Dir(path)+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Cleanup(func() {
		stop := exec.Command(path, "shutdown")
		stop.Env = env
		if out, err := stop.CombinedOutput(); err != nil && !bytes.Contains(out, []byte("no kernel runs")) {
			t.Errorf("shutdown: %v\n%s", err, out)
		}
		_ = os.RemoveAll(home)
	})
	return env
}

// python finds an interpreter; without one the scripts are skipped, and fail if CI is set.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("NO SCRIPT WAS RUN: %v", err)
	}
	return path
}

// runScript runs a command in the root of the repository and gives what it printed.
func runScript(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = "..", env
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, errOut.String())
	}
	return string(out)
}

// What a client of one's own does over MCP: sessions, skills, search-then-act.
func TestMCPScripts(t *testing.T) {
	py, env := python(t), environment(t)
	for file, want := range map[string]string{
		"sessions.py": `2 The sum of 40 and 2 is 42. | another
ZeroDivisionError: division by zero
after the error: 3
by its id: 3
"none" knows nothing of it: True
"new" knows nothing of it: True
`,
		"skills.py": `not saved: syntax_error: skills/sales.py, line 1: '
saved, version 1
from skills.sales import revenue  # version 1, Sums sales by region, product or date.
east     7,213,398.75
north    7,170,819.32
south    7,401,691.91
west     7,394,453.24
`,
		"search_then_act.py": `list the files of a folder: list_directory, list_directory_with_sizes, list_allowed_directories
read a text file: read_text_file, read_file, read_multiple_files
write a file: write_file, read_text_file, read_multiple_files
sales.csv: 50,000 rows
`,
	} {
		t.Run(file, func(t *testing.T) {
			if got := runScript(t, env, py, filepath.Join("examples", "mcp", file)); got != want {
				t.Errorf("printed\n%s\nwant\n%s", got, want)
			}
		})
	}
	files, err := filepath.Glob("mcp/*.py")
	if err != nil || len(files) != 4 { // client.py is what they share
		t.Errorf("an example without a test: %q, %v", files, err)
	}
}

// A chart as an artifact, as the first lines of chart.py say: the picture is listed with its type, is got whole, and the folder is as it was.
func TestChart(t *testing.T) {
	if p := confine.Look().Problem; p != nil {
		t.Skipf("SKIPPED, NOTHING PROVED: no walls can stand here, so no program has a folder: %v", p)
	}
	python(t)
	env := environment(t)
	sales, err := os.ReadFile("data/sales.csv")
	if err != nil {
		t.Fatalf("%v; run: make data", err)
	}
	folder := usertest.Dir(t)
	if err := os.WriteFile(filepath.Join(folder, "sales.csv"), sales, 0o644); err != nil {
		t.Fatal(err)
	}
	exe, err := command()
	if err != nil {
		t.Fatal(err)
	}
	if got := runScript(t, env, exe, "run", "examples/chart.py", "--workspace", folder); got != "chart.png: 12 bars, the highest 3,104,153\n" {
		t.Errorf("printed %s", got)
	}
	var listed []struct {
		Path, Media, Kind string
		Size              int
	}
	if err := json.Unmarshal([]byte(runScript(t, env, exe, "artifacts", "1", "--json")), &listed); err != nil || len(listed) != 1 {
		t.Fatalf("%v %+v", err, listed)
	}
	picture := runScript(t, env, exe, "get", "1", "chart.png")
	if a := listed[0]; a.Path != "chart.png" || a.Media != "image/png" || a.Kind != "added" || a.Size != len(picture) {
		t.Errorf("%+v of a picture of %d bytes", a, len(picture))
	}
	decoded, err := png.Decode(strings.NewReader(picture))
	if err != nil || decoded.Bounds().Dx() != 640 || decoded.Bounds().Dy() != 280 {
		t.Fatalf("%v %v", err, decoded)
	}
	colors := map[any]int{} // paper, bars, ink
	for y := range 280 {
		for x := range 640 {
			colors[decoded.At(x, y)]++
		}
	}
	if len(colors) < 3 {
		t.Errorf("the picture has %d colors", len(colors))
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
}

// runNotebook executes the code cells of a notebook as IPython does, with no more of a shell than the magic asks for.
const runNotebook = `
import json, os, sys, agentkernel

class Shell:
    def __init__(self): self.magics, self.names = {}, {}
    def register_magic_function(self, function, magic_kind, magic_name): self.magics[magic_name] = function
    def push(self, names): self.names.update(names)

shell = Shell()
folder, file = os.path.split(sys.argv[1])
os.chdir(folder)  # where Jupyter runs a notebook
for cell in json.load(open(file))["cells"]:
    text = "".join(cell["source"])
    if cell["cell_type"] != "code":
        continue
    if text.startswith("%load_ext agentkernel"):
        agentkernel.load_ipython_extension(shell)
    elif text.startswith("%%"):
        line, _, body = text[2:].partition("\n")
        name, _, flags = line.partition(" ")
        value = shell.magics[name](flags, body)
        print("->", len(value) if isinstance(value, dict) else value)
    else:
        exec(text, shell.names)
`

func TestNotebook(t *testing.T) {
	py, env := python(t), environment(t)
	sdk, err := filepath.Abs("../sdk/python/src")
	if err != nil {
		t.Fatal(err)
	}
	got := runScript(t, append(env, "PYTHONPATH="+sdk), py, "-c", runNotebook, "examples/notebook.ipynb")
	want := "-> 12\n12 months, 149,638 pieces, most in 2025-12: 16,184\n832040\n-> 832040\n"
	if got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}

// The set-up of Claude Code: what the folder's README types, with the servers that are installed here instead of npx; then
// what Claude Code would start is started, and used.
func TestClaudeCode(t *testing.T) {
	env := environment(t)
	project := t.TempDir()
	text, err := os.ReadFile("claude_code/.mcp.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"filesystem", "everything"} {
		text = bytes.ReplaceAll(text, []byte(`"npx",`), []byte(`"node",`))
		text = bytes.ReplaceAll(text, []byte(`"-y", "@modelcontextprotocol/server-`+name+`@2026.8.31"`), []byte(`"`+tooltest.NPM(t, "@modelcontextprotocol/server-"+name)+`"`))
	}
	config := filepath.Join(project, ".mcp.json")
	if err := os.WriteFile(config, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, "a.py"), []byte("print(1)\nprint(2)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	inProject := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "agentkernel", args...)
		cmd.Path, err = command()
		cmd.Dir, cmd.Env, cmd.Err = project, env, err
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	inProject("tools", "trust", ".mcp.json")
	if out := inProject("install", "claude", "--scope", "project"); !strings.Contains(out, "schema tokens") || strings.Contains(out, "at least") {
		t.Errorf("%s", out)
	}

	var installed struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	now, err := os.ReadFile(config)
	if err == nil {
		err = json.Unmarshal(now, &installed)
	}
	entry, ok := installed.MCPServers["agentkernel"]
	if err != nil || !ok || len(installed.MCPServers) != 1 {
		t.Fatalf("%v: %s", err, now)
	}
	cmd := exec.CommandContext(t.Context(), entry.Command, entry.Args...)
	cmd.Dir, cmd.Env, cmd.Stderr = project, env, os.Stderr
	if cmd.Path, cmd.Err = command(); entry.Command != "agentkernel" { // found in the PATH of env, not of this test
		t.Errorf("the entry starts %q", entry.Command)
	}
	claude, err := mcp.NewClient(&mcp.Implementation{Name: "claude-code", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := claude.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute_code", Arguments: map[string]any{
		"code": "from tools.filesystem import read_text_file\nprint(len(read_text_file('a.py').splitlines()), 'lines')"}})
	if err != nil || res.IsError || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, "2 lines") {
		t.Errorf("%v %+v", err, res)
	}
	if err := claude.Close(); err != nil {
		t.Error(err)
	}
	inProject("uninstall", "claude", "--scope", "project")
	if back, err := os.ReadFile(config); err != nil || !bytes.Equal(back, text) {
		t.Errorf("%v: %s", err, back)
	}
}
