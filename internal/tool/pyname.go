package tool

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// PythonName is the identifier under which programs find a server, tool or argument of this name: letters,
// digits and underscores stay; any other ASCII character becomes "_"; another letter becomes "u" and its
// code point in hex, so that names in other scripts stay apart; a leading digit gets "_" in front, a
// keyword "_" behind, and of underscores in front one stays: __class__ and __proto__ mean something to the languages of
// programs, and a tool of that name would break the module in which it stands. It does not see collisions; [PythonNames] does.
func PythonName(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r == '_' || r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			b.WriteRune(r)
		case r < 0x80 || !unicode.IsLetter(r) && !unicode.IsDigit(r):
			b.WriteByte('_')
		default:
			fmt.Fprintf(&b, "u%x", r)
		}
	}
	id := b.String()
	if strings.HasPrefix(id, "__") {
		id = "_" + strings.TrimLeft(id, "_")
	}
	switch {
	case id == "":
		return "_"
	case id[0] >= '0' && id[0] <= '9':
		return "_" + id
	case pythonKeyword(id):
		return id + "_"
	}
	return id
}

// PythonNames maps each name to an identifier of its own. A name that is an identifier already keeps it;
// of the others that would collide, the first in sorted order gets it plain and the next ones "_2", "_3".
// The result depends on the set of names only, not on their order.
func PythonNames(names []string) map[string]string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	out := make(map[string]string, len(sorted))
	taken := make(map[string]bool, len(sorted))
	for _, n := range sorted {
		if PythonName(n) == n {
			out[n] = n
			taken[n] = true
		}
	}
	next := map[string]int{} // the number to try for an identifier that is taken
	for _, n := range sorted {
		if out[n] != "" {
			continue
		}
		plain := PythonName(n)
		id, i := plain, max(next[plain], 2)
		for ; taken[id]; i++ {
			id = PythonName(fmt.Sprintf("%s_%d", plain, i)) // of "_" it is "_2"
		}
		next[plain] = i
		out[n] = id
		taken[id] = true
	}
	return out
}

func pythonKeyword(s string) bool {
	switch s {
	case "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
		"del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
		"lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield":
		return true
	}
	return false
}
