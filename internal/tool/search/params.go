package search

import (
	"bytes"
	"encoding/json"

	"agentkernel"
)

// maxNest is how many levels of a schema are read.
const maxNest = 5

// parameterText gives the names of a tool's parameters, and what is said of them.
func parameterText(t *agentkernel.Tool) (names, docs string) {
	r := schemaReader{dec: json.NewDecoder(bytes.NewReader(t.InputSchema))}
	if r.schema(1, false) == nil {
		return string(r.names), string(r.docs)
	}
	var n, d []byte
	for _, p := range t.Params {
		n = append(append(n, p.Name...), " . "...)
		d = append(append(d, p.Doc...), " . "...)
	}
	return string(n), string(d)
}

// schemaReader reads of a JSON Schema what matters here, in one pass: a server may nest and repeat at will.
type schemaReader struct {
	dec         *json.Decoder
	names, docs []byte
}

// schema reads one schema. Only what describes a parameter is a parameter's description.
func (r *schemaReader) schema(level int, parameter bool) error {
	return r.members(func(key string) error {
		switch {
		case key == "description" && parameter:
			var s text
			err := r.dec.Decode(&s)
			r.docs = append(append(r.docs, s...), " . "...)
			return err
		case key == "enum" && parameter:
			var list choices
			err := r.dec.Decode(&list)
			for _, s := range list {
				r.docs = append(append(r.docs, s...), " . "...)
			}
			return err
		case key == "properties" && level <= maxNest:
			return r.members(func(name string) error {
				r.names = append(append(r.names, name...), " . "...)
				return r.schema(level+1, true)
			})
		case key == "items" && level < maxNest:
			return r.schema(level+1, false)
		}
		return r.skip()
	})
}

// members calls fn for each member of an object, which reads its value. Anything else has none: `true`,
// `false` and a list of schemas stand in the place of a schema too.
func (r *schemaReader) members(fn func(key string) error) error {
	tok, err := r.dec.Token()
	if err != nil {
		return err
	}
	open, _ := tok.(json.Delim)
	if open != '{' && open != '[' {
		return nil
	}
	for r.dec.More() {
		if open == '[' {
			err = r.skip()
		} else if tok, err = r.dec.Token(); err == nil {
			err = fn(tok.(string)) //nolint:forcetypeassert // the decoder gives nothing else before a colon
		}
		if err != nil {
			return err
		}
	}
	_, err = r.dec.Token()
	return err
}

// skip reads over one value.
func (r *schemaReader) skip() error {
	var s skipped
	return r.dec.Decode(&s)
}

// skipped is a value that nobody wants.
type skipped struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (skipped) UnmarshalJSON([]byte) error { return nil }

// text is a string; anything else in its place says nothing.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*t = text(s)
	}
	return nil
}

// choices are the strings of a list.
type choices []string

// UnmarshalJSON implements json.Unmarshaler.
func (c *choices) UnmarshalJSON(b []byte) error {
	var list []text
	if json.Unmarshal(b, &list) == nil {
		for _, s := range list {
			if s != "" {
				*c = append(*c, string(s))
			}
		}
	}
	return nil
}
