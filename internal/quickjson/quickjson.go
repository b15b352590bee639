// Package quickjson reads JSON that is mostly of one simple form, where reflection would take most of the time: it reads that form, and says of all else
// that somebody else has to read it, which is encoding/json.
package quickjson

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Members gives the members of an object as they stand there, in their order: names without their quotes. fn says whether it wants more. False: raw
// is no object, a name has an escape, or fn has had enough. Of values only the ends are looked for.
func Members(raw []byte, fn func(name, value []byte) bool) bool {
	c := Cursor{Raw: raw}
	for more := c.Open('{', '}'); more; more = c.Next('}') {
		name := c.Value()
		if len(name) < 2 || name[0] != '"' || bytes.IndexByte(name, '\\') >= 0 {
			return false
		}
		c.Token(':')
		if value := c.Value(); c.Bad || len(value) == 0 || !fn(name[1:len(name)-1], value) {
			return false
		}
	}
	c.Space()
	return !c.Bad && c.At == len(raw)
}

// Text gives the text of a JSON string, and what stands between its quotes, where nothing is escaped that need not be, nor in a longer way than it must.
// False: something is, or it is no string.
func Text(raw []byte) (text string, inner []byte, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", nil, false
	}
	escapes := false
	end := Ordinary(raw, 1)
	for ; end < len(raw) && raw[end] == '\\'; end = Ordinary(raw, end+2) {
		if end+1 == len(raw) || strings.IndexByte(escaped, raw[end+1]) < 0 {
			return "", nil, false
		}
		escapes = true
	}
	if end != len(raw)-1 || raw[end] != '"' {
		return "", nil, false
	}
	if inner = raw[1:end]; !utf8.Valid(inner) {
		return "", nil, false
	}
	if escapes {
		return unescaped(inner), inner, true
	}
	return string(inner), inner, true
}

// unescaped gives the text of what Text has looked at.
func unescaped(inner []byte) string {
	out := make([]byte, 0, len(inner))
	for {
		i := bytes.IndexByte(inner, '\\')
		if i < 0 {
			return string(append(out, inner...))
		}
		out = append(out, inner[:i]...)
		out = append(out, meant[strings.IndexByte(escaped, inner[i+1])])
		inner = inner[i+2:]
	}
}

// What may stand behind a backslash, and what it means.
const (
	escaped = `"\nrtbf`
	meant   = "\"\\\n\r\t\b\f"
)
