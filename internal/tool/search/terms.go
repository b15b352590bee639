package search

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentkernel/internal/lazy"
)

// maxText bounds how much of one text is read, in bytes: a description may be a book.
const maxText = 16 << 10

// joined marks a term that stands for two neighbours written as one word: "mind map" and "mindmap" meet in it.
const joined = "+"

// longWord is from how many bytes on a word may be two that were written as one.
const longWord = 5

// terms cuts text into lower-case words. Identifiers are split ("readTextFile", "read_text_file", "base64"),
// stop words are left out, plurals are as singulars. Chinese, Japanese and Korean text, which has no spaces,
// is cut into overlapping pairs, and the words of the glossary are added in English. joins, if asked for, are
// the neighbours that could have been written as one word.
func terms(text string, wantJoins bool) (words, joins []string) {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	words = make([]string, 0, len(text)/8+1)
	previous := ""
	for i := 0; i < len(text); {
		kind, size := kindAt(text, i)
		if kind == other {
			i += size
			continue
		}
		end := i + size
		for end < len(text) {
			k, n := kindAt(text, end)
			if k != kind {
				break
			}
			end += n
		}
		run := text[i:end]
		i = end
		if kind == pictures {
			words = ideographs(words, []rune(run))
			previous = ""
			continue
		}
		parts := 0
		for start := 0; start < len(run); parts++ {
			n := partEnd(run[start:])
			p := strings.ToLower(run[start : start+n])
			start += n
			if len(p) == 1 || stopWords()[p] {
				previous = ""
				continue
			}
			words = append(words, singular(p))
			if wantJoins && previous != "" {
				joins = append(joins, joined+previous+p)
			}
			previous = p
		}
		if wantJoins && (parts > 1 || len(run) > longWord) {
			joins = append(joins, joined+strings.ToLower(run))
		}
	}
	return words, joins
}

// kind is what a rune is for cutting.
type kind int

const (
	other kind = iota
	letters
	pictures // ideographs and syllables that are written without spaces
)

func kindAt(text string, i int) (kind, int) {
	if c := text[i]; c < utf8.RuneSelf {
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' {
			return letters, 1
		}
		return other, 1
	}
	r, n := utf8.DecodeRuneInString(text[i:])
	switch {
	case r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
		return pictures, n
	case unicode.IsLetter(r) || unicode.IsDigit(r):
		return letters, n
	}
	return other, n
}

// ideographs adds the pairs of a run, and the English of its words that the glossary has.
func ideographs(words []string, run []rune) []string {
	words = append(words, translate(run)...)
	if len(run) == 1 {
		return append(words, string(run))
	}
	for i := range len(run) - 1 {
		words = append(words, string(run[i:i+2]))
	}
	return words
}

// partEnd is where the first word of a run of letters and digits ends: aB, ABc before the B, a1 and 1a.
func partEnd(run string) int {
	a, size := utf8.DecodeRuneInString(run)
	for end := size; end < len(run); {
		b, n := utf8.DecodeRuneInString(run[end:])
		switch {
		case unicode.IsDigit(a) != unicode.IsDigit(b), unicode.IsLower(a) && unicode.IsUpper(b):
			return end
		case unicode.IsUpper(a) && unicode.IsUpper(b) && end+n < len(run):
			if c, _ := utf8.DecodeRuneInString(run[end+n:]); unicode.IsLower(c) {
				return end
			}
		}
		a, end = b, end+n
	}
	return len(run)
}

// singular takes a plural s off. Stronger stemming was measured and gained nothing: it makes "message" of
// "messenger" as often as it helps.
func singular(w string) string {
	n := len(w)
	switch {
	case n <= 3 || w[n-1] != 's':
		return w
	case strings.HasSuffix(w, "ies") && n > 4:
		return w[:n-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"):
		return w[:n-2]
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	}
	return w[:n-1]
}

var (
	urlPattern  = lazy.Regexp(`https?://([a-zA-Z0-9.-]+)[^\s"']*`)
	pathPattern = lazy.Regexp(`(?:^|[\s"'(])~?/[\w.-]+(?:/[\w.-]+)*/?`)
)

// withoutArguments replaces what is an argument of the tool that is looked for, and says nothing about the
// tool, by what it is: the path "/home/me/a.xlsx" is a "file path xlsx".
func withoutArguments(query string) string {
	query = urlPattern().ReplaceAllStringFunc(query, func(url string) string {
		host := urlPattern().FindStringSubmatch(url)[1]
		site, _, _ := strings.Cut(strings.TrimPrefix(host, "www."), ".")
		return " url " + site + " "
	})
	return pathPattern().ReplaceAllStringFunc(query, func(path string) string {
		base := path[strings.LastIndexByte(path, '/')+1:]
		if dot := strings.LastIndexByte(base, '.'); dot > 0 {
			return " file path " + base[dot+1:] + " "
		}
		return " directory path "
	})
}

// firstSentence cuts a description in two: the first sentence says what the tool does, the rest how.
func firstSentence(text string) (first, rest string) {
	text = strings.TrimSpace(text)
	for i := range len(text) {
		switch {
		case text[i] == '\n', text[i] == '.' && i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\n'):
			return text[:i], text[i+1:]
		case strings.HasPrefix(text[i:], "。"):
			return text[:i], text[i+len("。"):]
		}
	}
	return text, ""
}

var sentenceEnd = lazy.Regexp(`[.;!?]\s|[\n。；！？]`)

// sentences cuts a query into its sentences. One of few words says too little to be asked for by itself; it goes with
// the one before it.
func sentences(query string) (parts []string) {
	const fewest = 4
	if len(query) > maxQuery || !strings.ContainsAny(query, ".;!?\n。；！？") {
		return nil
	}
	for _, part := range sentenceEnd().Split(query, -1) {
		if words, _ := terms(part, false); len(words) >= fewest && len(parts) < maxParts {
			parts = append(parts, part)
		} else if n := len(parts); n > 0 {
			parts[n-1] += " " + part
		}
	}
	return parts
}

// distinct keeps the first of equal texts.
func distinct(list []string) []string {
	out := list[:0]
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
