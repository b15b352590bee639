package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Plain takes the $-objects off: the form that tools, command lines and --json receive.
func Plain(raw json.RawMessage) (json.RawMessage, error) {
	return plainForm(raw, false)
}

// The errors of [PlainExact]: for NaN and the infinities, and for keys such as 1 and "1" in one dict.
var (
	ErrNotFinite = errors.New("NaN and infinite numbers cannot be written as JSON")
	ErrSameKey   = errors.New("two keys of a dict are the same text in JSON")
)

// PlainExact is [Plain] for what is sent to others: what JSON cannot write is refused, and not made null or pairs.
func PlainExact(raw json.RawMessage) (json.RawMessage, error) {
	return plainForm(raw, true)
}

func plainForm(raw json.RawMessage, exact bool) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage("null"), nil
	}
	if !bytes.Contains(raw, []byte(`"$`)) && !bytes.Contains(raw, []byte(`\u0024`)) {
		return raw, nil
	}
	s, err := look(raw)
	if err != nil {
		return nil, err
	}
	w := writer{survey: s, out: make([]byte, 0, len(raw))}
	w.space()
	w.plain()
	switch {
	case exact && w.notFinite:
		return nil, ErrNotFinite
	case exact && w.sameKey != "":
		return nil, fmt.Errorf("%w: %s", ErrSameKey, w.sameKey)
	case w.sameKey != "": // plainDict has marked the dicts: this time they become pairs
		w = writer{survey: s, out: w.out[:0]}
		w.space()
		w.plain()
	}
	return w.out, nil
}

// plain writes the value that comes next in plain form.
func (w *writer) plain() {
	switch w.raw[w.at] {
	case '{':
		w.plainObject()
	case '[':
		w.plainArray()
	case '"':
		w.text()
	default:
		w.verbatim()
	}
}

func (w *writer) plainArray() {
	w.out = append(w.out, '[')
	for w.begin(); w.more(']'); w.separate() {
		w.plain()
	}
	w.out = append(w.out, ']')
}

func (w *writer) plainObject() {
	kind, index := w.object(), w.begun-1
	switch kind {
	case plainObject, dollarObject:
		w.plainMembers()
		return
	}
	w.begin()
	w.name()
	switch kind {
	case exceptionTag:
		w.object()
		w.plainMembers()
	case recordTag:
		w.plainMember("values", "[]")
	case objectTag:
		w.plainMember("fields", "null")
	case namedDictTag:
		w.plainDict(index)
	case timedeltaTag:
		w.plainTimedelta()
	case floatTag:
		w.notFinite = true
		w.skip()
		w.out = append(w.out, "null"...)
	default:
		w.plain()
	}
	w.more('}')
}

// plainMembers writes an object whose first byte stands here as it is, its values in plain form.
func (w *writer) plainMembers() {
	w.out = append(w.out, '{')
	for w.begin(); w.more('}'); w.separate() {
		w.out = append(AppendString(w.out, unescaped(w.name())), ':')
		w.plain()
	}
	w.out = append(w.out, '}')
}

// plainMember writes the first member of that name alone, or what stands for it if there is none.
func (w *writer) plainMember(name, missing string) {
	w.object()
	found := false
	for w.begin(); w.more('}'); w.comma() {
		if string(w.name()) == name && !found {
			found = true
			w.plain()
			continue
		}
		w.skip()
	}
	if !found {
		w.out = append(w.out, missing...)
	}
}

// plainDict writes pairs as an object: the survey found that every key has an obvious text. If two have the same one,
// as 1 and "1" have, the object with this index is marked as a dict of other keys.
func (w *writer) plainDict(index int) {
	seen := map[string]bool{}
	w.out = append(w.out, '{')
	for w.begin(); w.more(']'); w.separate() {
		w.begin()
		key := len(w.out)
		if w.raw[w.at] == '"' {
			w.text()
		} else {
			w.out = AppendString(w.out, w.scalar())
		}
		text := string(w.out[key:])
		if seen[text] {
			w.objects[index], w.sameKey = dictTag, Short(json.RawMessage(text), 100)
		}
		seen[text] = true
		w.comma()
		w.out = append(w.out, ':')
		w.plain()
		w.more(']')
	}
	w.out = append(w.out, '}')
}

// plainTimedelta writes [days, seconds, microseconds] as seconds.
func (w *writer) plainTimedelta() {
	var parts [3]float64
	i := 0
	for w.begin(); w.more(']'); w.comma() {
		if i >= len(parts) || w.raw[w.at] == '{' || w.raw[w.at] == '[' || w.raw[w.at] == '"' {
			w.skip()
		} else {
			// What is malformed counts as 0: plain form is for reading, not for restoring.
			parts[i], _ = strconv.ParseFloat(string(w.scalar()), 64)
		}
		i++
	}
	seconds := parts[0]*86400 + parts[1] + parts[2]/1e6
	if math.IsInf(seconds, 0) || math.IsNaN(seconds) {
		w.out = append(w.out, "null"...)
		return
	}
	w.out = AppendFloat(w.out, seconds)
}

// FromPlain writes plain JSON of the outside world, such as a tool's result, as docs/values.md does: an
// object with a name that begins with "$" would be taken for something else and becomes {"$dict": [[name,
// value], ...]}; a number beyond every float is infinite. What needs no change is given back as it is.
func FromPlain(raw json.RawMessage) (json.RawMessage, error) {
	s, err := look(raw)
	if err != nil {
		return nil, err
	}
	if !s.dollar && !s.huge && !s.spaced {
		return raw, nil
	}
	w := writer{survey: s, out: make([]byte, 0, len(raw)+len(raw)/8)}
	w.space()
	w.guest()
	return w.out, nil
}

// guest writes the value that comes next in the form of guests.
func (w *writer) guest() {
	switch c := w.raw[w.at]; {
	case c == '{':
		open, between, shut, end := "{", ":", "", "}"
		if w.object() != plainObject {
			open, between, shut, end = `{"$dict":[`, ",", "]", "]}"
		}
		w.out = append(w.out, open...)
		for w.begin(); w.more('}'); w.separate() {
			if shut != "" {
				w.out = append(w.out, '[')
			}
			w.out = append(appendName(w.out, w.name()), between...)
			w.guest()
			w.out = append(w.out, shut...)
		}
		w.out = append(w.out, end...)
	case c == '[':
		w.out = append(w.out, '[')
		for w.begin(); w.more(']'); w.separate() {
			w.guest()
		}
		w.out = append(w.out, ']')
	case c == '-' || c >= '0' && c <= '9':
		w.guestNumber()
	default:
		w.verbatim()
	}
}

func (w *writer) guestNumber() {
	text := w.scalar()
	if w.huge && bytes.ContainsAny(text, "eE") {
		if f, err := strconv.ParseFloat(string(text), 64); err != nil && math.IsInf(f, 0) {
			sign := ""
			if f < 0 {
				sign = "-"
			}
			w.out = append(w.out, `{"$float":"`+sign+`inf"}`...)
			return
		}
	}
	w.out = append(w.out, text...)
}

// Text is the plain text of a value: a string without quotes, anything else as plain JSON.
func Text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	p, err := Plain(raw)
	if err != nil {
		return string(raw)
	}
	return string(p)
}
