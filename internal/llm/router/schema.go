package router

import (
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"maps"
	"math"
	"math/big"
	"reflect"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"agentkernel"
)

// A program writes the schema, and may well have the model say what it likes. So neither may cost the kernel more than a moment: the
// checker follows a reference that leads to itself for ever, and some nested choices for as good as ever. Where a choice is not the
// right one, it writes down why with all of the value, and drops that.
const (
	maxSchema   = 128 << 10 // bytes; providers take no larger one
	maxDepth    = 500       // levels of it; each has a name as long as its path
	maxPatterns = 2_000     // bytes of all regular expressions: one byte can become 40 kB
	maxChecks   = 500_000   // steps of a check: to compare a value with a schema is one, about a microsecond

	writeStep   = 24  // bytes of a value that are written into an error in a step
	copyStep    = 256 // bytes of an error that the level above copies in a step
	equalStep   = 16  // bytes of a value that are compared with another, or hashed, in a step
	patternStep = 64  // states of a regular expression that are tried, for a byte each, in a step
	memberStep  = 8   // members and items that are marked as checked in a step
)

func badSchema(format string, args ...any) error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, "llm", "the schema "+format, args...)
}

// schema is one that answers are checked against.
type schema struct {
	doc    any // of it
	check  *jsonschema.Resolved
	states map[string]int // of its regular expressions
	path   int            // bytes of the longest path in it; errors name one for each level
}

// compile prepares a schema for checking answers.
func compile(raw json.RawMessage) (*schema, error) {
	if len(raw) > maxSchema {
		return nil, badSchema("is %d bytes long; the limit is %d", len(raw), maxSchema)
	}
	var doc any
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, badSchema("is no JSON Schema: %w", err)
	}
	if !shallow(doc, maxDepth) {
		return nil, badSchema("has more than %d levels", maxDepth)
	}
	found := patterns(doc, nil)
	if n := len(strings.Join(found, "")); n > maxPatterns {
		return nil, badSchema("has regular expressions of %d bytes; the limit is %d", n, maxPatterns)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, badSchema("is no JSON Schema: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, badSchema("is no JSON Schema: %w", err)
	}
	out := &schema{doc, resolved, map[string]int{}, longest(doc)}
	for _, p := range found {
		out.states[p] = states(p)
	}
	if !out.affordable(nil) {
		return nil, badSchema("cannot be checked: it leads to itself, refers to more than #/..., or has too many choices")
	}
	return out, nil
}

// patterns are the regular expressions of a schema, with whatever else is called so, after those that were found before.
func patterns(v any, found []string) []string {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			found = patterns(x, found)
		}
	case map[string]any:
		if p, ok := v["pattern"].(string); ok {
			found = append(found, p)
		}
		named, _ := v["patternProperties"].(map[string]any)
		found = slices.AppendSeq(found, maps.Keys(named))
		for _, x := range v {
			found = patterns(x, found)
		}
	}
	return found
}

// states is how many states a regular expression has.
func states(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 1 // it is not one, but what is called so
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 1
	}
	return len(prog.Inst)
}

// shallow says whether a schema has no more than so many levels.
func shallow(v any, levels int) bool {
	if levels < 0 {
		return false
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			if !shallow(x, levels-1) {
				return false
			}
		}
	case map[string]any:
		for _, x := range v {
			if !shallow(x, levels-1) {
				return false
			}
		}
	}
	return true
}

// longest is how many bytes the longest path has that leads into a schema.
func longest(v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			n = max(n, len("/1000")+longest(x))
		}
	case map[string]any:
		for name, x := range v {
			n = max(n, len("/")+len(name)+longest(x))
		}
	}
	return n
}

// affordable says whether a value can be checked in no more than maxChecks steps.
func (s *schema) affordable(value any) bool {
	c := checks{schema: s, left: maxChecks / 2, known: map[pair]price{}, sizes: map[pair]int{}}
	p := c.cost(s.doc, value).failed()
	return p.steps <= maxChecks && c.left > 0
}

// checks counts the steps of a check without making them: what is compared twice is counted twice, but looked at once.
type checks struct {
	*schema
	left  int // looks that may be taken yet
	known map[pair]price
	sizes map[pair]int // of values, in bytes, about
}

// pair is a schema and a value, by their places.
type pair struct {
	schema, value uintptr
	size          int
}

// price is what it costs at most to compare a value with a schema.
type price struct {
	steps int // without an error
	fails int // to write one
	text  int // bytes of it
}

// tooMany is more steps than any check may have.
const tooMany = maxChecks + 1

var tooDear = price{steps: tooMany}

// and adds what is checked as well. The first error ends both.
func (p price) and(q price) price {
	return price{min(p.steps+q.steps, tooMany), max(p.fails, q.fails), max(p.text, q.text)}
}

// failed is the price where an error does not end the check. The text is not used.
func (p price) failed() price { return price{steps: min(p.steps+p.fails, tooMany)} }

// place is where a value lies.
func place(value any) (p pair) {
	switch x := value.(type) {
	case map[string]any:
		p.value, p.size = reflect.ValueOf(x).Pointer(), -1
	case []any:
		p.value, p.size = reflect.ValueOf(x).Pointer(), len(x)
	case string:
		p.size = len(x)
	case float64: // its price follows from its exponent
		_, exp := math.Frexp(x)
		p.size = -3 - max(exp, -exp)
	default:
		p.size = -2
	}
	return p
}

// size is how long a value is as a text, about. What takes long to compare and to write counts for more.
func (c *checks) size(value any) (n int) {
	switch x := value.(type) {
	case map[string]any:
		p := place(value)
		if n = c.sizes[p]; n == 0 {
			n = 50
			for name, y := range x {
				n += len(name) + 4 + c.size(y)
			}
			c.sizes[p] = n
		}
	case []any:
		p := place(value)
		if n = c.sizes[p]; n == 0 {
			n = 10
			for _, y := range x {
				n += 1 + c.size(y)
			}
			c.sizes[p] = n
		}
	case string:
		n = 2 + len(x)
	case float64:
		_, exp := math.Frexp(x)
		n = 24 + max(exp, -exp)/4 // it is compared with all its digits
	default:
		n = 5
	}
	return n
}

// aroundText is what an error has besides a value and a path, in bytes.
const aroundText = 60

func (c *checks) cost(v, value any) price {
	schema, ok := v.(map[string]any)
	if !ok {
		return price{1, 1 + c.path/copyStep, c.path + aroundText} // true, or false
	}
	p := place(value)
	p.schema = reflect.ValueOf(schema).Pointer()
	if known, ok := c.known[p]; ok {
		return known
	}
	if c.left--; c.left <= 0 {
		return tooDear
	}
	c.known[p] = tooDear // met again from inside: it leads to itself
	out := c.add(c.own(schema, value), schema, value)
	out.text = min(out.text+c.path+aroundText, copyStep*tooMany)
	out.fails = min(out.fails+1+out.text/copyStep, tooMany)
	c.known[p] = out
	return out
}

// own is the price of what a schema says of a value itself.
func (c *checks) own(schema map[string]any, value any) price {
	n, size := 1, c.size(value)
	named := c.size(schema["required"]) // what an error names
	shown := has(schema, "type") && schema["type"] != kind(value)
	switch x := value.(type) {
	case map[string]any:
		n += len(x) / memberStep
		shown = shown || has(schema, "additionalProperties")
	case []any:
		n += len(x) / memberStep
		shown = shown || has(schema, "contains")
		if schema["uniqueItems"] == true {
			n += c.unique(x)
		}
	case string:
		if p, ok := schema["pattern"].(string); ok {
			n += c.matching(p, x)
			named += len(p)
		}
		shown = shown || has(schema, "pattern", "minLength", "maxLength")
	case float64:
		if has(schema, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf") {
			n, shown = n+size/equalStep, true
		}
	}
	same := func(one any) {
		n += min(size, c.size(one)) / equalStep
		named, shown = named+c.size(one), true
	}
	if list, ok := schema["enum"].([]any); ok {
		n += len(list)
		for _, one := range list {
			same(one)
		}
	}
	if one, ok := schema["const"]; ok {
		same(one)
	}
	if shown {
		named += size
	}
	return price{min(n, tooMany), named / writeStep, named}
}

// has says whether a schema has one of these keywords.
func has(schema map[string]any, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return schema[word] != nil })
}

// kind is what a schema calls values like this; "": more than one thing.
func kind(value any) string {
	switch value.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case nil:
		return "null"
	}
	return ""
}

// matching is how many steps it takes to match a text with a regular expression.
func (c *checks) matching(pattern, text string) int {
	return min(1+(1+len(text))*c.states[pattern]/patternStep, tooMany)
}

// unique is how many steps it takes to see that no two items of a list are equal. The checker compares those whose hashes are, and one
// can write many of those that differ.
func (c *checks) unique(items []any) int {
	n := c.size(items) / equalStep
	if c.left -= n; c.left <= 0 {
		return tooMany
	}
	same := map[uint64]int{}
	seed := maphash.MakeSeed()
	for _, x := range items {
		var h maphash.Hash
		h.SetSeed(seed)
		hash(&h, x)
		sum := h.Sum64()
		n = min(n+same[sum]*(1+c.size(x)/equalStep), tooMany)
		same[sum]++
	}
	return n
}

// hash writes what the checker writes of a value. It has no mark between two texts, so that values can be written that share a hash.
func hash(h *maphash.Hash, value any) {
	bytes := func(b []byte) { _, _ = h.Write(b) } // never fails
	number := func(n int) { bytes(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	switch x := value.(type) {
	case map[string]any:
		number(len(x))
		for _, name := range slices.Sorted(maps.Keys(x)) {
			bytes([]byte(name))
			hash(h, x[name])
		}
	case []any:
		number(len(x))
		for _, y := range x {
			hash(h, y)
		}
	case string:
		bytes([]byte(x))
	case float64:
		var r big.Rat
		r.SetFloat64(x)
		number(r.Sign() + 1)
		bytes(r.Num().Bytes())
		bytes(r.Denom().Bytes())
	case bool:
		if x {
			bytes([]byte{1})
			return
		}
		bytes([]byte{0})
	default:
		bytes([]byte{0})
	}
}

// add adds what the keywords of a schema cost that hold schemas.
func (c *checks) add(out price, schema map[string]any, value any) price {
	for word, v := range schema {
		list, _ := v.([]any)
		named, _ := v.(map[string]any)
		switch word {
		case "$ref":
			target, found := c.target(v)
			if !found {
				return tooDear
			}
			out = out.and(c.cost(target, value))
		case "$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor":
			return tooDear // references that are not followed here
		case "$id":
			if reflect.ValueOf(schema).Pointer() != reflect.ValueOf(c.doc).Pointer() {
				return tooDear
			}
		case "required":
			out = out.and(price{steps: len(list)})
		case "allOf":
			for _, s := range list {
				out = out.and(c.cost(s, value))
			}
		case "anyOf": // its error has those of all choices
			all := price{}
			for _, s := range list {
				p := c.cost(s, value)
				all = price{all.and(p.failed()).steps, 0, min(all.text+p.text+aroundText, copyStep*tooMany)}
			}
			out = out.and(all)
		case "oneOf":
			all := price{text: len(list) * aroundText}
			for _, s := range list {
				all = all.and(c.cost(s, value).failed())
			}
			out = out.and(all)
		case "not", "if":
			out = out.and(c.cost(v, value).failed())
		case "then", "else":
			out = out.and(c.cost(v, value))
		case "dependentSchemas", "dependencies", "dependentRequired":
			for _, s := range named {
				if names, isList := s.([]any); isList {
					out = out.and(price{len(names), c.size(names) / writeStep, c.size(names)})
				} else {
					out = out.and(c.cost(s, value))
				}
			}
		default:
			out = out.and(c.below(word, v, value))
		}
	}
	return out
}

// below is what a keyword costs that is about what is in a value.
func (c *checks) below(word string, v, value any) (out price) {
	items, _ := value.([]any)
	members, _ := value.(map[string]any)
	list, isList := v.([]any)
	named, _ := v.(map[string]any)
	switch word {
	case "contains":
		for _, x := range items {
			out = out.and(c.cost(v, x).failed())
		}
	case "items", "prefixItems", "additionalItems", "unevaluatedItems":
		for i, x := range items {
			if !isList {
				out = out.and(c.cost(v, x))
			} else if i < len(list) {
				out = out.and(c.cost(list[i], x))
			}
		}
	case "properties":
		out.steps = len(named)
		for name, x := range members {
			if s, ok := named[name]; ok {
				out = out.and(c.cost(s, x))
			}
		}
	case "patternProperties":
		for name, x := range members {
			for pattern, s := range named {
				out = out.and(price{steps: c.matching(pattern, name)}).and(c.cost(s, x))
			}
		}
	case "additionalProperties", "unevaluatedProperties":
		for _, x := range members {
			out = out.and(c.cost(v, x))
		}
	case "propertyNames":
		for name := range members {
			out = out.and(c.cost(v, name))
		}
	}
	return out
}

// target follows "#/a/b/0".
func (c *checks) target(ref any) (at any, found bool) {
	text, _ := ref.(string)
	pointer, ok := strings.CutPrefix(text, "#")
	if !ok || pointer != "" && pointer[0] != '/' || strings.Contains(pointer, "%") {
		return nil, false
	}
	if at = c.doc; pointer == "" {
		return at, true
	}
	for part := range strings.SplitSeq(pointer[1:], "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch v := at.(type) {
		case map[string]any:
			at = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			at = v[i]
		default:
			return nil, false
		}
	}
	return at, true
}
