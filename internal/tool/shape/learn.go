package shape

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Learned is the shape of a tool's results, with that of the JSON that text results hold.
type Learned struct {
	Version int    `json:"version"`
	Results int64  `json:"results"`
	Value   *Shape `json:"value,omitempty"`
	Text    *Shape `json:"text,omitempty"` // of JSON in texts
	Plain   bool   `json:"plain,omitempty"`
	steady  int64  // results since the shape changed last
}

// After a shape has not changed for a while, only some results are looked at.
const (
	settled = 32
	every   = 64
)

// Learn looks at one result, as docs/values.md writes it. It says whether the shape has changed.
func (l *Learned) Learn(raw json.RawMessage) bool {
	l.Results++
	if l.steady++; l.steady > settled && l.steady%every != 0 || len(raw) > MaxBytes {
		return false
	}
	before := l.text()
	value, ok := read(raw)
	if !ok {
		return false
	}
	l.Value = add(l.Value, value)
	var s string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		l.learnText(s)
	}
	if l.text() == before {
		return false
	}
	l.Version++
	l.steady = 0
	return true
}

// learnText looks for JSON in a text result: an object or a list, not a lone number.
func (l *Learned) learnText(s string) {
	s = strings.TrimSpace(s)
	if s == "" || s[0] != '{' && s[0] != '[' {
		l.Plain = l.Plain || s != ""
		return
	}
	if inner, ok := read([]byte(s)); ok {
		l.Text = add(l.Text, inner)
	} else {
		l.Plain = true
	}
}

// Size is how many shapes it is made of.
func (l *Learned) Size() int { return l.Value.nodes() + l.Text.nodes() }

// Sound says whether it could have been learned: one that was read from a file may be anything.
func (l *Learned) Sound() bool {
	return l.Value.sound(0) && l.Text.sound(0) && l.Size() <= 4*maxNodes
}

func (s *Shape) sound(depth int) bool {
	if s == nil {
		return true
	}
	if depth > 2*maxDepth || !slices.IsSorted(s.Kinds) || s.Mapping != (s.Values != nil) || !s.Values.sound(depth+1) || !s.Items.sound(depth+1) {
		return false
	}
	for name, m := range s.Members {
		if m == nil || !plainName().MatchString(name) || !m.sound(depth+1) {
			return false
		}
	}
	return true
}

// text is everything that a reader sees of it.
func (l *Learned) text() string {
	return strings.Join([]string{l.Type(), l.TextType(), l.Members()}, "\x00")
}

// Type is the Python annotation of the results.
func (l *Learned) Type() string { return l.Value.Type() }

// TextType is that of the JSON in text results; "" if some results are other text.
func (l *Learned) TextType() string {
	if l.Text == nil || l.Plain {
		return ""
	}
	return l.Text.Type()
}

// Members describes the objects of the results, or of the JSON in them.
func (l *Learned) Members() string {
	if l.TextType() != "" {
		return l.Text.Describe()
	}
	return l.Value.Describe()
}

// add merges a new shape in, unless the sum would be too large: then it stays as it is.
func add(have, found *Shape) *Shape {
	if have == nil {
		return found
	}
	if have.nodes()+found.nodes() > 2*maxNodes {
		return have
	}
	have.merge(found)
	return have
}

// read gives the shape of one JSON value.
func read(raw []byte) (*Shape, bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	r := reader{dec: dec, left: maxNodes}
	s, err := r.value(0)
	if err != nil || dec.More() {
		return nil, false
	}
	return s, true
}

type reader struct {
	dec  *json.Decoder
	left int // shapes that may still be made
}

func (r *reader) value(depth int) (*Shape, error) {
	tok, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	s := &Shape{}
	r.left--
	switch v := tok.(type) {
	case nil:
		s.has(None)
	case bool:
		s.has(Bool)
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			s.has(Float)
		} else {
			s.has(Int)
		}
	case string:
		s.has(Str)
	case json.Delim:
		if v == '[' {
			err = r.list(s, depth)
		} else {
			err = r.object(s, depth)
		}
	}
	return s, err
}

func (r *reader) list(s *Shape, depth int) error {
	s.has(List)
	for n := 0; r.dec.More(); n++ {
		if n >= maxItems || depth >= maxDepth || r.left <= 0 {
			if err := r.skip(); err != nil {
				return err
			}
			continue
		}
		item, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		s.Items = add(s.Items, item)
	}
	_, err := r.dec.Token()
	return err
}

// tagged are the values that JSON cannot hold (docs/values.md).
var tagged = map[string]Kind{"$bytes": Bytes, "$float": Float, "$int": Int, "$dict": Dict}

func (r *reader) object(s *Shape, depth int) error {
	tag := Kind("")
	for r.dec.More() {
		tok, err := r.dec.Token()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		if strings.HasPrefix(key, "$") {
			if tag = tagged[key]; tag == "" {
				tag = Any
			}
		}
		if tag != "" || depth >= maxDepth || r.left <= 0 {
			if err := r.skip(); err != nil {
				return err
			}
			continue
		}
		member, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		if !plainName().MatchString(key) || len(s.Members) >= maxKeys {
			s.toMapping()
		}
		if s.Mapping {
			s.Values.merge(member)
			continue
		}
		m := s.member(key)
		m.Seen++
		m.merge(member)
	}
	if tag != "" {
		*s = Shape{}
		s.has(tag)
		if tag == Dict {
			s.Mapping, s.Values = true, &Shape{Kinds: []Kind{Any}}
		}
	} else {
		s.has(Dict)
		s.Objects = 1
	}
	_, err := r.dec.Token()
	return err
}

// skip reads over one value.
func (r *reader) skip() error {
	var raw json.RawMessage
	return r.dec.Decode(&raw)
}
