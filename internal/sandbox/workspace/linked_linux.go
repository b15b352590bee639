package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"agentkernel"
)

// A link gives a file a second name. If the host acts on that name (.envrc -> scripts/env.sh), a change of the file is one
// to what the host acts on, whatever the file's own name is. So such links are followed in the folder as it will be, and
// what lies on their way is withheld, until what is left of the changes touches none. The other way round, a new link to such a file lets
// whoever writes to it write that file.

// alias is a name that the host acts on, and the link in the folder that has it: the same, or, where links lead to
// directories with links, one that lies elsewhere.
type alias struct{ name, first, at string }

// linked is one look at where such links lead.
type linked struct {
	choice
	view  *view
	items []item // in the order of paths
	links []string
	seen  map[alias]bool
	todo  []alias
	more  bool // something was withheld
}

// withholdLinked withholds what links lead to whose names the host acts on. there are the links of the folder.
// more: there was something.
func (c choice) withholdLinked(items []item, there []string) (more bool, err error) {
	steps := maxSteps + linkSteps*len(there)
	k := &linked{choice: c, items: items, links: slices.Clone(there), seen: map[alias]bool{},
		view: &view{root: c.root, items: going(items), known: map[string]entry{}, steps: &steps, home: c.root.Name()}}
	for p, it := range k.view.items {
		if it.kind != agentkernel.FileDeleted && it.typ == agentkernel.TypeSymlink {
			k.links = append(k.links, p)
		}
	}
	slices.Sort(k.links)
	k.links = slices.Compact(k.links)
	for _, p := range k.links {
		err := k.add(alias{name: p, first: p, at: p})
		if it := k.view.items[p]; err == nil && it != nil && it.kind != agentkernel.FileDeleted && it.typ == agentkernel.TypeSymlink {
			err = k.leads(it)
		}
		if errors.Is(err, errSteps) {
			return c.withholdAll(items), nil
		} else if err != nil {
			return false, err
		}
	}
	for len(k.todo) > 0 {
		next := k.todo[len(k.todo)-1]
		k.todo = k.todo[:len(k.todo)-1]
		if err := k.follow(next); errors.Is(err, errSteps) {
			return c.withholdAll(items), nil
		} else if err != nil {
			return false, err
		}
	}
	return k.more, nil
}

// leads withholds a new link to what the host acts on: whoever writes to the one writes the other.
func (k *linked) leads(it *item) error {
	w, err := k.view.follow(it.path)
	to := cmp.Or(w.end, w.absent)
	if err != nil || to == "" || k.released(it) {
		return err
	}
	why, err := k.acts(to, true)
	if why != "" {
		it.fate, it.why = withheld, fmt.Sprintf("%s: it leads to %s", why, agentkernel.PathText(to))
		k.more = true
	}
	return err
}

// add has a link followed if the host acts on its name.
func (k *linked) add(a alias) error {
	once := alias{first: a.first, at: a.at}
	if k.seen[once] {
		return nil
	}
	why, err := k.linkActs(a.name, true)
	if why != "" {
		k.seen[once] = true
		k.todo = append(k.todo, a)
	}
	return err
}

func (k *linked) follow(a alias) error {
	w, err := k.view.follow(a.at)
	if err != nil {
		return err
	}
	for _, it := range w.passes {
		name, solid := a.name, true
		if it.kind != agentkernel.FileDeleted && !it.solid() {
			if it.path != w.end {
				continue // a directory on the way is none of what the link stands for
			}
			solid = false
		}
		if err := k.withhold(it, a, name, solid); err != nil {
			return err
		}
	}
	if w.end == "" && !w.top {
		return nil
	}
	prefix := w.end + "/"
	if w.top {
		prefix = ""
	}
	for i := sort.Search(len(k.items), func(i int) bool { return k.items[i].path >= prefix }); i < len(k.items) && strings.HasPrefix(k.items[i].path, prefix); i++ {
		it := &k.items[i]
		if err := k.withhold(it, a, path.Join(a.name, it.path[len(prefix):]), it.solid()); err != nil {
			return err
		}
	}
	for i := sort.SearchStrings(k.links, prefix); i < len(k.links) && strings.HasPrefix(k.links[i], prefix); i++ {
		if err := k.add(alias{name: path.Join(a.name, k.links[i][len(prefix):]), first: a.first, at: k.links[i]}); err != nil {
			return err
		}
	}
	return nil
}

// withhold withholds a change to what the link a gives this name.
func (k *linked) withhold(it *item, a alias, name string, solid bool) error {
	if !it.goes() || k.released(it) {
		return nil
	}
	acts := k.acts
	if it.typ == agentkernel.TypeSymlink || name == a.name {
		acts = k.linkActs
	}
	why, err := acts(name, solid)
	if why == "" && err == nil {
		why, err = k.stores(it, name)
	}
	if why != "" {
		it.fate, it.why = withheld, fmt.Sprintf("%s: the link %s leads to it", why, agentkernel.PathText(a.first))
		k.more = true
	}
	return err
}

// withholdAll withholds every change, since what links lead to is not known. more: there was one.
func (c choice) withholdAll(items []item) (more bool) {
	for i := range items {
		if it := &items[i]; it.goes() && !c.released(it) {
			it.fate, it.why, more = withheld, "what links of the folder lead to cannot be followed", true
		}
	}
	return more
}

// inside is the path in the folder home for which an absolute one stands on the host.
func inside(home, p string) (rest string, ok bool) {
	if home == "" {
		return "", false
	}
	for _, resolve := range []func(string) (string, error){nil, filepath.EvalSymlinks} {
		if resolve != nil {
			var err error
			if p, err = resolve(p); err != nil {
				return "", false
			}
		}
		if rest, ok = strings.CutPrefix(p, home); ok && (rest == "" || rest[0] == '/') {
			return rest, true
		}
	}
	return "", false
}
