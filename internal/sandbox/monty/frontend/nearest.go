package frontend

import (
	"slices"
	"strings"
)

// nearest gives up to three candidates that a misspelt word may have meant, best first.
func nearest(word string, candidates []string) []string {
	type scored struct {
		name string
		d    int
	}
	var best []scored
	low := strings.ToLower(word)
	limit := max(1, min(3, len(word)/3))
	for _, c := range candidates {
		lc := strings.ToLower(c)
		d := distance(low, lc, limit)
		if d > limit && len(low) >= 3 && (strings.Contains(lc, low) || strings.Contains(low, lc) && len(lc) >= 3) {
			d = limit
		}
		if d <= limit {
			best = append(best, scored{c, d})
		}
	}
	slices.SortStableFunc(best, func(a, b scored) int {
		if a.d != b.d {
			return a.d - b.d
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, b := range best[:min(3, len(best))] {
		out = append(out, b.name)
	}
	return out
}

// distance is the edit distance with transpositions, cut off: beyond limit it is limit+1.
func distance(a, b string, limit int) int {
	if a == b {
		return 0
	}
	if len(a)-len(b) > limit || len(b)-len(a) > limit || len(a) > 64 || len(b) > 64 {
		return limit + 1
	}
	var rows [3][66]int
	for j := range len(b) + 1 {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		rows[2][0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[1][j]+1, rows[2][j-1]+1, rows[1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[0][j-2]+1)
			}
			rows[2][j] = d
		}
		rows[0], rows[1] = rows[1], rows[2]
	}
	return min(rows[1][len(b)], limit+1)
}

// didYouMean is the hint for nearest names, "" if there are none.
func didYouMean(word string, candidates []string) string {
	near := nearest(word, candidates)
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(near, ", ") + "?"
}
