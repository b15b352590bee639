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

// strangersFolder makes a project beside a victim's files; a value "-> x" is a link, "pipe" a pipe, "large" more than a
// program may have.
func strangersFolder(t *testing.T, tree map[string]string) (project string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree = maps.Clone(tree)
	tree["victim/id_rsa"], tree["victim/package.json"], tree["victim/deep/k.json"] = "secret", "secret", "secret"
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
	return filepath.Join(dir, "project")
}

// What a folder of a stranger's holds decides nothing about which files of the user its program is given.
func TestNodeFilesStayInTheFolder(t *testing.T) {
	for _, test := range []struct {
		name, file, source string
		tree               map[string]string
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
		{name: "node_modules elsewhere in the project", tree: map[string]string{"node_modules": "-> vendor", "vendor/left/i.js": "1"}, host: "vendor"},
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
			err := withNodeFiles(&p, filepath.Join(project, test.file))
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
