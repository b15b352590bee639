package workspace

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// maxHidden bounds how much is hidden in one folder: each is a mount.
const maxHidden = 1024

// hidden lists what a program is not to see of a folder that was shown without having been asked for; directories end
// with a slash. Of a link it is what the link stands for, if that is in the folder: outside the program sees nothing.
func (f *folder) hidden(root dir) (list []string, err error) {
	var links []string
	seen := 0
	err = root.walk(func(_ dir, p string, st *unix.Stat_t) (bool, error) {
		if seen++; seen > MaxFiles || len(list)+len(links) > maxHidden {
			return false, errTooMany
		}
		isDir := typeOf(st.Mode) == agentkernel.TypeDir
		switch {
		case isDir && path.Base(p) == "objects" && path.Base(path.Dir(p)) == ".git": // their names are numbers
			return false, nil
		case !hides(p, isDir):
			return true, nil
		case typeOf(st.Mode) == agentkernel.TypeSymlink:
			links = append(links, p)
		case isDir:
			list = append(list, p+"/")
		default:
			list = append(list, p)
		}
		return false, nil
	})
	if err == nil && len(list)+len(links) > maxHidden {
		err = errTooMany
	}
	steps := maxSteps
	v := &view{root: root, known: map[string]entry{}, steps: &steps, home: root.Name()}
	for _, p := range links {
		if err != nil {
			break
		}
		var w way
		if w, err = v.follow(p); err == nil && !w.leaves && w.end != "" {
			e, _, _ := v.at(w.end)
			if e.typ == agentkernel.TypeDir {
				w.end += "/"
			}
			list = append(list, w.end)
		}
	}
	switch {
	case err != nil:
		return nil, f.cannotHide("it cannot be looked through for keys: %w", err)
	case slices.ContainsFunc(list, func(p string) bool { return !utf8.ValidString(p) }):
		return nil, f.cannotHide("keys may lie in it under a name that is no text")
	}
	slices.Sort(list)
	list = slices.Compact(list)
	// What lies in a directory that is hidden is hidden with it.
	above := ""
	return slices.DeleteFunc(list, func(p string) bool {
		if above != "" && strings.HasPrefix(p, above) {
			return true
		}
		if strings.HasSuffix(p, "/") {
			above = p
		}
		return false
	}), nil
}

func (f *folder) cannotHide(format string, args ...any) error {
	return invalid("%s cannot be shown: "+format, append([]any{f.Path}, args...)...).
		WithHint("--no-workspace shows the program nothing; --workspace %s shows it all of the folder", f.Path)
}
