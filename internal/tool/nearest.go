package tool

import (
	"slices"
	"strings"

	"agentkernel/internal/nearest"
)

// didYouMean is a hint for a name that does not exist.
func didYouMean(wanted string, names []string, kind string) string {
	if q := nearest.Question(wanted, names); q != "" {
		return q
	}
	if len(names) == 0 {
		return "there are no " + kind
	}
	shown := slices.Clone(names)
	slices.Sort(shown)
	more := ""
	if len(shown) > 12 {
		shown, more = shown[:12], ", ..."
	}
	return kind + ": " + strings.Join(shown, ", ") + more
}
