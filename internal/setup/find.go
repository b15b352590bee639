package setup

import (
	"os"
	"os/exec"
	"path/filepath"

	"agentkernel"
	"agentkernel/internal/datadir"
	"agentkernel/internal/shellword"
)

// FindOptions say where to look for the engine.
type FindOptions struct {
	Explicit string // the setting `engine` (flag, AGENTKERNEL_ENGINE or file): a path, or a name on PATH
	Home     string // data directory
	Shared   string // UserEngines: the engine of all data directories; "": there is none
	// LookPath finds a name on PATH; nil: exec.LookPath.
	LookPath func(name string) (string, error)
}

// Where an engine was found.
const (
	OriginSetting = "setting" // the setting `engine`
	OriginPath    = "path"    // `monty` on PATH
	OriginHome    = "home"    // the data directory's own: an earlier `agentkernel setup`, or a file engines/monty put there by hand
	OriginShared  = "shared"  // the user's, for all data directories: `agentkernel setup`
)

// UserEngines is where the engine lies that serves all data directories of this user: $XDG_DATA_HOME/agentkernel/engine, else
// ~/.local/share/agentkernel/engine. It is "" for a user without a home directory, each of whose data directories has its own.
func UserEngines() string {
	// A relative XDG_DATA_HOME is to be ignored (XDG Base Directory Specification 0.8).
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "agentkernel", "engine")
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return ""
	}
	return filepath.Join(home, ".local", "share", "agentkernel", "engine")
}

// Find looks for the engine in the order of the documentation: the setting, PATH, the data directory, the user's. An
// explicit path that is wrong is an error, never a reason to look elsewhere. It does not run what it finds.
// CodeUnavailable if there is none, with the command that installs it and how to do without Node.
func Find(o FindOptions) (path, origin string, err error) {
	look := o.LookPath
	if look == nil {
		look = exec.LookPath
	}
	if o.Explicit != "" {
		if p, err := look(o.Explicit); err == nil {
			return p, OriginSetting, nil
		}
		return "", OriginSetting, agentkernel.Errorf(agentkernel.CodeUnavailable, "engine",
			"the engine %s, which the setting `engine` names, is not an executable file", o.Explicit).
			WithHint("correct the setting, or remove it and run: agentkernel setup")
	}
	if p, err := look("monty"); err == nil {
		return p, OriginPath, nil
	}
	for i, exe := range Candidates(o.Home, o.Shared) {
		if executable(exe) {
			if i < len(Candidates(o.Home, "")) {
				return exe, OriginHome, nil
			}
			return exe, OriginShared, nil
		}
	}
	for _, exe := range Candidates(o.Home, o.Shared) {
		if st, err := os.Stat(exe); err == nil && st.Mode().IsRegular() {
			return "", "", agentkernel.Errorf(agentkernel.CodeUnavailable, "engine", "the Monty engine %s is not executable", exe).
				WithHint("chmod +x %s", shellword.File(exe))
		}
	}
	where := datadir.At(o.Home).Engines()
	if o.Shared != "" {
		where = o.Shared
	}
	return "", "", agentkernel.Errorf(agentkernel.CodeUnavailable, "engine",
		"the Monty engine %s is not installed: it is neither set, nor on PATH, nor in %s", EngineVersion(), where).
		WithHint("run: agentkernel setup. %s", withoutNode(where))
}

// Candidates are the places where the engine of a data directory may lie, in the order in which they count: its own directory, then
// the one for all (UserEngines; "": none); in each where Install puts it, then where a user puts it by hand.
func Candidates(home, shared string) []string {
	var all []string
	p, err := here()
	for _, dir := range []string{datadir.At(home).Engines(), shared} {
		if dir == "" {
			continue
		}
		if err == nil {
			all = append(all, p.executable(filepath.Join(dir, EngineVersion())))
		}
		all = append(all, filepath.Join(dir, "monty"))
	}
	return all
}

func executable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0
}

// withoutNode says how to install the engine by hand. The package is an ordinary tar archive.
func withoutNode(engines string) string {
	p, err := here()
	if err != nil {
		return agentkernel.AsError(err, agentkernel.CodeUnsupported, "setup").Message()
	}
	return "Without Node: download the npm package " + p.Package + " " + EngineVersion() +
		" as a tarball on any machine (npm pack " + p.Package + "@" + EngineVersion() +
		"), unpack it, and put its file `monty` on PATH, or at " + filepath.Join(engines, "monty") +
		", or name it with the setting `engine`"
}
