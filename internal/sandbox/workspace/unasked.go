package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"agentkernel"
	"agentkernel/internal/regular"
)

// ErrKeys is why a file is not read: keys or passwords usually lie in one of its name, or do in this one.
var ErrKeys = errors.New("keys or passwords lie in it, or usually do in one of its name")

// errTooMany is why a folder is not looked through.
var errTooMany = errors.New("too many files")

// Unasked reads files of a folder for a program to which the user has not shown it: those that travel with the program,
// since a text in the folder, which a stranger may have written, names them. It refuses what a command that is shown the
// folder unasked does not see either (docs/workspace.md, "What is hidden"), whatever the names or links are by which it is
// reached. It is for one goroutine, and for a moment: what it has learnt of the folder it does not learn again.
type Unasked struct {
	root  *os.Root
	tools []string
	home  string // the folder, without links in its path
	// Of the whole folder, once a file needed it.
	looked  bool
	aliases []alternative
	servers []fs.FileInfo // what settings in the folder, or tools, name
}

// alternative is a name in the folder by which keys usually lie, and what it stands for.
type alternative struct {
	name, real string
	info       fs.FileInfo
}

// NewUnasked reads below root, which stays the caller's. tools are the tools files of the program's process.
func NewUnasked(root *os.Root, tools []string) (*Unasked, error) {
	home, err := filepath.Abs(root.Name())
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	return &Unasked{root: root, home: home, tools: tools}, err
}

// Read gives the bytes of a file, which are at most limit. Errors: ErrKeys, those of regular.ReadIn.
func (u *Unasked) Read(name string, limit int64) ([]byte, error) {
	refused := &fs.PathError{Op: "read", Path: name, Err: ErrKeys}
	real, err := filepath.EvalSymlinks(filepath.Join(u.home, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(u.home, real)
	if err != nil || !filepath.IsLocal(rel) {
		rel = filepath.FromSlash(name) // which root refuses
	}
	own := filepath.ToSlash(rel)
	if hiddenByName(name) || hiddenByName(own) {
		return nil, refused
	}
	text, err := regular.ReadIn(u.root, rel, limit)
	if err != nil {
		return nil, err
	}
	info, err := u.root.Stat(rel)
	if err != nil {
		return nil, err
	}
	switch keys, err := u.keys(name, own, text, info); {
	case err != nil:
		return nil, err
	case keys:
		return nil, refused
	}
	return text, nil
}

// hiddenByName says whether a file is hidden by its name, or lies in a directory that is.
func hiddenByName(p string) bool {
	for dir := path.Dir(p); dir != "." && dir != "/" && dir != ".."; dir = path.Dir(dir) {
		if hides(dir, true) {
			return true
		}
	}
	return hides(p, false)
}

// mayHold says whether a file of this path is hidden if it holds a credential.
func mayHold(p string) bool { return isGitConfig(p) || isGitLog(p) || isSettings(p) || coreName(p) }

// holds says whether a file of this path and text holds a credential.
func holds(p string, text []byte) bool {
	return (isGitConfig(p) || isSettings(p)) && holdsCredential(text) || isGitLog(p) && addressed().Match(text) || coreName(p) && startsCore(text)
}

// gitSections are those of git's configs with addresses, headers and passwords: one that another config includes, or whose
// repository lies apart from its work tree, has any name.
var gitSections = map[string]bool{"core": true, "remote": true, "url": true, "http": true, "credential": true, "sendemail": true, "imap": true}

func isSomeGitConfig(text []byte) bool {
	return slices.ContainsFunc(gitSettings(string(text)), func(s gitSetting) bool {
		section, _, _ := strings.Cut(s.key, ".")
		return gitSections[section]
	})
}

// keys says whether there are keys in a file that was reached by a name and is called own.
func (u *Unasked) keys(name, own string, text []byte, info fs.FileInfo) (bool, error) {
	if holds(path.Join(filepath.ToSlash(u.home), name), text) || holds(path.Join(filepath.ToSlash(u.home), own), text) {
		return true, nil
	}
	isCode := sources[path.Ext(fold(own))]
	isTools := len(text) <= maxToolsFile && mayBeToolsFile(text) && isToolsFile(text)
	switch {
	case isTools && (isCode || sources[path.Ext(fold(name))]): // code by a name alone
		return true, nil
	case !isCode && isSomeGitConfig(text) && holdsCredential(text):
		return true, nil
	case (isCode || isManifest(own)) && !isTools && !hasOtherNames(info):
		return false, nil // most of what travels: the folder is not looked through for it
	}
	if err := u.look(); err != nil {
		return false, err
	}
	if isTools && slices.ContainsFunc(u.servers, func(s fs.FileInfo) bool { return os.SameFile(s, info) }) {
		return true, nil
	}
	return slices.ContainsFunc(u.aliases, func(a alternative) bool {
		return a.standsFor(path.Join(filepath.ToSlash(u.home), own), info) && (hiddenByName(a.name) || holds(a.name, text))
	}), nil
}

// isManifest says whether all programs of a language have a file of this name.
func isManifest(p string) bool {
	return slices.Contains([]string{"package.json", "go.mod", "go.sum", "modules.txt"}, path.Base(p))
}

// hasOtherNames says whether a file has hard links.
func hasOtherNames(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Nlink > 1
}

// standsFor says whether the name leads to a file, or to a directory with the file in it.
func (a *alternative) standsFor(file string, info fs.FileInfo) bool {
	return os.SameFile(a.info, info) || a.info.IsDir() && strings.HasPrefix(file, filepath.ToSlash(a.real)+"/")
}

// look goes through the folder once. Packages are left out: what lies in node_modules is shown whole.
func (u *Unasked) look() error {
	if u.looked {
		return nil
	}
	for _, file := range u.tools {
		file, _ = agentkernel.SplitPin(file)
		u.server(file)
	}
	seen := 0
	err := filepath.WalkDir(u.home, func(file string, d fs.DirEntry, err error) error {
		if seen++; seen > MaxFiles {
			return &fs.PathError{Op: "look for keys in", Path: u.home, Err: errTooMany}
		}
		rel, relErr := filepath.Rel(u.home, file)
		name := filepath.ToSlash(rel)
		switch {
		case err != nil || relErr != nil:
			return nil //nolint:nilerr // what cannot be listed, or has just gone, names nothing
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasSuffix(name, ".git/objects")):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if fold(d.Name()) == settingsFile {
			u.settings(file)
		}
		if hiddenByName(name) || mayHold(name) {
			u.alias(name, file)
		}
		return nil
	})
	u.looked = err == nil
	return err
}

// alias notes a name by which keys lie.
func (u *Unasked) alias(name, file string) {
	real, err := filepath.EvalSymlinks(file)
	if err != nil || strings.HasPrefix(file, real+"/") { // .ssh/up -> .. names no key
		return
	}
	if info, err := os.Stat(real); err == nil {
		u.aliases = append(u.aliases, alternative{name: name, real: real, info: info})
	}
}

// settings notes what the settings of a project name.
func (u *Unasked) settings(file string) {
	text, err := regular.Read(file, maxSettings)
	if err != nil {
		return
	}
	for _, name := range filesNamed(text) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(file), name)
		}
		u.server(name)
	}
}

// server notes a file that may be a tools file.
func (u *Unasked) server(file string) {
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && len(u.servers) < maxNamed {
		u.servers = append(u.servers, info)
	}
}

const (
	maxSettings = 1 << 20 // bytes of a file of settings
	maxNamed    = 1024    // files that settings name
)
