// Package lazy holds what is made when it is first used. A command needs few of the regular expressions that the
// program has, and compiling all of them took a fifth of the time of `agentkernel version`.
package lazy

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp returns the expression, which is compiled at the first call. What does not compile panics there; in tests it
// panics at once, so that no expression waits for its first user to fail.
func Regexp(text string) func() *regexp.Regexp {
	get := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
	if inTest {
		get()
	}
	return get
}

var inTest = len(os.Args) > 0 && strings.HasSuffix(os.Args[0], ".test")
