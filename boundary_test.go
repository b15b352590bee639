package agentkernel_test

import (
	"strings"
	"testing"

	"agentkernel"
)

// Each language has words of its own for what a sandbox does not have.
func TestBoundary(t *testing.T) {
	python, node, shell := agentkernel.Spec{}, agentkernel.Spec{}, agentkernel.Spec{}
	python.Program.Language, node.Program.Language, shell.Program.Language = agentkernel.Python, agentkernel.Node, agentkernel.Command
	folder := python
	folder.Workspace = &agentkernel.Workspace{Path: "/home/me/data"}
	temporary, volume := python, python
	temporary.Workspace = &agentkernel.Workspace{Path: "/tmp/d"}
	volume.Volumes = []agentkernel.Volume{{Name: "raw", Path: "/srv/raw"}}
	for _, c := range []struct {
		name string
		spec agentkernel.Spec
		text string
		says string // "": nothing
	}{
		{"resolver", python, "socket.gaierror: [Errno -2] Name or service not known", "from kernel import http"},
		{"socket", python, "  File \"/usr/lib/python3.11/socket.py\", line 232, in __init__\n    _socket.socket.__init__(self)\nPermissionError: [Errno 1] Operation not permitted", "--allow-host"},
		{"fetch", node, "TypeError: fetch failed\n    at async b.mjs:1:11", `import { http } from "kernel"`},
		{"Node's package", node, "Error: Cannot find package 'left-pad' imported from app.mjs", "there is none: npm install left-pad"},
		{"another package", agentkernel.Spec{Program: agentkernel.Program{Language: agentkernel.Node, Host: "/p/node_modules"}}, "Error: Cannot find module 'left-pad'\nRequire stack:", "/p/node_modules, which lacks it"},
		{"a file of Node's", node, "Error: Cannot find module './x.mjs'", ""},
		{"curl", shell, "curl: (6) Could not resolve host: example.org", "kernel call http.fetch"},
		{"git", shell, "fatal: unable to access 'https://example.org/x/': Could not resolve host: example.org", "kernel call http.fetch"},
		{"file", python, "FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'", "--workspace DIR"},
		{"read-only", python, "OSError: [Errno 30] Read-only file system: '/etc/x'", "--workspace DIR"},
		{"Monty", python, "PermissionError: permission_denied: this sandbox has no files\nopen('/tmp/x')", "--workspace DIR"},
		{"Node's file", node, "Error: ENOENT: no such file or directory, open 'data.csv'", "--workspace DIR"},
		{"cat", shell, "cat: /home/me/x: No such file or directory", "--workspace DIR"},
		{"outside of its folder", folder, "FileNotFoundError: [Errno 2] No such file or directory: '/home/me/other/a.csv'", "inside, the workspace is the folder /workspace"},
		{"its folder's path of the host", folder, "FileNotFoundError: [Errno 2] No such file or directory: '/home/me/data/in/a.csv'", "the folder /home/me/data is /workspace inside, and the working directory: the file is 'in/a.csv' there"},
		{"its folder's path below /tmp", temporary, "FileNotFoundError: [Errno 2] No such file or directory: '/tmp/d/a.csv'", "the file is 'a.csv' there"},
		{"its folder by name", folder, "FileNotFoundError: [Errno 2] No such file or directory: 'data/a.csv'", "the folder data is itself the working directory, /workspace: the file is 'a.csv' there"},
		{"its folder in a shell", folder, "cat: /home/me/data/a.csv: No such file or directory", "the file is 'a.csv' there"},
		{"its folder in Node", folder, "Error: ENOENT: no such file or directory, open 'data/a.csv'", "the file is 'a.csv' there"},
		{"its volume", volume, "FileNotFoundError: [Errno 2] No such file or directory: '/srv/raw/x/a.csv'", "/srv/raw is /volumes/raw inside: the file is '/volumes/raw/x/a.csv'"},

		{"input", python, "Traceback:\nEOFError: EOF when reading a line", "sys.argv"},
		{"input that has ended", agentkernel.Spec{Stdin: "/in"}, "EOFError: EOF when reading a line", ""},
		{"sleep", python, "NameError: name 'sleep' is not defined", "from kernel import sleep"},
		{"state", python, "NameError: name 'state' is not defined. Did you mean: 'static'?", "from kernel import state"},
		{"Python's http", python, "AttributeError: module 'http' has no attribute 'fetch'", "from kernel import http, not import http"},
		{"nobody's attribute", python, "AttributeError: module 'http' has no attribute 'get'", ""},
		{"a name of its own", python, "NameError: name 'stat' is not defined", ""},

		{"not in its folder", folder, "FileNotFoundError: [Errno 2] No such file or directory: 'a.csv'", ""},
		{"in its own /tmp", python, "FileNotFoundError: [Errno 2] No such file or directory: '/tmp/a.csv'", ""},
		{"a tool's file", python, "RuntimeError: tool_error: ENOENT: no such file or directory, open '/data/x'", ""},
		{"a command that is not there", python, "  File \"/usr/lib/python3.11/subprocess.py\", line 1950\nFileNotFoundError: [Errno 2] No such file or directory: 'ffmpeg'", ""},
		{"Node's command", node, "Error: spawn ffmpeg ENOENT: no such file or directory", ""},
		{"of its own", python, "ZeroDivisionError: division by zero", ""},
	} {
		if got := c.spec.Boundary(c.text); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// Whoever misspells a module of the sandbox is not sent to a registry, where anyone may have taken the name.
func TestBoundaryInstallsNothingForOwnModules(t *testing.T) {
	node := agentkernel.Spec{Program: agentkernel.Program{Language: agentkernel.Node}}
	for _, name := range []string{"tools", "tools/github", "tool", "agentkernel", "agentkernel/tools", "@agentkernel/tools", "@agentkernel/kernel/x", "agent-kernel", "agentkernel-sdk",
		"agentkernal", "kernal", "kernels", "kenrel", "Kernel", "kernl", "@kernel/state", "skills", "skills/report"} {
		for _, text := range []string{"Error [ERR_MODULE_NOT_FOUND]: Cannot find package '" + name + "' imported from app.mjs", "Error: Cannot find module '" + name + "'\nRequire stack:"} {
			got := node.Boundary(text)
			if strings.Contains(got, "install") || !strings.Contains(got, `import { sleep } from "kernel"`) && !strings.Contains(got, "skills are Python") {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
	for name, installs := range map[string]string{"left-pad": "left-pad", "karma": "karma", "devtools": "devtools", "lodash/fp": "lodash", "@babel/core": "@babel/core", "@babel/core/lib/x": "@babel/core"} {
		if got := node.Boundary("Error: Cannot find module '" + name + "'"); !strings.HasSuffix(got, ": npm install "+installs) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A move is of interest only if something else came of it.
func TestReceiptTellsOfAMoveThatMattered(t *testing.T) {
	p := agentkernel.Process{State: agentkernel.StateFailed, Backend: "process", Moved: &agentkernel.Move{From: "monty", Why: "KeyError: x"},
		Error: &agentkernel.Error{Code: agentkernel.CodeProgram, Exception: "KeyError"}}
	if got := p.Receipt(); strings.Contains(got, "moved") {
		t.Errorf("%s", got)
	}
	p.Error.Exception = "OSError"
	if got := p.Receipt(); !strings.Contains(got, "moved from monty to process: KeyError: x") {
		t.Errorf("%s", got)
	}
	p.State, p.Error = agentkernel.StateExited, nil
	if got := p.Receipt(); !strings.Contains(got, "moved from monty") {
		t.Errorf("%s", got)
	}
}

func TestLeftBehindSaysThatThereIsMore(t *testing.T) {
	p := agentkernel.Process{Left: []string{"0", "1", "2", "3", "4"}}
	if text := p.LeftBehind(); strings.Contains(text, "more") {
		t.Errorf("five files: %s", text)
	}
	p.Left = append(p.Left, "5")
	if text := p.LeftBehind(); !strings.Contains(text, `"4", and more;`) || strings.Contains(text, `"5"`) {
		t.Errorf("six files: %s", text)
	}
}
