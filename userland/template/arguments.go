package template

import (
	"slices"
	"strings"

	"agentkernel"
)

// argument is one argument of a call, as the program gives it.
type argument struct {
	Python string
	Value  any
}

// maxPhrase is how many words a text without quotes may have: "for San Francisco", not half a task.
const maxPhrase = 5

// filling takes the arguments of one tool out of the tokens of a task.
type filling struct {
	tokens  []token
	schemas map[string]schema
}

// fill finds the arguments of a tool. missing names the required arguments that the task does not give.
func fill(tokens []token, t agentkernel.Tool) (args []argument, missing []string, left []token) {
	f := &filling{tokens: slices.Clone(tokens), schemas: argumentSchemas(t)}
	if whole, ok := f.wholeObject(t); ok {
		return whole, nil, f.unused()
	}
	values := make([]any, len(t.Params))
	found := make([]bool, len(t.Params))
	// What is named goes first, so that nothing else takes its value.
	for i, p := range t.Params {
		values[i], found[i] = f.named(p)
	}
	// Then what can be told by its looks, and free text last.
	for _, pass := range []func(agentkernel.ToolParam) (any, bool){f.choice, f.typed, f.text} {
		for i, p := range t.Params {
			if !found[i] {
				values[i], found[i] = pass(p)
			}
		}
	}
	for i, p := range t.Params {
		switch {
		case found[i]:
			args = append(args, argument{p.Python, values[i]})
		case p.Required:
			missing = append(missing, p.Name)
		}
	}
	return args, missing, f.unused()
}

// unused are the tokens that are not accounted for: neither taken nor words without meaning.
func (f *filling) unused() []token {
	var left []token
	for _, t := range f.tokens {
		if !t.used && t.kind != comma && !(t.kind == word && (fillers()[t.lower()] || connectives()[t.lower()])) {
			left = append(left, t)
		}
	}
	return left
}

// wholeObject takes all arguments from one JSON object, if every member of it is an argument.
func (f *filling) wholeObject(t agentkernel.Tool) ([]argument, bool) {
	at := slices.IndexFunc(f.tokens, func(t token) bool { return t.kind == jsonText && !t.assigned && t.text[0] == '{' })
	if at < 0 {
		return nil, false
	}
	v, ok := decodeJSON(f.tokens[at].text)
	members, isObject := v.(object)
	if !ok || !isObject {
		return nil, false
	}
	var args []argument
	for _, m := range members {
		i := slices.IndexFunc(t.Params, func(p agentkernel.ToolParam) bool { return p.Name == m.name || p.Python == m.name })
		if i < 0 {
			return nil, false
		}
		args = append(args, argument{t.Params[i].Python, m.value})
	}
	for _, p := range t.Params {
		if p.Required && !slices.ContainsFunc(args, func(a argument) bool { return a.Python == p.Python }) {
			return nil, false
		}
	}
	f.tokens[at].used = true
	return args, true
}

func (f *filling) schema(p agentkernel.ToolParam) schema { return f.schemas[p.Name] }

// named takes an argument whose name stands in the task: "head=3", "city: Paris", "days 5", "5 days".
func (f *filling) named(p agentkernel.ToolParam) (any, bool) {
	s := f.schema(p)
	at, length := f.findName(p)
	if at < 0 {
		return nil, false
	}
	next := at + length
	if s.kind() == "boolean" && !(next < len(f.tokens) && f.tokens[next].assigned) {
		f.use(at, length)
		no := at > 0 && slices.Contains([]string{"no", "not", "without"}, f.tokens[at-1].lower())
		if no {
			f.tokens[at-1].used = true
		}
		return !no, true
	}
	if next < len(f.tokens) && (f.tokens[next].lower() == "is" || f.tokens[next].lower() == "of") && next+1 < len(f.tokens) {
		next++
	}
	if next < len(f.tokens) && !f.tokens[next].used {
		if v, ok := f.valueAt(next, s, f.tokens[next].assigned); ok {
			f.use(at, length)
			return v, true
		}
	}
	if k := s.kind(); at > 0 && (k == "integer" || k == "number") && !f.tokens[at-1].used && !f.tokens[at-1].assigned {
		if v, ok := f.valueAt(at-1, s, false); ok {
			f.use(at, length)
			return v, true
		}
	}
	return nil, false
}

// findName looks for the words of an argument's name in a row; -1 if they are not there.
func (f *filling) findName(p agentkernel.ToolParam) (at, length int) {
	want := terms(p.Name)
	for i := range f.tokens {
		if t := &f.tokens[i]; t.used || t.kind != word || t.assigned {
			continue
		}
		// The name as one token ("max_results"), or its words one by one ("max results").
		if slices.Equal(terms(f.tokens[i].text), want) {
			return i, 1
		}
		n := 0
		for n < len(want) && i+n < len(f.tokens) && !f.tokens[i+n].used && f.tokens[i+n].kind == word &&
			slices.Equal(terms(f.tokens[i+n].text), want[n:n+1]) {
			n++
		}
		if n > 0 && n == len(want) {
			return i, n
		}
	}
	return -1, 0
}

func (f *filling) use(at, length int) {
	for i := at; i < at+length; i++ {
		f.tokens[i].used = true
	}
}

// valueAt reads the value that begins at a token, and takes it.
func (f *filling) valueAt(at int, s schema, assigned bool) (any, bool) {
	t := &f.tokens[at]
	if c, n := f.choiceAt(at, s); n > 0 {
		f.use(at, n)
		return c, true
	}
	if len(s.choices()) > 0 {
		return nil, false
	}
	kind := s.kind()
	if v, ok := scalar(t, kind); ok {
		t.used = true
		return v, true
	}
	switch {
	case t.kind == jsonText || kind == "any" && t.kind == numeral:
		return nil, false
	case kind == "array":
		return f.listFrom(at, s)
	case kind == "string" || kind == "any":
		if assigned || t.kind != word {
			t.used = true
			return t.text, t.kind != comma
		}
		return f.phrase(at)
	}
	return nil, false
}

// scalar reads a token that is JSON, a number or a truth value by itself.
func scalar(t *token, kind string) (any, bool) {
	switch {
	case t.kind == jsonText && (kind == "any" || kind == "array" || kind == "object"):
		v, ok := decodeJSON(t.text)
		if _, isObject := v.(object); !ok || kind == "array" && isObject || kind == "object" && !isObject {
			return nil, false
		}
		return v, true
	case kind == "integer" || kind == "number" || kind == "any" && t.kind == numeral:
		n, ok := number(t.text)
		return n, ok && (kind != "integer" || !strings.Contains(n.String(), "."))
	case kind == "boolean":
		yes := slices.Contains([]string{"true", "yes", "on"}, t.lower())
		return yes, yes || slices.Contains([]string{"false", "no", "off"}, t.lower())
	}
	return nil, false
}

// choiceAt reads a value of an enumeration, of one or several words.
func (f *filling) choiceAt(at int, s schema) (choice string, length int) {
	for _, c := range s.choices() {
		words := strings.Fields(strings.ToLower(c))
		n := 0
		for n < len(words) && at+n < len(f.tokens) && !f.tokens[at+n].used && f.tokens[at+n].lower() == words[n] {
			n++
		}
		switch {
		case n == len(words) && n > length:
			choice, length = c, n
		case strings.EqualFold(f.tokens[at].text, c) && length == 0: // in quotes
			choice, length = c, 1
		}
	}
	return choice, length
}

// choice takes a value of an enumeration, wherever it stands, for optional arguments too.
func (f *filling) choice(p agentkernel.ToolParam) (any, bool) {
	s := f.schema(p)
	for i := range f.tokens {
		if c, n := f.choiceAt(i, s); n > 0 && !f.tokens[i].used && !f.tokens[i].assigned {
			f.use(i, n)
			return c, true
		}
	}
	return nil, false
}

// typed takes a required argument that is not free text: numbers, lists, objects, paths, addresses, dates.
func (f *filling) typed(p agentkernel.ToolParam) (any, bool) {
	s := f.schema(p)
	if !p.Required || len(s.choices()) > 0 {
		return nil, false
	}
	switch s.kind() {
	case "integer", "number":
		return f.firstOf(s, numeral)
	case "object":
		return f.firstOf(s, jsonText)
	case "array":
		return f.list(s)
	case "any":
		return f.firstOf(s, jsonText, numeral)
	case "string":
		return f.firstOf(schema{Type: types{"string"}}, looks(p, s)...)
	}
	return nil, false
}
