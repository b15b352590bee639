package e2e_test

import (
	"path/filepath"
	"testing"

	"agentkernel/internal/tool/tooltest"
)

// The four official servers in one program, beside one that dies in the middle of each call and one that never answers
// its handshake: what those two do is an error of theirs and of nobody else.
func TestMCPWithRealServers(t *testing.T) {
	files := t.TempDir()
	npm := func(name string, args ...string) tooltest.Server {
		return tooltest.Server{"command": "node", "args": append([]string{tooltest.NPM(t, "@modelcontextprotocol/server-"+name)}, args...)}.With("startTimeout", 60)
	}
	cfg := tooltest.Config(t, map[string]tooltest.Server{
		"filesystem": npm("filesystem", files),
		"everything": npm("everything"),
		"memory":     npm("memory").With("env", map[string]string{"MEMORY_FILE_PATH": filepath.Join(files, "memory.jsonl")}),
		"thinking":   npm("sequential-thinking"),
		"dying":      tooltest.Stdio(t),
		"hanging":    tooltest.Stdio(t, "-hang-start").With("startTimeout", 2),
	})
	cs := connectMCP(t, mcpConfig(openEmbedded(t, home(t)), cfg))
	tool(t, cs, "list_servers", nil, "tools.thinking")
	tool(t, cs, "execute_code", args{"code": `
from tools.filesystem import write_file, read_text_file
from tools.everything import get_sum
from tools.memory import create_entities, create_relations, read_graph
from tools.thinking import sequentialthinking
from tools.dying import crash

FOLDER = "` + files + `"
lost = 0
for n in range(3):
    write_file(FOLDER + "/" + str(n) + ".txt", get_sum(a=n, b=n))
    try:
        crash()
    except Exception as e:
        lost += 1
create_entities([{"name": "file " + str(n), "entityType": "file", "observations": [read_text_file(FOLDER + "/" + str(n) + ".txt")]} for n in range(3)])
create_relations([{"from": "file 0", "to": "file 1", "relationType": "precedes"}])
graph = read_graph()
thought = sequentialthinking(thought="count them", nextThoughtNeeded=False, thoughtNumber=1, totalThoughts=1)
print(len(graph["entities"]), len(graph["relations"]), graph["entities"][2]["observations"][0], thought["thoughtNumber"], lost)
`}, "3 1 The sum of 2 and 2 is 4. 1 3")
	tool(t, cs, "execute_code", args{"code": "from tools.hanging import add"}, "!did not answer the handshake within 2s")
	tool(t, cs, "get_server_tools", args{"server_name": "hanging"}, "!did not")
	tool(t, cs, "get_server_tools", args{"server_name": "dying"}, "append_line(")
	if got := tool(t, cs, "search_tools", args{"query": "create entities in the knowledge graph", "max_results": 1}, "create_entities"); len(got) == 0 {
		t.Error("no structured answer")
	}
}
