package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/lazy"
)

// firstByte bounds how long a pipe is waited for that nobody asked to be read.
const firstByte = 10 * time.Second

// reads are the ways in which the text of a program reaches its standard input.
var reads = map[agentkernel.Language]func() *regexp.Regexp{
	agentkernel.Python: lazy.Regexp(`\bstdin\b|\binput\s*\(|\bfileinput\b|\bopen\(0\b`),
	agentkernel.Node:   lazy.Regexp(`\bstdin\b|\b(readFileSync|createReadStream|openSync)\(0\b`),
}

// addStdin decides what the program has as its standard input. The kernel copies a file by its path. What comes through
// a pipe is gathered in a file first: a process that is recovered reads the same again.
func (a *app) addStdin(p *programArgs, s *agentkernel.Spec) error {
	switch {
	case p.Stdin == "-" && p.File == "-":
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "standard input is the program already").
			WithHint("name the program's file, or give its input as one: --stdin FILE")
	case p.Stdin != "" && p.Stdin != "-":
		return a.stdinFile(p.Stdin, s)
	case p.Stdin == "-":
		return a.gather(a.in, s)
	}
	in, ok := a.in.(*os.File)
	if !ok || p.File == "-" {
		return nil
	}
	info, err := in.Stat()
	if err != nil {
		return nil //nolint:nilerr // a closed descriptor: there is no input
	}
	pattern, known := reads[s.Program.Language]
	switch mode := info.Mode(); {
	case known && !pattern().MatchString(s.Program.Source), s.Backend == "monty":
		return nil
	case mode.IsRegular():
		return a.gather(in, s)
	case mode.Type() == fs.ModeNamedPipe && known:
		if err := awaitInput(in, firstByte); err != nil {
			return err
		}
		return a.gather(in, s)
	}
	return nil
}

// stdinFile takes a file that was named.
func (a *app) stdinFile(name string, s *agentkernel.Spec) error {
	path, err := a.absolute(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fileError(name, err)
	case path == os.DevNull:
		return nil
	case !info.Mode().IsRegular():
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--stdin %s: that is no file", name).
			WithHint("a pipe is read with: --stdin - < %s", name)
	}
	s.Stdin = path
	return nil
}

// spool begins the names of such files; the kernel knows them by it.
const spool = ".stdin-"

// spoolAge is how old the name of a spool is that nobody is about to remove any more: it has one for an instant.
const spoolAge = time.Minute

// sweepSpools removes the names that commands left behind which were killed in that instant. There is nothing in them.
func sweepSpools(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the directory's own errors are told where it is used
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), spool) && time.Since(info.ModTime()) > spoolAge {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// gather copies what a stream has into a file without a name, which is gone when this command is, and which the kernel
// reaches through the list of our descriptors.
func (a *app) gather(in io.Reader, s *agentkernel.Spec) error {
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	sweepSpools(dir.Path())
	f, err := os.CreateTemp(dir.Path(), spool)
	if err != nil {
		return agentkernel.AsError(err, agentkernel.CodeStorage, "stdin")
	}
	if err := os.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return agentkernel.AsError(errors.Join(err, f.Close()), agentkernel.CodeStorage, "stdin")
	}
	limit := s.Limits.WithDefaults(agentkernel.DefaultLimits()).Disk
	if file, ok := in.(*os.File); ok {
		if at, err := file.Seek(0, io.SeekCurrent); err == nil { // whoever shares it with us, a shell's loop, reads on where it was
			defer func() { _, _ = file.Seek(at, io.SeekStart) }()
		}
	}
	n, err := io.Copy(f, io.LimitReader(in, limit+1))
	if err == nil && n > limit {
		err = agentkernel.LimitErrorf("disk", "standard input has more than %d bytes", limit).WithHint("--disk SIZE allows more")
	}
	if err != nil {
		return agentkernel.AsError(errors.Join(err, f.Close()), agentkernel.CodeStorage, "stdin")
	}
	a.gathered = f
	s.Stdin = filepath.Join("/proc", fmt.Sprint(os.Getpid()), "fd", fmt.Sprint(f.Fd()))
	return nil
}
