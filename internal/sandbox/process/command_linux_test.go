package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
)

// executableFile writes a script that can be executed, and gives its path.
func executableFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// A command that Host names runs where the sandbox has it: in the system's directories, or in the workspace, with what
// lies beside it. What is nowhere in the sandbox is shown by itself.
func TestCommandsRunInTheirPlace(t *testing.T) {
	mounts, host := folders(t)
	tool := executableFile(t, host["w"], "bin/tool", "#!/bin/sh\necho \"$0\"\n. \"${0%/*}/lib.sh\"\n")
	executableFile(t, host["w"], "bin/lib.sh", "echo neighbour\n")
	system, err := filepath.EvalSymlinks("/usr/bin/env")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		p      agentkernel.Program
		mounts []agentkernel.Mount
		path   string // what is executed
		out    string // how the output begins
	}{
		{"system", agentkernel.Program{Source: "env", Host: system}, nil, system, "PATH="},
		{"workspace", agentkernel.Program{Source: "/workspace/bin/tool", Host: tool}, mounts, "/workspace/bin/tool", "/workspace/bin/tool\nneighbour\n"},
		{"no workspace", agentkernel.Program{Source: "/workspace/bin/tool", Host: tool}, nil, "/program/tool", "/program/tool\n"},
		{"elsewhere", agentkernel.Program{Source: "./tool", Host: tool}, mounts, "/program/tool", "/program/tool\n"},
	} {
		c.p.Language, c.p.Name = agentkernel.Command, "tool"
		r, turn, err := wholeRun(t, c.p, func(r *run) { r.req.Mounts = c.mounts })
		if err != nil || turn.Kind != agentkernel.TurnExit || !strings.HasPrefix(r.out.String(), c.out) {
			t.Errorf("%s: %+v %v %q, want %q", c.name, turn, err, r.out.String(), c.out)
		}
		w, ok := r.box.(*whole)
		if !ok {
			t.Fatalf("%s: not ours", c.name)
		}
		shown := len(w.recipe.mounts) > 0
		if w.recipe.program.Path != c.path || shown != strings.HasPrefix(c.path, programDir) {
			t.Errorf("%s: %s, shown by itself: %t", c.name, w.recipe.program.Path, shown)
		}
	}
}

// A script whose interpreter no sandbox has is refused with both, before it starts.
func TestCommandsNeedTheirInterpreter(t *testing.T) {
	dir := t.TempDir()
	for line, want := range map[string]string{
		"#!/opt/nosuch/python":     "line 1 of tool: the interpreter /opt/nosuch/python is not in the sandbox",
		"#!/usr/bin/env nosuch":    "line 1 of tool: there is no nosuch on the PATH of a sandbox",
		"#! /bin/sh -e":            "",
		"#!/usr/bin/env -S awk -f": "",
		"#!/workspace/bin/perl":    "",
	} {
		file := executableFile(t, dir, "tool", line+"\n")
		_, err := sharedBackend(t).Check(agentkernel.Program{Name: "tool", Language: agentkernel.Command, Source: "./tool", Host: file})
		if want == "" && err != nil || want != "" && (agentkernel.CodeOf(err) != agentkernel.CodeNotFound || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// A script for Node finds the one that programs in Node have, where it is none of the system's.
func TestCommandsFindNode(t *testing.T) {
	b := newBackend(t, func(c *Config) {
		c.Node = executableFile(t, t.TempDir(), "node", "#!/bin/sh\nprintf 'v20.0.0 %s' \"$0\"\n")
	})
	file := executableFile(t, t.TempDir(), "tool", "#!/usr/bin/env node\n")
	r, err := b.commandRecipe(agentkernel.Program{Name: "tool", Language: agentkernel.Command, Source: "./tool", Host: file})
	if err != nil || len(r.mounts) != 2 || r.mounts[0] != (confine.Mount{Source: b.node.file, Target: commandDir + "/node"}) {
		t.Errorf("%+v %v", r, err)
	}
}
