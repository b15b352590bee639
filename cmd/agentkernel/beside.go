package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"agentkernel"
	"agentkernel/internal/lazy"
	"agentkernel/internal/shellword"
)

var (
	importsModule = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*(?:from|import)\s+(\w+)`) })
	importsTool   = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^\s*(?:from\s+tools\.(\w+)\s+import\s+(\w+)|(?:import\s+tools\.|from\s+tools\s+import\s+)(\w+))`)
	})
)

// fileMeant adds to the error of a program that could not import something which file of the user's it was to be, and what makes
// that one importable. Errors of other kinds stay as they are.
func (a *app) fileMeant(err error, s *agentkernel.Spec) error {
	e := asError(err)
	if e == nil || s.Program.Language != agentkernel.Python {
		return err
	}
	switch {
	case e.Code == agentkernel.CodeNotFound:
		for _, m := range importsTool().FindAllStringSubmatch(s.Program.Source, -1) {
			server, name := m[1]+m[3], m[2]
			if name == "" {
				name = "NAME"
			}
			for _, dir := range a.beside {
				if isFile(filepath.Join(dir, "tools", server+".py")) && strings.Contains(e.Message(), `"`+server+`"`) {
					return e.WithHint("tools/%s.py is there, but a local tool has a file of its own in the folder of its server: put the function %s into tools/%s/%s.py",
						server, name, server, name)
				}
			}
		}
	case e.Code == agentkernel.CodeUnsupported || e.Exception == "ModuleNotFoundError":
		for _, m := range importsModule().FindAllStringSubmatch(s.Program.Source, -1) {
			if !strings.Contains(e.Message(), "'"+m[1]+"'") {
				continue
			}
			if s.Workspace != nil && hasModule(s.Workspace.Path, m[1]) {
				return e.WithHint(`%s is in the workspace, where a program imports it after: import sys; sys.path.insert(0, "/workspace")`, m[1])
			}
			for _, dir := range a.beside {
				if hasModule(dir, m[1]) {
					return e.WithHint(`%s is beside the program, which does not see it: --workspace %s shows the folder, and import sys; sys.path.insert(0, "/workspace") comes before the import; `+
						"or make its functions local tools, tools/%s/NAME.py", m[1], shellword.File(dir), m[1])
				}
			}
		}
	}
	return err
}

// hasModule says whether a folder has a module of this name, or a package.
func hasModule(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, name))
	return isFile(filepath.Join(dir, name+".py")) || err == nil && info.IsDir()
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// shownCode is how long a program is that a hint repeats, in bytes.
const shownCode = 60

// looksLikeCode finds a program that stands where its file's name is expected: a call, an assignment, an import, several statements.
var looksLikeCode = lazy.Regexp(`(?s)^\s*(?:[\w.]+\(.*\)|\w+ *[-+*/]?= .*|(?:import|from) \w.*|.*[\w)\]"'] *[;\n].*)\s*;?\s*$`)

// commandMeant says of a program file that is not there, and has the name of a command, how a command is run; or of one that is the program
// itself, how that is.
func commandMeant(name string, args []string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) || asError(err).Hint != "" {
		return err
	}
	if looksLikeCode().MatchString(name) {
		code := shellword.Quoted(name)
		if len(name) > shownCode || strings.Contains(name, "\n") {
			code = "'CODE'"
		}
		return asError(err).WithHint("a program that is no file stands behind -c: agentkernel run -c %s", code)
	}
	if strings.Contains(name, "/") {
		return err
	}
	if _, missing := exec.LookPath(name); missing != nil {
		return err
	}
	return asError(err).WithHint("a command of the system stands behind --: agentkernel run -- %s", shellword.Join(append([]string{name}, args...)))
}

// otherLanguages are what files hold that are taken for programs by mistake, by the endings of their names.
var otherLanguages = map[string]string{
	".json": "JSON", ".jsonl": "JSON", ".csv": "CSV", ".tsv": "TSV", ".toml": "TOML", ".yaml": "YAML", ".yml": "YAML", ".xml": "XML", ".html": "HTML",
	".md": "Markdown", ".ipynb": "a notebook", ".sql": "SQL", ".ts": "TypeScript", ".tsx": "TypeScript", ".jsx": "JSX", ".rs": "Rust", ".java": "Java", ".c": "C",
	".cc": "C++", ".cpp": "C++", ".cs": "C#", ".php": "PHP", ".lua": "Lua", ".swift": "Swift", ".kt": "Kotlin", ".ps1": "PowerShell", ".r": "R",
}

// otherLanguage refuses a file whose name says that it is nothing that we run, unless its first line says who runs it.
func otherLanguage(name, source string) error {
	what, other := otherLanguages[strings.ToLower(filepath.Ext(name))]
	if !other || strings.HasPrefix(source, "#!") {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeInvalid, "run", "%s is %s by its name, which does not run here", name, what).
		WithHint("name a program in Python, JavaScript, Go or a shell; --lang python runs the file as Python in spite of its name")
}
