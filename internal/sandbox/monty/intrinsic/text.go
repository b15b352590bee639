package intrinsic

import (
	"encoding/json"
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

// floatText is float(text) for the plain forms.
func floatText(s string) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || strings.ContainsAny(s, "xXpP_") {
		return 0, valueError("could not convert string to float: '%s'", s)
	}
	return f, nil
}

// pythonFloat is repr(f) of a finite float.
func pythonFloat(f float64) string {
	s := strconv.FormatFloat(f, 'e', -1, 64)
	exp, err := strconv.Atoi(s[strings.IndexByte(s, 'e')+1:])
	if err != nil || exp < -4 || exp >= 16 {
		return s
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// urlQuote(bytes, safe, plus) -> str: percent-encoding; letters, digits and _.-~ are always safe.
func urlQuote(a arguments) (json.RawMessage, error) {
	data, err := a.bytes(0)
	if err != nil {
		return nil, err
	}
	safe, err := a.text(1)
	if err != nil {
		return nil, err
	}
	const hex = "0123456789ABCDEF"
	var ok [256]bool
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~" + safe) {
		ok[c] = c < utf8.RuneSelf
	}
	out := make([]byte, 0, len(data)+len(data)/2)
	for _, c := range data {
		switch {
		case c == ' ' && a.flag(2):
			out = append(out, '+')
		case ok[c]:
			out = append(out, c)
		default:
			out = append(out, '%', hex[c>>4], hex[c&15])
		}
	}
	return textResult(string(out))
}

// urlUnquote(text) -> bytes.
func urlUnquote(a arguments) (json.RawMessage, error) {
	data, err := a.bytes(0)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); i++ {
		if data[i] == '%' && i+2 < len(data) {
			if n, err := strconv.ParseUint(string(data[i+1:i+3]), 16, 8); err == nil {
				out = append(out, byte(n))
				i += 2
				continue
			}
		}
		out = append(out, data[i])
	}
	return bytesResult(out), nil
}

// htmlUnescape(text) -> str.
func htmlUnescape(a arguments) (json.RawMessage, error) {
	s, err := a.text(0)
	if err != nil {
		return nil, err
	}
	return textResult(html.UnescapeString(s))
}

// bytesOf([ints]) -> bytes.
func bytesOf(a arguments) (json.RawMessage, error) {
	var out []byte
	err := a.each(0, func(raw json.RawMessage) error {
		n, err := parseNumber(raw)
		if err != nil || n.isFloat {
			return typeError("an integer is required")
		}
		if !n.int.IsInt64() || n.int.Int64() < 0 || n.int.Int64() > 255 {
			return valueError("bytes must be in range(0, 256)")
		}
		out = append(out, byte(n.int.Int64()))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return bytesResult(out), nil
}
