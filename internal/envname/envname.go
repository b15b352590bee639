// Package envname says what can be the name of a variable of the environment. It reads none.
package envname

import "strings"

// Valid says whether a text is the name of a variable as shells have it: letters, digits and underscores of ASCII, and no digit first.
func Valid(name string) bool {
	return name != "" && (name[0] < '0' || name[0] > '9') && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}
