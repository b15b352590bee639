package workspace

import (
	"bufio"
	"errors"
	"io"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// New objects pass, but git believes the name of one that it has: whoever changes its bytes changes history without a trace. And git takes
// another object for one where refs/replace names it.

const gitNeverChanges = "git never changes an object"

// stores says why a change to what a repository keeps is withheld, by what it holds; "": it is not. name is a name of it: its own, or by a link.
func (c choice) stores(it *item, name string) (why string, err error) {
	low := fold(name)
	if it.kind == agentkernel.FileDeleted || !strings.Contains(low, "objects/") && !strings.HasSuffix(low, "packed-refs") { // gc removes what is there
		return "", nil
	}
	names := strings.Split(low, "/")
	for i, first := range names {
		rest := strings.Join(names[i+1:], "/")
		switch {
		case first == "objects" && it.before != nil && isObject(rest):
			why = gitNeverChanges
		case first == "packed-refs" && rest == "" && it.typ == agentkernel.TypeFile:
			why = gitReplaces
		default:
			continue
		}
		if is, err := c.git.is(strings.Join(strings.Split(name, "/")[:i], "/")); err != nil {
			return "", err
		} else if !is {
			continue
		}
		if first == "objects" && it.typ == agentkernel.TypeFile && c.sameContent(it.path) { // git sets the times of those that it would write again
			return "", nil
		}
		if first == "packed-refs" {
			if more, err := c.replacesMore(it.path); err != nil || !more {
				return "", err
			}
		}
		return why, nil
	}
	return "", nil
}

const gitHas = "git may have what is withheld: look with git diff --cached --stat and git log --stat before you commit, check out, stash or push"

// gitHint is Applied.Hint, where these are withheld.
func (h *home) gitHint(withheld []agentkernel.Change) string {
	in := map[string]bool{} // the volumes in which some are
	for i := range withheld {
		if !strings.Contains("/"+fold(withheld[i].Path)+"/", "/.git/") {
			in[withheld[i].Volume] = true
		}
	}
	for i := range h.rec.Changes {
		if d := &h.rec.Changes[i]; in[d.Volume] && d.LeftOut == "" && d.Kind != agentkernel.FileDeleted && holdsFiles(fold(d.Path)) {
			return gitHas
		}
	}
	return ""
}

// holdsFiles says whether git may check out files from what a change puts at p.
func holdsFiles(p string) bool {
	names := strings.Split(p, "/")
	for i, name := range names {
		switch {
		case name == "objects" && isObject(strings.Join(names[i+1:], "/")), name == "packed-refs":
			return true
		case i == 0 || names[i-1] != ".git":
		case name == "index" || name == "objects" || name == "refs" || name == "head":
			return true
		}
	}
	return false
}

// isObject says whether git writes a file of this path below its objects once.
func isObject(p string) bool {
	dir, name := path.Split(p)
	switch {
	case dir == "pack/":
		switch path.Ext(name) {
		case ".pack", ".idx", ".rev": // the times in .mtimes of unreachable ones it does change
			return true
		}
	case len(dir) == len("ab/"):
		return strings.Trim(dir[:2], "0123456789abcdef") == "" && len(name) >= 38
	}
	return false
}

// replacesMore says whether the packed refs at p have a line that replaces an object, and those in the folder do not.
func (c choice) replacesMore(p string) (bool, error) {
	now, err := replacing(c.top, p)
	if err != nil || len(now) == 0 {
		return false, err
	}
	old, err := replacing(c.root, p)
	for line := range now {
		if !old[line] {
			return true, nil
		}
	}
	return false, err
}

// replacing are the lines of the packed refs at p below d that replace an object.
func replacing(d dir, p string) (map[string]bool, error) {
	f, _, err := d.file(p)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || agentkernel.CodeOf(err) == agentkernel.CodeInvalid {
		return nil, nil
	} else if err != nil {
		return nil, storage(err)
	}
	defer f.Close()
	lines := map[string]bool{}
	for r := bufio.NewReaderSize(f, compareAtOnce); ; {
		line, err := r.ReadSlice('\n') // a longer line comes in parts: no ref of git is as long
		if text := string(line); strings.Contains(text, replaceRefs+"/") {
			lines[strings.TrimSpace(text)] = true
		}
		if errors.Is(err, io.EOF) {
			return lines, nil
		} else if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, storage(err)
		}
	}
}
