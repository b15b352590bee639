package template

import (
	"slices"
	"strings"

	"agentkernel"
)

// fileTool is a tool that reads text files, and the argument that takes the path.
type fileTool struct {
	agentkernel.Tool
	Path string // Python name of the path argument
}

var (
	readers    = []string{"read_text_file", "read_file", "get_file_contents"} // in order of preference
	pathNames  = []string{"path", "file", "filename", "file_path", "filepath", "file_name"}
	identifier = compile(`^[A-Za-z_]\w*$`)
)

// findReader gives the tool that reads text files: read-only, with one argument that it needs. Names that are no Python identifiers never
// get into a program.
func findReader(tools []agentkernel.Tool) (fileTool, bool) {
	for _, name := range readers {
		for _, t := range tools {
			if t.PythonName == name && t.Effect == agentkernel.EffectRead && identifier.MatchString(t.PythonServer) {
				if f, ok := asReader(t); ok {
					return f, true
				}
			}
		}
	}
	return fileTool{}, false
}

func asReader(t agentkernel.Tool) (fileTool, bool) {
	f := fileTool{Tool: t}
	for _, p := range t.Params {
		switch {
		case f.Path == "" && p.Type == "str" && slices.Contains(pathNames, strings.ToLower(p.Python)):
			f.Path = p.Python
		case p.Required:
			return f, false
		}
	}
	return f, f.Path != ""
}
