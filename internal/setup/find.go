package setup

import (
	"os"
	"os/exec"
	"path/filepath"

	"agentkernel"
	"agentkernel/internal/datadir"
)

// FindOptions say where to look for the engine.
type FindOptions struct {
	Explicit string // the setting `engine` (flag, AGENTKERNEL_ENGINE or file): a path, or a name on PATH
	Home     string // data directory
	// LookPath finds a name on PATH; nil: exec.LookPath.
	LookPath func(name string) (string, error)
}

// Where an engine was found.
const (
	OriginSetting = "setting" // the setting `engine`
	OriginPath    = "path"    // `monty` on PATH
	OriginHome    = "home"    // the data directory: `agentkernel setup`, or a file engines/monty put there by hand
)

// Find looks for the engine in the order of the documentation: the setting, PATH, the data directory. An
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
	for _, exe := range Candidates(o.Home) {
		if executable(exe) {
			return exe, OriginHome, nil
		}
	}
	engines := datadir.At(o.Home).Engines()
	return "", "", agentkernel.Errorf(agentkernel.CodeUnavailable, "engine",
		"the Monty engine %s is not installed: it is neither set, nor on PATH, nor in %s", EngineVersion(), engines).
		WithHint("run: agentkernel setup. %s", withoutNode(engines))
}

// Candidates are the places in a data directory where the engine may lie, in the order in which they count:
// where Install puts it, where a user puts it by hand.
func Candidates(home string) []string {
	engines := datadir.At(home).Engines()
	byHand := filepath.Join(engines, "monty")
	p, err := here()
	if err != nil {
		return []string{byHand}
	}
	return []string{p.executable(filepath.Join(engines, EngineVersion())), byHand}
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
