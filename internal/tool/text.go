package tool

import (
	"strings"

	"agentkernel/internal/clip"
)

// What servers say of failures is as long as somebody reads.
const (
	maxToolError   = 16 << 10 // of a tool: the program reads it
	maxServerError = 8 << 10
)

// printable takes from a text of a server what would move the cursor, colour the screen, or show letters in
// another order than they stand in. Line ends and tabs stay.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t':
			return c
		case c < ' ', c >= 0x7f && c < 0xa0, // controls, and those of 8 bits
			c == 0x200e || c == 0x200f || c == 0x061c, c >= 0x202a && c <= 0x202e, c >= 0x2066 && c <= 0x2069: // direction of writing
			return -1
		}
		return c
	}, text)
}

// failureText is what a server says of a failure, fit to be shown.
func failureText(text string, n int, secrets *redactor) string {
	return clip.At(printable(secrets.text(text)), n)
}
