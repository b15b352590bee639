package template

import (
	"regexp"
	"sync"
)

// pattern is a regular expression that is compiled when it is first used: compiling all of the planner's takes 6 ms,
// and most commands plan nothing.
type pattern struct {
	compiled func() *regexp.Regexp
}

func compile(text string) *pattern {
	return &pattern{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
}

func (p *pattern) MatchString(s string) bool              { return p.compiled().MatchString(s) }
func (p *pattern) FindAllString(s string, n int) []string { return p.compiled().FindAllString(s, n) }
func (p *pattern) FindStringSubmatch(s string) []string   { return p.compiled().FindStringSubmatch(s) }
func (p *pattern) ReplaceAllString(s, with string) string {
	return p.compiled().ReplaceAllString(s, with)
}
