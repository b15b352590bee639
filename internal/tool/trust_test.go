package tool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"agentkernel"
	"agentkernel/internal/regular"
	"agentkernel/internal/tool"
	"agentkernel/internal/tool/tooltest"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTrust(t *testing.T) {
	dir := t.TempDir()
	file, link, record := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "link.json"), filepath.Join(dir, "home", "trust.json")
	write(t, file, "{}")
	write(t, filepath.Join(dir, "home", "x"), "")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	check := func(path string, want bool) {
		t.Helper()
		content, err := tool.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tool.NewTrust(record).Accepted(tool.AsTools, path, content) // each time from the disk
		if err != nil || got != want {
			t.Fatalf("Accepted = %v, %v; want %v", got, err, want)
		}
	}
	check(file, false)
	if err := tool.NewTrust(record).Accept(tool.AsTools, link, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	check(file, true)
	check(link, true)
	write(t, file, `{"changed": 1}`)
	check(file, false)
	if err := tool.NewTrust(record).Accept(tool.AsTools, file, []byte(`{"changed": 1}`)); err != nil {
		t.Fatal(err)
	}
	write(t, file, "{}")
	check(file, false) // the earlier content does not come back
	if st, err := os.Stat(record); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("record: %v, %v", st.Mode(), err)
	}
	write(t, record, "not JSON")
	_, err := tool.NewTrust(record).Accepted(tool.AsTools, file, nil)
	wantCode(t, err, agentkernel.CodeCorrupt, "is damaged")
	_, err = tool.NewTrust(record).Accepted(tool.AsTools, filepath.Join(dir, "none"), nil)
	wantCode(t, err, agentkernel.CodeNotFound)
}

// TestTrustIsOfOneKind: what was accepted as rules starts no command, and what an earlier version has accepted, of which nobody knows as what, does not either.
func TestTrustIsOfOneKind(t *testing.T) {
	dir := t.TempDir()
	file, record := filepath.Join(dir, "AGENTS.md"), filepath.Join(dir, "trust.json")
	content := []byte(`{"mcpServers": {"evil": {"command": "/bin/false"}}}`)
	write(t, file, string(content))
	trust := tool.NewTrust(record)
	kinds := []tool.Kind{tool.AsTools, tool.AsRules, tool.AsLocal}
	for i, as := range kinds {
		if err := trust.Accept(as, file, content); err != nil {
			t.Fatal(err)
		}
		for j, other := range kinds {
			if got, err := trust.Accepted(other, file, content); err != nil || got != (j <= i) {
				t.Errorf("after %s: %s is %t, %v", as, other, got, err)
			}
		}
	}
	write(t, record, `{"accepted": {"`+file+`": ["`+tool.Digest(content)+`"]}}`)
	for _, as := range kinds {
		if got, err := trust.Accepted(as, file, content); err != nil || got {
			t.Errorf("an old record counts as %s: %v", as, err)
		}
	}
	wantCode(t, trust.Require(file, content), agentkernel.CodeDenied, "has not been accepted")
	// What was accepted for one project is not accepted for another, nor for the file's own; a process that is there goes on with it.
	if err := trust.In("/a").Accept(tool.AsTools, file, content); err != nil {
		t.Fatal(err)
	}
	for project, want := range map[string]bool{"/a": true, "/b": false, "": false} {
		if got, err := trust.In(project).Accepted(tool.AsTools, file, content); err != nil || got != want {
			t.Errorf("for %q: %t, %v", project, got, err)
		}
	}
	if err := trust.Require(file, content); err != nil {
		t.Error(err)
	}
}

func TestLocalModules(t *testing.T) {
	dir := t.TempDir()
	if got, err := tool.LocalModules(dir, regular.ReadIn); err != nil || len(got) != 0 {
		t.Fatalf("without a folder tools: %v, %v", got, err)
	}
	for name, content := range map[string]string{
		"report/monthly.py": "def monthly(): ...\n", "report/yearly.py": "\ufeffx = 1\n", "report/README.md": "no", "report/_helper.py": "no",
		"report/__init__.py": "", "_private/x.py": "no", ".git/x.py": "no", "notes.txt": "no", "report/sub/deep.py": "no",
	} {
		write(t, filepath.Join(dir, "tools", name), content)
	}
	got, err := tool.LocalModules(dir, regular.ReadIn)
	if err != nil || len(got) != 2 || got["tools.report.monthly"] != "def monthly(): ...\n" || got["tools.report.yearly"] != "x = 1\n" {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestLocalModulesRefuses(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.py")
	write(t, outside, "password = 1")
	for _, c := range []struct {
		name, file, content string
		code                agentkernel.Code
		says                []string
	}{
		{"name of a tool", "report/last-month.py", "", agentkernel.CodeInvalid, []string{`"last-month" cannot be imported`, `rename it to "last_month"`}},
		{"keyword", "report/import.py", "", agentkernel.CodeInvalid, []string{`rename it to "import_"`}},
		{"name of a server", "my-tools/x.py", "", agentkernel.CodeInvalid, []string{`"my-tools" cannot be imported`}},
		{"not UTF-8", "report/x.py", "\xff\xfe", agentkernel.CodeInvalid, []string{"tools/report/x.py", "not UTF-8"}},
		{"too large", "report/x.py", strings.Repeat("#", 1<<20+1), agentkernel.CodeInvalid, []string{"larger than 1 MB"}},
		{"a link out", "report/x.py", "->" + outside, agentkernel.CodeDenied, []string{"is a link that leads out"}},
		{"a folder linked out", "report", "->" + filepath.Dir(outside), agentkernel.CodeDenied, []string{"is a link that leads out"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "tools", c.file)
			if target, isLink := strings.CutPrefix(c.content, "->"); isLink {
				write(t, filepath.Join(filepath.Dir(path), "_"), "")
				if err := os.Symlink(target, path); err != nil {
					t.Fatal(err)
				}
			} else {
				write(t, path, c.content)
			}
			_, err := tool.LocalModules(dir, regular.ReadIn)
			wantCode(t, err, c.code, c.says...)
		})
	}
}

func TestLocalModulesAreBounded(t *testing.T) {
	large := strings.Repeat("#", 1<<20)
	for what, c := range map[string]struct {
		files   int
		content string
		says    string
	}{
		"1,000 files": {1000, "", ""}, "1,001 files": {1001, "", "or 1000 files"},
		"16 MB": {16, large, ""}, "17 MB": {17, large, "more than 16 MB"},
	} {
		dir := t.TempDir()
		for i := range c.files {
			write(t, filepath.Join(dir, "tools", "s"+strconv.Itoa(i%3), "f"+strconv.Itoa(i)+".py"), c.content)
		}
		got, err := tool.LocalModules(dir, regular.ReadIn)
		if c.says != "" {
			wantCode(t, err, agentkernel.CodeInvalid, c.says)
		} else if err != nil || len(got) != c.files {
			t.Errorf("%s: %d, %v", what, len(got), err)
		}
	}
}

// TestPinnedFiles: a file counts with the content that it had when it was named. A program that may write to the
// folder in which it lies could otherwise have any command started.
func TestPinnedFiles(t *testing.T) {
	before := map[string]tooltest.Server{"test": tooltest.Stdio(t)}
	path := tooltest.Config(t, before)
	content, err := tool.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pinned := agentkernel.PinFile(path, tool.Digest(content))
	hub := newHub(t, tool.Config{})
	src, err := hub.Set([]string{pinned})
	if err != nil {
		t.Fatal(err)
	}
	if got := src.(agentkernel.ToolDigester).Digests(); len(got) != 1 || got[path] != tool.Digest(content) {
		t.Errorf("digests %v", got)
	}
	started := filepath.Join(t.TempDir(), "started")
	tooltest.WriteConfig(t, path, map[string]tooltest.Server{"test": {"command": "/bin/false"}, "evil": tooltest.Stdio(t, "-start-log", started)})

	_, err = call(t, src, "evil", "echo", obj{"value": 1})
	wantCode(t, err, agentkernel.CodeNotFound)
	if got, err := call(t, src, "test", "add", obj{"a": 2, "b": 3}); err != nil || got != `{"sum":5}` {
		t.Errorf("the server that was named: %s %v", got, err)
	}
	again, err := hub.Set([]string{pinned}) // for the next call of the same process
	if err != nil {
		t.Fatal(err)
	}
	_, err = again.Tools(t.Context(), "evil")
	wantCode(t, err, agentkernel.CodeNotFound)

	_, err = newHub(t, tool.Config{}).Set([]string{pinned}) // another kernel, which never saw the old content
	wantCode(t, err, agentkernel.CodeDenied, "is not what it was", "agentkernel tools trust "+path)
	if _, err := os.Stat(started); err == nil {
		t.Error("the other server was started")
	}
	trust := tool.NewTrust(filepath.Join(t.TempDir(), "trust.json"))
	if content, err = tool.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if err := trust.Accept(tool.AsTools, path, content); err != nil {
		t.Fatal(err)
	}
	accepted, err := newHub(t, tool.Config{Changed: trust.Require}).Set([]string{pinned})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := accepted.Tools(t.Context(), "evil"); err != nil {
		t.Errorf("what the user has accepted: %v", err)
	}
	unpinned, err := hub.Set([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unpinned.Tools(t.Context(), "evil"); err != nil {
		t.Errorf("whoever names the file now means what it holds now: %v", err)
	}
}

func TestStrangeFiles(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, "/dev/zero", t.TempDir()} {
		_, err := newHub(t, tool.Config{}).Set([]string{path})
		wantCode(t, err, agentkernel.CodeInvalid, "not a regular file")
	}
}

// TestPreviewFolder: the folder that is shown is the one in which the server starts, with the names of variables for their values.
func TestPreviewFolder(t *testing.T) {
	values := map[string]string{"HOME": "/home/u", "ABS": "/srv/abs", "REL": "rel/ative", "TILDE": "~/t", "EMPTY": ""}
	lookup := func(name string) (string, bool) {
		v, ok := values[name]
		return v, ok
	}
	for cwd, want := range map[string]string{
		"":                            "/p",
		"z":                           "/p/z",
		"/z":                          "/z",
		"~":                           "${HOME}",
		"~/":                          "${HOME}",
		"~/z":                         "${HOME}/z",
		"~/../z":                      "${HOME}/../z",
		"~user/z":                     "/p/~user/z",
		"${userHome}":                 "${HOME}",
		"${userHome}/x":               "${HOME}/x",
		"${HOME}":                     "${HOME}",
		"${env:HOME}/../../x":         "${HOME}/../../x",
		"${workspaceFolder}":          "/p",
		"${workspaceFolder}/x":        "/p/x",
		"${ABS}/x":                    "${ABS}/x",
		"${REL}/x":                    "/p/${REL}/x",
		"${REL}/../x":                 "/p/${REL}/../x",
		"${TILDE}/x":                  "${TILDE}/x",
		"${EMPTY}/x":                  "/x",
		"${EMPTY}x":                   "/p/x",
		"x/${ABS}":                    "/p/x/${ABS}",
		"${NONE:-/d}/x":               "/d/x",
		"${NONE:-d}/x":                "/p/d/x",
		"${NONE:-$}{HOME}/x":          "/p/${HOME}/x", // the braces are a folder's name
		"${OTHER}/x":                  "${OTHER}/x",
		"x/../${OTHER}":               "/p/x/../${OTHER}",
		"~/${OTHER}":                  "~/${OTHER}",
		"${workspaceFolder}/${OTHER}": "${workspaceFolder}/${OTHER}",
	} {
		file := fmt.Sprintf(`{"mcpServers":{"a":{"command":"x","cwd":%q}}}`, cwd)
		lines, err := tool.Preview("/p/mcp.json", []byte(file), lookup)
		if err != nil || len(lines) != 1 || !strings.HasSuffix(lines[0], fmt.Sprintf(`["x"] in %q`, want)) {
			t.Errorf("%q: %q %v, want %q", cwd, lines, err, want)
		}
	}
	lines, err := tool.Preview("/p/mcp.json", []byte(`{"mcpServers":{"a":{"command":"~/../x","args":["${OTHER}"]}}}`), lookup)
	if text := strings.Join(lines, "\n"); err != nil || !strings.HasSuffix(text, `["~/../x" "${OTHER}"] in "/p"`) {
		t.Errorf("%s %v", text, err)
	}
}

// TestPreview: what is shown before a file is accepted is what would be started.
func TestPreview(t *testing.T) {
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"TOKEN": "hunter2hunter2", "EMPTY": "", "HOME": "/home/u"}[name]
		return v, ok
	}
	for _, c := range []struct {
		name, file string
		want       []string
	}{
		{"two keys", `{"mcpServers":{"a":{"command":"ls"}},"servers":{"b":{"command":"sh","args":["-c","evil"]}}}`, []string{`"a": ["ls"]`, `"b": ["sh" "-c" "evil"]`}},
		{"the first of two counts", `{"mcpServers":{"a":{"command":"evil"}},"mcpServers":{"a":{"command":"ls"}}}`, []string{`"a": ["evil"]`}},
		{"comments", "{// nothing to see\n\"mcpServers\":{\"a\":{\"command\":\"evil\",},},}", []string{`"a": ["evil"]`}},
		{"another case", `{"mcpServers":{"a":{"command":"ls","COMMAND":"evil"}}}`, []string{`"a": nothing, for now: `, `there is no field`}},
		{"what the command loads", `{"mcpServers":{"a":{"command":"ls","env":{"LD_PRELOAD":"./evil.so","API_KEY":"x"}}}}`, []string{`"API_KEY"=(hidden)`, `"LD_PRELOAD"="./evil.so"`}},
		{"where it runs", `{"mcpServers":{"a":{"command":"./x","cwd":"/tmp/evil"}}}`, []string{`["./x"] in "/tmp/evil"`}},
		{"a fallback", `{"mcpServers":{"a":{"command":"${NONE:-evil}","args":["${EMPTY:-worse}","${TOKEN:-x}"]}}}`, []string{`["evil" "worse" "${TOKEN}"]`}},
		{"an address with a secret", `{"mcpServers":{"a":{"url":"https://x/?t=${TOKEN}","headers":{"X":"${TOKEN}"}}}}`, []string{`connects to "https://x/?t=${TOKEN}" with "X" of ${TOKEN}`}},
		{"a header takes a secret along", `{"mcpServers":{"a":{"url":"https://x","headers":{"Accept-Language":"en;${TOKEN}${env:HOME}${TOKEN}","B":"Bearer hunter2hunter2"}}}}`,
			[]string{`with "Accept-Language" of ${TOKEN}, ${HOME} with "B"`}},
		{"a hidden variable has another's value", `{"mcpServers":{"a":{"command":"ls","env":{"API_KEY":"hunter2-${TOKEN}"}}}}`, []string{`"API_KEY"=(hidden, of ${TOKEN})`}},
		{"what moves the cursor", `{"mcpServers":{"a\u001b[2K":{"command":"ls\u001b[1A\r","args":["\u202e"]}}}`, []string{`"a\x1b[2K": ["ls\x1b[1A\r" "\u202e"]`}},
		{"what cannot be used", `{"mcpServers":{"a":{"command":3}}}`, []string{`"a": nothing, for now: `}},
		{"what waits for a variable", `{"mcpServers":{"a":{"command":"sh","args":["-c","evil","${NONE}"],"env":{"API_KEY":"x"}}}}`,
			[]string{`"a": nothing, for now: `, `NONE is not set`, `; then it is ["sh" "-c" "evil" "${NONE}"]`, `"API_KEY"=(hidden)`}},
		{"an address that is none", `{"mcpServers":{"a":{"url":"127.0.0.1:9/mcp"}}}`,
			[]string{`"a": nothing, for now: "url" is not an http or https address; then it connects to "127.0.0.1:9/mcp"`}},
		{"disabled", `{"mcpServers":{"a":{"command":"ls","disabled":true}}}`, []string{`"a": nothing, it is disabled: ["ls"]`}},
	} {
		lines, err := tool.Preview("/p/mcp.json", []byte(c.file), env)
		text := strings.Join(lines, "\n")
		if err != nil || strings.Contains(text, "hunter2") || strings.ContainsAny(text, "\x1b\r\u202e") {
			t.Errorf("%s: %q %v", c.name, text, err)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s does not say %s", c.name, text, want)
			}
		}
		if len(c.want) == 1 && len(lines) != 1 {
			t.Errorf("%s: %s", c.name, text)
		}
	}
}
