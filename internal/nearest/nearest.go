// Package nearest finds the names that a misspelt one may have meant, for the hints of error messages. It
// must never decide anything: what it finds is shown to a human, not used.
package nearest

import (
	"slices"
	"strings"
)

const (
	shown  = 3  // more would not help
	maxLen = 64 // longer names are compared by their beginnings: words may come from hostile programs
)

// Names picks at most three of names that the writer of word may have meant, best first: those within a
// third of its length in edits, then those that contain it or are contained in it, then those that share
// a whole word with it. Case and the separators of words do not count.
func Names(word string, names []string) []string {
	type scored struct {
		name  string
		score int
	}
	w := fold(word)
	var found []scored
	for _, n := range names {
		f := fold(n)
		d := distance(w, f)
		switch {
		case d <= max(1, len(w)/3):
			found = append(found, scored{n, d})
		case len(w) >= 3 && strings.Contains(f, w), len(f) >= 3 && strings.Contains(w, f):
			found = append(found, scored{n, 100 + d})
		case sharedWords(w, f) > 0:
			found = append(found, scored{n, 200 + d - 10*sharedWords(w, f)})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int {
		if a.score != b.score {
			return a.score - b.score
		}
		return strings.Compare(a.name, b.name)
	})
	found = slices.Compact(found) // a name may be known twice
	var out []string
	for _, s := range found[:min(len(found), shown)] {
		out = append(out, s.name)
	}
	return out
}

// One is the best of Names, "" if there is none.
func One(word string, names []string) string {
	if near := Names(word, names); len(near) > 0 {
		return near[0]
	}
	return ""
}

// Question asks "did you mean a, b?"; "" if nothing is near.
func Question(word string, names []string) string {
	near := Names(word, names)
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(near, ", ") + "?"
}

// fold makes names comparable across the spellings read_file, read-file and readFile.
func fold(s string) string {
	if len(s) > maxLen {
		s = s[:maxLen]
	}
	var b strings.Builder
	lower := false
	for _, r := range s {
		if r >= 'A' && r <= 'Z' {
			if lower {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		lower = r >= 'a' && r <= 'z'
		if r == '-' || r == '.' || r == '/' || r == ' ' {
			r = '_'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func sharedWords(a, b string) int {
	n := 0
	words := strings.Split(b, "_")
	for w := range strings.SplitSeq(a, "_") {
		if len(w) >= 3 && slices.Contains(words, w) {
			n++
		}
	}
	return n
}

// distance is the number of edits, a swap of neighbours counting as one (optimal string alignment).
func distance(a, b string) int {
	before, prev := []int(nil), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev = prev, row
	}
	return prev[len(b)]
}
