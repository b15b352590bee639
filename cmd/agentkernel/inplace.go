package main

import (
	"cmp"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/shellword"
)

// A command runs where the sandbox has it, with what lies beside it: in the system's directories, of which the backend knows, or in the folder
// that the program sees. Only what lies elsewhere is shown by itself.

// workspaceDir is where a program sees its folder.
const workspaceDir = "/workspace"

// namesCommand says whether what stands behind -- is a command: one of the system's, or a tool that was installed.
func (a *app) namesCommand(p *programArgs) bool { return isCommand(p.File) || a.installed(p) }

// installed says whether a script that is named behind -- is a command: a tool that was installed into a virtual environment, or into the
// node_modules of the folder that a command would see, or a script for a shell in the folder that was named. It needs what lies beside it. Other
// scripts are programs in the language of their first line.
func (a *app) installed(p *programArgs) bool {
	info, err := os.Stat(p.File)
	if p.packages || !strings.Contains(p.File, "/") || hasLanguage(p.File) || err != nil || info.Mode().Perm()&0o111 == 0 || !isScript(p.File) {
		return false
	}
	file := unlinkedDir(p.File)
	lang := languageOf(p.File, string(beginning(p.File)))
	if lang == agentkernel.Python {
		return venvOf(file) != ""
	}
	var folder string
	if p.folder != "" {
		if folder, err = a.absolute(p.folder); err == nil {
			folder, err = filepath.EvalSymlinks(folder)
		}
	} else if p.mayShowHere {
		folder, err = a.hereFolder()
	}
	if err != nil || folder == "" || !within(file, folder) {
		return false
	}
	return p.folder != "" && lang == agentkernel.Script || slices.Contains(strings.Split(file, "/"), "node_modules")
}

// place says where in the sandbox the executable of a command lies, if that is in the folder that the program sees.
func (a *app) place(p *programArgs, s *agentkernel.Spec) error {
	prog := &s.Program
	if prog.Language != agentkernel.Command || prog.Host == "" {
		return nil
	}
	named := prog.Source
	if !strings.Contains(named, "/") {
		found, err := exec.LookPath(named)
		if err != nil {
			return nil //nolint:nilerr // it was there a moment ago, and the backend looks again
		}
		named = found
	}
	typed, file, in := prog.Source, unlinkedDir(named), folderOf(s)
	switch {
	case in.has(file):
		prog.Source = in.place(file)
	case within(prog.Host, string(in)) && in != "":
		prog.Source = in.place(prog.Host)
	case in != "" && within(file, string(in)) && venvOf(file) != "" && !embedded.InSystem(prog.Host):
		return a.lacksInterpreter(p, typed+" is not in the sandbox, which shows nothing of "+prog.Host+" where it leads", file, venvOf(file))
	}
	interpreter, arg := interpreterOf(prog.Host)
	venv := ""
	if interpreter != "" {
		interpreter = unlinkedDir(interpreter)
		venv = venvOf(interpreter)
	}
	if venv == "" {
		return nil // the backend says what is wrong with it
	}
	if !in.has(interpreter) || !strings.HasPrefix(prog.Source, workspaceDir+"/") {
		return a.lacksInterpreter(p, "the interpreter that the first line of "+typed+" names is not in the sandbox: "+interpreter, file, venv)
	}
	args := []string{prog.Source}
	if arg != "" {
		args = []string{arg, prog.Source}
	}
	real, err := filepath.EvalSymlinks(interpreter)
	if err != nil {
		return fileError(interpreter, err)
	}
	prog.Source, prog.Host, prog.Args = in.place(interpreter), real, append(args, prog.Args...)
	return nil
}

// lacksInterpreter is the error for a file of a virtual environment that cannot run in its place. An environment of the system's Python runs where
// its folder is shown, one of another Python where a program is given it.
func (a *app) lacksInterpreter(p *programArgs, what, file, venv string) error {
	e := agentkernel.Errorf(agentkernel.CodeNotFound, "exec", "%s", what)
	verb, script := cmp.Or(p.verb, "run"), shellword.File(a.relative(file))
	if interpreter, _ := interpreterOf(file); interpreter == "" {
		script = shellword.File(a.relative(filepath.Dir(file))) + "/SCRIPT"
	}
	if project := filepath.Dir(venv); a.canShow(project) && seenIn(project).has(filepath.Join(venv, "bin", "python")) {
		return e.WithHint("show the folder that has it: agentkernel %s --workspace %s -- %s", verb, shellword.File(a.relative(project)), script)
	}
	return e.WithHint("--python shows a script its virtual environment: agentkernel %s --python %s --workspace . -- %s", verb, shellword.File(a.relative(venv)), script)
}

// canShow says whether a folder is this one or one above it, and may be shown.
func (a *app) canShow(folder string) bool {
	dir, err := a.workingDir()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	data, derr := a.dataDir()
	return err == nil && derr == nil && within(dir, folder) && private(folder, data.Path(), a.homes()) == ""
}

// seenIn is the folder that a program sees, without links in its path; "": none.
type seenIn string

func folderOf(s *agentkernel.Spec) seenIn {
	if s.Workspace == nil {
		return ""
	}
	folder, err := filepath.EvalSymlinks(s.Workspace.Path)
	if err != nil {
		return "" // the kernel says what is wrong
	}
	return seenIn(folder)
}

// place is where the sandbox has a file of the folder.
func (in seenIn) place(file string) string {
	return path.Join(workspaceDir, filepath.ToSlash(strings.TrimPrefix(file, string(in))))
}

// has says whether a file of the folder is the same in the sandbox: the links that it is lead on in the folder, or to one of the system's files.
func (in seenIn) has(file string) bool {
	for range mostLinks {
		if in == "" || !within(file, string(in)) {
			return false
		}
		target, err := os.Readlink(file)
		if err != nil {
			return true
		}
		if filepath.IsAbs(target) {
			real, err := filepath.EvalSymlinks(target)
			return err == nil && embedded.InSystem(target) && embedded.InSystem(real)
		}
		file = unlinkedDir(filepath.Join(filepath.Dir(file), target))
	}
	return false
}

// mostLinks is how many links Linux follows.
const mostLinks = 40

// unlinkedDir is the absolute path of a file, without links but the file itself.
func unlinkedDir(file string) string {
	abs, err := filepath.Abs(file)
	if err != nil {
		return file
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return abs
	}
	return filepath.Join(dir, filepath.Base(abs))
}

// venvOf is the virtual environment in whose bin a file lies; "": there is none.
func venvOf(file string) string {
	if dir := filepath.Dir(filepath.Dir(file)); filepath.Base(filepath.Dir(file)) == "bin" && there(filepath.Join(dir, "pyvenv.cfg")) {
		return dir
	}
	return ""
}

// interpreterOf is what the first line of a script names, with its argument; "": the file is no script. Where the path is too long for Linux, pip
// writes a script for sh whose second line starts the interpreter.
func interpreterOf(file string) (interpreter, arg string) {
	lines := strings.SplitN(string(beginning(file)), "\n", 3)
	rest, ok := strings.CutPrefix(lines[0], "#!")
	if !ok {
		return "", ""
	}
	if len(lines) > 1 && strings.TrimSpace(rest) == "/bin/sh" {
		if long, ok := strings.CutPrefix(lines[1], "'''exec' "); ok {
			long, _, _ = strings.Cut(long, ` "$0"`)
			return strings.Trim(long, `"'`), ""
		}
	}
	interpreter, arg, _ = strings.Cut(strings.TrimSpace(rest), " ")
	return interpreter, strings.TrimSpace(arg)
}
