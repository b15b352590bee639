package workspace

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/shellword"
)

// maxHidden bounds how much is hidden in one folder: each is a mount.
const maxHidden = 1024

// maxHiddenPath bounds how long a path is that is hidden: a longer one no mount takes, with the place of the folder before
// it. What has one is hidden with the first directory above it that has not.
const maxHiddenPath = unix.PathMax - 256

// search looks through a folder for what is to be hidden. Directories end with a slash.
type search struct {
	root dir
	list []string
	// unlisted are directories that cannot be looked through. What is in them may be read by whoever knows its name, or by
	// all in a moment, so they are hidden, too.
	unlisted []string
	hidden   map[string]bool // what is in the two lists, without the slash
	links    []string        // what they stand for is hidden, too
	gits     []string        // configs of git that others include, that are links, or those of repos
	repos    []string        // .git that is a file or a link, since the repository lies elsewhere
	named    []string        // what settings in the folder name: it is hidden if it is a tools file
	files    map[fileID]bool // hidden files that have other names
	seen     int
}

// fileID is a file, whatever names it has.
type fileID struct{ dev, ino uint64 }

// hidden lists what a program is not to see of a folder that was shown without having been asked for: files and
// directories of the names of secrets, what links of these names or in these directories stand for, and every other
// name of these files. Outside of the folder the program sees nothing. Pipes with a name are hidden, whatever they are called:
// what the program read there, nobody else would get, and no mount keeps it from writing.
func (f *folder) hidden(root dir) (keys, unlisted []string, err error) {
	s := &search{links: slices.Clone(f.Tools), hidden: map[string]bool{}, files: map[fileID]bool{}}
	root.mounts, root.unlisted = true, s.cannotList // the program sees what is mounted there, too
	s.root = root
	err = root.walk(s.visit)
	if err == nil {
		err = s.tools()
	}
	if err == nil {
		err = s.included()
	}
	if err == nil {
		err = s.follow()
	}
	if err == nil && len(s.files) > 0 {
		err = s.names()
	}
	switch {
	case err == nil && len(s.list)+len(s.unlisted) > maxHidden:
		err = errTooMany
		fallthrough
	case err != nil:
		return nil, nil, f.cannotHide("it cannot be looked through for keys: %w", err)
	case noText(s.list), noText(s.unlisted):
		return nil, nil, f.cannotHide("keys may lie in it under a name that is no text")
	}
	return s.outermost(s.list), s.outermost(s.unlisted), nil
}

func noText(list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return !utf8.ValidString(p) })
}

// outermost leaves out what lies in a directory that was hidden later: a link led to it, or a path in it is too long.
func (s *search) outermost(list []string) []string {
	list = slices.DeleteFunc(list, func(p string) bool { return s.covered(path.Dir(strings.TrimSuffix(p, "/"))) })
	slices.Sort(list)
	return list
}

// cannotList hides a directory that a walk cannot look into.
func (s *search) cannotList(p string) error {
	if !s.covered(p) {
		p = nameable(p)
		s.hidden[p] = true
		s.unlisted = append(s.unlisted, p+"/")
	}
	return nil
}

// nameable is p, or what is the first above it whose path a mount takes.
func nameable(p string) string {
	for len(p) > maxHiddenPath {
		p = path.Dir(p)
	}
	return p
}

func (s *search) visit(at dir, p string, st *unix.Stat_t) (into bool, err error) {
	if s.seen++; s.seen > MaxFiles || len(s.list)+len(s.unlisted) > maxHidden {
		return false, errTooMany
	}
	typ, within := typeOf(st.Mode), s.covered(path.Dir(p))
	isDir := typ == agentkernel.TypeDir
	if typ == agentkernel.TypeSymlink && isGitConfig(p) {
		s.gits = append(s.gits, p)
	}
	if !isDir && fold(path.Base(p)) == ".git" {
		s.repos = append(s.repos, p)
	}
	switch {
	case !within && !hides(p, isDir) && st.Mode&unix.S_IFMT != unix.S_IFIFO && (typ != agentkernel.TypeFile || !s.holdsSecret(at, p)):
	case typ == agentkernel.TypeSymlink:
		s.links = append(s.links, p)
	default:
		if !within {
			s.hide(p, isDir)
		}
		if !isDir && st.Nlink > 1 {
			s.files[idOf(st)] = true
		}
	}
	return true, nil
}

// holdsSecret says whether there is a credential in a regular file, or was in the memory of a process of which it is an image.
func (s *search) holdsSecret(at dir, p string) bool {
	return s.credentials(at, p) || s.settings(at, p) || logsCredential(at, p) || isCore(at, p)
}

// settings looks into files of settings: whether they hold a credential, and which tools files a project's name, of any name.
func (s *search) settings(at dir, p string) bool {
	if !isSettings(p) {
		return false
	}
	text, err := config(at, path.Base(p))
	if err != nil {
		return !errors.Is(err, unix.ENOENT)
	}
	if fold(path.Base(p)) == settingsFile {
		s.nameTools(p, text)
	}
	return holdsCredential(text)
}

// nameTools notes the files that the settings p of a project name.
func (s *search) nameTools(p string, text []byte) {
	for _, name := range filesNamed(text) {
		if path.IsAbs(name) {
			rest, _ := inside(s.root.Name(), path.Clean(name))
			name = strings.TrimPrefix(rest, "/")
		} else {
			name = path.Join(path.Dir(p), name)
		}
		if name != "" && name != "." && filepath.IsLocal(name) && len(s.named) < maxHidden {
			s.named = append(s.named, name)
		}
	}
}

// tools has those of the files that settings name hidden that are tools files.
func (s *search) tools() error {
	steps := maxSteps
	v := &view{root: s.root, known: map[string]entry{}, steps: &steps, home: s.root.Name()}
	for _, p := range s.named {
		w, err := v.follow(p)
		if err != nil {
			return err
		}
		if w.leaves || w.end == "" || s.covered(w.end) {
			continue
		}
		if is, err := s.root.toolsFile(w.end); is || errors.Is(err, unix.EACCES) {
			s.links = append(s.links, p)
		}
	}
	return nil
}

// toolsIn are the names in a folder of the tools files that lie in it.
func toolsIn(source string, files []string) (list []string) {
	for _, file := range files {
		path, _ := agentkernel.SplitPin(file)
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		if rest, ok := inside(source, real); ok && rest != "" {
			list = append(list, strings.TrimPrefix(rest, "/"))
		}
	}
	return list
}

// credentials says whether the file p, in the directory at, is a config of git that holds a credential. git needs the others.
func (s *search) credentials(at dir, p string) bool {
	if !isGitConfig(p) {
		return false
	}
	text, err := config(at, path.Base(p))
	if err != nil {
		return !errors.Is(err, unix.ENOENT)
	}
	s.include(p, text)
	return holdsCredential(text)
}

// logsCredential says whether the file p, in the directory at, is a log of git with a credential in an address.
func logsCredential(at dir, p string) bool {
	if !isGitLog(p) {
		return false
	}
	f, _, err := at.file(path.Base(p))
	if err != nil {
		return !errors.Is(err, unix.ENOENT)
	}
	defer f.Close()
	for r := bufio.NewReaderSize(f, 16<<10); ; { // a line has a hash or two, a name, and a command
		line, err := r.ReadSlice('\n')
		switch {
		case addressed().Match(line):
			return true
		case errors.Is(err, io.EOF):
			return false
		case err != nil:
			return true
		}
	}
}

// isCore says whether the file p, in the directory at, is what Linux wrote of the memory of a program.
func isCore(at dir, p string) bool {
	if !coreName(p) {
		return false
	}
	f, _, err := at.file(path.Base(p))
	if err != nil {
		return false
	}
	defer f.Close()
	return startsCore(head(f))
}

// include notes the files of the folder that the config p includes, on whatever condition.
func (s *search) include(p string, text []byte) {
	for _, set := range gitSettings(string(text)) {
		name := set.value
		if set.key != "include.path" && set.key != "includeif.path" || name == "" || len(s.gits) >= maxHidden {
			continue
		}
		if rest, ok := strings.CutPrefix(name, "~/"); ok {
			home, _ := os.UserHomeDir() // without one, ~ stands for nothing
			name = path.Join(home, rest)
		}
		if to, ok := s.relative(path.Dir(p), name); ok {
			s.gits = append(s.gits, to)
		}
	}
}

// relative is the path in the folder of what is called name in a file of the directory at. A relative one may leave the folder.
func (s *search) relative(at, name string) (p string, ok bool) {
	if !path.IsAbs(name) {
		return at + "/" + name, true
	}
	rest, ok := inside(s.root.Name(), path.Clean(name))
	return strings.TrimPrefix(rest, "/"), ok
}

// repository notes the configs of the repository for which .git stands that is a file or a link at p: a linked work tree, a submodule, a bare
// repository of any name (gitrepository-layout(5)).
func (s *search) repository(v *view, p string) error {
	text, is, err := s.read(v, p)
	if err != nil {
		return err
	}
	dir := p // what the link leads to, if that is no file
	if is {
		name, ok := strings.CutPrefix(text, "gitdir:")
		if !ok {
			return nil
		}
		if dir, ok = s.relative(path.Dir(p), strings.TrimSpace(name)); !ok {
			return nil
		}
	}
	s.gits = append(s.gits, dir+"/config", dir+"/config.worktree")
	text, is, err = s.read(v, dir+"/commondir")
	if common, ok := s.relative(dir, strings.TrimSpace(text)); is && ok {
		s.gits = append(s.gits, common+"/config", common+"/config.worktree")
	}
	return err
}

// read reads the file to which the path p of the folder leads. is: there is one that can be read.
func (s *search) read(v *view, p string) (text string, is bool, err error) {
	w, err := v.follow(p)
	if err != nil || w.leaves || w.end == "" {
		return "", false, err
	}
	b, err := config(s.root, w.end)
	return string(b), err == nil, nil
}

// included has those of the configs of git that others include hidden that hold a credential.
func (s *search) included() error {
	steps := maxSteps
	v := &view{root: s.root, known: map[string]entry{}, steps: &steps, home: s.root.Name()}
	for _, p := range s.repos {
		if err := s.repository(v, p); err != nil {
			return err
		}
	}
	read := map[string]bool{}
	for i := 0; i < len(s.gits); i++ { // one may include others
		p := s.gits[i]
		w, err := v.follow(p)
		if err != nil {
			return err
		}
		if w.leaves || w.end == "" || read[w.end] {
			continue
		}
		read[w.end] = true
		text, err := config(s.root, w.end)
		switch {
		case errors.Is(err, unix.ENOENT), agentkernel.CodeOf(err) == agentkernel.CodeInvalid: // git reads no directory either
		case err != nil, holdsCredential(text):
			s.links = append(s.links, p)
		}
		s.include(p, text)
	}
	return nil
}

var errLargeConfig = errors.New("it is too large for a file of settings")

// config reads the file of settings p, below the directory at.
func config(at dir, p string) ([]byte, error) {
	f, _, err := at.file(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxGitConfig+1))
	if err == nil && len(text) > maxGitConfig {
		err = errLargeConfig
	}
	return text, err
}

func idOf(st *unix.Stat_t) fileID { return fileID{dev: st.Dev, ino: st.Ino} }

func (s *search) hide(p string, isDir bool) {
	if at := nameable(p); at != p {
		p, isDir = at, true
	}
	s.hidden[p] = true
	if isDir {
		p += "/"
	}
	s.list = append(s.list, p)
}

// covered says whether p, or a directory above it, is hidden.
func (s *search) covered(p string) bool {
	for ; p != "."; p = path.Dir(p) {
		if s.hidden[p] {
			return true
		}
	}
	return false
}

// follow hides what the links stand for, and what the links in there do.
func (s *search) follow() error {
	steps := maxSteps
	v := &view{root: s.root, known: map[string]entry{}, steps: &steps, home: s.root.Name()}
	for len(s.links) > 0 {
		p := s.links[len(s.links)-1]
		s.links = s.links[:len(s.links)-1]
		w, err := v.follow(p)
		if err != nil {
			return err
		}
		if w.leaves || w.end == "" || s.covered(w.end) || strings.HasPrefix(p, w.end+"/") { // .ssh/up -> .. names no key
			continue
		}
		st, err := s.root.look(w.end)
		if err != nil || st == nil {
			return err
		}
		isDir := typeOf(st.Mode) == agentkernel.TypeDir
		s.hide(w.end, isDir)
		if isDir {
			err = s.within(w.end)
		} else if st.Nlink > 1 {
			s.files[idOf(st)] = true
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// within visits what is in a directory that is hidden.
func (s *search) within(p string) error {
	parent, name, err := s.root.parent(p)
	if err != nil {
		return err
	}
	defer parent.Close()
	return parent.descend(name, p, strings.Count(p, "/"), s.visit)
}

// names hides the other names of hidden files.
func (s *search) names() error {
	again, err := s.root.open(".", unix.O_RDONLY|unix.O_DIRECTORY) // a position of its own
	if err != nil {
		return err
	}
	defer again.Close()
	return dir{File: again, mounts: true}.walk(func(_ dir, p string, st *unix.Stat_t) (bool, error) {
		isDir := typeOf(st.Mode) == agentkernel.TypeDir
		switch {
		case s.hidden[p]:
			return false, nil
		case !isDir && st.Nlink > 1 && s.files[idOf(st)]:
			s.hide(p, false)
		}
		return true, nil
	})
}

func (f *folder) cannotHide(format string, args ...any) error {
	return invalid("%s cannot be shown: "+format, append([]any{f.Path}, args...)...).
		WithHint("--no-workspace shows the program nothing; --workspace %s shows it all of the folder", shellword.File(f.Path))
}
