package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"agentkernel"
)

// strangersFolder makes a project beside a victim's files; a value "-> x" is a link, "= x" a second name of a file, "pipe" a pipe, "large" more than a
// program may have.
func strangersFolder(t *testing.T, tree map[string]string) (project string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree = maps.Clone(tree)
	tree["victim/id_rsa"], tree["victim/package.json"], tree["victim/deep/k.json"] = "secret", "secret", "secret"
	hard := map[string]string{}
	for name, what := range tree {
		if !strings.HasPrefix(name, "victim/") {
			name = "project/" + name
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		target, link := strings.CutPrefix(what, "-> ")
		switch {
		case link:
			err = os.Symlink(target, path)
		case strings.HasPrefix(what, "= "):
			hard[path] = filepath.Join(dir, "project", what[2:])
		case what == "pipe":
			err = syscall.Mkfifo(path, 0o600)
		case what == "large":
			if err = os.WriteFile(path, nil, 0o600); err == nil {
				err = os.Truncate(path, maxSource-10)
			}
		default:
			err = os.WriteFile(path, []byte(what), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, of := range hard {
		if err := os.Link(of, path); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "project")
}

// What files with keys hold.
const (
	addressWithToken = "[remote \"origin\"]\n\turl = https://bot:ghp_SECRETTOKEN@github.com/x/y\n"
	logWithToken     = "0 1 A <a@b> 1 +0000\tpull https://bot:ghp_SECRETTOKEN@github.com/x/y\n"
	toolsWithToken   = `{"mcpServers": {"a": {"command": "x", "env": {"KEY": "secret"}}}}`
)

// What a folder of a stranger's holds decides nothing about which files of the user its program is given.
func TestNodeFilesStayInTheFolder(t *testing.T) {
	for _, test := range []struct {
		name, file, source string
		tree               map[string]string
		tools              []string         // below the project
		code               agentkernel.Code // "": allowed
		says               string
		modules            string // names, sorted
		host               string // below the project
	}{
		{name: "imported link out", source: `if (0) require("./k.json")`, tree: map[string]string{"k.json": "-> ../victim/id_rsa"},
			code: agentkernel.CodeDenied, says: "project/k.json, which app.cjs needs, is a link that leads out"},
		{name: "keys", source: `if (0) require("./.env")`, tree: map[string]string{".env": "KEY=1"}, code: agentkernel.CodeDenied, says: "project/.env, which app.cjs needs, is a file in which keys"},
		{name: "keys, imported", source: `import k from "./conf/Credentials.json"`, tree: map[string]string{"conf/Credentials.json": "{}"}, code: agentkernel.CodeDenied, says: "keys or passwords"},
		{name: "keys, by their ending", source: `require("./token")`, tree: map[string]string{"token.json": "{}"}, code: agentkernel.CodeDenied, says: "token.json, which app.cjs needs"},
		{name: "keys, by a link", source: `require("./k.json")`, tree: map[string]string{"k.json": "-> sub/.npmrc", "sub/.npmrc": "t"}, code: agentkernel.CodeDenied, says: "k.json, which app.cjs needs, is a file in which keys"},
		{name: "keys, by a link's name", source: `require("./.env")`, tree: map[string]string{".env": "-> plain", "plain": "t"}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "keys, in a directory", source: `require("./.ssh/x")`, tree: map[string]string{".ssh/x": "t"}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "keys, of an import", source: `require("./b")`, tree: map[string]string{"b.js": `require("./.env.local")`, ".env.local": "t"}, code: agentkernel.CodeDenied, says: "which b.js needs"},
		{name: "no keys", source: `require("./secrets"); require("./.env.example"); require("./token.js")`, tree: map[string]string{"secrets.js": "1", ".env.example": "1", "token.js": "1"},
			modules: ".env.example secrets.js token.js"},
		{name: "git's config", source: "// import \"./.git/config\"", tree: map[string]string{".git/config": addressWithToken}, code: agentkernel.CodeDenied, says: "project/.git/config, which app.cjs needs, is a file in which keys"},
		{name: "git's config, by a link", source: `require("./cfg.js")`, tree: map[string]string{"cfg.js": "-> .git/config", ".git/config": addressWithToken}, code: agentkernel.CodeDenied, says: "cfg.js, which app.cjs needs"},
		{name: "git's config, in the program's folder", file: "x/.git/app.cjs", source: `require("./config")`, tree: map[string]string{"x/.git/config": addressWithToken}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "git's config, included", source: `require("./inc")`, tree: map[string]string{".git/config": "[include]\n path = ../inc\n", "inc": "[http]\n extraheader = Authorization: x\n"}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "git's config, apart", source: `require("./.bare/config")`, tree: map[string]string{".git": "gitdir: .bare", ".bare/config": addressWithToken}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "git's log", source: `require("./.git/logs/HEAD")`, tree: map[string]string{".git/logs/HEAD": logWithToken}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "git's log, of a branch called as a module", source: `require("./.git/logs/refs/heads/x.js")`, tree: map[string]string{".git/logs/refs/heads/x.js": logWithToken}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "git's last fetch", source: `require("./.git/FETCH_HEAD")`, tree: map[string]string{".git/FETCH_HEAD": logWithToken}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "pip's settings", source: `require("./pip.conf")`, tree: map[string]string{"pip.conf": "[global]\nindex-url = https://u:pw@host/simple\n"}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "settings below", source: `require("./sub/agentkernel.toml")`, tree: map[string]string{"sub/agentkernel.toml": "key = \"sk-ant-aaaaaaaaaaaaaaaaaaaaaaaa\"\n"}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "a copy of settings", source: `require("./pip.conf.bak")`, tree: map[string]string{"pip.conf.bak": "password = x\n"}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "tools file of the project", source: `import s from "./servers.json"`, tree: map[string]string{"agentkernel.toml": "tools = [\"servers.json\"]\n", "servers.json": toolsWithToken}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "tools file of a folder below", source: `require("./conf/s.json")`, tree: map[string]string{"sub/agentkernel.toml": "tools = [\"../conf/s.json\"]\n", "conf/s.json": toolsWithToken}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "tools file of the process", source: `require("./s.json")`, tree: map[string]string{"s.json": toolsWithToken}, tools: []string{"s.json"}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "tools file, called as code", source: `require("./s.js")`, tree: map[string]string{"s.js": toolsWithToken}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "code in a directory of keys", source: `require("./.ssh/x.js")`, tree: map[string]string{".ssh/x.js": "t"}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "what a key's name leads to", source: `require("./plain.json")`, tree: map[string]string{".env": "-> plain.json", "plain.json": "{}"}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "what a name of keys' directory leads to", source: `require("./k/plain.json")`, tree: map[string]string{".aws": "-> k", "k/plain.json": "{}"}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "a second name of a key", source: `require("./x.js")`, tree: map[string]string{".env": "K=1", "x.js": "= .env"}, code: agentkernel.CodeDenied, says: "keys"},
		{name: "settings without keys", source: `require("./.git/config"); require("./pip.conf"); require("./s.json"); require("./servers"); require("./.git/HEAD")`,
			tree: map[string]string{".git/config": "[remote \"origin\"]\n url = https://github.com/x/y\n", ".git/HEAD": "ref: x", "pip.conf": "[global]\ntimeout = 3\n",
				"s.json": toolsWithToken, "servers.json": `{"servers": {"eu": {"host": "x"}}}`, "agentkernel.toml": "tools = [\"other.json\"]\n"},
			modules: ".git/HEAD .git/config pip.conf s.json servers.json"},
		{name: "a second name of code", source: `require("./x.js")`, tree: map[string]string{"a.js": "1", "x.js": "= a.js"}, modules: "x.js"},
		{name: "absolute link", source: `require("./k")`, tree: map[string]string{"k": "-> /etc/passwd"}, code: agentkernel.CodeDenied, says: "leads out"},
		{name: "directory out", source: `require("./lib/k.json")`, tree: map[string]string{"lib": "-> ../victim/deep"}, code: agentkernel.CodeDenied, says: "leads out"},
		{name: "an import's import", source: `require("./b")`, tree: map[string]string{"b.cjs": `require("./k.json")`, "k.json": "-> ../victim/id_rsa"},
			code: agentkernel.CodeDenied, says: "which b.cjs needs"},
		{name: "package.json out", tree: map[string]string{"package.json": "-> ../victim/package.json"}, code: agentkernel.CodeDenied, says: "project/package.json, which app.cjs needs"},
		{name: "package.json endless", tree: map[string]string{"package.json": "-> /dev/zero"}, code: agentkernel.CodeDenied, says: "leads out"},
		{name: "package.json a pipe", tree: map[string]string{"package.json": "pipe"}, code: agentkernel.CodeInvalid, says: "not a regular file"},
		{name: "package.json a directory", tree: map[string]string{"package.json/x": "1"}, code: agentkernel.CodeInvalid, says: "not a regular file"},
		{name: "too much", source: `require("./a.json"); require("./b.json")`, tree: map[string]string{"a.json": "large", "b.json": "large"},
			code: agentkernel.CodeInvalid, says: "larger than 16 MB"},
		{name: "node_modules out", tree: map[string]string{"node_modules": "-> ../victim"}, code: agentkernel.CodeDenied, says: "project/node_modules is a link that leads out"},
		{name: "node_modules above out", file: "a/b/app.cjs", tree: map[string]string{"node_modules": "-> ../victim"}, code: agentkernel.CodeDenied, says: "leads out"},
		{name: "node_modules through a link", tree: map[string]string{"node_modules": "-> x/deep", "x": "-> ../victim"}, code: agentkernel.CodeDenied, says: "leads out"},
		{name: "textually out", source: `require("../victim/deep/k.json")`, code: agentkernel.CodeUnsupported, says: "outside of the program's directory"},

		{name: "nothing there", source: `require("./gone"); require("../gone")`},
		{name: "a pipe is no file", source: `require("./p")`, tree: map[string]string{"p": "pipe", "p.js": "1"}, modules: "p.js"},
		{name: "links that stay", source: `require("./k.json"); require("./lib/l")`,
			tree: map[string]string{"k.json": "-> data/k.json", "data/k.json": "{}", "lib": "-> src", "src/l.js": "1", "package.json": "{}"}, modules: "k.json lib/l.js package.json"},
		{name: "workspaces", file: "packages/a/app.cjs", tree: map[string]string{"node_modules/.pnpm/left/i.js": "1", "node_modules/left": "-> .pnpm/left",
			"node_modules/a": "-> ../packages/a"}, host: "node_modules"},
		{name: "node_modules elsewhere in the project", tree: map[string]string{"node_modules": "-> vendor/node_modules", "vendor/node_modules/left/i.js": "1"}, host: "vendor/node_modules"},
		{name: "node_modules that is git's", tree: map[string]string{"node_modules": "-> .git", ".git/config": addressWithToken}, code: agentkernel.CodeDenied, says: ".git, which is no node_modules"},
		{name: "node_modules that is the folder", tree: map[string]string{"node_modules": "-> ."}, code: agentkernel.CodeDenied, says: "which is no node_modules"},
		{name: "node_modules that is a directory", tree: map[string]string{"node_modules": "-> .config", ".config/x": "1"}, code: agentkernel.CodeDenied, says: "which is no node_modules"},
		{name: "node_modules above that is git's", file: "a/b/app.cjs", tree: map[string]string{"a/node_modules": "-> .git", "a/.git/config": addressWithToken}, code: agentkernel.CodeDenied, says: "which is no node_modules"},
		{name: "node_modules through another that is git's", tree: map[string]string{"node_modules": "-> x/node_modules", "x/node_modules": "-> ../.git", ".git/config": addressWithToken},
			code: agentkernel.CodeDenied, says: "which is no node_modules"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.tree == nil {
				test.tree = map[string]string{}
			}
			if test.file == "" {
				test.file = "app.cjs"
			}
			test.tree[test.file] = test.source
			project := strangersFolder(t, test.tree)
			p := agentkernel.Program{Name: "app.cjs", Source: test.source}
			for i, file := range test.tools {
				test.tools[i] = filepath.Join(project, file)
			}
			err := withNodeFiles(&p, filepath.Join(project, test.file), test.tools)
			var e *agentkernel.Error
			switch {
			case test.code == "" && err != nil:
				t.Fatal(err)
			case test.code != "":
				if !errors.As(err, &e) || e.Code != test.code || !strings.Contains(e.Message(), test.says) || e.Hint == "" {
					t.Errorf("%#v %v, want %s: %s", p, err, test.code, test.says)
				}
				return
			}
			host := ""
			if test.host != "" {
				host = filepath.Join(project, test.host)
			}
			if names := strings.Join(slices.Sorted(maps.Keys(p.Modules)), " "); names != test.modules || p.Host != host {
				t.Errorf("modules %q, packages %q; want %q, %q", names, p.Host, test.modules, host)
			}
		})
	}
}

// Local tools and the files of a Go module travel without being named, too.
func TestNoKeysTravelWithOtherPrograms(t *testing.T) {
	for name, tree := range map[string]map[string]string{
		"by a link":           {"tools/a/g.py": "-> ../../.env", ".env": "print('K')"},
		"in git's config":     {"tools/a/g.py": "-> ../../.git/config", ".git/config": addressWithToken},
		"in git's log":        {"tools/a": "-> ../.git/logs/refs/heads", ".git/logs/refs/heads/g.py": logWithToken},
		"in a directory":      {"tools/a/g.py": "-> ../../.secrets/g.py", ".secrets/g.py": "K = 1"},
		"in a tools file":     {"tools/a/g.py": "-> ../../servers.json", "servers.json": toolsWithToken, "agentkernel.toml": "tools = [\"servers.json\"]"},
		"in the user's tools": {"tools/a/g.py": "-> ../../servers.json", "servers.json": toolsWithToken},
		"in a file of tools":  {"tools/a/g.py": toolsWithToken},
		"under a second name": {"tools/a/g.py": "= .env", ".env": "K = 1"},
	} {
		modules, err := localModules(strangersFolder(t, tree))
		var e *agentkernel.Error
		if !errors.As(err, &e) || e.Code != agentkernel.CodeDenied || !strings.Contains(e.Message(), "tools/a/g.py, which a local tool needs, is a file in which keys") || e.Hint == "" {
			t.Errorf("local tool %s: %v %v", name, modules, err)
		}
	}
	if modules, err := localModules(strangersFolder(t, map[string]string{"tools/a/g.py": "-> ../../lib/secrets.py", "lib/secrets.py": "def g(): ...", "tools/a/config.py": "token = input()"})); err != nil || len(modules) != 2 {
		t.Errorf("local tools without keys: %v %v", modules, err)
	}
	_, err := goPackage(strangersFolder(t, map[string]string{"main.go": "package main", "go.mod": "module x", "old.git/logs/refs/heads/x.go": logWithToken}), nil)
	if agentkernel.CodeOf(err) != agentkernel.CodeDenied || !strings.Contains(err.Error(), "x.go, which the module needs, is a file in which keys") {
		t.Error(err)
	}
}

// A folder of Go files is bounded as a whole, and links in it are none of its files.
func TestGoFilesStayInTheFolder(t *testing.T) {
	p, err := goPackage(strangersFolder(t, map[string]string{"main.go": "package main", "k.go": "-> ../victim/id_rsa", "p.go": "pipe"}), nil)
	if err != nil || len(p.Modules) != 0 {
		t.Errorf("%v %v", p.Modules, err)
	}
	_, err = goPackage(strangersFolder(t, map[string]string{"main.go": "large", "b.go": "large"}), nil)
	if agentkernel.AsError(err, "", "").Code != agentkernel.CodeInvalid || !strings.Contains(err.Error(), "larger than 16 MB") {
		t.Error(err)
	}
}
