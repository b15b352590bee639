package devllm

import (
	"iter"
	"unicode"
	"unicode/utf8"
)

// tokenizer splits texts in a way that no client can know: words in pieces of at most so many letters, numbers in pieces
// of three digits, each sign by itself. A space belongs to the word behind it. Nothing is lost: the tokens of a text, one
// after the other, are the text.
type tokenizer struct {
	piece int // letters of a token at most
}

type runeKind int

const (
	signRune runeKind = iota
	letterRune
	digitRune
	spaceRune
	wideRune
)

func kindOf(r rune) runeKind {
	switch {
	case r == utf8.RuneError:
		return signRune
	case unicode.IsSpace(r):
		return spaceRune
	case unicode.IsDigit(r):
		return digitRune
	case r >= 0x2e80: // scripts in which a letter is a word or half of one, and emoji
		return wideRune
	case unicode.IsLetter(r) || unicode.IsMark(r):
		return letterRune
	}
	return signRune
}

// split yields the tokens of s.
func (t tokenizer) split(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(s) > 0 {
			n := t.first(s)
			if !yield(s[:n]) {
				return
			}
			s = s[n:]
		}
	}
}

// first is the length of the first token of s in bytes.
func (t tokenizer) first(s string) int {
	at := 0
	if s[0] == ' ' && len(s) > 1 {
		if r, _ := utf8.DecodeRuneInString(s[1:]); kindOf(r) == letterRune || kindOf(r) == digitRune {
			at = 1
		}
	}
	r, size := utf8.DecodeRuneInString(s[at:])
	kind := kindOf(r)
	most := map[runeKind]int{letterRune: t.piece, digitRune: 3, spaceRune: 16}[kind]
	at += size
	for n := 1; n < most && at < len(s); n++ {
		r, size := utf8.DecodeRuneInString(s[at:])
		if kindOf(r) != kind {
			break
		}
		if kind == spaceRune && r == ' ' && at+1 < len(s) { // the last one belongs to the word behind it
			if next, _ := utf8.DecodeRuneInString(s[at+1:]); kindOf(next) == letterRune || kindOf(next) == digitRune {
				break
			}
		}
		at += size
	}
	return at
}

// count is the number of tokens of s.
func (t tokenizer) count(s string) (n int64) {
	for range t.split(s) {
		n++
	}
	return n
}

// cut is the first n tokens of s, and whether something is missing.
func (t tokenizer) cut(s string, n int64) (string, bool) {
	at := 0
	for token := range t.split(s) {
		if n == 0 {
			return s[:at], true
		}
		n--
		at += len(token)
	}
	return s, false
}
