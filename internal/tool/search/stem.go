package search

import "strings"

// endings are taken off to find words of one family; the first that fits, once.
var endings = [...]string{
	"ization", "isation", "izing", "ising", "ation", "ition", "ating", "ative", "ized", "ised", "izer", "iser", "ated", "ator",
	"ment", "ness", "able", "ible", "ize", "ise", "ing", "ion", "ate", "ive", "ers", "ors", "ed", "er", "or", "al", "ly", "ic",
}

// stem is what words of one family share: "translate", "translation" and "translator" are "transl". It is "" for
// what is no English word. Such words stand for one another with less weight, as a stem says less than a word:
// replacing words by it was measured and gained nothing.
func stem(w string) string {
	const shortest = 3
	if len(w) <= shortest || w[0] < 'a' || w[0] > 'z' {
		return ""
	}
	for _, s := range endings {
		if len(w)-len(s) >= shortest && strings.HasSuffix(w, s) {
			w = w[:len(w)-len(s)]
			break
		}
	}
	if n := len(w); n > shortest && strings.IndexByte("eyi", w[n-1]) >= 0 {
		w = w[:n-1]
	}
	if n := len(w); n > shortest && w[n-1] == w[n-2] {
		w = w[:n-1]
	}
	return w
}

// stemsOf are the terms of each stem.
func stemsOf(vocab map[string]uint32) map[string][]uint32 {
	out := make(map[string][]uint32, len(vocab)/2)
	for term, n := range vocab {
		if s := stem(term); s != "" {
			out[s] = append(out[s], n)
		}
	}
	return out
}
