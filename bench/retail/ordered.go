package retail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// ordered is a JSON object that keeps the order of its members, which decides which of two users of one name is found.
type ordered[T any] struct {
	keys []string
	at   map[string]T
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *ordered[T]) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("an object is expected, not %.20s", raw)
	}
	o.keys, o.at = nil, map[string]T{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		var v T
		if err := d.Decode(&v); err != nil {
			return err
		}
		key, _ := t.(string) // members of an object have no other
		if _, there := o.at[key]; !there {
			o.keys = append(o.keys, key)
		}
		o.at[key] = v
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (o ordered[T]) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, key := range o.keys {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := compact(key)
		if err != nil {
			return nil, err
		}
		value, err := compact(o.at[key])
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}'), nil
}

// clone copies the object; its values are copied by copyOf.
func (o ordered[T]) clone(copyOf func(T) T) ordered[T] {
	out := ordered[T]{keys: slices.Clone(o.keys), at: maps.Clone(o.at)}
	for key, v := range out.at {
		out.at[key] = copyOf(v)
	}
	return out
}

// amount is a number that is written as Python writes a float.
type amount float64

// MarshalJSON implements json.Marshaler.
func (a amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

func (a amount) String() string {
	x := float64(a)
	if size := max(x, -x); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(x, 'e', -1, 64)
	}
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// cents rounds as Python's round(x, 2) does: the decimal fraction nearest to the exact value.
func cents(x amount) amount {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'f', 2, 64), 64) // what was formatted can be parsed
	return amount(rounded)
}

// compact is JSON without spaces, in which nothing is escaped that need not be.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// pythonText writes a value as json.dumps of Python does by default: spaces behind commas and colons, ASCII alone.
func pythonText(v any) (string, error) {
	raw, err := compact(v)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	inText, escaped := false, false
	for _, r := range string(raw) {
		switch {
		case r >= 0x7f:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		case !inText && (r == ',' || r == ':'):
			b.WriteRune(r)
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
		inText = inText != (r == '"' && !escaped)
		escaped = r == '\\' && !escaped
	}
	return b.String(), nil
}

// sortedText is pythonText with the members of all objects in order.
func sortedText(v any) (string, error) {
	raw, err := compact(v)
	if err != nil {
		return "", err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // numbers stay as they are written
	var plain any
	if err := d.Decode(&plain); err != nil {
		return "", err
	}
	return pythonText(plain) // maps are written in order
}
