package main

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/clip"
)

// A command behind -- may read the folder that it is called in. That gives it no way to carry anything out but what it
// prints: it has no network, and nothing that it may change. docs/rationale.md says why commands alone.

// showHere adds the folder that this command was called in to the Spec of a command behind --, if no folder is named.
func (a *app) showHere(p *programArgs, s *agentkernel.Spec) error {
	if !p.command || s.HasFiles() {
		return nil
	}
	dir, err := a.hereFolder()
	if err == nil && dir != "" {
		s.Workspace = &agentkernel.Workspace{Path: dir, ReadOnly: true, Optional: true}
	}
	return err
}

// hereFolder is the folder that this command was called in, if a command behind -- may see it; "": it may not, and a.here says why.
func (a *app) hereFolder() (string, error) {
	dir, err := a.workingDir()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		var f *os.File
		if f, err = os.Open(dir); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		a.here = "this folder cannot be read"
		return "", nil //nolint:nilerr // the command need not have to do with it
	}
	data, err := a.dataDir()
	if err != nil {
		return "", err
	}
	a.here = private(dir, data.Path(), a.homes())
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); a.here == "" && err == nil && mountedBelow(dir, string(mounts)) {
		a.here = "other file systems are mounted in this folder"
	}
	if a.here != "" {
		return "", nil
	}
	return dir, nil
}

// homes are the home directories of whoever calls: the one that is set, and the one that the system knows.
func (a *app) homes() []string {
	homes := []string{a.userHome}
	if u, err := user.Current(); err == nil {
		homes = append(homes, u.HomeDir)
	}
	for i, h := range homes {
		if real, err := filepath.EvalSymlinks(h); err == nil {
			homes[i] = real
		}
	}
	return slices.DeleteFunc(homes, func(h string) bool { return !filepath.IsAbs(h) || h == "/" })
}

// Folders of the system in which secrets lie, or everybody's files.
var (
	systemTrees = []string{"/etc", "/proc", "/sys", "/dev", "/run", "/boot", "/var/run", "/var/lib", "/var/log", "/var/spool", "/var/mail", "/var/backups",
		"/var/cache", "/var/db", "/usr/local/etc", "/lost+found"}
	systemTops = []string{"/", "/home", "/root", "/var", "/usr", "/Users", "/tmp", "/var/tmp"}
	// homeParents are where homes of others lie: root may have come from one of them.
	homeParents = []string{"/home", "/Users"}
)

// private says why a folder is not shown unless it is named: a program that came from elsewhere could print keys that
// lie in it. All paths are without symbolic links. "": it may be shown.
func private(dir, data string, homes []string) string {
	if real, err := filepath.EvalSymlinks(data); err == nil {
		data = real
	}
	for _, home := range append(slices.Clone(homes), "/root") {
		switch first, _, _ := strings.Cut(strings.TrimPrefix(dir, home+"/"), "/"); {
		case home == dir:
			return "this is your home, where keys lie"
		case within(home, dir):
			return "your home lies in this folder, and keys in that"
		case within(dir, home) && strings.HasPrefix(first, "."):
			return "keys may lie in " + first + " of your home"
		}
	}
	if within(data, dir) || within(dir, data) {
		return "the kernel's own files lie here"
	}
	inSystem := func(top string) bool { return within(dir, top) }
	if slices.Contains(systemTops, dir) || slices.ContainsFunc(systemTrees, inSystem) {
		return "the system's or somebody's keys may lie here"
	}
	for _, parent := range homeParents {
		if !within(dir, parent) {
			continue
		}
		// parent/NAME is somebody's home, and parent/NAME/.FOLDER is where keys lie.
		if parts := strings.Split(strings.TrimPrefix(dir, parent+"/"), "/"); len(parts) == 1 || strings.HasPrefix(parts[1], ".") {
			return "the system's or somebody's keys may lie here"
		}
	}
	return ""
}

// mountedBelow says whether other file systems are mounted in a folder, as mounts (/proc/self/mountinfo) lists them: they
// would be shown with it, and what they are nobody has looked at.
func mountedBelow(dir, mounts string) bool {
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		at := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4])
		if at != dir && within(at, dir) {
			return true
		}
	}
	return false
}

// within says whether path is dir, or lies in it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+string(os.PathSeparator))
}

// seen says what of the user's folders a program sees.
type seen int

const (
	seenNamed   seen = iota // what was named, or the program is no command
	seenNothing             // a command, and no folder was named
	seenHere                // the folder that the command was called in
)

func seenFolder(s *agentkernel.Spec) seen {
	switch {
	case s.Program.Language == agentkernel.Command && !s.HasFiles():
		return seenNothing
	case s.Workspace != nil && s.Workspace.Optional:
		return seenHere
	}
	return seenNamed
}

// folderLine says what a command saw of the user's files, where that was not said on the command line.
func (w *watch) folderLine(p agentkernel.Process) string {
	failed := p.State == agentkernel.StateExited && p.ExitCode != 0
	switch {
	case w.seen == seenHere && !began(p):
		return ""
	case w.seen == seenHere:
		return "it could read this folder" + w.hiddenText() + " and change nothing · to let it: --workspace . (changes wait for apply) · to hide the folder: --no-workspace"
	case w.seen == seenNothing && w.a.here != "": // also of one that succeeds: that it printed nothing may be why
		return "it saw none of your files: " + w.a.here + " · cd to the folder that it is to see, or --workspace DIR"
	case w.seen == seenNothing && failed:
		return "it saw none of your files · --workspace . shows it this folder, and leaves it as it is"
	}
	return ""
}

// began says whether anything of a command ran: its walls could be built, and the system took it for a program. A
// command that ran ends with its own exit code, or with an error of its limits.
func began(p agentkernel.Process) bool {
	if p.State != agentkernel.StateFailed || p.Error == nil || p.Language != agentkernel.Command {
		return true
	}
	switch p.Error.Code {
	case agentkernel.CodeUnavailable, agentkernel.CodeUnsupported, agentkernel.CodeNotFound, agentkernel.CodeDenied, agentkernel.CodeInvalid:
		return false
	}
	return true
}

// shownHidden is how many files are named that a command could not read.
const shownHidden = 3

// hiddenText names what was hidden of the folder that a command could read.
func (w *watch) hiddenText() string {
	if w.files == nil {
		return ""
	}
	var parts []string
	if len(w.files.Hidden) > 0 {
		parts = append(parts, shownNames(w.files.Hidden)+", where keys may lie,")
	}
	if len(w.files.Unlisted) > 0 {
		parts = append(parts, unlistedText(w.files.Unlisted)+",")
	}
	if len(parts) == 0 {
		return ""
	}
	return ", but not " + strings.Join(parts, " nor ")
}

// shownNames names the first few, each as far as a line has room for it.
func shownNames(list []string) string {
	var names []string
	for _, name := range list[:min(len(list), shownHidden)] {
		names = append(names, fileText(clip.At(name, longName)))
	}
	return strings.Join(names, ", ") + more(len(list)-len(names))
}

const longName = 200
