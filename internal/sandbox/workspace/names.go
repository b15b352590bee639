package workspace

import (
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// group is a part of a table of file names, with what is said of them.
type group struct {
	why   string
	names []string
}

// table finds names of files by patterns. A pattern counts in every directory: "name" is a name, where * stands for any
// characters, "dir/name" one in a directory of that name, and "dir/" the directory with all that is in it. Upper and
// lower case are the same, as they are on some file systems (fold).
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

// fold writes a path as the tables have it: the same for all names that are one on some file system. ext4 with casefold, APFS, HFS+ and
// NTFS take upper and lower case for the same, some of them also letters that fold to several, and pass over what is not seen; FAT and NTFS
// pass over dots and spaces at the end, and have a second, short name for .git.
func fold(p string) string {
	low := strings.ToLower(p)
	if !plainASCII(low) {
		low = strings.Map(func(r rune) rune {
			if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
				return -1
			}
			return r
		}, foldsToMore.Replace(low))
	}
	if end := low[max(0, len(low)-1):]; end != "." && end != " " && !strings.Contains(low, "./") && !strings.Contains(low, " /") && !strings.Contains(low, "git~") {
		return low
	}
	names := strings.Split(low, "/")
	for i, name := range names {
		if bare := strings.TrimRight(name, ". "); bare != "" {
			names[i] = bare
		}
		if rest, ok := strings.CutPrefix(names[i], "git~"); ok && len(rest) == 1 && '0' < rest[0] && rest[0] <= '9' {
			names[i] = ".git"
		}
	}
	return strings.Join(names, "/")
}

func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// foldsToMore are the letters that fold to letters of ASCII and are in lower case already (CaseFolding.txt of Unicode).
var foldsToMore = strings.NewReplacer("ſ", "s", "ß", "ss", "ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st")

// find says what the table says of a path; "": nothing. solid says that it is no directory: where the table has one, it
// counts as what is in there, since it may be a link to it.
func (t table) find(p string, solid bool) string {
	names := strings.Split(fold(p), "/")
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
