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

// choice is what the fate of changes depends on.
type choice struct {
	*layer
	names []string // those that the user has named, nil: none
	git   *repositories
	ran   *gitNames
}

// choose decides which changes are applied. names are those that the user has named, nil: none, and all are meant but
// those that the host acts on.
func (l *layer) choose(items []item, names []string) error {
	if l.away != nil { // nothing is applied: what the folder says of a name nobody can tell
		for i := range items {
			if why := actsPath(items[i].path, items[i].solid()); why != "" {
				items[i].fate, items[i].why = withheld, why
			}
			items[i].refuse()
		}
		return nil
	}
	ran, err := l.named(items)
	if err != nil {
		return err
	}
	c := choice{layer: l, names: names, git: l.repositories(items), ran: ran}
	for i := range items {
		it := &items[i]
		if names != nil && !it.named(names) {
			it.fate = unnamed
			it.refuse() // it waits for nobody: to name it would change nothing
			continue
		}
		acts := c.acts
		if it.typ == agentkernel.TypeSymlink {
			acts = c.linkActs
		}
		why, err := acts(it.path, it.solid())
		if err != nil {
			return err
		}
		if why == "" && !c.released(it) {
			if why, err = c.holds(it); err != nil {
				return unreadable("file", c.root.Name(), err)
			}
		}
		if why != "" && !c.released(it) {
			it.fate, it.why = withheld, why
		}
		it.refuse()
	}
	spread(items)
	return c.chooseLinks(items)
}

// holds says why a change is withheld by what the file holds, or held; "": it is not.
func (c choice) holds(it *item) (why string, err error) {
	if why, err = c.stores(it, it.path); why != "" || err != nil {
		return why, err
	}
	is, err := c.toolsFile(it)
	if is {
		why = startsServers
	}
	return why, err
}

// chooseLinks does what depends on where links lead. What is not applied may change the way of others, so it looks again.
func (c choice) chooseLinks(items []item) error {
	if len(going(items)) == 0 {
		return nil
	}
	there, err := c.root.links()
	if err != nil {
		return unreadable("folder", c.root.Name(), err)
	}
	for range maxRounds {
		if err := c.keepLinksIn(items, there); err != nil {
			return err
		}
		more, err := c.withholdLinked(items, there)
		if err != nil || !more {
			return err
		}
		spread(items)
	}
	c.withholdAll(items)
	spread(items)
	return dropLinks(items)
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
		} else if climbs(it.path, it.target) {
			it.leave(leavesFolder)
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
func (c choice) released(it *item) bool {
	p := agentkernel.PathText(it.path)
	for _, name := range c.names {
		if p == name || strings.HasPrefix(p, name+"/") && (actsPath(name, true) != "" || c.ran.holds(name)) || strings.HasPrefix(name, p+"/") {
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

// solid says whether a change puts something in place that is no directory, or takes such a thing away.
func (it *item) solid() bool {
	return it.typ != agentkernel.TypeDir || it.before != nil && typeOf(it.before.mode) != agentkernel.TypeDir
}

// linkActs is acts for a link, which may lead to a directory with files of local tools. In a repository it stands where git writes, and git
// would write what it leads to.
func (c choice) linkActs(p string, solid bool) (string, error) {
	why, err := c.acts(p, solid)
	if why == "" && solid {
		why = actsPath(p+"/a.py", true)
	}
	if why == "" && err == nil {
		var in bool
		if in, err = c.git.hold(p); in {
			why = gitActs
		}
	}
	return why, err
}

// acts says why a change at p is withheld unless it is named; "": it is not.
func (c choice) acts(p string, solid bool) (string, error) {
	if why := actsPath(p, solid); why != "" {
		return why, nil
	}
	if why := c.ran.acts(p, solid); why != "" {
		return why, nil
	}
	in, err := c.git.acts(p)
	if err == nil && in {
		return gitActs, nil
	}
	return "", err
}
