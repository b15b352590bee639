package tool

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// What servers say of failures is as long as somebody reads.
const (
	maxToolError   = 16 << 10 // of a tool: the program reads it
	maxServerError = 8 << 10
)

// clip shortens text to about n bytes and says so.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	cut := n
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%s... (%d bytes)", text[:cut], len(text))
}

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
	return clip(printable(secrets.text(text)), n)
}
