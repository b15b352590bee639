package template

import (
	"strings"

	"agentkernel"
)

const (
	pathText = `("[^"]+"|'[^']+'|[^\s"']+)`
	quoted   = `("[^"]+"|'[^']+'|“[^”]+”|‘[^’]+’)`
	// within is the directory at the end of a file task; group 1 is its path.
	within = `(?: (?:in|inside|under|of|from|within)(?: the)?(?: directory| folder| dir)? ` + pathText + `(?: directory| folder)?)?`
	// kindOf is an extension before "files"; group 1 is it.
	kindOf = `(?: (\.?[a-z0-9]{1,5}))?`
)

var (
	listing   = whole(`(?:list|show|display|print|give me|what are|which are|ls)(?: me)?(?: all)?(?: of)?(?: the)?` + kindOf + ` (?:files|entries|contents?|directory contents?)` + within)
	counting  = whole(`(?:count|how many)(?: all)?(?: the)?` + kindOf + ` files(?: are there| are)?` + within)
	globbing  = whole(`(?:list|show|find|search for|search|locate|ls)(?: all)?(?: files)?(?: matching| named| called| like)? ` + `["']?(\S*[*?]\S*?)["']?` + within)
	naming    = whole(`(?:find|search for|locate|where is)(?: all)?(?: the)?(?: a)?( files?)?(?: (?:matching|named|called))? ` + pathText + within)
	grepping  = whole(`(?:search|grep|look|find)(?: for)?(?: the)?(?: text| string| word| lines? (?:with|containing)| files? (?:with|containing|that contains?))? ` + quoted + `(?: in(?: all)?(?: the)?` + kindOf + ` files)?` + within)
	whichHave = whole(`(?:which|what|find|list|show)(?: all)?(?: the)?` + kindOf + ` files?(?: that)? (?:contain|contains|containing|mention|mentions|mentioning|with)(?: the)?(?: text| string| word)? ` + quoted + within)
	showing   = whole(`(?:read|show|print|cat|open|display|get)(?: me)?(?: the)?(?: contents?(?: of)?)?(?: the)?(?: file)? ` + pathText)
	// hasSuffix tells a file from a directory: its last part has an extension.
	hasSuffix = compile(`[^/]\.\w+["']?$`)
)

func unquote(s string) string { return strings.Trim(s, `"'“”‘’`) }

func folder(s string) string {
	if s = unquote(s); s == "" || strings.EqualFold(s, "here") {
		return "."
	}
	return s
}

// extension is ".csv" for "csv" or ".CSV"; words that say nothing are no extension.
func extension(s string) string {
	s = strings.ToLower(strings.TrimPrefix(s, "."))
	if s == "" || s == "all" || s == "the" || s == "any" || s == "every" {
		return ""
	}
	return "." + s
}

// listFiles lists or counts what is in a directory.
func listFiles(t task, tools []agentkernel.Tool) (*Plan, error) {
	m, count := t.match(listing), false
	if m == nil {
		m, count = t.match(counting), true
	}
	if m == nil {
		return nil, nil
	}
	lister, ok := lists.find(tools)
	if !ok {
		return nil, noFileTool("lists directories")
	}
	dir, ext := folder(m[2]), extension(m[1])
	title := "Files"
	if ext != "" {
		title = "Files with the extension " + ext
	}
	if count {
		title = "Number of " + strings.ToLower(title[:1]) + title[1:]
	}
	return program("file list", "listing.py", title+" in "+dir, map[string]any{"List": lister, "Folder": dir, "Extension": ext, "Count": count}, lister.Tool)
}

// searchNames finds files by name, in all directories below one.
func searchNames(t task, tools []agentkernel.Tool) (*Plan, error) {
	m := t.match(globbing)
	if m == nil {
		m = t.match(naming)
		if m == nil || m[1] == "" && !hasSuffix.MatchString(m[2]) {
			return nil, nil
		}
		m = m[1:]
	}
	pattern, dir := unquote(m[1]), folder(m[2])
	title := "Files named " + pattern + " below " + dir
	if lister, ok := lists.find(tools); ok {
		return program("file search", "find.py", title, map[string]any{"List": lister, "Folder": dir, "Pattern": pattern}, lister.Tool)
	}
	if finder, ok := searches.find(tools); ok {
		return program("file search", "search.py", title, map[string]any{"Search": finder, "Folder": dir, "Pattern": pattern}, finder.Tool)
	}
	return nil, noFileTool("lists or searches directories")
}

// searchText finds the lines of files that contain a text.
func searchText(t task, tools []agentkernel.Tool) (*Plan, error) {
	var text, ext, dir string
	names := false
	if m := t.match(grepping); m != nil {
		text, ext, dir = unquote(m[1]), extension(m[2]), folder(m[3])
	} else if m := t.match(whichHave); m != nil {
		text, ext, dir, names = unquote(m[2]), extension(m[1]), folder(m[3]), true
	} else {
		return nil, nil
	}
	lister, canList := lists.find(tools)
	reader, canRead := reads.find(tools)
	switch {
	case !canList:
		return nil, noFileTool("lists directories")
	case !canRead:
		return nil, noFileTool("reads text files")
	}
	title := "Lines with " + text + " in the files below " + dir
	if names {
		title = "Files with " + text + " below " + dir
	}
	return program("text search", "grep.py", title, map[string]any{"List": lister, "Read": reader, "Folder": dir, "Extension": ext, "Text": text, "Names": names},
		lister.Tool, reader.Tool)
}

// showFile prints a file.
func showFile(t task, tools []agentkernel.Tool) (*Plan, error) {
	m := t.match(showing)
	if m == nil || !hasSuffix.MatchString(m[1]) || strings.Contains(m[1], "://") || strings.ContainsAny(m[1], "*?=(") {
		return nil, nil
	}
	reader, ok := reads.find(tools)
	if !ok {
		return nil, noFileTool("reads text files")
	}
	file := unquote(m[1])
	return program("file contents", "show.py", "The contents of "+file, map[string]any{"Read": reader, "Path": file}, reader.Tool)
}
