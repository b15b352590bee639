package template

import (
	"encoding/json"
	"slices"
	"strings"

	"agentkernel"
)

// text takes a required argument that is a text: in quotes, behind a preposition, or behind the tool's name.
func (f *filling) text(p agentkernel.ToolParam) (any, bool) {
	s := f.schema(p)
	if k := s.kind(); !p.Required || len(s.choices()) > 0 || k != "string" && k != "any" {
		return nil, false
	}
	if v, ok := f.firstOf(schema{Type: types{"string"}}, text); ok {
		return v, true
	}
	for i := range f.tokens {
		if t := &f.tokens[i]; t.kind == word && !t.used && connectives()[t.lower()] && t.lower() != "and" && i+1 < len(f.tokens) {
			if v, ok := f.phrase(i + 1); ok {
				return v, true
			}
		}
	}
	for i := 1; i < len(f.tokens); i++ {
		if f.tokens[i-1].used && !f.tokens[i].used && !f.tokens[i].assigned && f.tokens[i].kind != comma && f.tokens[i].kind != jsonText {
			if v, ok := f.phrase(i); ok {
				return v, true
			}
		}
	}
	return nil, false
}

// firstOf takes the first free token of the kinds that reads as a value.
func (f *filling) firstOf(s schema, kinds ...tokenKind) (any, bool) {
	for i := range f.tokens {
		if t := &f.tokens[i]; !t.used && !t.assigned && slices.Contains(kinds, t.kind) {
			if v, ok := f.valueAt(i, s, false); ok {
				return v, true
			}
		}
	}
	return nil, false
}

// looks are the kinds of token that an argument of this name and format is.
func looks(p agentkernel.ToolParam, s schema) []tokenKind {
	name := strings.ToLower(p.Name)
	switch {
	case slices.Contains(pathNames, name), strings.HasSuffix(name, "path"), strings.HasSuffix(name, "file"):
		return []tokenKind{filePath}
	case s.Format == "uri", s.Format == "url", strings.Contains(name, "url"), name == "uri", name == "link":
		return []tokenKind{url}
	case s.Format == "email", strings.Contains(name, "email"):
		return []tokenKind{email}
	case s.Format == "date", s.Format == "date-time", strings.Contains(name, "date"):
		return []tokenKind{date}
	}
	return nil
}

// phrase takes the words from a token on, up to the next connective, comma or piece of another kind.
func (f *filling) phrase(at int) (any, bool) {
	first := &f.tokens[at]
	if first.kind != word && first.kind != numeral {
		if first.used || first.kind == comma || first.kind == jsonText {
			return nil, false
		}
		first.used = true
		return first.text, true
	}
	end := at
	for end < len(f.tokens) && !f.tokens[end].used && !f.tokens[end].assigned && (f.tokens[end].kind == word || f.tokens[end].kind == numeral) &&
		!connectives()[f.tokens[end].lower()] {
		end++
	}
	start := at
	for start < end && fillers()[f.tokens[start].lower()] {
		start++
	}
	if start == end || end-start > maxPhrase {
		return nil, false
	}
	words := make([]string, 0, end-start)
	for _, t := range f.tokens[start:end] {
		words = append(words, t.text)
	}
	f.use(at, end-at)
	return strings.Join(words, " "), true
}

// list takes several values: all free numbers, quoted texts or paths, else words separated by commas and "and".
func (f *filling) list(s schema) (any, bool) {
	if v, ok := f.firstOf(s, jsonText); ok {
		return v, true
	}
	for i := range f.tokens {
		if t := &f.tokens[i]; !t.used && !t.assigned && (t.kind == numeral || t.kind == text || t.kind == filePath || t.kind == url) {
			return f.listFrom(i, s)
		}
	}
	for i := range f.tokens {
		if t := &f.tokens[i]; t.kind == word && !t.used && connectives()[t.lower()] && t.lower() != "and" && i+1 < len(f.tokens) {
			if v, ok := f.listFrom(i+1, s); ok {
				return v, true
			}
		}
	}
	return nil, false
}

// listFrom reads values from a token on, with commas or "and" between them.
func (f *filling) listFrom(at int, s schema) (any, bool) {
	item := schema{}
	if s.Items != nil {
		item = *s.Items
	}
	if k := item.kind(); k == "object" || k == "array" {
		return nil, false
	}
	saved := slices.Clone(f.tokens)
	var items []any
	for i := at; i < len(f.tokens); i++ {
		t := &f.tokens[i]
		if t.kind == comma || t.kind == word && t.lower() == "and" {
			t.used = true
			continue
		}
		if t.used || len(items) > 0 && !separated(f.tokens, i) && t.kind == word {
			break
		}
		v, ok := f.valueAt(i, item, t.kind != word)
		if !ok {
			break
		}
		items = append(items, v)
		for i+1 < len(f.tokens) && f.tokens[i+1].used {
			i++
		}
	}
	if len(items) == 0 {
		f.tokens = saved
		return nil, false
	}
	return items, true
}

func separated(tokens []token, at int) bool {
	before := tokens[at-1]
	return before.kind == comma || before.kind == word && before.lower() == "and"
}

// numbersAsText is for arguments that are texts and look like numbers: json.Number would be written without
// quotes.
func numbersAsText(v any) any {
	if n, ok := v.(json.Number); ok {
		return n.String()
	}
	return v
}
