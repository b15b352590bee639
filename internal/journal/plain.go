package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
)

// Plain takes the $-objects off: the form that tools, command lines and --json receive.
func Plain(raw json.RawMessage) (json.RawMessage, error) {
	out, _, err := plainForm(raw)
	return out, err
}

// ErrNotFinite is the error of [PlainExact] for NaN and the infinities.
var ErrNotFinite = errors.New("NaN and infinite numbers cannot be written as JSON")

// PlainExact is [Plain] for what is sent to others: a number that JSON cannot write is refused, not made null.
func PlainExact(raw json.RawMessage) (json.RawMessage, error) {
	out, finite, err := plainForm(raw)
	if err == nil && !finite {
		return nil, ErrNotFinite
	}
	return out, err
}

// plainForm says besides whether every number could be written.
func plainForm(raw json.RawMessage) (out json.RawMessage, finite bool, err error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage("null"), true, nil
	}
	if !bytes.Contains(raw, []byte(`"$`)) && !bytes.Contains(raw, []byte(`\u0024`)) {
		return raw, true, nil
	}
	s, err := look(raw)
	if err != nil {
		return nil, false, err
	}
	w := writer{survey: s, out: make([]byte, 0, len(raw))}
	w.space()
	w.plain()
	return w.out, !w.notFinite, nil
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
	kind := w.object()
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
		w.plainDict()
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

// plainDict writes pairs as an object: the survey found that every key has an obvious text.
func (w *writer) plainDict() {
	w.out = append(w.out, '{')
	for w.begin(); w.more(']'); w.separate() {
		w.begin()
		if w.raw[w.at] == '"' {
			w.text()
		} else {
			w.out = AppendString(w.out, w.scalar())
		}
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
			w.out = append(AppendString(w.out, unescaped(w.name())), between...)
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
