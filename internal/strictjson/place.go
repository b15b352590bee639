package strictjson

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
)

// Place is where in raw the value is that encoding/json could not take: "limits.time", "args[0]"; "": raw itself. Its error names neither
// the position in a list nor the key of a map, and does name embedded types, of which a reader of JSON sees nothing.
func Place(e *json.UnmarshalTypeError, raw []byte) string {
	w := walk{dec: json.NewDecoder(bytes.NewReader(raw)), of: e}
	w.dec.UseNumber()
	if w.value("") || w.found {
		return w.place
	}
	return member(e.Field)
}

// walk looks for the value that an error is about. The error counts bytes from the beginning of what was decoded, which is only a part of
// the text where a type decodes itself: then the first value is taken that fits.
type walk struct {
	dec   *json.Decoder
	of    *json.UnmarshalTypeError
	names []string // of the members that the value stands in
	found bool
	place string
}

// value looks at the next value, and in it. True: that is the one, or the text ends.
func (w *walk) value(at string) bool {
	tok, err := w.dec.Token()
	if err != nil {
		return true
	}
	if behind := w.dec.InputOffset() >= w.of.Offset; (behind || !w.found) && w.fits(tok) {
		w.found, w.place = true, at
		if behind {
			return true
		}
	}
	switch tok {
	case json.Delim('{'):
		for w.dec.More() {
			tok, err := w.dec.Token()
			name, _ := tok.(string)
			w.names = append(w.names, name)
			if err != nil || w.value(join(at, name)) {
				return true
			}
			w.names = w.names[:len(w.names)-1]
		}
	case json.Delim('['):
		for i := 0; w.dec.More(); i++ {
			if w.value(at + "[" + strconv.Itoa(i) + "]") {
				return true
			}
		}
	default:
		return false
	}
	_, err = w.dec.Token()
	return err != nil
}

// fits says whether a value is of the kind that was found, and stands in the member that the error names.
func (w *walk) fits(tok json.Token) bool {
	kind, literal, _ := strings.Cut(w.of.Value, " ")
	switch tok := tok.(type) {
	case json.Delim:
		if kind != map[json.Delim]string{'{': "object", '[': "array"}[tok] {
			return false
		}
	case json.Number:
		if kind != "number" || literal != "" && literal != tok.String() {
			return false
		}
	case string:
		if kind != "string" {
			return false
		}
	case bool:
		if kind != "bool" {
			return false
		}
	default: // null is what every type takes
		return false
	}
	last := w.of.Field[strings.LastIndexByte(w.of.Field, '.')+1:]
	for _, name := range w.names {
		if strings.EqualFold(name, last) {
			return true
		}
	}
	return last == ""
}

// join is the place of a member.
func join(at, name string) string {
	odd := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' }
	switch {
	case name == "" || strings.ContainsFunc(name, odd):
		return at + "[" + strconv.Quote(name) + "]"
	case at == "":
		return name
	}
	return at + "." + name
}

// member is a path as JSON has it: encoding/json puts the names of embedded types before it, and members begin with a small letter.
func member(path string) string {
	parts := strings.Split(path, ".")
	for len(parts) > 1 && parts[0] != "" && parts[0][0] >= 'A' && parts[0][0] <= 'Z' {
		parts = parts[1:]
	}
	return strings.Join(parts, ".")
}
