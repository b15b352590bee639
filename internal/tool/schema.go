package tool

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agentkernel/internal/jsonc"
)

// schema is the part of a JSON Schema that a Python signature shows. Unlike a map it keeps the order of
// the properties, which is the order in which the tool's author thought of the arguments.
type schema struct {
	Ref         string            `json:"$ref"`
	Type        typeNames         `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Format      string            `json:"format"`
	Nullable    bool              `json:"nullable"`
	Default     json.RawMessage   `json:"default"`
	Const       json.RawMessage   `json:"const"`
	Enum        []json.RawMessage `json:"enum"`
	AnyOf       []*schema         `json:"anyOf"`
	OneOf       []*schema         `json:"oneOf"`
	AllOf       []*schema         `json:"allOf"`
	Items       *schema           `json:"items"`
	Prefix      []*schema         `json:"prefixItems"`
	Properties  properties        `json:"properties"`
	Required    []string          `json:"required"`
	Additional  *schema           `json:"additionalProperties"`
	Pattern     json.RawMessage   `json:"patternProperties"`
	If          json.RawMessage   `json:"if"`

	never bool    // the schema `false`
	is    *schema // of a copy: the original
}

// original is the schema itself, or that of which it is a copy.
func (s *schema) original() *schema {
	if s.is != nil {
		return s.is
	}
	return s
}

// tuples moves what older drafts call items and additionalItems to where newer ones have it.
func (s *schema) tuples(items, rest json.RawMessage) {
	var list []*schema
	if len(items) == 0 || items[0] != '[' || json.Unmarshal(items, &list) != nil {
		return
	}
	s.Prefix, s.Items = list, nil
	if len(rest) > 0 {
		s.Items = new(schema)
		_ = json.Unmarshal(rest, s.Items) // strange: it says nothing
	}
}

type property struct {
	name string
	*schema
}

type properties []property

func (p properties) find(name string) *schema {
	for i := range p {
		if p[i].name == name {
			return p[i].schema
		}
	}
	return nil
}

// UnmarshalJSON reads the members in their order.
func (p *properties) UnmarshalJSON(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return err // not an object: no properties
	}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		s := new(schema)
		if err := dec.Decode(s); err != nil {
			return err
		}
		if *p = append(*p, property{tok.(string), s}); len(*p) > maxParams {
			return nil
		}
	}
	return nil
}

// typeNames is "type": one name or several.
type typeNames []string

// UnmarshalJSON takes a text or a list of texts; anything else says nothing.
func (t *typeNames) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = typeNames{one}
		return nil
	}
	var many []string
	if json.Unmarshal(b, &many) == nil {
		*t = many
	}
	return nil
}

// UnmarshalJSON never fails on a strange schema: what it cannot read says nothing about the value, and the
// type becomes Any. Only the keyword concerned is lost. Each keyword is read once: whoever read the whole again
// after a mistake would read twice as much with each level.
func (s *schema) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' {
		s.never = string(b) == "false"
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	for k, v := range members {
		if into := s.keyword(k); into != nil {
			_ = json.Unmarshal(v, into) // strange: it says nothing
		}
	}
	s.tuples(bytes.TrimSpace(members["items"]), members["additionalItems"])
	s.Prefix = slices.DeleteFunc(s.Prefix, func(item *schema) bool { return item == nil })
	return nil
}

// keyword is where the value of a keyword goes; nil: nowhere.
func (s *schema) keyword(name string) any {
	switch name {
	case "$ref":
		return &s.Ref
	case "type":
		return &s.Type
	case "title":
		return &s.Title
	case "description":
		return &s.Description
	case "format":
		return &s.Format
	case "nullable":
		return &s.Nullable
	case "default":
		return &s.Default
	case "const":
		return &s.Const
	case "enum":
		return &s.Enum
	case "anyOf":
		return &s.AnyOf
	case "oneOf":
		return &s.OneOf
	case "allOf":
		return &s.AllOf
	case "items":
		return &s.Items
	case "prefixItems":
		return &s.Prefix
	case "properties":
		return &s.Properties
	case "required":
		return &s.Required
	case "additionalProperties":
		return &s.Additional
	case "patternProperties":
		return &s.Pattern
	case "if":
		return &s.If
	}
	return nil
}

// What a server may say of a tool. A schema beyond it says nothing: the tool takes any arguments, and the
// server judges them.
const (
	maxSchema = 256 << 10 // bytes
	maxNest   = 64        // levels of JSON; each is read again for each level above it
	maxWork   = 20_000    // schemas that are looked at for the texts of one tool, references followed
	maxParams = 1000
)

// readable says whether a schema is small and shallow enough to be read.
func readable(raw json.RawMessage) bool {
	if len(raw) > maxSchema {
		return false
	}
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			if i = jsonc.StringEnd(raw, i); i >= len(raw) {
				return false
			}
		case '[', '{':
			if depth++; depth > maxNest {
				return false
			}
		case ']', '}':
			depth--
		}
	}
	return true
}

// schemaDoc is a whole schema document, in which references are resolved.
type schemaDoc struct {
	root *schema
	raw  json.RawMessage
	refs map[string]*schema
	at   map[string]map[string]json.RawMessage // members of the objects that pointers went through
	left int                                   // of maxWork

	inside, open []*schema // whose types, and whose members, are being written; the outermost first
}

func parseSchema(raw json.RawMessage) *schemaDoc {
	d := &schemaDoc{root: new(schema), refs: map[string]*schema{}, at: map[string]map[string]json.RawMessage{}, left: maxWork}
	if len(raw) == 0 {
		return d
	}
	if !readable(raw) {
		d.root.Additional = new(schema) // anything goes
		return d
	}
	d.raw = raw
	_ = json.Unmarshal(raw, d.root) // strange: it says nothing
	return d
}

// resolve follows $ref inside the document; nil if it leads nowhere or in a circle, or if enough has been
// looked at.
func (d *schemaDoc) resolve(s *schema) *schema {
	for range 20 {
		if d.left--; d.left < 0 {
			return nil
		}
		if s == nil || s.Ref == "" {
			return s
		}
		target := d.lookup(s.Ref)
		if target == nil {
			return nil
		}
		if target.Ref == "" && (s.Description != "" || s.Default != nil || s.Nullable) {
			t := *target // keywords beside $ref count (draft 2020-12)
			if s.Description != "" {
				t.Description = s.Description
			}
			if s.Default != nil {
				t.Default = s.Default
			}
			t.Nullable = t.Nullable || s.Nullable
			t.is = target
			return &t
		}
		s = target
	}
	return nil
}

// lookup walks a JSON pointer ("#/$defs/Point").
func (d *schemaDoc) lookup(ref string) *schema {
	if s, ok := d.refs[ref]; ok {
		return s
	}
	d.refs[ref] = nil
	pointer, ok := strings.CutPrefix(ref, "#")
	switch {
	case !ok:
		return nil
	case pointer == "" || pointer == "/":
		d.refs[ref] = d.root
		return d.root
	}
	if p, err := url.PathUnescape(pointer); err == nil {
		pointer = p
	}
	at, path := d.raw, ""
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if part == "" {
			continue
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if at = d.member(at, path, part); at == nil {
			return nil
		}
		path += "/" + part
	}
	s := new(schema)
	if json.Unmarshal(at, s) != nil {
		return nil
	}
	d.refs[ref] = s
	return s
}

// member gives a member of what stands at a path, which is read once.
func (d *schemaDoc) member(raw json.RawMessage, path, key string) json.RawMessage {
	members, known := d.at[path]
	if !known {
		if json.Unmarshal(raw, &members) != nil {
			members = nil
			var list []json.RawMessage
			if json.Unmarshal(raw, &list) == nil {
				members = make(map[string]json.RawMessage, len(list))
				for i, item := range list {
					members[strconv.Itoa(i)] = item
				}
			}
		}
		d.at[path] = members
	}
	return members[key]
}
