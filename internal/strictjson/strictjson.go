// Package strictjson finds what encoding/json passes over in silence when it decodes into a type: fields in another
// case, fields that are there twice, and escapes that are half of a character. Who filters such a text by the names in
// it, and who decodes it, must mean the same fields.
package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"agentkernel/internal/nearest"
)

// FieldError is a field that may not be where it is.
type FieldError struct {
	In    string // the path of the object, "limits"; "": the outermost
	Name  string
	Twice bool   // it is there a second time; else there is no such field
	Hint  string // which was meant; "": nobody knows
}

func (e *FieldError) Error() string {
	const most = 80
	name := e.Name
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "..."
	}
	where := ""
	if e.In != "" {
		where = " in " + e.In
	}
	if e.Twice {
		return fmt.Sprintf("the field %q is there twice%s", name, where)
	}
	return fmt.Sprintf("there is no field %q%s", name, where)
}

// Check looks at one JSON value that encoding/json has decoded into v, or has refused for a field that v does not have:
// it may hold only fields of v's type, in the case of their tags, and each once, at every depth.
func Check(raw []byte, v any) error {
	c := checker{dec: json.NewDecoder(bytes.NewReader(raw)), top: reflect.TypeOf(v)}
	return c.value(c.top, "")
}

// CheckKnown is Check for a text that others read, too: it may hold fields that v does not have in any case.
func CheckKnown(raw []byte, v any) error {
	c := checker{dec: json.NewDecoder(bytes.NewReader(raw)), top: reflect.TypeOf(v), others: true}
	return c.value(c.top, "")
}

type checker struct {
	dec    *json.Decoder
	top    reflect.Type
	others bool // fields that are not known are passed over
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// value checks the next value, of a type; nil: of any.
func (c *checker) value(t reflect.Type, at string) error {
	if t == reflect.TypeFor[json.RawMessage]() { // what is in it is for somebody else to judge
		var raw json.RawMessage
		return c.dec.Decode(&raw)
	}
	tok, err := c.dec.Token()
	if err != nil {
		return err
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t != nil && (t.Kind() == reflect.Interface || reflect.PointerTo(t).Implements(unmarshaler)) {
		t = nil
	}
	switch tok {
	case json.Delim('{'):
		return c.object(t, at)
	case json.Delim('['):
		if t != nil && t.Kind() != reflect.Slice && t.Kind() != reflect.Array {
			t = nil
		} else if t != nil {
			t = t.Elem()
		}
		for i := 0; c.dec.More(); i++ {
			if err := c.value(t, at+"["+strconv.Itoa(i)+"]"); err != nil {
				return err
			}
		}
		_, err = c.dec.Token()
	}
	return err
}

func (c *checker) object(t reflect.Type, at string) error {
	seen := map[string]bool{}
	for c.dec.More() {
		tok, err := c.dec.Token()
		if err != nil {
			return err
		}
		name, _ := tok.(string)
		if seen[name] {
			return &FieldError{In: at, Name: name, Twice: true}
		}
		seen[name] = true
		var of reflect.Type
		switch {
		case t == nil:
		case t.Kind() == reflect.Map:
			of = t.Elem()
		case t.Kind() == reflect.Struct:
			all := fields(t)
			i := slices.IndexFunc(all, func(f field) bool { return f.name == name })
			if i < 0 && c.others && !slices.ContainsFunc(all, func(f field) bool { return strings.EqualFold(f.name, name) }) {
				break
			}
			if i < 0 {
				return &FieldError{In: at, Name: name, Hint: c.hint(name, all)}
			}
			of = all[i].typ
		}
		if err := c.value(of, strings.TrimPrefix(at+"."+name, ".")); err != nil {
			return err
		}
	}
	_, err := c.dec.Token()
	return err
}

// hint says which field was meant: one of this object, or one of the same name elsewhere.
func (c *checker) hint(name string, here []field) string {
	var names []string
	for _, f := range here {
		if strings.EqualFold(f.name, name) {
			return "did you mean " + f.name + "?"
		}
		names = append(names, f.name)
	}
	if place := find(c.top, name, "", nil); place != "" {
		return "did you mean " + place + "?"
	}
	if q := nearest.Question(name, names); q != "" {
		return q
	}
	return nearest.Question(name, all(c.top, nil, nil))
}

// find gives the place of a field with just this name, the outermost one.
func find(t reflect.Type, name, at string, on []reflect.Type) string {
	t = inner(t)
	if slices.Contains(on, t) {
		return ""
	}
	list := members(t) // also of what decodes itself: it does so to refuse more
	for _, f := range list {
		if f.name == name {
			return strings.TrimPrefix(at+"."+name, ".")
		}
	}
	for _, f := range list {
		if place := find(f.typ, name, strings.TrimPrefix(at+"."+f.name, "."), append(on, t)); place != "" {
			return place
		}
	}
	return ""
}

// all lists the names of all fields below a type.
func all(t reflect.Type, names []string, on []reflect.Type) []string {
	t = inner(t)
	if slices.Contains(on, t) {
		return names
	}
	for _, f := range fields(t) {
		names = all(f.typ, append(names, f.name), append(on, t))
	}
	return names
}

func inner(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

type field struct {
	name string
	typ  reflect.Type
}

// listed are the fields of types that were asked for; to read their tags takes longer than a small text.
var listed sync.Map // of reflect.Type to []field

// fields lists those of a struct as encoding/json names them; none of what decodes itself.
func fields(t reflect.Type) []field {
	if known, ok := listed.Load(t); ok {
		return known.([]field)
	}
	var list []field
	if !reflect.PointerTo(t).Implements(unmarshaler) {
		list = slices.Clip(members(t)) // callers may append
	}
	listed.Store(t, list)
	return list
}

func members(t reflect.Type) (list []field) {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-":
		case f.Anonymous && name == "":
			list = append(list, fields(inner(f.Type))...)
		case !f.IsExported():
		case name == "":
			list = append(list, field{f.Name, f.Type})
		default:
			list = append(list, field{name, f.Type})
		}
	}
	return list
}

// LoneSurrogate finds an escape \ud800 to \udfff in JSON that is not one of a pair; -1: there is none.
func LoneSurrogate(raw []byte) int {
	const escape = len(`\uXXXX`)
	unit := func(at int) rune { // that of an escape; 0: there is none
		if at+escape > len(raw) || raw[at] != '\\' || raw[at+1] != 'u' {
			return 0
		}
		n, err := strconv.ParseUint(string(raw[at+2:at+escape]), 16, 16)
		if err != nil {
			return 0
		}
		return rune(n)
	}
	for at := 0; at < len(raw); at++ {
		if raw[at] != '\\' {
			continue
		}
		first := unit(at)
		if first == 0 {
			at++ // the escaped character may be a backslash
			continue
		}
		if utf16.IsSurrogate(first) {
			if utf16.DecodeRune(first, unit(at+escape)) == utf8.RuneError {
				return at
			}
			at += escape
		}
		at += escape - 1
	}
	return -1
}

// ShowSurrogates writes halves of surrogate pairs in JSON as text: what is decoded from it has \ud800 where no text could have the half.
func ShowSurrogates(raw []byte) []byte {
	for at := LoneSurrogate(raw); at >= 0; {
		raw = slices.Concat(raw[:at], []byte{'\\'}, raw[at:])
		next := LoneSurrogate(raw[at+2:]) // behind the two backslashes
		if next < 0 {
			break
		}
		at += 2 + next
	}
	return raw
}
