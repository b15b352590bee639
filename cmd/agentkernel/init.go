package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"agentkernel"
	"agentkernel/internal/shellword"
	"agentkernel/internal/tool"
)

//go:embed project
var projectFiles embed.FS

// ignored are the lines that a project's .gitignore gets: a data directory in the folder, and exported runs,
// which hold what programs saw.
var ignored = []string{".agentkernel/", "*.akr"}

// toolsFile is the tools file of a new project.
const toolsFile = "mcp.json"

type initCmd struct {
	Dir string `arg:"" optional:"" help:"The folder (default: the working directory); made if it is not there."`
}

func (initCmd) Help() string {
	return `Makes what is missing of agentkernel.toml, mcp.json, hello.py, and lines in .gitignore. What is there stays as it
is. The tools file that it makes is accepted at once, since you made it; after a change: agentkernel tools trust.
If no model is declared, it looks whether OPENAI_API_KEY or ANTHROPIC_API_KEY is set and an Ollama runs here, and says which lines would
declare models, and where they belong. No key is written anywhere.

` + examples("agentkernel init", "agentkernel init myagents && cd myagents && agentkernel run hello.py")
}

// initResult is what init --json prints.
type initResult struct {
	Dir  string   `json:"dir"`
	Made []string `json:"made"`
	// Changed were there, and have got lines: .gitignore.
	Changed []string `json:"changed"`
	Kept    []string `json:"kept"` // was there
	// Ignored are the lines that a .gitignore which was there has got.
	Ignored []string `json:"-"`
	// Models are lines for the setting models, if it has none: their keys or servers are there.
	Models []proposed `json:"models"`

	Declares bool `json:"-"` // the setting models has some, or nobody knows
	Unread   bool `json:"-"` // mcp.json is there, and its content is not accepted

	tools   []byte // mcp.json as this command has made it
	ignores string // why a .gitignore that should have lines was left alone
}

func (c *initCmd) Run(a *app) error {
	wd, err := a.workingDir()
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "init", "the working directory is gone: %w", err)
	}
	r := initResult{Dir: wd, Made: []string{}, Changed: []string{}, Kept: []string{}, Models: []proposed{}}
	if c.Dir != "" {
		if r.Dir = c.Dir; !filepath.IsAbs(r.Dir) {
			r.Dir = filepath.Join(wd, c.Dir)
		}
	}
	cfg, err := a.settings()
	if r.Declares = err != nil || len(cfg.Models) > 0; !r.Declares {
		r.Models = append(r.Models, a.proposeModels(a.ctx)...)
	}
	if err := r.write(); err != nil {
		return agentkernel.Errorf(writeCode(err), "init", "%s: %w", a.relative(r.Dir), err)
	}
	if err := r.acceptTools(a); err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(r)
	}
	a.con.Out(r.text(a, c.Dir))
	return a.outputError()
}

// acceptTools accepts the tools file with the content that this command has written, since then the user has, whatever it holds by now; of
// one that was there it notes whether he has.
func (r *initResult) acceptTools(a *app) error {
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	file := filepath.Join(r.Dir, toolsFile)
	if r.tools != nil {
		return a.trust(dir.Path(), "", tool.AsTools, file, r.tools)
	}
	content, err := tool.ReadFile(file)
	if err != nil {
		return nil //nolint:nilerr // whoever uses it is told what is wrong with it
	}
	ok, err := a.trusted(dir.Path(), "", tool.AsTools, file, content)
	r.Unread = !ok
	return err
}

func (r *initResult) write() error {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		if at, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, syscall.ENOTDIR) {
			return fmt.Errorf("%s is a file; a project is a folder", at.Path)
		}
		return fmt.Errorf("the folder cannot be made: %w", unwrapPath(err))
	}
	files, err := fs.ReadDir(projectFiles, "project")
	if err != nil {
		return err
	}
	for _, f := range files {
		content, err := projectFiles.ReadFile(path.Join("project", f.Name()))
		if err != nil {
			return err
		}
		if f.Name() == "agentkernel.toml" {
			content = []byte(withModels(string(content), r.Models))
		}
		made, err := create(filepath.Join(r.Dir, f.Name()), content)
		if err != nil {
			return err
		}
		r.note(f.Name(), made)
		if made && f.Name() == toolsFile {
			r.tools = content
		}
	}
	made, added, kept, err := ignore(filepath.Join(r.Dir, ".gitignore"))
	if len(added) > 0 {
		r.Changed, r.Ignored = append(r.Changed, ".gitignore"), added
		return err
	}
	r.note(".gitignore", made)
	r.ignores = kept
	return err
}

func (r *initResult) note(name string, made bool) {
	if made {
		r.Made = append(r.Made, name)
	} else {
		r.Kept = append(r.Kept, name)
	}
}

// create writes a file that is not there, whole or not at all; false: it is there.
func create(path string, content []byte) (bool, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return false, unwrapPath(err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return false, fmt.Errorf("no file can be made in it: %w", unwrapPath(err))
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Link(f.Name(), path) // and not a rename: what somebody else has made meanwhile stays
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) { // a file system without links
		err = os.Rename(f.Name(), path)
		return err == nil, unwrapPath(err)
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return false, unwrapPath(err)
	}
	return true, nil
}

// ignore makes a .gitignore, or adds the lines that one lacks. One that is not a file, or a link, or has another name elsewhere, is left
// alone, since it may be the user's for all projects: kept says so, and which lines it should have.
func ignore(path string) (made bool, added []string, kept string, err error) {
	made, err = create(path, []byte(strings.Join(ignored, "\n")+"\n"))
	if made || err != nil {
		return made, nil, "", err
	}
	f, info, err := openIgnore(path, os.O_RDONLY)
	switch {
	case errors.Is(err, syscall.ELOOP): // a link
		return false, nil, linkedIgnore(path), nil
	case err != nil || f == nil:
		return false, nil, "", err
	}
	old, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return false, nil, "", err
	}
	lacks := lacking(old)
	if len(lacks) == 0 {
		return false, nil, "", nil
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
		return false, nil, "has another name elsewhere and was left alone; it lacks: " + strings.Join(lacks, ", "), nil
	}
	end := "\n"
	if bytes.Contains(old, []byte("\r\n")) {
		end = "\r\n"
	}
	text := strings.Join(lacks, end) + end
	switch {
	case bytes.HasSuffix(old, []byte("\r")): // half an end
		text = "\n" + text
	case len(old) > 0 && old[len(old)-1] != '\n':
		text = end + text
	}
	f, now, err := openIgnore(path, os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return false, nil, "", err
	}
	if f == nil {
		return false, nil, "", errReplaced
	}
	if !os.SameFile(info, now) {
		return false, nil, "", errors.Join(errReplaced, f.Close())
	}
	if _, err = f.WriteString(text); err != nil {
		err = errors.Join(err, f.Truncate(int64(len(old)))) // half a line would mean something else
	}
	return false, lacks, "", errors.Join(err, f.Close())
}

// lacking are the lines that a .gitignore lacks, as git reads it: the end of a line may have spaces and one \r, and the file begin with a
// mark of its encoding.
func lacking(content []byte) (lacks []string) {
	have := map[string]bool{}
	for line := range strings.Lines(strings.TrimPrefix(string(content), "\ufeff")) {
		have[strings.TrimRight(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), " ")] = true
	}
	for _, l := range ignored {
		if !have[l] {
			lacks = append(lacks, l)
		}
	}
	return lacks
}

// linkedIgnore says what is to be said of a .gitignore that is a link. It is read, and not written.
func linkedIgnore(path string) string {
	const most = 1 << 20
	lacks := ignored
	if f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			if content, err := io.ReadAll(io.LimitReader(f, most)); err == nil {
				lacks = lacking(content)
			}
		}
	}
	if len(lacks) == 0 {
		return "is a link and has the lines; git follows no such link since version 2.32"
	}
	return "is a link and was left alone; what it leads to should have: " + strings.Join(lacks, ", ") + " (git follows no such link since version 2.32)"
}

var errReplaced = errors.New(".gitignore was replaced in this moment; try again")

// openIgnore opens a file and follows no link; nil if it is not a regular one. What is there is decided of what was opened, since the name
// may lead elsewhere a moment later.
func openIgnore(path string, flag int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, unwrapPath(err)
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

func (r *initResult) text(a *app, dir string) string {
	var b strings.Builder
	for _, n := range r.Made {
		fmt.Fprintf(&b, "made  %s\n", n)
	}
	for _, n := range r.Changed {
		fmt.Fprintf(&b, "added to %s, which was there: %s\n", n, strings.Join(r.Ignored, ", "))
	}
	for _, n := range r.Kept {
		why := "was there"
		if n == ".gitignore" && r.ignores != "" {
			why = r.ignores
		}
		fmt.Fprintf(&b, "kept  %s, which %s\n", n, why)
	}
	if dir != "" {
		b.WriteString("next: cd " + shellword.File(dir) + "\n")
	}
	b.WriteString("next: agentkernel run hello.py\n")
	if !r.Declares {
		b.WriteString(a.modelsText(r.Models))
	}
	if r.Unread {
		b.WriteString("next: agentkernel tools trust mcp.json      if you have read it\n")
	}
	return b.String()
}
