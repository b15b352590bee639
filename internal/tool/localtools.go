package tool

import (
	"maps"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/lazy"
)

// LocalTools describes the local tools among the modules of a program ("tools.<server>.<tool>" -> source): signature and
// documentation are those of the function that has the name of its file. A file without one is a module, whose functions
// are listed. What cannot be read is described by its name alone: the program that imports it is told why.
func LocalTools(modules map[string]string) []agentkernel.Tool {
	var out []agentkernel.Tool
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		parts := strings.Split(module, ".")
		if len(parts) != 3 || parts[0] != "tools" {
			continue
		}
		out = append(out, localTool(parts[1], parts[2], modules[module]))
	}
	return out
}

// maxLocalDoc bounds what a listing says of one local tool.
const maxLocalDoc = 4 << 10

func localTool(server, name, source string) agentkernel.Tool {
	t := agentkernel.Tool{Server: server, Name: name, PythonServer: server, PythonName: name, Effect: agentkernel.EffectLocal, Signature: name}
	var others []string
	for _, m := range topLevelDef().FindAllStringSubmatchIndex(source, 100) {
		f := pythonFunction(source[m[2]:m[3]], source[m[1]-1:])
		switch {
		case f.name == name:
			t.Signature, t.Params, t.Doc = f.signature(), f.params(), f.doc
		case !strings.HasPrefix(f.name, "_"):
			others = append(others, name+"."+f.signature())
		}
	}
	if t.Signature == name {
		t.Doc = strings.TrimSpace(leadingText(source) + "\n\n" + strings.Join(others, "\n"))
	}
	t.Doc = clip.At(t.Doc, maxLocalDoc)
	t.Description = t.Doc
	return t
}

var topLevelDef = lazy.Regexp(`(?m)^(?:async[ \t]+)?def[ \t]+(\w+)[ \t]*\(`)

// function is what the text of a Python function says of it.
type function struct {
	name, doc, returns string
	args               []string // as they are written
}

// pythonFunction reads a function from its opening parenthesis on.
func pythonFunction(name, text string) function {
	f := function{name: name}
	end := pythonSpan(text, ")")
	f.args = splitArguments(text[1:max(end-1, 1)])
	rest := text[end:]
	colon := pythonSpan(rest, ":")
	if arrow := strings.TrimSpace(strings.TrimSuffix(rest[:colon], ":")); strings.HasPrefix(arrow, "->") {
		f.returns = oneLine(strings.TrimPrefix(arrow, "->"))
	}
	f.doc = leadingText(rest[colon:])
	return f
}

func (f function) signature() string {
	s := f.name + "(" + strings.Join(f.args, ", ") + ")"
	if f.returns != "" {
		s += " -> " + f.returns
	}
	return s
}

func (f function) params() []agentkernel.ToolParam {
	var out []agentkernel.ToolParam
	for _, arg := range f.args {
		name, value, optional := cutOutside(arg, "=")
		name, kind, typed := cutOutside(name, ":")
		if strings.HasPrefix(name, "*") || name == "/" {
			continue
		}
		if !typed {
			kind = "Any"
		}
		out = append(out, agentkernel.ToolParam{Name: name, Python: name, Type: kind, Required: !optional, Default: value})
	}
	return out
}

// splitArguments cuts at commas outside of brackets and texts.
func splitArguments(text string) []string {
	var out []string
	for text != "" {
		end := pythonSpan(text, ",")
		if arg := oneLine(withoutComments(strings.TrimSuffix(text[:end], ","))); arg != "" {
			out = append(out, arg)
		}
		text = text[end:]
	}
	return out
}

func cutOutside(text, mark string) (before, after string, found bool) {
	end := pythonSpan(text, mark)
	before, found = strings.CutSuffix(text[:end], mark)
	return strings.TrimSpace(before), strings.TrimSpace(text[end:]), found
}

var comment = lazy.Regexp(`(?m)^\s*#.*$|\s#[^'"\n]*$`)

func withoutComments(text string) string { return comment().ReplaceAllString(text, "") }

// pythonSpan is how far a text goes to the end of the first of a mark that stands outside of brackets, texts and comments;
// for ")" the brackets that the text opens with are closed there. All of it, if there is none.
func pythonSpan(text, mark string) int {
	depth := 0
	for i := 0; i < len(text); {
		if n := pythonText(text[i:]); n > 0 {
			i += n
			continue
		}
		c := text[i]
		i++
		switch c {
		case '#':
			if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
				i += n
			} else {
				i = len(text)
			}
			continue
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		if depth <= 0 && string(c) == mark {
			return i
		}
	}
	return len(text)
}

// pythonText is the length of the literal text at the beginning of source; 0: there is none.
func pythonText(source string) int {
	if source == "" || source[0] != '"' && source[0] != '\'' {
		return 0
	}
	quote := source[:1]
	if strings.HasPrefix(source, strings.Repeat(quote, 3)) {
		quote = source[:3]
	}
	for i := len(quote); i < len(source); i++ {
		switch {
		case source[i] == '\\':
			i++
		case strings.HasPrefix(source[i:], quote):
			return i + len(quote)
		case len(quote) == 1 && source[i] == '\n':
			return i
		}
	}
	return len(source)
}

// leadingText is the text with which a module or a function begins, without its indentation.
func leadingText(source string) string {
	for {
		source = strings.TrimLeft(source, " \t\r\n")
		if !strings.HasPrefix(source, "#") {
			break
		}
		_, source, _ = strings.Cut(source, "\n")
	}
	source = strings.TrimPrefix(source, "r")
	n := pythonText(source)
	if n == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(strings.Trim(source[:n], `"'`)), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
