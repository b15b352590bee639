package process

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
	"agentkernel/internal/shellword"
)

// Places in the sandbox of a program that is not forked from a zygote.
const (
	programDir = "/program"         // the program and what travels with it
	commandDir = "/agentkernel/bin" // the command `kernel`
	systemPath = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
)

// recipe is how a program of some language is run: what of it goes where, and what is executed.
type recipe struct {
	profile confine.Profile
	program confine.Program
	files   []confine.File
	mounts  []confine.Mount
	stream  bool // a guest library speaks on streamFD
}

// recipeFor looks at a program and says how it is run. Errors: CodeNotFound, what it needs is not there; CodeSyntax,
// it does not compile; CodeUnsupported, not for this machine; CodeUnavailable, its language is not installed.
func (b *Backend) recipeFor(_ context.Context, p agentkernel.Program, tools []agentkernel.Tool, l agentkernel.Limits) (*recipe, error) {
	switch p.Language {
	case agentkernel.Go:
		return b.goRecipe(p)
	case agentkernel.Node:
		return b.nodeRecipe(p, tools, l)
	case agentkernel.Script:
		return scriptRecipe(p)
	case agentkernel.Command:
		return b.commandRecipe(p)
	}
	return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "check", "the process backend runs no programs in the language %s", p.Language)
}

// startWhole makes a sandbox for a program that is not forked from a zygote.
func (b *Backend) startWhole(ctx context.Context, req agentkernel.StartRequest) (agentkernel.Sandbox, error) {
	if p := b.problem(); p != nil {
		return nil, p
	}
	if b.cfg.Spawner == nil {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "process", "without walls only Python programs run")
	}
	r, err := b.recipeFor(ctx, req.Program, req.Tools, req.Limits)
	if err != nil {
		return nil, err
	}
	var unseen error
	req.Mounts, unseen = b.shownFolders(ctx, req.Mounts)
	r.inFolder(req.Program, req.Mounts)
	cell, err := b.cfg.Spawner.Prepare(b.walls(req, r))
	if err != nil {
		return nil, err
	}
	w, err := newWhole(&b.cfg, req, r, cell)
	if err != nil {
		return nil, errors.Join(err, cell.Close())
	}
	w.unseen = unseen
	return w, nil
}

// walls are what stands around a program.
func (b *Backend) walls(req agentkernel.StartRequest, r *recipe) confine.Config {
	mounts := slices.Concat(confine.SystemRuntime(), r.mounts)
	if b.cfg.Command != "" {
		mounts = append(mounts, confine.Mount{Source: b.cfg.Command, Target: commandDir + "/kernel"})
	}
	cfg := confine.Config{
		Kind: confine.Whole, Profile: r.profile, Runtime: mounts, Files: r.files, Masked: b.cfg.Masked, FullProc: true,
		TmpBytes: tmpBytes(req.Limits), Limits: limitsOf(req.Limits), Program: r.program,
	}
	addFolders(&cfg, req.Mounts, req.Limits.Disk)
	cfg.Program.Env = append(cfg.Program.Env, folderEnvironment(req.Mounts)...)
	return cfg
}

// limitsOf gives the limits that the walls keep.
func limitsOf(l agentkernel.Limits) confine.Limits {
	return confine.Limits{Memory: l.Memory, CPUs: l.CPUs, CPUTime: cpuTime(l), Pids: l.Pids, OpenFiles: l.OpenFiles, FileSize: l.FileSize}
}

// environment is the whole environment of a program, besides what its language adds.
func environment(more ...string) []string {
	return append([]string{"PATH=" + commandDir + ":" + systemPath, "HOME=" + confine.TmpDir, "TMPDIR=" + confine.TmpDir,
		"LANG=C.UTF-8", "TZ=UTC", "USER=agent", "LOGNAME=agent", "TERM=dumb", fmt.Sprint("AGENTKERNEL_DOOR=", doorFD)}, more...)
}

func notFound(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeNotFound, "exec", format, args...)
}

// baseName is a file name for a program in its directory.
func baseName(p agentkernel.Program, otherwise string) string {
	name := path.Base(filepath.ToSlash(p.Name))
	if name == "." || name == ".." || name == "/" || strings.ContainsAny(name, "<>\x00") {
		return otherwise
	}
	return name
}

// interpreters run scripts whose first line names none, by the endings of their names.
var interpreters = map[string]string{".sh": "/bin/sh", ".bash": "/usr/bin/env bash", ".pl": "/usr/bin/env perl", ".rb": "/usr/bin/env ruby"}

// scriptRecipe runs a text by the interpreter that its first line names, or else the ending of its name.
func scriptRecipe(p agentkernel.Program) (*recipe, error) {
	line, _, _ := strings.Cut(p.Source, "\n")
	rest, ok := strings.CutPrefix(strings.TrimRight(line, "\r"), "#!")
	where := "line 1 of " + nameOf(p)
	if !ok {
		where = nameOf(p)
		rest, ok = interpreters[strings.ToLower(path.Ext(p.Name))]
	}
	if !ok {
		return nil, agentkernel.Errorf(agentkernel.CodeSyntax, "exec", "line 1 of %s does not say what runs it", nameOf(p)).
			WithHint("begin it with #!/bin/sh, #!/usr/bin/env bash or another interpreter")
	}
	if strings.HasSuffix(line, "\r") {
		return nil, agentkernel.Errorf(agentkernel.CodeSyntax, "exec", "%s has line ends of Windows, which its interpreter would not understand", nameOf(p)).
			WithHint("sed -i 's/\\r$//' %s", shellword.File(nameOf(p)))
	}
	interpreter, arg, _ := strings.Cut(strings.TrimSpace(rest), " ")
	arg = strings.TrimSpace(arg)
	found, err := interpreterThere(where, interpreter, arg)
	if err != nil {
		return nil, err
	}
	file := programDir + "/" + baseName(p, "script")
	args := []string{interpreter}
	if arg != "" {
		args = append(args, arg)
	}
	return &recipe{
		profile: confine.ProfileGeneric,
		files:   []confine.File{{Path: file, Data: []byte(p.Source)}},
		program: confine.Program{Path: found, Args: append(append(args, file), p.Args...), Env: environment()},
	}, nil
}

// interpreterThere is the path of the interpreter in the first line of a script, or what is wrong with that line.
func interpreterThere(where, interpreter, arg string) (string, error) {
	if !filepath.IsAbs(interpreter) {
		return "", agentkernel.Errorf(agentkernel.CodeSyntax, "exec", "%s: %q is not an absolute path", where, interpreter).
			WithHint("#!/usr/bin/env NAME finds NAME on the PATH")
	}
	found, err := executable(interpreter)
	if err != nil {
		return "", agentkernel.Errorf(agentkernel.CodeOf(err), "exec", "%s: the interpreter %w", where, agentkernel.AsError(err, "", "").Err).
			WithHint("%s", agentkernel.AsError(err, "", "").Hint)
	}
	word, _, _ := strings.Cut(arg, " ")
	if filepath.Base(interpreter) != "env" || word == "" || strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
		return found, nil
	}
	if _, err := onPath(word); err != nil {
		return "", notFound("%s: there is no %s on the PATH of a sandbox, %s", where, word, systemPath).WithHint("install it for all users of this machine")
	}
	return found, nil
}

// commandRecipe runs an executable: one of the system's, or the one that Host names, which is shown by itself where no
// sandbox has it.
func (b *Backend) commandRecipe(p agentkernel.Program) (*recipe, error) {
	name := p.Source
	if name == "" || strings.ContainsRune(name, 0) {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "exec", "no command was named")
	}
	r := &recipe{profile: confine.ProfileGeneric, program: confine.Program{Args: append([]string{name}, p.Args...), Env: environment()}}
	if p.Host != "" {
		if err := runnable(p.Host); err != nil {
			return nil, err
		}
		if r.program.Path = p.Host; confine.InSystem(p.Host) {
			return r, nil
		}
		var err error
		if r.mounts, err = b.interpreterOf(p); err != nil {
			return nil, err
		}
		r.program.Path = programDir + "/" + filepath.Base(p.Host)
		r.mounts = append(r.mounts, confine.Mount{Source: p.Host, Target: r.program.Path})
		return r, nil
	}
	var err error
	if strings.Contains(name, "/") {
		r.program.Path, err = executable(name)
	} else {
		r.program.Path, err = onPath(name)
	}
	return r, err
}

// inFolder runs a command that is named by its path in the workspace there, with what lies beside it, and shows it nowhere
// else. Without the workspace it stays where commandRecipe puts it.
func (r *recipe) inFolder(p agentkernel.Program, mounts []agentkernel.Mount) {
	shown := slices.ContainsFunc(mounts, func(m agentkernel.Mount) bool { return m.Volume == "" })
	if shown && p.Language == agentkernel.Command && p.Host != "" && strings.HasPrefix(path.Clean(p.Source), confine.WorkspaceDir+"/") {
		r.program.Path = path.Clean(p.Source)
		r.mounts = slices.DeleteFunc(r.mounts, func(m confine.Mount) bool { return m.Source == p.Host })
	}
}

// interpreterOf gives what has to be shown for the interpreter of a command that is a script, or what is wrong with its
// first line.
func (b *Backend) interpreterOf(p agentkernel.Program) ([]confine.Mount, error) {
	f, err := os.Open(p.Host)
	if err != nil {
		return nil, nil //nolint:nilerr // who may execute a file need not be able to read it
	}
	defer func() { _ = f.Close() }()
	var head [256]byte // as much as Linux reads
	n, _ := io.ReadFull(f, head[:])
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	rest, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return nil, nil
	}
	interpreter, arg, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if strings.HasPrefix(interpreter, confine.WorkspaceDir+"/") { // only the sandbox knows
		return nil, nil
	}
	arg = strings.TrimSpace(arg)
	if filepath.Base(interpreter) == "env" && arg == "node" { // as a program in Node has it
		if _, mounts, err := b.node.find(); err == nil && len(mounts) > 0 {
			return mounts, nil
		}
	}
	_, err = interpreterThere("line 1 of "+nameOf(p), interpreter, arg)
	return nil, err
}

// onPath finds a command where a sandbox would.
func onPath(name string) (string, error) {
	var refused error
	for _, dir := range filepath.SplitList(systemPath) {
		found, err := executable(dir + "/" + name)
		if err == nil {
			return found, nil
		}
		if agentkernel.CodeOf(err) != agentkernel.CodeNotFound && refused == nil {
			refused = err
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", notFound("there is no %s on the PATH of a sandbox, %s", name, systemPath).
		WithHint("name the file with its path, or install it for all users of this machine")
}

// executable says whether a path of the machine is a program that sandboxes see too. Who asks may be a stranger: of what
// lies elsewhere on the machine, also behind a link, the answer says nothing, not even whether it is there.
func executable(file string) (string, error) {
	file = path.Clean(file)
	if confine.InSystem(file) {
		if real, err := filepath.EvalSymlinks(file); err == nil && confine.InSystem(real) {
			return file, runnable(real)
		}
	}
	return "", notFound("%s is not in the sandbox", file).WithHint("a sandbox sees /usr, /bin and /lib of this machine; name another file with its path on the command line, and it is shown too")
}

// runnable says what keeps a file of the machine from being executed.
func runnable(file string) error {
	st, err := os.Stat(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return notFound("there is no file %s", file)
	case err != nil:
		return agentkernel.Errorf(agentkernel.CodeDenied, "exec", "%w", err)
	case st.IsDir():
		return agentkernel.Errorf(agentkernel.CodeInvalid, "exec", "%s is a directory", file)
	case !st.Mode().IsRegular(): // a pipe would have to be waited for
		return agentkernel.Errorf(agentkernel.CodeInvalid, "exec", "%s is no ordinary file", file)
	case st.Mode().Perm()&0o111 == 0:
		return agentkernel.Errorf(agentkernel.CodeDenied, "exec", "%s is not executable", file).WithHint("chmod +x %s", shellword.File(file))
	}
	f, err := os.Open(file)
	if err != nil { // who may execute a file need not be able to read it
		return nil //nolint:nilerr // the system will say
	}
	defer func() { _ = f.Close() }()
	var magic [4]byte
	if _, err := io.ReadFull(f, magic[:]); err != nil || string(magic[:2]) != "#!" && string(magic[:]) != elf.ELFMAG {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "exec", "%s is no program for this machine: neither ELF nor a script that begins with #!", file)
	}
	if string(magic[:]) != elf.ELFMAG {
		return nil
	}
	return rightMachine(file, f)
}

// rightMachine looks at an ELF file: is it for this processor, and is its loader here?
func rightMachine(file string, f *os.File) error {
	bin, err := elf.NewFile(f)
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "exec", "%s is damaged: %w", file, err)
	}
	if !slices.Contains(machines, bin.Machine) {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "exec", "%s is for another architecture, %s; this machine is %s",
			file, architecture(bin.Machine), architecture(machines[0])).WithHint("build or install it for this machine")
	}
	for _, p := range bin.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		loader, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
		name := strings.TrimRight(string(loader), "\x00")
		if _, statErr := os.Stat(name); err == nil && statErr != nil {
			return notFound("%s needs the loader %s, which is not on this machine", file, name).WithHint("it was built for another C library; build it static, or install that library")
		}
	}
	return nil
}

func architecture(m elf.Machine) string {
	return strings.ToLower(strings.TrimPrefix(m.String(), "EM_"))
}
