package tool_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/tool"
	"agentkernel/internal/tool/tooltest"
)

func TestRealFilesystemServer(t *testing.T) {
	script := tooltest.NPM(t, "@modelcontextprotocol/server-filesystem")
	dir := t.TempDir()
	src := open(t, tool.Config{}, map[string]tooltest.Server{"filesystem": {"command": "node", "args": []string{script, dir}}})
	tools := checkTools(t, src, "filesystem")
	for name, want := range map[string]string{
		"read_text_file": "read_text_file(path: str, tail: float | None = None, head: float | None = None) -> str",
		"edit_file":      "edit_file(path: str, edits: list[dict[str, Any]], dryRun: bool = False) -> str",
		"list_directory": "list_directory(path: str) -> str",
	} {
		if got := tools[name].Signature; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	for name, want := range map[string]agentkernel.Effect{"read_text_file": agentkernel.EffectRead,
		"write_file": agentkernel.EffectIdempotent, "edit_file": agentkernel.EffectWrite} {
		if got := tools[name].Effect; got != want {
			t.Errorf("%s: effect %s, want %s", name, got, want)
		}
	}
	path := filepath.Join(dir, "a.txt")
	for _, c := range []struct {
		tool string
		args obj
		want string
	}{
		{"write_file", obj{"path": path, "content": "one\ntwo\n"}, "Successfully wrote"},
		{"read_text_file", obj{"path": path}, `"one\ntwo\n"`},
		{"read_text_file", obj{"path": path, "head": 1, "tail": nil}, `"one"`},
		{"list_directory", obj{"path": dir}, "[FILE] a.txt"},
		{"list_allowed_directories", obj{}, dir},
	} {
		got, err := call(t, src, "filesystem", c.tool, c.args)
		if err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, %v; want %s", c.tool, got, err, c.want)
		}
	}
	_, err := call(t, src, "filesystem", "read_text_file", obj{"path": "/etc/passwd"})
	wantCode(t, err, agentkernel.CodeTool, "outside allowed directories")
	_, err = call(t, src, "filesystem", "read_text_file", obj{"file": path})
	wantCode(t, err, agentkernel.CodeInvalid, `no argument "file"`, "expected read_text_file(path: str")
	_, err = call(t, src, "filesystem", "readfile", obj{"file": path})
	wantCode(t, err, agentkernel.CodeNotFound, "did you mean read_file")
}

func TestRealEverythingServer(t *testing.T) {
	script := tooltest.NPM(t, "@modelcontextprotocol/server-everything")
	src := open(t, tool.Config{}, map[string]tooltest.Server{"everything": {"command": "node", "args": []string{script, "stdio"}}})
	tools := checkTools(t, src, "everything")
	if got := tools["get_sum"].Signature; got != "get_sum(a: float, b: float) -> Any" {
		t.Errorf("%s", got)
	}
	for _, c := range []struct {
		tool string
		args obj
		want string
	}{
		{"echo", obj{"message": "hi"}, "Echo: hi"},
		{"get_sum", obj{"a": 2, "b": 3}, "5"},
		{"get_structured_content", obj{"location": "New York"}, `"temperature":`},
		{"get_tiny_image", obj{}, `"data":{"$bytes":"iVBORw0KGgo`},
		{"get_resource_links", obj{"count": 2}, `"type":"resource_link"`},
		{"get_resource_reference", obj{"resourceType": "Blob"}, `{"$bytes":"`},
	} {
		got, err := call(t, src, "everything", c.tool, c.args)
		if err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %.300s, %v; want %s", c.tool, got, err, c.want)
		}
	}
	_, err := call(t, src, "everything", "get_structured_content", obj{"location": "Paris"})
	wantCode(t, err, agentkernel.CodeInvalid, `argument "location" does not fit`, "Literal['New York', 'Chicago', 'Los Angeles']")
	if got, err := call(t, src, "everything", "get_env", obj{}); err != nil || strings.Contains(got, "GOPATH") {
		t.Errorf("environment: %s, %v", got, err)
	}
}

// checkTools has Python parse every signature and gives the tools by Python name.
func checkTools(t *testing.T, src agentkernel.ToolSource, server string) map[string]agentkernel.Tool {
	t.Helper()
	tools, err := src.Tools(context.Background(), server)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]agentkernel.Tool{}
	var source strings.Builder
	source.WriteString("from typing import Any, Literal\n")
	for _, x := range tools {
		out[x.PythonName] = x
		source.WriteString("def " + x.Signature + ":\n    " + quotePython(x.Doc) + "\n")
		if x.Doc == "" || !slices.Equal(optionalLast(x.Params), x.Params) {
			t.Errorf("%s: doc %q, params %+v", x.Name, x.Doc, x.Params)
		}
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Log("PYTHON3 IS MISSING: SIGNATURES ARE NOT PARSED")
		return out
	}
	cmd := exec.Command(python, "-")
	cmd.Stdin = strings.NewReader(source.String())
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil { // it runs them, too: annotations and defaults are evaluated
		t.Errorf("the stubs of %s are no Python: %v\n%s", server, err, source.String())
	}
	return out
}

func quotePython(s string) string {
	return `"""` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"""`
}

func optionalLast(params []agentkernel.ToolParam) []agentkernel.ToolParam {
	sorted := slices.Clone(params)
	slices.SortStableFunc(sorted, func(a, b agentkernel.ToolParam) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	return sorted
}
