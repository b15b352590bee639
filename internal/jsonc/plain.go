// Package jsonc reads the JSON that people write, with comments and trailing commas, and edits it without touching a
// byte that the edit is not about. It must never reformat, reorder or drop what it does not understand.
package jsonc

import (
	"bytes"
	"fmt"
)

// Plain blanks out comments and trailing commas, so that offsets stay what they were and errors can point into
// the user's own text.
func Plain(src []byte) []byte {
	out := bytes.Clone(src)
	blankComments(out)
	blankTrailingCommas(out)
	return out
}

func blankComments(b []byte) {
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '"':
			i = StringEnd(b, i)
		case bytes.HasPrefix(b[i:], []byte("//")):
			for i < len(b) && b[i] != '\n' {
				b[i] = ' '
				i++
			}
		case bytes.HasPrefix(b[i:], []byte("/*")):
			end := bytes.Index(b[i+2:], []byte("*/"))
			if end < 0 {
				return // the parser reports it
			}
			for stop := i + 2 + end + 2; i < stop; i++ {
				if b[i] != '\n' {
					b[i] = ' '
				}
			}
			i--
		}
	}
}

func blankTrailingCommas(b []byte) {
	comma := -1
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case ' ', '\t', '\r', '\n':
			continue
		case '"':
			i = StringEnd(b, i)
			comma = -1
		case ',':
			comma = i
		case '}', ']':
			if comma >= 0 {
				b[comma] = ' '
			}
			comma = -1
		default:
			comma = -1
		}
	}
}

// StringEnd is the index of the quote that closes the string beginning at i, or the last index of b.
func StringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(b) - 1
}

// Position is "line 3, column 7" of an offset, both from 1, columns in bytes.
func Position(src []byte, offset int64) string {
	offset = min(max(offset, 0), int64(len(src)))
	before := src[:offset]
	line := bytes.Count(before, []byte("\n")) + 1
	col := len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1
	return fmt.Sprintf("line %d, column %d", line, col)
}
