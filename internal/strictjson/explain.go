package strictjson

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"agentkernel/internal/clip"
)

// Explain says in plain words what encoding/json found wrong when it decoded a value into a type; it names no type of Go.
// whole is what the reader calls the value, such as "the body" or "the arguments"; raw is the text itself.
func Explain(err error, whole string, raw []byte) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		what := Place(e, raw)
		switch {
		case what == "":
			what = whole
		case what[0] == '[' && strings.Contains(whole, " "):
			what = clip.Short(what) + " in " + whole
		case what[0] == '[':
			what = whole + what
		}
		return fmt.Sprintf("%s must be %s, not %s", clip.Short(what), wanted(e.Type), found(e.Value))
	}
	if _, ok := Offset(err); ok || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return whole + ": " + Wrong(err, raw)
	}
	if e, ok := errors.AsType[*time.ParseError](err); ok {
		return fmt.Sprintf("%s is not a time: write 2026-12-01T10:00:00Z", clip.Short(strconv.Quote(strings.Trim(e.Value, `"`))))
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if strings.HasPrefix(text, "Time.UnmarshalJSON: ") { // package time has no type for this error
		return `a time is a text such as "2026-12-01T10:00:00Z"`
	}
	if name, ok := strings.CutPrefix(text, "unknown field "); ok { // encoding/json has no type for this error
		return "there is no field " + clip.Short(name)
	}
	return text
}

// wanted is what JSON calls the values of a type.
func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		if t.Kind() == reflect.Int64 { // a number of nanoseconds, written as people do
			return `a text such as "5s"`
		}
		return "a string"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0"
	}
	return "a whole number"
}

// found is what encoding/json says that it found: "string", "number 1.5", "array".
func found(value string) string {
	kind, rest, _ := strings.Cut(value, " ")
	switch {
	case rest != "":
		return clip.Short(rest)
	case kind == "array":
		return "a list"
	case kind == "object":
		return "an object"
	case kind == "bool":
		return "true or false"
	}
	return "a " + kind
}
