package workspace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// A new link is applied if it leads nowhere outside the folder, and makes no other link do so. Its text alone cannot say
// that, since other links may lie on its way. So links are followed, as the system would follow them, in the folder as
// it will be after the apply. Two rules make the answer last, whatever the processes to come put on the way of a link
// that leads to nothing yet: no link that a program made has dots behind a name, where a link in place of the name would
// change what they mean; and an apply that would turn any link of the folder outwards leaves that change out.

// Why a link is left out.
const (
	leavesFolder = "a symbolic link that leaves the folder"
	dotsInside   = "a symbolic link with .. behind a name, which may leave the folder"
	turnsLink    = "it would make the symbolic link %s leave the folder"
	tooManyLinks = "one of more symbolic links than can be followed"
)

const (
	maxHops   = 40      // links on the way of one, as in Linux (MAXSYMLINKS)
	maxSteps  = 1 << 22 // names that are looked at for all new links together
	linkSteps = 64      // and as many more for each link that is there
	maxRounds = 8       // how often leaving something out may change the way of the others
)

// badLink says what is wrong with the text of a link, whatever is in the folder; "": nothing.
func badLink(target string) string {
	if target == "" || path.IsAbs(target) {
		return leavesFolder
	}
	named := false
	for name := range strings.SplitSeq(target, "/") {
		switch {
		case name == "" || name == ".":
		case name != "..":
			named = true
		case named:
			return dotsInside
		}
	}
	return ""
}

// climbs says whether a link at p begins with more ".." than it has directories above it: it leaves the folder, whatever is in there.
func climbs(p, target string) bool {
	up := 0
	for name := range strings.SplitSeq(target, "/") {
		if name == ".." {
			up++
		} else if name != "" && name != "." {
			break
		}
	}
	return up > strings.Count(p, "/")
}

// view is a folder as it will be, or, without items, as it is.
type view struct {
	root  dir
	items map[string]*item // those that are applied
	known map[string]entry // what root has, where that was looked at
	steps *int             // that may still be taken
	home  string           // if set, links that leave root for this path come back to it
}

// entry is what is at a place. A typ of "" is nothing.
type entry struct {
	typ    agentkernel.FileType
	target string
	away   bool // on another file system
}

// at says what is at p, whose directories above are no links.
func (v *view) at(p string) (entry, *item, error) {
	if it := v.items[p]; it != nil {
		if it.kind == agentkernel.FileDeleted {
			return entry{}, it, nil
		}
		return entry{typ: it.typ, target: it.target}, it, nil
	}
	e, ok := v.known[p]
	if ok {
		return e, nil, nil
	}
	e, err := v.found(p)
	v.known[p] = e
	return e, nil, err
}

// isNoName says that nothing can have the name: it comes out of a file's text, and may be anything.
func isNoName(err error) bool {
	return errors.Is(err, unix.ENAMETOOLONG) || errors.Is(err, unix.EINVAL)
}

func (v *view) found(p string) (e entry, err error) {
	parent, name, err := v.root.named(p)
	switch {
	case errors.Is(err, unix.EXDEV):
		return entry{away: true}, nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EACCES), isNoName(err):
		return e, nil
	case err != nil:
		return e, storage(err)
	}
	defer parent.Close()
	st, err := parent.stat(name)
	if isNoName(err) || errors.Is(err, unix.EACCES) {
		return e, nil
	}
	if err != nil || st == nil {
		return e, storage(err)
	}
	e.typ = typeOf(st.Mode)
	if e.typ == agentkernel.TypeSymlink {
		if e.target, err = parent.link(name); err != nil {
			return entry{}, nil //nolint:nilerr // it has just gone
		}
	}
	return e, nil
}

var errSteps = errors.New(tooManyLinks)

// way is where a link leads.
type way struct {
	end    string  // what it stands for, without links; "": nothing, or
	top    bool    // the folder itself
	absent string  // what would be made by writing through it, without links, where it stands for nothing
	leaves bool    // it leads out of the folder
	passes []*item // changes on the way
}

// follow goes the way of the link at p.
func (v *view) follow(p string) (w way, err error) {
	at, hops := "", 0 // a directory of the folder, without links
	todo := strings.Split(p, "/")
	for len(todo) > 0 {
		if *v.steps--; *v.steps < 0 {
			return w, errSteps
		}
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if at == "" {
				rest, ok := inside(v.home, path.Join(append([]string{v.home, ".."}, todo...)...))
				if !ok {
					w.leaves = true
					return w, nil
				}
				if hops++; hops > maxHops {
					return w, nil
				}
				todo = strings.Split(rest, "/")
				continue
			}
			at = strings.TrimPrefix(path.Dir("/"+at), "/")
			continue
		}
		place := path.Join(at, name)
		e, it, err := v.at(place)
		if err != nil {
			return w, err
		}
		if it != nil && place != p {
			w.passes = append(w.passes, it)
		}
		switch {
		case e.away:
			w.leaves = true
			return w, nil
		case e.typ == agentkernel.TypeSymlink && path.IsAbs(e.target):
			rest, ok := inside(v.home, path.Join(append([]string{e.target}, todo...)...))
			if hops++; !ok || hops > maxHops {
				w.leaves = !ok
				return w, nil
			}
			at, todo = "", strings.Split(rest, "/")
		case e.typ == agentkernel.TypeSymlink:
			if hops++; hops > maxHops {
				return w, nil // nothing gets through
			}
			todo = append(strings.Split(e.target, "/"), todo...)
		case e.typ == agentkernel.TypeDir:
			at = place
		case e.typ == "" || len(todo) > 0:
			if e.typ == "" && len(todo) == 0 {
				w.absent = place
			}
			return w, nil
		default:
			at = place
		}
	}
	w.end, w.top = at, at == ""
	return w, nil
}

// links lists the symbolic links of a folder.
func (d dir) links() (list []string, err error) {
	again, err := d.open(".", unix.O_RDONLY|unix.O_DIRECTORY) // a position of its own
	if err != nil {
		return nil, err
	}
	defer again.Close()
	err = dir{File: again}.linksBelow("", 0, &list)
	return list, err
}

// linksBelow is walk for links alone: what a directory says of its names is enough, and a look at each takes four times as long.
func (d dir) linksBelow(at string, depth int, list *[]string) error {
	if depth > maxDepth {
		return errTooDeep
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(d.fd(), buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOENT), err == nil && n <= 0: // it has gone, or that was all
			return nil
		case err != nil:
			return &os.PathError{Op: "readdir", Path: at, Err: err}
		}
		for rest := buf[:n]; len(rest) > 0; {
			var name string
			var typ byte
			name, typ, rest = nextName(rest)
			if err := d.linkOrBelow(at, name, typ, depth, list); err != nil {
				return err
			}
		}
	}
}

// nextName takes a name, and the type of what has it, off what getdents gave (struct linux_dirent64).
func nextName(b []byte) (name string, typ byte, rest []byte) {
	const lengthAt, typeAt, nameAt = 16, 18, 19
	length := binary.NativeEndian.Uint16(b[lengthAt:])
	text, _, _ := bytes.Cut(b[nameAt:length], []byte{0})
	return string(text), b[typeAt], b[length:]
}

func (d dir) linkOrBelow(at, name string, typ byte, depth int, list *[]string) error {
	if name == "." || name == ".." {
		return nil
	}
	if typ == unix.DT_UNKNOWN { // the file system does not say
		st, err := d.stat(name)
		if err != nil || st == nil {
			return err
		}
		typ = byte(st.Mode & unix.S_IFMT >> 12)
	}
	p := path.Join(at, name)
	switch typ {
	case unix.DT_LNK:
		*list = append(*list, p)
	case unix.DT_DIR:
		return d.into(name, p, func(sub dir) error { return sub.linksBelow(p, depth+1, list) })
	}
	return nil
}

// turns says whether an item can change where links lead.
func (it *item) turns() bool {
	return it.goes() && it.kind != agentkernel.FileDeleted && (it.typ == agentkernel.TypeSymlink || it.typ == agentkernel.TypeDir)
}

// keepLinksIn leaves out what would let a link lead out of the folder. there are the links that it has.
func (l *layer) keepLinksIn(items []item, there []string) error {
	if !slices.ContainsFunc(items, func(it item) bool { return it.turns() }) {
		return nil
	}
	steps := maxSteps + linkSteps*len(there)
	before := &view{root: l.root, known: map[string]entry{}, steps: &steps}
	for range maxRounds {
		after := &view{root: l.root, items: going(items), known: before.known, steps: &steps}
		switch done, err := leaveOut(items, there, before, after); {
		case errors.Is(err, errSteps):
			return dropLinks(items)
		case err != nil || done:
			return err
		}
		spread(items)
	}
	return dropLinks(items)
}

// going are the items that are applied, by path.
func going(items []item) map[string]*item {
	m := map[string]*item{}
	for i := range items {
		if items[i].goes() {
			m[items[i].path] = &items[i]
		}
	}
	return m
}

// leaveOut leaves out what lets a link lead out of the folder. done: there was nothing.
func leaveOut(items []item, there []string, before, after *view) (done bool, err error) {
	done = true
	for i := range items {
		it := &items[i]
		if !it.goes() || it.kind == agentkernel.FileDeleted || it.typ != agentkernel.TypeSymlink {
			continue
		}
		w, err := after.follow(it.path)
		if err != nil {
			return false, err
		}
		if w.leaves {
			it.leave(leavesFolder)
			done = false
		}
	}
	for _, p := range there {
		if after.items[p] != nil {
			continue // it will not be there, or was looked at above
		}
		w, err := after.follow(p)
		if err != nil {
			return false, err
		}
		if !w.leaves {
			continue
		}
		was, err := before.follow(p)
		if err != nil {
			return false, err
		}
		for _, it := range w.passes {
			if !was.leaves && it.turns() {
				it.leave(turnsLink, agentkernel.PathText(p))
				done = false
			}
		}
	}
	return done, nil
}

// dropLinks leaves out all that could lead out of the folder.
func dropLinks(items []item) error {
	for i := range items {
		if it := &items[i]; it.turns() && (it.typ == agentkernel.TypeSymlink || it.before != nil && typeOf(it.before.mode) == agentkernel.TypeSymlink) {
			it.leave(tooManyLinks)
		}
	}
	spread(items)
	return nil
}
