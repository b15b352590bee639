package workspace

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// A config of git may name files of the work tree that git then runs or reads as a config: core.hooksPath = scripts. So
// the configs of the repositories in which changes lie are read, as data, and what they name is withheld.

const (
	maxGitConfig  = 1 << 20 // bytes of a config
	maxGitConfigs = 256     // configs of one apply, with those that they include
	maxGitInclude = 10      // how deep one includes others, as in git
)

// gitCommands are the settings in which git finds a command: "section.key", or "section.*" for all of a section.
var gitCommands = func() map[string]bool {
	m := map[string]bool{}
	for key := range strings.FieldsSeq(`core.fsmonitor core.sshcommand core.editor core.pager core.askpass core.gitproxy core.alternaterefscommand
		sequence.editor gpg.program gpg.defaultkeycommand credential.helper filter.clean filter.smudge filter.process
		diff.external diff.command diff.textconv merge.driver alias.* pager.* hook.command interactive.difffilter
		difftool.cmd difftool.path mergetool.cmd mergetool.path browser.cmd browser.path man.cmd man.path guitool.cmd
		instaweb.httpd instaweb.browser web.browser help.browser imap.tunnel trailer.command trailer.cmd tar.command
		sendemail.tocmd sendemail.cccmd sendemail.headercmd sendemail.sendmailcmd sendemail.smtpserver
		remote.uploadpack remote.receivepack uploadpack.packobjectshook submodule.update
		lfs.path lfs.args lfs.clean lfs.smudge`) {
		m[key] = true
	}
	return m
}()

// gitDirs are the settings that name a directory with hooks.
var gitDirs = map[string]bool{"core.hookspath": true, "init.templatedir": true}

// gitNames are the paths of the folder that configs of git name, in lower case, with the setting that does.
type gitNames struct {
	home       string              // the folder
	user       string              // the home directory of the user
	files      map[string]string   // themselves
	below      map[string]string   // with what is in them
	above      map[string]string   // the directories in which these lie
	ends       map[string][]gitEnd // files in any directory, by their last names
	read       map[string]bool     // configs, with the work tree for which they were read
	found      int                 // how many of these there are
	everywhere []string            // where configs lie that count in every repository
	unknown    string              // a config that could not be read to its end
}

// named reads the configs of the repositories in which changes lie: below the folder, its own, and those above it.
func (l *layer) named(items []item) (*gitNames, error) {
	g := &gitNames{home: l.root.Name(), files: map[string]string{}, below: map[string]string{}, above: map[string]string{}, ends: map[string][]gitEnd{}, read: map[string]bool{}}
	g.user, _ = os.UserHomeDir() // without one, ~ stands for nothing
	g.everywhere = append(gitConfigs(g.user), l.configs...)
	for _, file := range l.configs {
		g.add(g.files, file, "GIT_CONFIG")
	}
	dirs := map[string]bool{}
	for i := range items {
		for at := path.Dir(path.Join(g.home, items[i].path)); !dirs[at]; at = path.Dir(at) {
			dirs[at] = true
		}
	}
	if err := g.userConfigs([]string{nowhere, nowhere}); err != nil {
		return nil, err
	}
	for _, at := range slices.Sorted(maps.Keys(dirs)) {
		if err := g.repository(at); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// repository reads the configs of the repository with the work tree top, if there is one.
func (g *gitNames) repository(top string) error {
	dir := path.Join(top, ".git")
	st, err := os.Stat(dir)
	if err != nil {
		return nil //nolint:nilerr // git finds none either
	}
	if !st.IsDir() { // a linked work tree, or a submodule
		text, err := g.text(dir)
		rest, ok := strings.CutPrefix(text, "gitdir:")
		if err != nil || !ok {
			return err
		}
		dir = absolute(top, strings.TrimSpace(rest))
	}
	common := dir
	if text, err := g.text(path.Join(dir, "commondir")); err != nil {
		return err
	} else if text != "" {
		common = absolute(dir, strings.TrimSpace(text))
	}
	bases := []string{top, dir}
	for _, file := range []string{path.Join(common, "config"), path.Join(dir, "config.worktree")} {
		if err := g.config(file, bases, 0); err != nil {
			return err
		}
	}
	return g.userConfigs(bases)
}

func absolute(base, p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join(base, p)
}

// text reads a regular file of the host; "" if it is none, or git could not read it either.
func (g *gitNames) text(p string) (string, error) {
	if st, err := os.Stat(p); err != nil || !st.Mode().IsRegular() {
		return "", nil //nolint:nilerr // see above
	}
	f, err := os.OpenFile(p, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return "", nil
	} else if err != nil {
		return "", storage(err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", storage(err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxGitConfig+1))
	if len(text) > maxGitConfig {
		g.unknown = p
	}
	return string(text), storage(err)
}

// config notes what a config names. Commands and hooks of one repository run at the top of its work tree or, those of a
// push, in its directory. What a config includes lies relative to itself; its conditions count as met.
func (g *gitNames) config(file string, bases []string, depth int) error {
	once := file + "\x00" + bases[0]
	switch {
	case g.read[once], depth > maxGitInclude, !path.IsAbs(file): // without a home directory there is no config in it
		return nil
	}
	g.read[once] = true
	text, err := g.text(file)
	if err != nil || text == "" {
		return err
	}
	if g.found++; g.found > maxGitConfigs {
		g.unknown = file
		return nil
	}
	return g.settings(gitSettings(text), path.Dir(file), bases, depth)
}

// settings notes what settings name that stand in a file of the directory at.
func (g *gitNames) settings(list []gitSetting, at string, bases []string, depth int) error {
	for _, s := range list {
		section, _, _ := strings.Cut(s.key, ".")
		switch value := g.expand(s.value); {
		case value == "":
		case s.key == "include.path" || s.key == "includeif.path":
			included := absolute(at, value)
			g.add(g.files, included, s.key)
			if err := g.config(included, bases, depth+1); err != nil {
				return err
			}
		case s.key == "core.worktree":
			bases = append(bases, absolute(bases[1], value))
		case gitDirs[s.key]:
			for _, base := range bases {
				g.add(g.below, absolute(base, value), s.key)
			}
		case gitCommands[s.key], gitCommands[section+".*"]:
			if gitCommands[section+".*"] { // its keys are names of the user
				s.key = section
			}
			g.command(s.value, bases, s.key)
		}
	}
	return nil
}

// expand puts the home directory in place of ~.
func (g *gitNames) expand(value string) string {
	if rest, ok := strings.CutPrefix(value, "~/"); ok && g.user != "" {
		return path.Join(g.user, rest)
	}
	return value
}

// add notes a path of the host, if it lies in the folder.
func (g *gitNames) add(to map[string]string, p, key string) {
	rest, ok := inside(g.home, p)
	if !ok {
		rest, ok = insideParent(g.home, p)
	}
	rest = fold(strings.TrimPrefix(rest, "/"))
	switch {
	case ok && rest != "":
		to[rest] = key
		for at := path.Dir(rest); at != "."; at = path.Dir(at) {
			g.above[at] = key
		}
	case gitDirs[key] && (ok || strings.HasPrefix(g.home, strings.TrimSuffix(p, "/")+"/")): // all of the folder lies there
		to["."] = key
	}
}

// insideParent is inside for what is not there yet.
func insideParent(home, p string) (rest string, ok bool) {
	dir, err := filepath.EvalSymlinks(path.Dir(p))
	if err != nil {
		return "", false
	}
	return inside(home, path.Join(dir, path.Base(p)))
}

// acts says why git acts on p because a config names it; "": none does.
func (g *gitNames) acts(p string, solid bool) string {
	if g.unknown != "" {
		return "what git acts on is not known: " + agentkernel.PathText(g.unknown) + " is too large"
	}
	p = fold(p)
	key := ""
	if solid {
		key = cmp.Or(g.files[p], g.above[p], g.endsIn(p))
	}
	if key = cmp.Or(key, g.under(p)); key == "" {
		return ""
	}
	return gitActs + ", its config names it (" + key + ")"
}

// holds says whether a config names the directory p, or one above it, for all that is in it.
func (g *gitNames) holds(p string) bool { return g.under(fold(p)) != "" }

func (g *gitNames) under(p string) string {
	for ; ; p = path.Dir(p) {
		if key := g.below[p]; key != "" || p == "." {
			return key
		}
	}
}
