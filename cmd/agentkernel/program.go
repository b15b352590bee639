package main

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/nearest"
	"agentkernel/internal/regular"
)

// maxSource is the largest program text; a program is code, data belongs behind a tool.
const maxSource = 16 << 20

// programArgs are the ways to name a program on the command line.
type programArgs struct {
	Code    string   `short:"c" placeholder:"CODE" help:"Program text, instead of a file."`
	File    string   `arg:"" optional:"" help:"Program file; - reads standard input."`
	Args    []string `arg:"" optional:"" help:"The program's arguments (sys.argv[1:]); put -- before those that look like flags."`
	Lang    string   `placeholder:"NAME" help:"How the program is written: python, node, go, script, command, or another word for one, as bash (default: by its name and first line)."`
	command bool     // a command behind --
	// What decides whether a script behind -- is a command; see installed.
	folder      string   // that --workspace names
	mayShowHere bool     // a command sees the folder that it is called in
	packages    bool     // the program is to have packages: it is one in Python
	tools       []string // the tools files that the command line names
	verb        string   // of agentkernel that takes the program; "": run
	Stdin       string   `placeholder:"FILE" help:"The program's standard input: a file, or - for that of this command, to its end (default: see below)."`
}

// program reads the program that the arguments name, and the local tools beside it.
func (a *app) program(p *programArgs) (agentkernel.Program, error) {
	var lang agentkernel.Language
	var err error
	if p.Lang != "" {
		if lang, err = knownLanguage(p.Lang); err != nil {
			return agentkernel.Program{}, err
		}
	}
	if p.File == "" && p.Code == "" && len(a.rest) > 0 {
		p.File, a.rest = a.rest[0], a.rest[1:]
		if lang == "" {
			if lang, err = a.behindDashes(p); err != nil {
				return agentkernel.Program{}, err
			}
		}
	}
	if p.File != "" && p.Code == "" && (lang == agentkernel.Command || lang == "" && !hasLanguage(p.File) && isBinary(p.File)) {
		return executable(p.File, append(p.Args, a.rest...))
	}
	prog := agentkernel.Program{Language: lang, Args: append(p.Args, a.rest...)}
	parents := []string{"."}
	switch {
	case p.Code != "":
		prog.Name, prog.Source = "<string>", p.Code
		if p.File != "" {
			prog.Args = append([]string{p.File}, prog.Args...)
		}
	case p.File == "":
		return prog, agentkernel.Errorf(agentkernel.CodeInvalid, "run", "no program was named").
			WithHint("name a file, - for standard input, or -c 'CODE'; agentkernel %s --help has examples", cmp.Or(p.verb, "run"))
	case p.File == "-":
		prog.Name = "<stdin>"
		prog.Source, err = readSource(a.in, "standard input")
	case isGoPackage(p.File) && (lang == "" || lang == agentkernel.Go):
		return goPackage(p.File, prog.Args)
	default:
		prog.Name = filepath.Base(p.File)
		if prog.Source, err = readFile(p.File); err != nil {
			err = commandMeant(p.File, p.Args, err)
		} else if lang == "" {
			err = otherLanguage(p.File, prog.Source)
		}
		parents = []string{filepath.Dir(p.File), "."}
	}
	if err != nil {
		return prog, err
	}
	a.beside = parents
	if prog.Language == "" {
		prog.Language = languageOf(p.File, prog.Source)
	} else { // a shell has more than one name
		prog.Language = agentkernel.Language(p.Lang)
		prog.NormalizeLanguage()
	}
	err = a.addImports(&prog, p, parents)
	return prog, err
}

// behindDashes says whether what stands behind -- is a command; "": it is a program.
func (a *app) behindDashes(p *programArgs) (agentkernel.Language, error) {
	if a.namesCommand(p) {
		p.command = true
		return agentkernel.Command, nil
	}
	return "", notExecutable(p.File)
}

// addImports puts what a program imports from beside it into the program.
func (a *app) addImports(prog *agentkernel.Program, p *programArgs, parents []string) (err error) {
	isFile := p.Code == "" && p.File != "-"
	switch {
	case prog.Language == agentkernel.Python:
		prog.Modules, err = a.modules(prog.Source, parents)
	case prog.Language == agentkernel.Node && isFile:
		var tools []string
		if tools, err = a.toolsFilesOf(p); err == nil {
			err = withNodeFiles(prog, p.File, tools)
		}
	case prog.Language == agentkernel.Go && isFile:
		err = withGoFiles(prog, p.File)
	}
	return err
}

// modules finds local tools in the first of the directories that has a folder tools. Programs that do not speak of
// tools are not made to wait for the file system.
func (a *app) modules(source string, parents []string) (map[string]string, error) {
	if !strings.Contains(source, "tools") {
		return nil, nil
	}
	for _, dir := range parents {
		if info, err := os.Stat(filepath.Join(dir, "tools")); err == nil && info.IsDir() {
			return a.localModules(dir)
		}
	}
	return nil, nil
}

func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fileError(path, err)
	}
	defer f.Close()
	return readSource(f, path)
}

func readSource(r io.Reader, name string) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxSource+1))
	if err != nil {
		return "", fileError(name, err)
	}
	if len(b) > maxSource {
		return "", agentkernel.Errorf(agentkernel.CodeInvalid, "run", "%s is larger than 16 MB, which no program is", name).
			WithHint("a program reads its data through a tool")
	}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if line, col, ok := invalidUTF8(b); ok {
		return "", agentkernel.Errorf(agentkernel.CodeSyntax, "run", "%s is not valid UTF-8: line %d, byte %d", name, line, col).
			WithHint("save the file as UTF-8")
	}
	return string(b), nil
}

// invalidUTF8 finds the first byte that no UTF-8 text has there; line and byte count from 1.
func invalidUTF8(b []byte) (line, col int, found bool) {
	if utf8.Valid(b) {
		return 0, 0, false
	}
	line, col = 1, 1
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			return line, col, true
		case r == '\n':
			line, col = line+1, 1
		default:
			col += n
		}
		b = b[n:]
	}
	return 0, 0, false
}

func fileError(path string, err error) error {
	e := agentkernel.Errorf(agentkernel.CodeNotFound, "run", "%s cannot be read: %w", path, unwrapPath(err))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e = missingNamed(e)
		if near := nearFile(path); near != "" {
			return e.WithHint("did you mean %s?", near)
		}
		return e
	case errors.Is(err, syscall.EISDIR):
		e.Code = agentkernel.CodeInvalid
		return e.WithHint("name a file in it")
	case errors.Is(err, regular.ErrNotRegular):
		e.Code = agentkernel.CodeInvalid
		return e.WithHint("a pipe, a device or a directory has its name: remove it")
	case errors.Is(err, fs.ErrPermission):
		e.Code = agentkernel.CodeDenied
	}
	return e
}

// nearFile finds a file in the same directory whose name was probably meant.
func nearFile(path string) string {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean("./" + dir))
	if filepath.IsAbs(path) {
		entries, err = os.ReadDir(dir)
	}
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if slices.Contains(names, base+".py") {
		return dir + base + ".py"
	}
	if near := nearest.One(base, names); near != "" {
		return dir + near
	}
	return ""
}
