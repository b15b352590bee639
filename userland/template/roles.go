package template

import (
	"slices"
	"strings"
	"unicode"

	"agentkernel"
)

// fileTool is a tool that plays a part in the file recipes, and the argument that takes the path.
type fileTool struct {
	agentkernel.Tool
	Path    string // Python name of the path argument
	Pattern string // Python name of the pattern argument, of a tool that searches
}

// role describes a part: words of the tool's name that it needs (one of each group) and that rule it out.
type role struct {
	needs   [][]string
	without []string
	best    []string // names in order of preference
	pattern bool
}

var (
	reads = role{needs: [][]string{{"read", "get", "load", "cat", "open"}, {"file", "text", "content"}},
		without: []string{"multiple", "media", "binary", "image", "info", "metadata", "tree", "allowed", "env"},
		best:    []string{"read_text_file", "read_file", "get_file_contents"}}
	lists = role{needs: [][]string{{"list", "ls", "read"}, {"directory", "dir", "file", "folder"}},
		without: []string{"size", "allowed", "tree", "text", "multiple"},
		best:    []string{"list_directory", "list_files", "list_dir"}}
	searches = role{needs: [][]string{{"search", "find", "glob"}, {"file"}}, without: []string{"replace"},
		best: []string{"search_files", "find_files"}, pattern: true}
)

var pathNames = []string{"path", "file", "filename", "file_path", "filepath", "file_name", "directory", "dir", "folder", "dir_path", "directory_path"}

// find gives the tool that plays a part best: the one of the preferred name, else the first in order. Only
// read-only tools whose required arguments are known play.
func (r role) find(tools []agentkernel.Tool) (fileTool, bool) {
	var found []fileTool
	for _, t := range tools {
		if f, ok := r.cast(t); ok {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		return fileTool{}, false
	}
	best := slices.MinFunc(found, func(a, b fileTool) int { return r.rank(a) - r.rank(b) })
	return best, true
}

func (r role) rank(f fileTool) int {
	if i := slices.Index(r.best, f.PythonName); i >= 0 {
		return i
	}
	return len(r.best)
}

func (r role) cast(t agentkernel.Tool) (fileTool, bool) {
	f := fileTool{Tool: t}
	words := terms(t.Name)
	for _, group := range r.needs {
		if !slices.ContainsFunc(words, func(w string) bool { return slices.Contains(group, w) }) {
			return f, false
		}
	}
	if t.Effect != agentkernel.EffectRead || slices.ContainsFunc(words, func(w string) bool { return slices.Contains(r.without, w) }) {
		return f, false
	}
	for _, p := range t.Params {
		switch {
		case f.Path == "" && p.Type == "str" && slices.Contains(pathNames, strings.ToLower(p.Python)):
			f.Path = p.Python
		case r.pattern && f.Pattern == "" && p.Type == "str" && slices.Contains([]string{"pattern", "glob", "query", "name"}, strings.ToLower(p.Python)):
			f.Pattern = p.Python
		case p.Required:
			return f, false
		}
	}
	return f, f.Path != "" && (f.Pattern != "" || !r.pattern)
}

// terms splits text and identifiers into lower-case words without a plural s: "readTextFiles" is read, text, file.
func terms(s string) []string {
	var out []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			out = append(out, singular(strings.ToLower(string(word))))
			word = word[:0]
		}
	}
	runes := []rune(s)
	for i, r := range runes {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			flush()
			continue
		}
		if unicode.IsUpper(r) && i > 0 && unicode.IsLower(runes[i-1]) {
			flush()
		}
		word = append(word, r)
	}
	flush()
	return out
}

func singular(w string) string {
	switch {
	case len(w) > 4 && strings.HasSuffix(w, "ies"):
		return w[:len(w)-3] + "y"
	case len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss"):
		return w[:len(w)-1]
	}
	return w
}

const fileToolHint = "name an MCP configuration file with a file server (--tools FILE, or tools= and workspace_dir= of the Python SDK)"

// noFileTool is the refusal of a task that is understood but has nothing to read files with.
func noFileTool(what string) error {
	return agentkernel.Errorf(agentkernel.CodeUnsupported, op, "template mode (no model is configured) would need a tool that %s, and there is none", what).
		WithHint("%s", fileToolHint)
}
