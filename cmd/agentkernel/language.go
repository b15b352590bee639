package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/nearest"
	"agentkernel/internal/shellword"
)

// languageByName are the endings of file names that say how a program is written.
var languageByName = map[string]agentkernel.Language{
	".py": agentkernel.Python, ".mjs": agentkernel.Node, ".cjs": agentkernel.Node, ".js": agentkernel.Node, ".go": agentkernel.Go,
	".sh": agentkernel.Script, ".bash": agentkernel.Script, ".pl": agentkernel.Script, ".rb": agentkernel.Script,
}

// languageOf says how the text of a program is written: its name's ending counts, then its first line. Anything else
// is Python.
func languageOf(name, source string) agentkernel.Language {
	if l, ok := languageByName[strings.ToLower(filepath.Ext(name))]; ok {
		return l
	}
	first, isScript := strings.CutPrefix(firstLine(source), "#!")
	words := strings.FieldsFunc(first, func(r rune) bool { return r == ' ' || r == '\t' || r == '/' || r == '\r' })
	switch {
	case !isScript:
		return agentkernel.Python
	case slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "python") }):
		return agentkernel.Python
	case slices.Contains(words, "node") || slices.Contains(words, "nodejs"):
		return agentkernel.Node
	}
	return agentkernel.Script
}

// hasLanguage says whether a file's name says how the program in it is written.
func hasLanguage(name string) bool {
	_, ok := languageByName[strings.ToLower(filepath.Ext(name))]
	return ok
}

// knownLanguage reads --lang.
func knownLanguage(name string) (agentkernel.Language, error) {
	all := agentkernel.Languages()
	meant := agentkernel.Program{Language: agentkernel.Language(name)}
	if meant.NormalizeLanguage(); slices.Contains(all, meant.Language) {
		return meant.Language, nil
	}
	names := make([]string, len(all))
	for i, l := range all {
		names[i] = string(l)
	}
	e := agentkernel.Errorf(agentkernel.CodeInvalid, "run", "--lang %q is not known: %s", name, strings.Join(names, ", "))
	if near := nearest.Question(name, names); near != "" {
		e = e.WithHint("%s", near)
	}
	return "", e
}

// isCommand says whether what stands behind -- is a command of the system and not a program in a language.
func isCommand(word string) bool {
	if hasLanguage(word) || word == "-" {
		return false
	}
	info, err := os.Stat(word)
	if strings.Contains(word, "/") {
		return err == nil && info.Mode().Perm()&0o111 != 0 && !isScript(word) || isBinary(word)
	}
	return err != nil || !info.Mode().IsRegular()
}

// notExecutable refuses a file that is named behind -- by its path, as a command is, and that nothing says how to run: neither its name nor its
// first line nor its mode.
func notExecutable(word string) error {
	if !strings.Contains(word, "/") || hasLanguage(word) || isScript(word) {
		return nil
	}
	if info, err := os.Stat(word); err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 != 0 {
		return nil //nolint:nilerr // whoever reads the file says what is wrong with it
	}
	file := shellword.File(word)
	return agentkernel.Errorf(agentkernel.CodeDenied, "exec", "%s cannot be executed: its mode does not allow it", word).
		WithHint("a command: chmod +x %s; a program without a name that tells its language: agentkernel run --lang python %s", file, file)
}

// isBinary says whether a file is an executable that is no text. UTF-16 is text, though none that is run.
func isBinary(path string) bool {
	head := beginning(path)
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return false
	}
	return bytes.HasPrefix(head, []byte(elf.ELFMAG)) || bytes.IndexByte(head, 0) >= 0
}

// isScript says whether a file names its interpreter.
func isScript(path string) bool { return bytes.HasPrefix(beginning(path), []byte("#!")) }

// beginning gives the first bytes of a file, enough to tell what it is; nil if it cannot be read.
func beginning(path string) []byte {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() { // a pipe would have to be waited for
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return head[:n]
}

// executable is the program that runs an executable: one that the sandbox has too, or else a file that it is shown.
func executable(word string, args []string) (agentkernel.Program, error) {
	p := agentkernel.Program{Name: filepath.Base(word), Language: agentkernel.Command, Source: word, Args: args}
	found := word
	if !strings.Contains(word, "/") {
		var err error
		if found, err = exec.LookPath(word); err != nil {
			return p, nil //nolint:nilerr // the backend, which knows the PATH of sandboxes, refuses it
		}
		if dir := filepath.Dir(found); slices.Contains([]string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"}, dir) {
			return p, nil
		}
	}
	if filepath.Base(filepath.Dir(found)) == "shims" && isScript(found) {
		// It starts what its version manager has, which no sandbox sees: the sandbox's own command of this name does the work.
		p.Source = p.Name
		return p, nil
	}
	real, err := filepath.EvalSymlinks(found)
	if err != nil {
		return p, fileError(word, err)
	}
	p.Host, err = filepath.Abs(real)
	return p, err
}

// Exit codes of shells for a command that is not there, or cannot be executed.
const (
	exitNotFound      = 127
	exitNotExecutable = 126
)

// namedMissing is the cause of an error about a file or folder that the command line names and that is not there: nothing ran. A file that a
// process has not is another matter.
type namedMissing struct{ error }

func (m namedMissing) Unwrap() error { return m.error }

// missingNamed marks such an error, whose words stay as they are.
func missingNamed(e *agentkernel.Error) *agentkernel.Error {
	e.Err = namedMissing{e.Err}
	return e
}

func isNamedMissing(err error) bool {
	_, is := errors.AsType[namedMissing](err)
	return is
}

// exitFor is the exit code for an error that kept a command from doing its work.
func exitFor(e *agentkernel.Error) int {
	switch {
	case (e.Code == agentkernel.CodeInvalid || e.Code == agentkernel.CodeStorage) && errors.Is(e, fs.ErrPermission):
		return agentkernel.ExitDenied // whatever was to be done with the file
	case e.Op != "exec" && e.Code == agentkernel.CodeNotFound && isNamedMissing(e):
		return agentkernel.ExitUsage
	case e.Op != "exec" || e.Code == agentkernel.CodeSyntax:
		return e.Code.ExitCode()
	case e.Code == agentkernel.CodeNotFound:
		return exitNotFound
	}
	return exitNotExecutable
}
