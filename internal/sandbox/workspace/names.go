package workspace

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// group is a part of a table of file names, with what is said of them.
type group struct {
	why   string
	names []string
}

// table finds names of files by patterns. A pattern counts in every directory: "name" is a name, where * stands for any
// characters, "dir/name" one in a directory of that name, and "dir/" the directory with all that is in it. Upper and
// lower case are the same, as they are on some file systems.
type table struct {
	plain map[string][]pattern // by their first name
	stars []pattern            // those whose first name has a star
}

type pattern struct {
	names []string
	below bool // also what is in it
	why   string
}

// newTable makes a table when it is first asked for: most commands need none.
func newTable(groups []group) func() table {
	return sync.OnceValue(func() table {
		t := table{plain: map[string][]pattern{}}
		for _, g := range groups {
			for _, text := range g.names {
				trimmed := strings.TrimSuffix(text, "/")
				p := pattern{names: strings.Split(trimmed, "/"), below: trimmed != text, why: g.why}
				if first := p.names[0]; strings.ContainsRune(first, '*') {
					t.stars = append(t.stars, p)
				} else {
					t.plain[first] = append(t.plain[first], p)
				}
			}
		}
		return t
	})
}

// find says what the table says of a path; "": nothing. solid says that it is no directory: where the table has one, it
// counts as what is in there, since it may be a link to it.
func (t table) find(p string, solid bool) string {
	names := strings.Split(strings.ToLower(p), "/")
	for i, name := range names {
		for _, list := range [][]pattern{t.plain[name], t.stars} {
			j := slices.IndexFunc(list, func(p pattern) bool { return p.matches(names[i:], solid) })
			if j >= 0 {
				return list[j].why
			}
		}
	}
	return ""
}

func (p *pattern) matches(names []string, solid bool) bool {
	for i, want := range p.names {
		if i == len(names) {
			return solid && p.names[i-1] != "*"
		}
		if ok, err := path.Match(want, names[i]); err != nil || !ok {
			return false
		}
	}
	return p.below || solid && len(names) == len(p.names)
}
