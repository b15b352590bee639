package mcpserver

import (
	"strings"
	"testing"

	"agentkernel"
)

// A search that asks for nothing special says less of each further result; one that asks gets what it asked for.
func TestSearchSaysLessOfFurtherResults(t *testing.T) {
	tool := agentkernel.Tool{PythonServer: "fs", PythonName: "read", Signature: "read(path: str) -> str", Effect: agentkernel.EffectRead,
		Description: "Read a file. Slowly.", Doc: "Read a file. Slowly.\n\nArgs:\n    path: where"}
	for at, want := range []string{
		"from tools.fs import read\n  read(path: str) -> str  # read\n    Read a file. Slowly.\n    \n    Args:\n        path: where\n",
		"from tools.fs import read  # Read a file.\n  read(path: str) -> str  # read\n",
		"from tools.fs import read  # Read a file.\n  read(path: str) -> str  # read\n",
		"from tools.fs import read  # Read a file.\n  read(path: str) -> str  # read\n",
		"from tools.fs import read  # Read a file.\n",
		"from tools.fs import read  # Read a file.\n",
	} {
		if got := describe(&tool, detailOf("", at)).text(); got != want {
			t.Errorf("result %d: %q, not %q", at, got, want)
		}
		if got := describe(&tool, detailOf("name", at)).text(); got != "from tools.fs import read\n" {
			t.Errorf("result %d by name: %q", at, got)
		}
		if got := describe(&tool, detailOf("full", at)).text(); !strings.Contains(got, "path: where") {
			t.Errorf("result %d in full: %q", at, got)
		}
	}
}

// What results were seen to be stands in the signature where the server declares nothing, and nowhere else.
func TestSignatureOfWhatWasSeen(t *testing.T) {
	for _, c := range []struct {
		signature, schema string
		seen              *agentkernel.ToolShape
		want              string
	}{
		{"f() -> Any", "", nil, "f() -> Any"},
		{"f() -> Any", "", &agentkernel.ToolShape{Type: "list[dict]"}, "f() -> list[dict]"},
		{"f() -> Any", `{}`, &agentkernel.ToolShape{Type: "int"}, "f() -> Any"},
		{"f() -> dict[str, Any]", "", &agentkernel.ToolShape{Type: "int"}, "f() -> dict[str, Any]"},
	} {
		tool := agentkernel.Tool{Signature: c.signature, Observed: c.seen}
		if c.schema != "" {
			tool.OutputSchema = []byte(c.schema)
		}
		if got := describe(&tool, "signature").Signature; got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
