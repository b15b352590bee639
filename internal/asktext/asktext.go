// Package asktext writes the arguments of a call for the human who is asked to allow it, at a terminal and through an
// MCP client alike. The program chose the arguments: it must not be able to push one out of sight, nor to write
// anything that looks like a part of the question.
package asktext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Bounds of what is shown.
const (
	minWidth  = 60 // runes of a name or a value that are shown
	many      = 40 // no call that is meant well has more arguments
	manyWidth = 24 // runes of a name or a value where there are that many
)

// Arguments writes a=1, b="x" with the values as JSON. Every argument is named. What is longer than its share of
// limit, counted in runes, keeps its beginning and its end, and says how much is missing.
func Arguments(args json.RawMessage, limit int) string {
	dec := json.NewDecoder(bytes.NewReader(args))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return middle(value(args), max(limit, minWidth))
	}
	type argument struct{ name, value string }
	var list []argument
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			break
		}
		var v json.RawMessage
		if dec.Decode(&v) != nil {
			break
		}
		list = append(list, argument{Name(name.(string)), value(v)})
	}
	each := max(limit/max(len(list), 1), minWidth)
	if len(list) > many {
		each = manyWidth
	}
	words := make([]string, len(list))
	for i, a := range list {
		words[i] = middle(a.name, each) + "=" + middle(a.value, each)
	}
	return strings.Join(words, ", ")
}

// Name writes the name of a call or an argument: as it is, or quoted where it could be taken for something else.
func Name(s string) string {
	odd := func(c rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.", c)
	}
	if s == "" || strings.ContainsFunc(s, odd) {
		return shown(strconv.Quote(s))
	}
	return s
}

// hidden are characters that count as printed and leave no trace: variation selectors, fillers, a blank of Braille.
func hidden(c rune) bool {
	return c == '\u2800' || unicode.In(c, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// value writes JSON on one line. Characters that do not show themselves, those that turn the direction of writing
// among them, occur in its strings only, where they may be escaped.
func value(raw json.RawMessage) string {
	var line bytes.Buffer
	if json.Compact(&line, raw) != nil {
		return shown(strconv.Quote(string(raw)))
	}
	return shown(line.String())
}

// shown escapes what does not show itself in a text in quotes.
func shown(text string) string {
	var b strings.Builder
	for _, c := range text {
		switch {
		case strconv.IsPrint(c) && !hidden(c):
			b.WriteRune(c)
		case c > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

// middle cuts text to about limit runes by leaving out what is in the middle.
func middle(s string, limit int) string {
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	head, tail := limit*2/3, limit/3
	return fmt.Sprintf("%s… %d more …%s", string(runes[:head]), len(runes)-head-tail, string(runes[len(runes)-tail:]))
}
