package workspace

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// Git takes any directory for a repository that has a HEAD, and objects and refs, of its own or where its file commondir
// says (gitrepository-layout(5)), and then does what the config there says. It finds such a directory by itself, under
// whatever name. So what git takes orders from is withheld in one, and so is what makes one out of a directory: its HEAD,
// or, where that is there already, the rest. What HEAD says does not count, since the next process may change it.

// gitOrders are the names in a repository from which git takes orders, besides those that make it one.
var gitOrders = map[string]bool{"config": true, "config.worktree": true, "gitdir": true, "hooks": true, "info": true, "branches": true, "remotes": true,
	"rebase-merge": true, "rebase-apply": true, "sequencer": true}

// folded are names in lower case: on some file systems upper and lower case are the same.
type folded map[string]bool

// repositories knows which directories of a folder git takes for repositories, before and after an apply.
type repositories struct {
	root    dir
	changes map[string]folded // what the changes put into a directory
	there   map[string]folded // what is in it, where that was looked at
}

func (l *layer) repositories(items []item) *repositories {
	r := &repositories{root: l.root, changes: map[string]folded{}, there: map[string]folded{}}
	for i := range items {
		at, name := split(items[i].path)
		if items[i].kind == agentkernel.FileDeleted {
			continue // it may stay
		}
		if r.changes[at] == nil {
			r.changes[at] = folded{}
		}
		r.changes[at][fold(name)] = true
	}
	return r
}

// split is the directory of a path, "" for the folder itself, and its last name.
func split(p string) (at, name string) {
	at, name = path.Split(p)
	return strings.TrimSuffix(at, "/"), name
}

// in lists what is in a directory of the folder, as it is now: other processes may have been there since this one began.
func (r *repositories) in(at string) (folded, error) {
	if names, ok := r.there[at]; ok {
		return names, nil
	}
	names := folded{}
	r.there[at] = names
	d, err := r.root.open(path.Join(".", at), unix.O_RDONLY|unix.O_DIRECTORY)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return names, nil
	case err != nil:
		return nil, storage(err)
	}
	defer d.Close()
	list, err := d.Readdirnames(-1)
	for _, name := range list {
		names[fold(name)] = true
	}
	return names, storage(err)
}

// whole says whether git takes a directory with these names for a repository.
func whole(has func(string) bool) bool {
	return has("head") && (has("commondir") || has("objects") && has("refs"))
}

// acts says whether git acts on p because of a directory above that it takes for a repository.
func (r *repositories) acts(p string) (bool, error) {
	names := strings.Split(p, "/")
	for i, name := range names {
		name = fold(name)
		switch {
		case gitOrders[name], name == "head", name == "commondir", name == "objects", name == "refs":
		default:
			continue
		}
		at := strings.Join(names[:i], "/")
		if path.Base(fold(at)) == ".git" {
			continue // actsPath knows
		}
		now, err := r.in(at)
		if err != nil {
			return false, err
		}
		then := func(name string) bool { return now[name] || r.changes[at][name] }
		is, was := whole(then), whole(func(name string) bool { return now[name] })
		switch rest := fold(strings.Join(names[i+1:], "/")); {
		case gitOrders[name]: // other repositories may have their objects, and so their config, here
			is = is || then("objects") && then("refs")
		case name == "objects" && (strings.HasPrefix(rest, "info/alternates") || strings.HasPrefix(rest, "info/http-")):
		case path.Join(name, rest) == replaceRefs, strings.HasPrefix(path.Join(name, rest), replaceRefs+"/"):
		case name == "objects", name == "refs":
			is = is && !was && now["head"]
		}
		if is {
			return true, nil
		}
	}
	return false, nil
}

// is says whether git takes the directory at for a repository, now or then.
func (r *repositories) is(at string) (bool, error) {
	if path.Base(fold(at)) == ".git" {
		return true, nil
	}
	now, err := r.in(at)
	return err == nil && whole(func(name string) bool { return now[name] || r.changes[at][name] }), err
}

// hold says whether p lies in a repository, or in a directory that git would take for one.
func (r *repositories) hold(p string) (bool, error) {
	for at, _ := split(p); ; at, _ = split(at) {
		if is, err := r.is(at); is || err != nil {
			return is, err
		}
		if at == "" {
			return false, nil
		}
	}
}
