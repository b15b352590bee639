package workspace

import (
	"bytes"
	"encoding/json"
	"strings"

	"agentkernel/internal/jsonc"
)

// maxToolsFile is the largest file that is read as one of tools.
const maxToolsFile = 4 << 20

const startsServers = "it names tool servers, which are started"

// mayBeToolsFile looks at the beginning of a text: the most are not read any further. White space may be longer than that.
func mayBeToolsFile(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	return len(head) == 0 || head[0] == '{' || head[0] == '/'
}

// isToolsFile says whether a text is an MCP configuration file with servers in it. Its name says nothing: any file may be one that the
// user's settings name, and whoever writes it has commands started.
func isToolsFile(text []byte) bool {
	if !bytes.Contains(text, []byte("ervers")) && !bytes.Contains(text, []byte(`\u`)) { // as a key may be spelt, too
		return false
	}
	clean := jsonc.Plain(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	if !json.Valid(clean) {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(clean))
	if top, err := dec.Token(); err != nil || top != json.Delim('{') {
		return false
	}
	for dec.More() { // not a map: a key may be there twice
		key, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return false
		}
		if (key == "mcpServers" || key == "servers") && namesServer(value) {
			return true
		}
	}
	return false
}

// namesServer says whether one of the members of an object is a server: something that is started, or connected to.
func namesServer(list json.RawMessage) bool {
	var servers map[string]json.RawMessage
	if json.Unmarshal(list, &servers) != nil {
		return false
	}
	for _, s := range servers {
		var members map[string]json.RawMessage
		if json.Unmarshal(s, &members) != nil {
			continue
		}
		for name := range members {
			if strings.EqualFold(name, "command") || strings.EqualFold(name, "url") {
				return true
			}
		}
	}
	return false
}
