package workspace

import (
	"fmt"
	"path"
	"strings"

	"agentkernel"
)

// fate is what an apply does with a change.
type fate int

const (
	applied  fate = iota
	leftOut       // it never is
	withheld      // it is when it is named
	unnamed       // others were named
)

// goes says whether a change is applied.
func (it *item) goes() bool { return it.fate == applied }

func (it *item) leave(format string, args ...any) {
	it.fate, it.why = leftOut, fmt.Sprintf(format, args...)
}

// choose decides which changes are applied. names are those that the user has named, nil: none, and all are meant but
// those that the host acts on.
func (l *layer) choose(items []item, names []string) error {
	byPath := index(items)
	for i := range items {
		it := &items[i]
		if names != nil && !it.named(names) {
			it.fate = unnamed
			continue
		}
		if why := l.actsOn(it, byPath); why != "" && !it.released(names) {
			it.fate, it.why = withheld, why
		}
		it.refuse()
	}
	spread(items)
	return l.keepLinksIn(items)
}

func index(items []item) map[string]*item {
	byPath := make(map[string]*item, len(items))
	for i := range items {
		byPath[items[i].path] = &items[i]
	}
	return byPath
}

// refuse leaves out what is never applied, whatever else is.
func (it *item) refuse() {
	switch {
	case it.kind == agentkernel.FileDeleted:
	case it.typ == agentkernel.TypeOther:
		it.leave("a pipe, socket or device")
	case it.typ == agentkernel.TypeSymlink:
		if why := badLink(it.target); why != "" {
			it.leave("%s", why)
		}
	}
}

// named says whether a user who names these means the change: itself, what it lies in, or what lies in it and needs it.
func (it *item) named(names []string) bool {
	p := agentkernel.PathText(it.path)
	for _, name := range names {
		if p == name || strings.HasPrefix(p, name+"/") {
			return true
		}
		if strings.HasPrefix(name, p+"/") && it.kind != agentkernel.FileDeleted && it.typ == agentkernel.TypeDir {
			return true
		}
	}
	return false
}

// released says whether a change that is withheld otherwise was named: itself, or a directory in which all is withheld.
// Whoever names a directory that holds other things, too, need not know what else is in it.
func (it *item) released(names []string) bool {
	p := agentkernel.PathText(it.path)
	for _, name := range names {
		if p == name || strings.HasPrefix(p, name+"/") && actsPath(name, true) != "" || strings.HasPrefix(name, p+"/") {
			return true
		}
	}
	return false
}

// spread lets changes that depend on one that is not applied share its fate: what a directory holds that is not made, or
// is not replaced; and a directory that is not to go, since something in it stays. items are in the order of paths, so
// what holds others is before them.
func spread(items []item) {
	byPath := index(items)
	for i := len(items) - 1; i >= 0; i-- {
		it := &items[i]
		if above := byPath[path.Dir(it.path)]; !it.goes() && above != nil && above.goes() && above.goesAway() {
			above.fate, above.why = it.fate, "it holds "+agentkernel.PathText(it.path)
		}
	}
	stuck := map[string]bool{} // what holds the others back
	for i := range items {
		it := &items[i]
		if at := path.Dir(it.path); stuck[at] {
			if it.goes() {
				it.fate, it.why = byPath[at].fate, "it lies in "+agentkernel.PathText(at)
			}
			stuck[it.path] = true
		} else if !it.goes() && it.kind != agentkernel.FileDeleted {
			stuck[it.path] = true
		}
	}
}

// goesAway says whether a directory is no more after the change.
func (it *item) goesAway() bool {
	return it.before != nil && typeOf(it.before.mode) == agentkernel.TypeDir && (it.kind == agentkernel.FileDeleted || it.typ != agentkernel.TypeDir)
}

// actsOn says why a change is withheld unless it is named; "": it is not.
func (l *layer) actsOn(it *item, byPath map[string]*item) string {
	solid := it.typ != agentkernel.TypeDir || it.before != nil && typeOf(it.before.mode) != agentkernel.TypeDir
	if why := actsPath(it.path, solid); why != "" {
		return why
	}
	if l.inRepository(it, byPath) {
		return gitActs
	}
	return ""
}

// inRepository says whether a change is of what git takes orders from in a directory that will look like a repository,
// under whatever name: git finds such ones by itself. Without its HEAD it is none.
func (l *layer) inRepository(it *item, byPath map[string]*item) bool {
	has := func(p string) bool {
		if it := byPath[p]; it != nil {
			return it.kind != agentkernel.FileDeleted
		}
		_, ok := l.base[p]
		return ok
	}
	names := strings.Split(it.path, "/")
	for i, name := range names {
		switch strings.ToLower(name) {
		case "head", "config", "config.worktree", "commondir", "hooks", "info":
			at := strings.Join(names[:i], "/")
			if path.Base(at) != ".git" && has(path.Join(at, "HEAD")) && has(path.Join(at, "objects")) && has(path.Join(at, "refs")) {
				return true
			}
		}
	}
	return false
}
