package intrinsic

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"

	"agentkernel/internal/journal"
)

// arguments are what a shim passed, with checks that raise TypeError.
type arguments struct {
	name string
	list []json.RawMessage
}

func (a arguments) raw(i int) json.RawMessage {
	if i < len(a.list) {
		return a.list[i]
	}
	return json.RawMessage("null")
}

func (a arguments) text(i int) (string, error) {
	raw := a.raw(i)
	if n := len(raw); n >= 2 && raw[0] == '"' && raw[n-1] == '"' && bytes.IndexByte(raw, '\\') < 0 &&
		bytes.IndexByte(raw[1:n-1], '"') < 0 && utf8.Valid(raw) {
		return string(raw[1 : n-1]), nil // nothing to unescape: most of the time of reading a large text
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil || string(raw) == "null" {
		return "", typeError("argument %d of %s must be str", i+1, a.name)
	}
	return s, nil
}

// split cuts a JSON array into its items without looking into them; each item is checked by whoever reads
// it. It saves two passes over large texts.
func split(args []byte) (items []json.RawMessage, ok bool) {
	err := walk(args, func(item json.RawMessage) error {
		items = append(items, item)
		return nil
	})
	return items, err == nil
}

var errNoList = errors.New("not a list")

// walk is split without a list of the items, which is many times as large as they are if they are small.
func walk(args []byte, item func(json.RawMessage) error) error {
	args = bytes.TrimSpace(args)
	if len(args) < 2 || args[0] != '[' || args[len(args)-1] != ']' {
		return errNoList
	}
	args = args[1 : len(args)-1]
	depth, from := 0, 0
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case '"':
			end := closingQuote(args[i+1:])
			if end < 0 {
				return errNoList
			}
			i += 1 + end
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 0 {
				if err := item(bytes.TrimSpace(args[from:i])); err != nil {
					return err
				}
				from = i + 1
			}
		}
		if depth < 0 {
			return errNoList
		}
	}
	if depth != 0 {
		return errNoList
	}
	if rest := bytes.TrimSpace(args[from:]); len(rest) > 0 || from > 0 {
		return item(rest)
	}
	return nil
}

// closingQuote is the index of the quote that ends a JSON string, -1 if there is none.
func closingQuote(s []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(s[at:], '"')
		if i < 0 {
			return -1
		}
		i += at
		slashes := 0
		for slashes < i && s[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
		at = i + 1
	}
}

// optionalText is text, or "" for None.
func (a arguments) optionalText(i int) (string, error) {
	if string(a.raw(i)) == "null" {
		return "", nil
	}
	return a.text(i)
}

func (a arguments) flag(i int) bool { return string(a.raw(i)) == "true" }

func (a arguments) integer(i int, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(string(a.raw(i)), 10, 64)
	if err != nil || n < low || n > high {
		return 0, valueError("argument %d of %s must be an int from %d to %d", i+1, a.name, low, high)
	}
	return n, nil
}

// bytes reads {"$bytes": "..."}, or a str as UTF-8.
func (a arguments) bytes(i int) ([]byte, error) {
	raw := a.raw(i)
	if len(raw) > 0 && raw[0] == '"' {
		s, err := a.text(i)
		if err != nil {
			return nil, typeError("a bytes-like object is required")
		}
		return []byte(s), nil
	}
	var v struct {
		Bytes *string `json:"$bytes"`
	}
	if err := json.Unmarshal(raw, &v); err != nil || v.Bytes == nil {
		return nil, typeError("a bytes-like object is required")
	}
	b, err := base64.StdEncoding.DecodeString(*v.Bytes)
	if err != nil {
		return nil, typeError("a bytes-like object is required")
	}
	return b, nil
}

// each goes through a list or tuple.
func (a arguments) each(i int, item func(json.RawMessage) error) error {
	raw := bytes.TrimSpace(a.raw(i))
	if inner, ok := bytes.CutPrefix(raw, []byte(`{"$tuple":`)); ok {
		raw = bytes.TrimSuffix(inner, []byte("}"))
	}
	err := walk(raw, item)
	if errors.Is(err, errNoList) {
		return typeError("argument %d of %s must be a list", i+1, a.name)
	}
	return err
}

// items reads a list or tuple.
func (a arguments) items(i int) ([]json.RawMessage, error) {
	raw := a.raw(i)
	if len(raw) > 0 && raw[0] == '{' {
		var v struct {
			Tuple []json.RawMessage `json:"$tuple"`
		}
		if err := json.Unmarshal(raw, &v); err == nil && v.Tuple != nil {
			return v.Tuple, nil
		}
	}
	list, ok := split(raw)
	if !ok {
		return nil, typeError("argument %d of %s must be a list", i+1, a.name)
	}
	return list, nil
}

// number is an int (exact) or a float.
type number struct {
	isFloat bool
	float   float64
	int     *big.Int
}

func parseNumber(raw json.RawMessage) (number, error) {
	switch {
	case string(raw) == "true":
		return number{int: big.NewInt(1)}, nil
	case string(raw) == "false":
		return number{int: new(big.Int)}, nil
	case len(raw) == 0:
	case raw[0] == '{':
		var v struct {
			Float string `json:"$float"`
		}
		if json.Unmarshal(raw, &v) == nil {
			switch v.Float {
			case "nan":
				return number{isFloat: true, float: math.NaN()}, nil
			case "inf":
				return number{isFloat: true, float: math.Inf(1)}, nil
			case "-inf":
				return number{isFloat: true, float: math.Inf(-1)}, nil
			}
		}
	case bytes.ContainsAny(raw, ".eE"):
		if f, err := strconv.ParseFloat(string(raw), 64); err == nil {
			return number{isFloat: true, float: f}, nil
		}
	default:
		const most = 20_000 // digits: reading is quadratic beyond
		if len(raw) <= most {
			if n, ok := new(big.Int).SetString(string(raw), 10); ok {
				return number{int: n}, nil
			}
		}
	}
	return number{}, typeError("a number is required")
}

func appendBytes(dst, b []byte) []byte {
	dst = append(dst, `{"$bytes":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, `"}`...)
}

func bytesResult(b []byte) json.RawMessage {
	return appendBytes(make([]byte, 0, len(b)*4/3+20), b)
}

func textResult(s string) (json.RawMessage, error) {
	return journal.AppendString(make([]byte, 0, len(s)+len(s)/8+2), s), nil
}

// appendFloat writes a float as docs/values.md says.
func appendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `{"$float":"nan"}`...)
	case math.IsInf(f, 1):
		return append(dst, `{"$float":"inf"}`...)
	case math.IsInf(f, -1):
		return append(dst, `{"$float":"-inf"}`...)
	}
	return journal.AppendFloat(dst, f)
}
