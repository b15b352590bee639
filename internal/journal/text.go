package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// String is text that may come from a program as a canonical JSON string: what is not UTF-8 in it is replaced.
func String(s string) json.RawMessage {
	return AppendString(nil, strings.ToValidUTF8(s, "\uFFFD"))
}

// AppendString writes s, which must be UTF-8, as a canonical JSON string: with the shortest escapes.
func AppendString[S string | []byte](b []byte, s S) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

// appendName writes the name of a member from what stands between its quotes: as AppendString does, but for half of a surrogate pair,
// which stays as it is.
func appendName(b, inner []byte) []byte {
	name := unescaped(inner)
	if len(name) != len(inner) && bytes.ContainsRune(name, utf8.RuneError) {
		return append(append(append(b, '"'), inner...), '"')
	}
	return AppendString(b, name)
}

// shortest says whether each escape of a surveyed string, of which inner stands between the quotes, is the one that AppendString writes.
func shortest(inner []byte) bool {
	for {
		at := bytes.IndexByte(inner, '\\')
		if at < 0 {
			return true
		}
		switch inner = inner[at+1:]; inner[0] {
		case '"', '\\', 'n', 'r', 't', 'b', 'f':
		default:
			return false
		}
		inner = inner[1:]
	}
}

// unescaped gives the text of a surveyed string from what stands between its quotes; without an escape it
// is the same bytes.
func unescaped(inner []byte) []byte {
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	out, _ := AppendUnescaped(make([]byte, 0, len(inner)), inner) // the survey has looked at each escape
	return out
}

// AppendUnescaped appends the text of a JSON string from what stands between its quotes, which must be UTF-8. Half of a
// surrogate pair becomes U+FFFD. An error says what is wrong with an escape.
func AppendUnescaped(dst, inner []byte) ([]byte, error) {
	for i := 0; i < len(inner); i++ {
		plain := bytes.IndexByte(inner[i:], '\\')
		if plain < 0 {
			return append(dst, inner[i:]...), nil
		}
		dst = append(dst, inner[i:i+plain]...)
		if i += plain + 1; i >= len(inner) {
			return nil, errors.New("an escape does not end")
		}
		switch inner[i] {
		case '"', '\\', '/':
			dst = append(dst, inner[i])
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, ok := hex4(inner[i+1:])
			if !ok {
				return nil, errors.New("a \\u escape is malformed")
			}
			i += 4
			if utf16.IsSurrogate(r) {
				if low, ok := lowHalf(inner[i+1:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
					r, i = utf16.DecodeRune(r, low), i+6
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			return nil, fmt.Errorf("\\%c is not an escape", inner[i])
		}
	}
	return dst, nil
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func lowHalf(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	return hex4(b[2:])
}
