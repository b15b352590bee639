package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"agentkernel"
	"agentkernel/internal/lazy"
	"agentkernel/internal/regular"
	"agentkernel/internal/shellword"
)

// maxFile bounds a file of settings, in bytes. That of a project may be a stranger's.
const maxFile = 1 << 20

// maxKeys bounds the keys of a file of settings, of which there are some dozen. The parser compares each with all before it.
const maxKeys = 1000

// loadFile reads one TOML file; false if it does not exist.
func (c *Config) loadFile(path string, kind Kind) (bool, error) {
	data, err := regular.Read(path, maxFile)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		e := agentkernel.Errorf(agentkernel.CodeInvalid, "config", "the %s cannot be read: %w", kind, err)
		switch info, serr := os.Stat(path); {
		case serr == nil && info.IsDir():
			return false, e.WithHint("it is a directory, and settings are in a file of that name: rename it, or remove it with rmdir if it is empty")
		case errors.Is(err, os.ErrPermission):
			return false, e.WithHint("let yourself read it: chmod u+r %s", shellword.File(path))
		case errors.Is(err, regular.ErrTooLarge):
			return false, e.WithHint("settings have at most %d KiB", maxFile>>10)
		}
		return false, e
	}
	settings, err := parseFile(path, bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))) // the mark that some editors of Windows put first
	if err != nil {
		return false, err
	}
	for _, s := range settings {
		o := Origin{Kind: kind, Name: path, Line: s.line, base: filepath.Dir(path)}
		if s.err == nil {
			s.err = s.unfit()
		}
		if s.err != nil {
			if isTable(s.key) {
				return false, agentkernel.Errorf(agentkernel.CodeInvalid, "config", "%s: %s is one table, not a list of them", o, s.key).WithHint("write [%s]", s.key)
			}
			if _, known := findKey(s.key); !known {
				return false, unknownKey(s.key, o)
			}
			return false, agentkernel.Errorf(agentkernel.CodeInvalid, "config", "%s: %s: %w", o, s.key, s.err)
		}
		if err := c.set(s.key, o, s.values); err != nil {
			return false, err
		}
	}
	return true, nil
}

// setting is one key of a file as text.
type setting struct {
	key    string
	line   int
	values []string
	raw    any   // as TOML has it
	err    error // the value is of a kind that no key has
}

// unfit says what is wrong with a value whose kind its key does not have, and whose text another could have: true would be a path.
func (s *setting) unfit() error {
	k, known := findKey(s.key)
	if !known {
		return nil
	}
	_, list := s.raw.([]any)
	_, isText := s.raw.(string)
	switch kind := k.value.form.Kind; {
	case list && !k.list:
		return errors.New("it is one value, not a list")
	case !list && !isText && (kind == KindPath || kind == KindText):
		return fmt.Errorf("it is a text in quotes, not %v", s.raw)
	}
	return nil
}

var definedTwice = lazy.Regexp(`key ([\w.-]+) is already defined`)

// twiceHint says what to do about a key that stands in a file twice.
func twiceHint(name string) string {
	if k, known := findKey(name); known && k.list {
		return "make one list of the lines: " + name + ` = ["...", "..."]`
	}
	return "leave one of the lines out"
}

func parseFile(path string, data []byte) ([]setting, error) {
	if line := lineBeyond(data); line > 0 {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "config", "%s:%d: there are more than %d keys", path, line, maxKeys).
			WithHint("docs/config.md lists the keys that there are")
	}
	var tree map[string]any
	if err := toml.Unmarshal(data, &tree); err != nil {
		if de, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, col := de.Position()
			e := agentkernel.Errorf(agentkernel.CodeInvalid, "config", "%s:%d:%d: %s", path, row, col, plainTOML(de.Error()))
			if name := definedTwice().FindStringSubmatch(de.Error()); name != nil {
				return nil, e.WithHint("%s", twiceHint(name[1]))
			}
			return nil, e.WithHint("%s", `the file is TOML: a text is in quotes, a list in brackets, as in models = ["fast openai:gpt-5-mini"]`)
		}
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "config", "%s: %w", path, err)
	}
	lines := keyLines(data)
	var out []setting
	flatten("", tree, func(key string, v any) {
		s := setting{key: key, line: lines[key], raw: v}
		s.values, s.err = texts(v)
		out = append(out, s)
	})
	// The first wrong line is the one to report.
	slices.SortFunc(out, func(a, b setting) int { return a.line - b.line })
	return out, nil
}

// plainTOML leaves out of a message of the parser what names the parser, and functions of Go.
func plainTOML(text string) string {
	text = strings.TrimPrefix(text, "toml: ")
	_, after, ok := strings.Cut(text, ": strconv.Parse") // "unable to parse float: strconv.ParseFloat: parsing "1e400": value out of range"
	if !ok {
		return text
	}
	_, after, _ = strings.Cut(after, ": parsing ")
	return "the number cannot be read: " + after
}

func flatten(prefix string, tree map[string]any, visit func(string, any)) {
	for name, v := range tree {
		key := prefix + name
		if sub, ok := v.(map[string]any); ok && (len(sub) > 0 || isTable(key)) {
			flatten(key+".", sub, visit)
			continue
		}
		visit(key, v)
	}
}

// isTable says whether keys begin with a name; a table without keys, all of them commented out, is no mistake.
func isTable(name string) bool {
	return slices.ContainsFunc(keyNames(), func(k string) bool { return strings.HasPrefix(k, name+".") })
}

// texts turns a TOML value into the text form that flags and variables have.
func texts(v any) ([]string, error) {
	switch v := v.(type) {
	case string:
		return []string{v}, nil
	case int64, float64, bool:
		return []string{fmt.Sprint(v)}, nil
	case []any:
		out := []string{}
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("the list must hold texts, not %v", e)
			}
			out = append(out, s)
		}
		return out, nil
	}
	if _, table := v.(map[string]any); table {
		return nil, fmt.Errorf("it is a setting, and no table of settings: write NAME = VALUE, not [NAME]")
	}
	return nil, fmt.Errorf("the value must be a text, a number or a list of texts")
}

// lineBeyond is the line with more keys before it than a file may have; 0: there is none. Whether it is TOML is for others to say.
func lineBeyond(data []byte) int {
	n := 0
	var count func(*unstable.Node)
	count = func(e *unstable.Node) {
		if e.Kind == unstable.Table || e.Kind == unstable.ArrayTable || e.Kind == unstable.KeyValue {
			for it := e.Key(); it.Next(); {
				n++
			}
		}
		switch e.Kind {
		case unstable.KeyValue:
			count(e.Value())
		case unstable.InlineTable, unstable.Array:
			for it := e.Children(); it.Next(); {
				count(it.Node())
			}
		}
	}
	var p unstable.Parser
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		if count(e); n <= maxKeys {
			continue
		}
		for it := e.Key(); it.Next(); {
			return 1 + bytes.Count(data[:it.Node().Raw.Offset], []byte("\n"))
		}
	}
	return 0
}

// keyLines finds the line on which each key stands. The file is known to be well-formed.
func keyLines(data []byte) map[string]int {
	lines := map[string]int{}
	var p unstable.Parser
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			name, line := dotted(data, e)
			table = name + "."
			note(lines, name, line)
		case unstable.KeyValue:
			noteValue(lines, data, table, e)
		}
	}
	return lines
}

// noteValue also goes into inline tables: limits = { memory = "1g" }.
func noteValue(lines map[string]int, data []byte, prefix string, kv *unstable.Node) {
	name, line := dotted(data, kv)
	note(lines, prefix+name, line)
	if v := kv.Value(); v.Kind == unstable.InlineTable {
		for it := v.Children(); it.Next(); {
			if n := it.Node(); n.Kind == unstable.KeyValue {
				noteValue(lines, data, prefix+name+".", n)
			}
		}
	}
}

func note(lines map[string]int, name string, line int) {
	if _, ok := lines[name]; !ok {
		lines[name] = line
	}
}

func dotted(data []byte, n *unstable.Node) (name string, line int) {
	var parts []string
	for it := n.Key(); it.Next(); {
		k := it.Node()
		if line == 0 {
			line = 1 + bytes.Count(data[:k.Raw.Offset], []byte("\n"))
		}
		parts = append(parts, string(k.Data))
	}
	return strings.Join(parts, "."), line
}
