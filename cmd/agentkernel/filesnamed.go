package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/lazy"
	"agentkernel/internal/nearest"
	"agentkernel/internal/shellword"
)

// Mistakes about files that can be seen before a model is paid for: a task that reads a file which is not where its programs look, and a folder
// that is not where it is said to be.

var (
	// fileName finds names of files in a task, by endings that nothing else has: example.com and v1.2 are none.
	fileName = lazy.Regexp(`[\p{L}\p{N}_~./-]*[\p{L}\p{N}_-]\.(?:csv|tsv|jsonl?|ndjson|xlsx?|parquet|txt|md|pdf|log|xml|ya?ml|toml|png|jpe?g|gif|webp|svg|db|sqlite|html?|zip|gz)\b`)
	// readsNext ends a text behind which a file is named that is read, whatever else the task does.
	readsNext = lazy.Regexp(`(?i)\b(?:of|from|read|open|load|parse|plot|graph|using|compare|sum up|add up|summari[sz]e|analy[sz]e|describe|explain|visuali[sz]e)\s+(?:the\s+)?(?:file\s+)?["'` + "`" + `]?$`)
	readsIn   = lazy.Regexp(`(?i)\bin\s+(?:the\s+)?(?:file\s+)?["'` + "`" + `]?$`)
	andNext   = lazy.Regexp(`(?i)^["'` + "`" + `]?(?:,| and| with)\s+(?:the\s+)?["'` + "`" + `]?$`)
	// writes says that a task makes something: what it names behind "in" may be that.
	writes = lazy.Regexp(`(?i)\b(?:write|save|create|make|put|store|generate|produce|export|draw|output|record|append|build)\b`)
)

// filesRead are the files that a task reads, as far as its words say it without a doubt. Of others it is not known whether it makes them.
func filesRead(task string) (names []string) {
	end, reads := 0, false // of the file before
	for _, at := range fileName().FindAllStringIndex(task, -1) {
		before := task[:at[0]]
		reads = readsNext().MatchString(before) || readsIn().MatchString(before) && !writes().MatchString(before) || reads && andNext().MatchString(task[end:at[0]])
		url := strings.HasSuffix(before, ":") || strings.HasSuffix(before, "@") || strings.HasPrefix(task[at[0]:], "//")
		if name := task[at[0]:at[1]]; reads && !url && !slices.Contains(names, name) {
			names = append(names, name)
		}
		end = at[1]
	}
	return names
}

// filesNamed refuses a task that reads a file which its programs cannot see. Where there are tools, they may have it.
func (a *app) filesNamed(task string, spec *agentkernel.Spec) error {
	dir, err := a.workingDir()
	if err != nil || len(spec.Volumes) > 0 {
		return nil //nolint:nilerr // without it nothing can be looked for
	}
	tools := len(spec.Tools) > 0 || len(spec.Program.Modules) > 0 || len(spec.AllowHosts) > 0
	for _, name := range filesRead(task) {
		switch {
		case spec.Workspace == nil && tools, spec.Workspace != nil && a.sees(spec.Workspace.Path, dir, name):
		case spec.Workspace == nil:
			return agentkernel.Errorf(agentkernel.CodeNotFound, "do", "the task reads %s, and its programs see no files", name).WithHint("%s", a.showFolderOf(dir, name))
		default:
			hint, likely := a.otherFile(spec.Workspace.Path, dir, name)
			e := agentkernel.Errorf(agentkernel.CodeNotFound, "do", "the task reads %s, which is not in %s", name, a.folderName(spec.Workspace.Path)).WithHint("%s", hint)
			if !tools || likely {
				return e
			}
			a.con.Say("warning: %s: %s", e.Message(), e.Hint)
		}
	}
	return nil
}

// sees says whether a file that a task names is in its folder: as seen from there, or as it is named where the command is called.
func (a *app) sees(folder, dir, name string) bool {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		name = filepath.Join(a.userHome, rest)
	}
	if filepath.IsAbs(name) {
		return within(filepath.Clean(name), folder) && there(name)
	}
	if slices.ContainsFunc(filesBelow(folder), func(f string) bool { return filepath.Base(f) == filepath.Base(name) }) { // a program finds it there
		return true
	}
	from := filepath.Join(dir, name)
	return there(filepath.Join(folder, name)) || within(from, folder) && there(from)
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// showFolderOf says how programs see a file that is named where the command was called.
func (a *app) showFolderOf(dir, name string) string {
	const waits = "; what they change there waits for agentkernel apply"
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	switch {
	case there(path) && within(path, dir):
		return "show them this folder: --workspace ." + waits
	case there(path):
		return "show them its folder: --workspace " + shellword.File(a.relative(filepath.Dir(path))) + waits
	}
	return "name the folder that has it: --workspace DIR" + waits
}

// folderName is a folder in a message.
func (a *app) folderName(path string) string {
	if name := a.relative(path); name != "." {
		return name
	}
	return "this folder"
}

// otherFile says which file may be meant by one that is not in a folder; likely: it is one that is called almost the same.
func (a *app) otherFile(folder, dir, name string) (hint string, likely bool) {
	files := filesBelow(folder)
	byStem, stems := map[string]string{}, []string{}
	for _, f := range slices.Backward(files) { // of two the upper one counts
		byStem[nameAlone(f)] = f
		stems = append(stems, nameAlone(f))
	}
	near := nearest.One(nameAlone(name), stems)
	switch {
	case near != "":
		return "did you mean " + byStem[near] + "?", true
	case there(filepath.Join(dir, name)):
		return a.showFolderOf(dir, name), true
	case len(files) == 0:
		return "there are no files; name the folder that has it: --workspace DIR", false
	}
	shown := files[:min(len(files), shownFiles)]
	return "there are " + strings.Join(shown, ", ") + more(len(files)-len(shown)) + `; if the task is to make it, say so: "... to ` + name + `"`, false
}

// nameAlone is the name of a file without its ending: that all end alike makes none a guess at another.
func nameAlone(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

const (
	shownFiles = 8
	// mostFiles is how many files are looked at where one is missed.
	mostFiles = 1000
)

// filesBelow are files of a folder and of the folders in it, the upper ones first, without hidden ones.
func filesBelow(folder string) (files []string) {
	for _, pattern := range []string{"*", "*/*"} {
		found, _ := fs.Glob(os.DirFS(folder), pattern) // the pattern is right, and what cannot be read has none
		for _, name := range found {
			info, err := os.Stat(filepath.Join(folder, name))
			if err == nil && info.Mode().IsRegular() && !hidden().MatchString(name) && len(files) < mostFiles {
				files = append(files, name)
			}
		}
	}
	return files
}

var hidden = lazy.Regexp(`(?:^|/)\.`)

// missingFolder is the error for a folder that is not there; nil: it is. It says where it was looked for, and which may be meant. flag is what
// stands before its name: "--workspace ".
func (a *app) missingFolder(flag, given, path string) error {
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		return nil
	}
	dir, err := a.workingDir()
	if err != nil {
		return nil //nolint:nilerr // the kernel says what is wrong
	}
	what, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), " ")
	parent := filepath.Dir(path)
	e := agentkernel.Errorf(agentkernel.CodeNotFound, "workspace", "the %s %s does not exist: there is no %s in %s", what, given, filepath.Base(path), parent)
	if !there(parent) {
		e = agentkernel.Errorf(agentkernel.CodeNotFound, "workspace", "the %s %s does not exist, and neither does %s", what, given, parent)
	}
	e = missingNamed(e)
	if other := otherFolder(dir, given); other != "" {
		return e.WithHint("did you mean %s? %s%s", other, flag, shellword.File(other))
	}
	if near := nearest.Question(filepath.Base(path), foldersIn(parent)); near != "" {
		return e.WithHint("%s a new one: mkdir -p %s", near, shellword.File(given))
	}
	return e.WithHint("name another, or make it: mkdir -p %s", shellword.File(given))
}

// otherFolder is a folder of the same name in one above, or in a folder of this one, as it is named from here; "": there is none.
func otherFolder(dir, given string) string {
	if filepath.IsAbs(given) || !filepath.IsLocal(given) {
		return ""
	}
	for up, at := "..", filepath.Dir(dir); strings.Count(up, "..") <= foldersUp; up, at = filepath.Join("..", up), filepath.Dir(at) {
		if isFolder(filepath.Join(at, given)) {
			return filepath.Join(up, given)
		}
	}
	for _, below := range foldersIn(dir) {
		if isFolder(filepath.Join(dir, below, given)) {
			return filepath.Join(below, given)
		}
	}
	return ""
}

// foldersUp is how far up a folder is looked for.
const foldersUp = 3

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// foldersIn are the folders in one, without hidden ones.
func foldersIn(dir string) (names []string) {
	entries, _ := os.ReadDir(dir) // what cannot be read has none
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}
