package main

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
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

// knownLanguage reads --lang.
func knownLanguage(name string) (agentkernel.Language, error) {
	all := agentkernel.Languages()
	if l := agentkernel.Language(name); slices.Contains(all, l) {
		return l, nil
	}
	names := make([]string, len(all))
	for i, l := range all {
		names[i] = string(l)
	}
	return "", agentkernel.Errorf(agentkernel.CodeInvalid, "run", "--lang %q is not known: %s", name, strings.Join(names, ", "))
}

// isCommand says whether what stands behind -- is a command of the system and not a program in a language.
func isCommand(word string) bool {
	if _, ok := languageByName[strings.ToLower(filepath.Ext(word))]; ok || word == "-" {
		return false
	}
	info, err := os.Stat(word)
	if strings.Contains(word, "/") {
		return err == nil && info.Mode().Perm()&0o111 != 0 && !isScript(word) || isBinary(word)
	}
	return err != nil || !info.Mode().IsRegular()
}

// isBinary says whether a file is an executable that is no text.
func isBinary(path string) bool {
	magic := beginning(path)
	return string(magic) == elf.ELFMAG || bytes.IndexByte(magic, 0) >= 0
}

// isScript says whether a file names its interpreter.
func isScript(path string) bool { return bytes.HasPrefix(beginning(path), []byte("#!")) }

// beginning gives the first four bytes of a file; nil if it has fewer.
func beginning(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil {
		return nil
	}
	return magic
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

// exitFor is the exit code for an error that kept a command from doing its work.
func exitFor(e *agentkernel.Error) int {
	switch {
	case e.Op != "exec" || e.Code == agentkernel.CodeSyntax:
		return e.Code.ExitCode()
	case e.Code == agentkernel.CodeNotFound:
		return exitNotFound
	}
	return exitNotExecutable
}
