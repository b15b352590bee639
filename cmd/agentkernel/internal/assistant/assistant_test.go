package assistant_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/assistant"
	"agentkernel/internal/jsonc"
)

// desk is a user's home with a project in it.
type desk struct {
	t    *testing.T
	host assistant.Host
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	home := t.TempDir()
	d := &desk{t, assistant.Host{GOOS: "linux", Home: home, Dir: filepath.Join(home, "project"), Config: filepath.Join(home, ".config", "agentkernel"),
		Getenv: func(string) string { return "" }, Command: "/opt/agentkernel"}}
	if err := os.Mkdir(d.host.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desk) place(client string, scope assistant.Scope) *assistant.Place {
	d.t.Helper()
	p, err := assistant.Find(d.host, client, scope, "")
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

func (d *desk) write(path, text string, mode os.FileMode) {
	d.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) read(path string) string {
	d.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(b)
}

func (d *desk) mode(path string) os.FileMode {
	d.t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		d.t.Fatal(err)
	}
	return info.Mode().Perm()
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func (d *desk) install(p *assistant.Place, o assistant.Options) assistant.Applied {
	d.t.Helper()
	in, err := p.Plan(o)
	if err != nil {
		d.t.Fatal(err)
	}
	done, err := in.Apply(noon)
	if err != nil {
		d.t.Fatal(err)
	}
	return done
}

func (d *desk) uninstall(p *assistant.Place) *assistant.Uninstall {
	d.t.Helper()
	u, err := p.PlanUninstall()
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := u.Apply(noon); err != nil {
		d.t.Fatal(err)
	}
	return u
}

// servers are those of a file by name, as JSON.
func (d *desk) servers(path, key string) map[string]string {
	d.t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(jsonc.Plain([]byte(d.read(path))), &all); err != nil {
		d.t.Fatal(err)
	}
	var raw map[string]any
	if err := json.Unmarshal(all[key], &raw); err != nil {
		d.t.Fatal(err)
	}
	out := map[string]string{}
	for name, v := range raw {
		b, err := json.Marshal(v)
		if err != nil {
			d.t.Fatal(err)
		}
		out[name] = string(b)
	}
	return out
}

const claudeFile = `{
  "numStartups": 3, "tips": {"ä": 1.0},
  "mcpServers": {
    "files": {"type": "stdio", "command": "node", "args": ["server.js"], "timeout": 60000},
    "hub": {
      "url": "https://example.org/mcp",
      "headers": {"Authorization": "Bearer s3cret-value"}
    }
  },
  "projects": {"/x": {"history": []}}
}
`

// The servers move, everything else stays byte for byte, and uninstall gives the very same file back.
func TestThereAndBack(t *testing.T) {
	d := newDesk(t)
	p := d.place("claude", assistant.User)
	d.write(p.File, claudeFile, 0o640)
	done := d.install(p, assistant.Options{Allow: []string{"files.*"}})
	want := `{
  "numStartups": 3, "tips": {"ä": 1.0},
  "mcpServers": {
    "agentkernel": {
      "type": "stdio",
      "command": "/opt/agentkernel",
      "args": [
        "mcp",
        "--minimal",
        "--tools",
        "` + p.Tools + `",
        "--allow",
        "files.*"
      ]
    }
  },
  "projects": {"/x": {"history": []}}
}
`
	if got := d.read(p.File); got != want {
		t.Errorf("the client's file is\n%s\nwant\n%s", got, want)
	}
	got := d.servers(p.Tools, "mcpServers")
	if got["files"] != `{"args":["server.js"],"command":"node","cwd":"`+d.host.Home+`","timeout":"60000ms","type":"stdio"}` ||
		got["hub"] != `{"headers":{"Authorization":"Bearer s3cret-value"},"url":"https://example.org/mcp"}` || len(got) != 2 {
		t.Errorf("the tools file has %v", got)
	}
	if d.mode(p.File) != 0o640 || d.mode(p.Tools) != 0o600 || d.mode(done.Backup) != 0o640 || d.mode(filepath.Dir(done.Backup)) != 0o700 || d.read(done.Backup) != claudeFile {
		t.Errorf("modes %o %o %o, backup %s", d.mode(p.File), d.mode(p.Tools), d.mode(done.Backup), done.Backup)
	}

	if again := d.install(p, assistant.Options{Allow: []string{"files.*"}}); again.Changed || d.read(p.File) != want {
		t.Error("a second installation changed something")
	}
	if u := d.uninstall(p); !u.Exact || d.read(p.File) != claudeFile || d.mode(p.File) != 0o640 {
		t.Errorf("exact %v:\n%s", u.Exact, d.read(p.File))
	}
	if _, err := os.Stat(p.Tools); !os.IsNotExist(err) {
		t.Errorf("the tools file is still there: %v", err)
	}
	if u := d.uninstall(p); !u.Nothing {
		t.Error("there was something to uninstall twice")
	}
}

// VS Code's files have comments, another key, and questions that only the editor can ask.
func TestComments(t *testing.T) {
	d := newDesk(t)
	p := d.place("vscode", assistant.Project)
	const file = `// servers of the team
{
	"inputs": [{"id": "key", "type": "promptString"}],
	"servers": {
		// reads files
		"files": {
			"command": "node", // from the PATH
			"args": ["${workspaceFolder}/s.js",],
		},
		/* asks */ "asking": {"command": "x", "env": {"K": "${input:key}"}},
		"envs": {"command": "x", "envFile": ".env"},
	},
}
`
	d.write(p.File, file, 0o644)
	in, err := p.Plan(assistant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for _, s := range in.Servers {
		why[s.Name] = s.Kept
	}
	if why["files"] != "" || !strings.Contains(why["asking"], "${input:key}") || !strings.Contains(why["envs"], "envFile") {
		t.Errorf("%v", why)
	}
	d.install(p, assistant.Options{})
	want := `// servers of the team
{
	"inputs": [{"id": "key", "type": "promptString"}],
	"servers": {
		// reads files
		/* asks */ "asking": {"command": "x", "env": {"K": "${input:key}"}},
		"envs": {"command": "x", "envFile": ".env"},
		"agentkernel": {
			"type": "stdio",
			"command": "agentkernel",
			"args": [
				"mcp",
				"--minimal",
				"--project-tools",
				"${workspaceFolder}/agentkernel.mcp.json"
			]
		}
	},
}
`
	if got := d.read(p.File); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := d.servers(p.Tools, "mcpServers"); got["files"] != `{"args":["${workspaceFolder}/s.js"],"command":"node"}` || len(got) != 1 {
		t.Errorf("%v", got)
	}
	// Somebody adds a server and takes one away: what moved comes back beside it, with its comments.
	d.write(p.File, strings.Replace(d.read(p.File), `"envs": {"command": "x", "envFile": ".env"},`, `"own": {"url": "http://x/mcp"},`, 1), 0o644)
	u := d.uninstall(p)
	got := d.servers(p.File, "servers")
	if u.Exact || len(got) != 3 || got["own"] == "" || got["asking"] == "" || !strings.Contains(d.read(p.File), "// from the PATH") || !strings.Contains(d.read(p.File), "// reads files") {
		t.Errorf("exact %v:\n%s", u.Exact, d.read(p.File))
	}
}

// Where each client looks, by system and scope.
func TestWhereClientsLook(t *testing.T) {
	for name, c := range map[string]struct {
		goos, client string
		scope        assistant.Scope
		env          map[string]string
		file, tools  string
	}{
		"Claude Code":                 {"linux", "claude", assistant.User, nil, "/h/.claude.json", "/h/.config/agentkernel/mcp/claude.json"},
		"Claude Code elsewhere":       {"darwin", "claude", assistant.User, map[string]string{"CLAUDE_CONFIG_DIR": "/c"}, "/c/.claude.json", "/h/.config/agentkernel/mcp/claude.json"},
		"Claude Code, project":        {"linux", "claude", assistant.Project, nil, "/p/.mcp.json", "/p/agentkernel.mcp.json"},
		"Claude Desktop":              {"linux", "claude-desktop", assistant.User, nil, "/h/.config/Claude/claude_desktop_config.json", "/h/.config/agentkernel/mcp/claude-desktop.json"},
		"Claude Desktop, macOS":       {"darwin", "claude-desktop", assistant.User, nil, "/h/Library/Application Support/Claude/claude_desktop_config.json", "/h/.config/agentkernel/mcp/claude-desktop.json"},
		"Cursor":                      {"linux", "cursor", assistant.User, nil, "/h/.cursor/mcp.json", "/h/.config/agentkernel/mcp/cursor.json"},
		"Cursor, project":             {"linux", "cursor", assistant.Project, nil, "/p/.cursor/mcp.json", "/p/agentkernel.mcp.json"},
		"VS Code":                     {"linux", "vscode", assistant.User, nil, "/h/.config/Code/User/mcp.json", "/h/.config/agentkernel/mcp/vscode.json"},
		"VS Code, settings elsewhere": {"linux", "vscode", assistant.User, map[string]string{"XDG_CONFIG_HOME": "/x"}, "/x/Code/User/mcp.json", "/h/.config/agentkernel/mcp/vscode.json"},
		"VS Code, macOS":              {"darwin", "vscode", assistant.User, map[string]string{"XDG_CONFIG_HOME": "/x"}, "/h/Library/Application Support/Code/User/mcp.json", "/h/.config/agentkernel/mcp/vscode.json"},
		"VS Code, project":            {"linux", "vscode", assistant.Project, nil, "/p/.vscode/mcp.json", "/p/agentkernel.mcp.json"},
	} {
		host := assistant.Host{GOOS: c.goos, Home: "/h", Dir: "/p", Config: "/h/.config/agentkernel", Getenv: func(k string) string { return c.env[k] }}
		p, err := assistant.Find(host, c.client, c.scope, "")
		if err != nil || p.File != c.file || p.Tools != c.tools {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	host := assistant.Host{Home: "/h", Config: "/c", Getenv: func(string) string { return "" }}
	one, err1 := assistant.Find(host, "vscode", assistant.User, "/profile/mcp.json")
	two, err2 := assistant.Find(host, "vscode", assistant.User, "/other/mcp.json")
	if err1 != nil || err2 != nil || one.File != "/profile/mcp.json" || one.Tools == two.Tools || one.Tools == "/c/mcp/vscode.json" {
		t.Errorf("files that were named: %+v %v, %+v %v", one, err1, two, err2)
	}
}

// What only the client can start stays with it.
func TestWhatStaysWithTheClient(t *testing.T) {
	d := newDesk(t)
	for server, c := range map[string]struct{ user, project string }{
		`{"command": "x"}`: {"", ""},
		`{"url": "https://h/mcp", "headers": {"A": "b"}}`:         {"", ""},
		`{"command": "x", "args": ["${input:key}"]}`:              {"${input:key}", "${input:key}"},
		`{"command": "x", "env": {"A": "${command:y}"}}`:          {"${command:y}", "${command:y}"},
		`{"command": "x", "args": ["${workspaceFolder}/s.js"]}`:   {"${workspaceFolder}", ""},
		`{"command": "x", "envFile": ".env"}`:                     {"envFile", "envFile"},
		`{"url": "https://h/mcp", "oauth": {"clientId": "x"}}`:    {"logs in", "logs in"},
		`{"url": "https://h/mcp", "headersHelper": "./token.sh"}`: {"command of the client's", "command of the client's"},
		`{"command": "x", "sandbox": {}}`:                         {"sandbox of its own", "sandbox of its own"},
		`{"type": "sse", "url": "https://h/sse"}`:                 {"the transport of 2024", "the transport of 2024"},
		`{"args": ["x"]}`: {"neither", "neither"},
	} {
		for scope, want := range map[assistant.Scope]string{assistant.User: c.user, assistant.Project: c.project} {
			p := d.place("cursor", scope)
			d.write(p.File, `{"mcpServers": {"s": `+server+`, "mine": {"command": "m"}}}`, 0o600)
			in, err := p.Plan(assistant.Options{Keep: []string{"mine"}})
			if err != nil || len(in.Servers) != 2 {
				t.Fatal(in, err)
			}
			if kept := in.Servers[0].Kept; !strings.Contains(kept, want) || (want == "") != (kept == "") {
				t.Errorf("%s, %s: %q, want %q", server, scope, kept, want)
			}
			if in.Servers[1].Kept != "--keep" {
				t.Errorf("a server that --keep names: %q", in.Servers[1].Kept)
			}
		}
	}
}

// Servers that Claude Code has for one folder stay as they are, and that is said.
func TestServersOfOneFolder(t *testing.T) {
	d := newDesk(t)
	p := d.place("claude", assistant.User)
	local := `"projects": {"` + d.host.Dir + `": {"mcpServers": {"local": {"command": "l"}}}}`
	d.write(p.File, `{"mcpServers": {"a": {"command": "a"}}, `+local+`}`, 0o600)
	in, err := p.Plan(assistant.Options{})
	if err != nil || len(in.Servers) != 1 || len(in.Notes) != 1 || !strings.Contains(in.Notes[0], "for this folder alone") {
		t.Errorf("%+v %v", in, err)
	}
	if d.install(p, assistant.Options{}); !strings.Contains(d.read(p.File), local) {
		t.Error(d.read(p.File))
	}
}

func TestNothingThereBefore(t *testing.T) {
	d := newDesk(t)
	for _, p := range []*assistant.Place{d.place("cursor", assistant.User), d.place("cursor", assistant.Project), d.place("claude-desktop", assistant.User)} {
		d.install(p, assistant.Options{})
		if got := d.servers(p.File, p.Client.Key); len(got) != 1 {
			t.Errorf("%v", got)
		}
		if u := d.uninstall(p); !u.Exact {
			t.Error("not exact")
		}
		if _, err := os.Stat(p.File); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", p.File, err)
		}
	}
}

// A server that is added later moves with the next installation; what was moved first comes back too.
func TestInstallAgain(t *testing.T) {
	d := newDesk(t)
	p := d.place("cursor", assistant.User)
	d.write(p.File, `{"mcpServers": {"a": {"command": "a"}}}`, 0o600)
	d.install(p, assistant.Options{})
	text := d.read(p.File)
	d.write(p.File, strings.Replace(text, `{"mcpServers": {`, `{"theme": 1, "mcpServers": {"b": {"command": "b"}, `, 1), 0o600)
	d.install(p, assistant.Options{})
	if got := d.servers(p.File, "mcpServers"); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if got := d.servers(p.Tools, "mcpServers"); len(got) != 2 {
		t.Errorf("%v", got)
	}
	u := d.uninstall(p)
	got := d.servers(p.File, "mcpServers")
	if u.Exact || got["a"] != `{"command":"a"}` || got["b"] != `{"command":"b"}` || len(got) != 2 || !strings.Contains(d.read(p.File), `"theme": 1`) {
		t.Errorf("%s", d.read(p.File))
	}
}

// What the user wrote into the entry by hand stays, until an option says otherwise.
func TestEntryChangedByHand(t *testing.T) {
	d := newDesk(t)
	p := d.place("cursor", assistant.User)
	d.write(p.File, "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"a\"}\n  }\n}\n", 0o600)
	d.install(p, assistant.Options{})
	mine := strings.Replace(d.read(p.File), `"--minimal",`, `"--allow", "a.*",`, 1)
	d.write(p.File, mine, 0o600)
	if d.install(p, assistant.Options{}); d.read(p.File) != mine {
		t.Errorf("the user's change is gone:\n%s", d.read(p.File))
	}
	d.install(p, assistant.Options{Full: true})
	if got := d.servers(p.File, "mcpServers")["agentkernel"]; !strings.Contains(got, `"--allow","a.*"`) || strings.Contains(got, "--minimal") {
		t.Errorf("%s", got)
	}
}

// A second installation says less than the first: what it does not speak of stays, above all what was allowed.
func TestInstallAgainKeepsWhatWasSaid(t *testing.T) {
	for _, scope := range []assistant.Scope{assistant.User, assistant.Project} {
		d := newDesk(t)
		p := d.place("claude", scope)
		d.write(p.File, `{"mcpServers": {"a": {"command": "a"}}}`, 0o600)
		d.install(p, assistant.Options{Allow: []string{"a.write_*", "b"}, Full: true, Home: "/data"})
		first := d.read(p.File)
		if done := d.install(p, assistant.Options{}); done.Changed || d.read(p.File) != first {
			t.Errorf("%s: the second time made of it\n%s", scope, d.read(p.File))
		}
		d.install(p, assistant.Options{Allow: []string{"c"}})
		got := d.servers(p.File, "mcpServers")["agentkernel"]
		if !strings.Contains(got, `"--allow","c"`) || strings.Contains(got, "a.write_*") || strings.Contains(got, "--minimal") {
			t.Errorf("%s: what is named now counts alone: %s", scope, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	own := `{"mcpServers": {"agentkernel": {"command": "agentkernel", "args": ["mcp", "--tools", "/home/me/mcp.json"]}}}`
	for name, c := range map[string]struct {
		text, want string
		code       agentkernel.Code
	}{
		"no JSON":             {"{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"a\"\n  }\n", "line 5, column 1: the JSON ends too early", agentkernel.CodeInvalid},
		"a comma too few":     {"{\n  \"a\": 1\n  \"b\": 2\n}", "line 3, column 3", agentkernel.CodeInvalid},
		"servers are a list":  {`{"mcpServers": []}`, `line 1, column 16: "mcpServers" must be an object`, agentkernel.CodeInvalid},
		"a server twice":      {`{"mcpServers": {"a": {}, "a": {}}}`, `the key "a" stands there twice`, agentkernel.CodeInvalid},
		"an entry of its own": {own, "did not write", agentkernel.CodeConflict},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			p := d.place("claude", assistant.User)
			d.write(p.File, c.text, 0o600)
			_, err := p.Plan(assistant.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) || agentkernel.CodeOf(err) != c.code {
				t.Errorf("%v", err)
			}
			if d.read(p.File) != c.text {
				t.Error("the file was touched")
			}
			if _, err := os.Stat(d.host.Config); !os.IsNotExist(err) {
				t.Error("something was written")
			}
		})
	}
	d := newDesk(t)
	p := d.place("claude", assistant.User)
	d.write(p.File, claudeFile, 0o600)
	if _, err := p.Plan(assistant.Options{Keep: []string{"file"}}); err == nil || !strings.Contains(agentkernel.AsError(err, "", "").Hint, `"files"`) {
		t.Errorf("%v", err)
	}
	if _, err := assistant.Find(d.host, "emacs", assistant.User, ""); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		t.Errorf("%v", err)
	}
	if _, err := assistant.Find(d.host, "claude-desktop", assistant.Project, ""); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		t.Errorf("%v", err)
	}
}

// A server of the same name, written meanwhile, is not overwritten and not lost.
func TestUninstallConflict(t *testing.T) {
	d := newDesk(t)
	p := d.place("cursor", assistant.User)
	d.write(p.File, `{"mcpServers": {"a": {"command": "a"}}}`, 0o600)
	d.install(p, assistant.Options{})
	now := strings.Replace(d.read(p.File), `{"mcpServers": {`, `{"mcpServers": {"a": {"command": "other"}, `, 1)
	d.write(p.File, now, 0o600)
	tools := d.read(p.Tools)
	if _, err := p.PlanUninstall(); agentkernel.CodeOf(err) != agentkernel.CodeConflict || !strings.Contains(err.Error(), ": a;") {
		t.Errorf("%v", err)
	}
	if d.read(p.File) != now || d.read(p.Tools) != tools {
		t.Error("something was written")
	}
	d.write(p.File, "{broken", 0o600)
	if _, err := p.PlanUninstall(); agentkernel.CodeOf(err) != agentkernel.CodeInvalid || d.read(p.File) != "{broken" {
		t.Errorf("%v", err)
	}
	// Gone altogether: the original is the only thing that can be meant.
	if err := os.Remove(p.File); err != nil {
		t.Fatal(err)
	}
	if u := d.uninstall(p); !u.Exact || d.read(p.File) != `{"mcpServers": {"a": {"command": "a"}}}` {
		t.Errorf("%s", d.read(p.File))
	}
}

// The links of a project are whoever's who wrote it: one that leads out of it is not followed, neither to put servers of the project into
// a file of the user's own nor to move those of the user into the project.
func TestProjectThatLeadsOut(t *testing.T) {
	const own = `{"mcpServers": {"mine": {"command": "mine", "env": {"TOKEN": "s3cret-value"}}}}`
	const theirs = `{"mcpServers": {"nice": {"command": "sh", "args": ["-c", "evil"]}}}`
	for name, plant := range map[string]func(d *desk, p *assistant.Place, own string) (client string, err error){
		"its tools file": func(d *desk, p *assistant.Place, own string) (string, error) {
			d.write(p.File, theirs, 0o644)
			return "claude", os.Symlink(own, p.Tools)
		},
		"the client's file": func(_ *desk, p *assistant.Place, own string) (string, error) {
			return "claude", os.Symlink(own, p.File)
		},
		"a folder that has the file": func(_ *desk, p *assistant.Place, own string) (string, error) {
			return "cursor", errors.Join(os.Rename(own, filepath.Join(filepath.Dir(own), "mcp.json")), os.Symlink(filepath.Dir(own), filepath.Join(p.Folder, ".cursor")))
		},
		"a folder that has none": func(_ *desk, p *assistant.Place, own string) (string, error) {
			return "cursor", os.Symlink(filepath.Dir(own), filepath.Join(p.Folder, ".cursor"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			file := filepath.Join(d.host.Home, "private", "claude.json")
			d.write(file, own, 0o600)
			client, err := plant(d, d.place("claude", assistant.Project), file)
			if err != nil {
				t.Fatal(err)
			}
			p := d.place(client, assistant.Project)
			if _, err := p.Plan(assistant.Options{}); agentkernel.CodeOf(err) != agentkernel.CodeDenied || !strings.Contains(err.Error(), "out of the project") {
				t.Errorf("install: %v", err)
			}
			if _, err := p.PlanUninstall(); name != "its tools file" && agentkernel.CodeOf(err) != agentkernel.CodeDenied {
				t.Errorf("uninstall: %v", err)
			}
		})
	}
	t.Run("a link in the project", func(t *testing.T) {
		d := newDesk(t)
		p := d.place("claude", assistant.Project)
		d.write(filepath.Join(p.Folder, "etc", "mcp.json"), theirs, 0o644)
		if err := os.Symlink(filepath.Join("etc", "mcp.json"), p.File); err != nil {
			t.Fatal(err)
		}
		d.install(p, assistant.Options{})
		d.uninstall(p)
	})
}

// A dotfile that is a link stays one; what it leads to is replaced.
func TestLinkedDotfile(t *testing.T) {
	d := newDesk(t)
	p := d.place("claude", assistant.User)
	real := filepath.Join(d.host.Home, "dotfiles", "claude.json")
	d.write(real, claudeFile, 0o600)
	if err := os.Symlink(real, p.File); err != nil {
		t.Fatal(err)
	}
	d.install(p, assistant.Options{})
	if info, err := os.Lstat(p.File); err != nil || info.Mode()&os.ModeSymlink == 0 || !strings.Contains(d.read(real), `"agentkernel"`) {
		t.Errorf("%v %v", info, err)
	}
	if d.uninstall(p); d.read(real) != claudeFile {
		t.Error("not restored")
	}
	if err := os.Remove(real); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Plan(assistant.Options{}); err == nil || !strings.Contains(err.Error(), "leads nowhere") {
		t.Errorf("%v", err)
	}
}

// The client writes its file between plan and application: nothing of it is lost.
func TestWrittenMeanwhile(t *testing.T) {
	d := newDesk(t)
	p := d.place("claude", assistant.User)
	d.write(p.File, claudeFile, 0o600)
	in, err := p.Plan(assistant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(claudeFile, ": 3", ": 4", 1)
	d.write(p.File, newer, 0o600)
	if _, err := in.Apply(noon); agentkernel.CodeOf(err) != agentkernel.CodeConflict || d.read(p.File) != newer {
		t.Errorf("%v", err)
	}
	// It was cut off after the record was written: the next installation begins anew, and goes all the way back.
	d.write(p.File, claudeFile, 0o600)
	d.install(p, assistant.Options{})
	if u := d.uninstall(p); !u.Exact || d.read(p.File) != claudeFile {
		t.Errorf("%s", d.read(p.File))
	}
}

// What a tools file had before, or got afterwards, is never removed.
func TestToolsFileOfTheUser(t *testing.T) {
	d := newDesk(t)
	p := d.place("claude", assistant.Project)
	d.write(p.File, `{"mcpServers": {"a": {"command": "a"}}}`, 0o644)
	d.write(p.Tools, `{"mcpServers": {"mine": {"command": "m"}}}`, 0o644)
	d.install(p, assistant.Options{})
	if got := d.servers(p.Tools, "mcpServers"); len(got) != 2 || d.mode(p.Tools) != 0o644 {
		t.Errorf("%v", got)
	}
	if u := d.uninstall(p); len(u.Notes) != 1 || d.servers(p.Tools, "mcpServers")["mine"] == "" {
		t.Errorf("%v", u.Notes)
	}
}

func TestWhereServersStart(t *testing.T) {
	d := newDesk(t)
	p := d.place("claude", assistant.Project)
	tools, err := p.AsIfThere([]byte(`{"mcpServers": {"a": {"command": "${workspaceFolder}/a"}, "b": {"command": "b", "cwd": "sub"}, "c": {"url": "http://x"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	d.write(filepath.Join(d.host.Home, "t.json"), string(tools), 0o600)
	got := d.servers(filepath.Join(d.host.Home, "t.json"), "mcpServers")
	if got["a"] != `{"command":"`+d.host.Dir+`/a","cwd":"`+d.host.Dir+`"}` || got["b"] != `{"command":"b","cwd":"`+d.host.Dir+`/sub"}` || got["c"] != `{"url":"http://x"}` {
		t.Errorf("%v", got)
	}
}

// AgentKernel's settings were removed first: the entry that install wrote is recognised all the same and goes, the servers come back from
// the tools file if there is one, and what cannot be put back is said.
func TestAnEntryWithoutItsRecordIsRemoved(t *testing.T) {
	t.Parallel()
	const before = `{"theme": "dark", "mcpServers": {"gh": {"command": "gh-mcp", "cwd": "/srv", "env": {"TOKEN": "tok-1"}}}}`
	for name, c := range map[string]struct {
		gone     string
		restored int
		note     string
	}{
		"all settings": {"", 0, "cannot be put back"},
		"the record":   {"mcp/installed", 1, "as they stand there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			p := d.place("claude", assistant.User)
			d.write(p.File, before, 0o600)
			d.install(p, assistant.Options{})
			if err := os.RemoveAll(filepath.Join(d.host.Config, c.gone)); err != nil {
				t.Fatal(err)
			}
			u := d.uninstall(p)
			text := d.read(p.File)
			if u.Nothing || !u.Orphan || strings.Contains(text, `"agentkernel"`) || !strings.Contains(text, `"theme": "dark"`) {
				t.Errorf("%+v\n%s", u, text)
			}
			if len(u.Restored) != c.restored || strings.Contains(text, "tok-1") != (c.restored == 1) || !strings.Contains(strings.Join(u.Notes, "\n"), c.note) {
				t.Errorf("restored %v, notes %q\n%s", u.Restored, u.Notes, text)
			}
			if again := d.uninstall(p); !again.Nothing {
				t.Errorf("the second time: %+v", again)
			}
		})
	}
}

// An entry that somebody wrote by hand for another tools file is not taken for one of install's.
func TestAnEntryByHandIsNoOrphan(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := d.place("claude", assistant.User)
	const text = `{"mcpServers": {"agentkernel": {"command": "agentkernel", "args": ["mcp", "--tools", "/srv/mcp.json"]}}}`
	d.write(p.File, text, 0o600)
	if u := d.uninstall(p); !u.Nothing || d.read(p.File) != text {
		t.Errorf("%+v\n%s", u, d.read(p.File))
	}
}

// A server that is told a place in the folder that the client is opened in would be told the home directory if it moved for a user.
func TestServersWithRelativePathsStay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const file = `{"mcpServers": {
		"dot": {"command": "node", "args": ["fs.js", "."]},
		"flag": {"command": "x", "args": ["--root=../data"]},
		"own": {"command": "./server"},
		"sub": {"command": "x", "cwd": "./sub"},
		"placed": {"command": "node", "args": ["fs.js", "."], "cwd": "/srv"},
		"plain": {"command": "npx", "args": ["-y", "@scope/server", "-"]}}}`
	is := func(p *assistant.Place, want, startIn string) {
		t.Helper()
		d.write(p.File, file, 0o600)
		in, err := p.Plan(assistant.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var moves []string
		for _, s := range in.Servers {
			if s.Kept == "" {
				moves = append(moves, s.Name)
			} else if !strings.Contains(s.Kept, "the folder that the client is opened in") {
				t.Errorf("%s: %s", s.Name, s.Kept)
			}
		}
		if got := strings.Join(moves, " "); got != want || in.StartIn() != startIn {
			t.Errorf("%s: %s move and start in %q", p.Scope, got, in.StartIn())
		}
	}
	is(d.place("claude", assistant.User), "placed plain", d.host.Home)
	is(d.place("claude", assistant.Project), "dot flag own sub placed plain", "")
}
