package confine

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
)

// libraryDirs are where loaders look without being told (ld.so(8)), the directories of Debian's kind first.
var libraryDirs = map[elf.Machine][]string{
	elf.EM_X86_64:  {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"},
	elf.EM_AARCH64: {"/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"},
}

// RuntimeOf lists what an executable in ELF needs of the host: itself, its loader, and the libraries that it and
// they name. It is much less than SystemRuntime: no other program is in it. Errors: CodeNotFound for what is not
// there, CodeUnsupported for what is no executable of this kind.
func RuntimeOf(path string) ([]Mount, error) {
	r := &runtimeFinder{seen: map[string]bool{}}
	if err := r.add(path, path); err != nil {
		return nil, err
	}
	return r.mounts, nil
}

type runtimeFinder struct {
	mounts []Mount
	seen   map[string]bool // by target, or name of a library
}

// add adds a file that is to be seen at target, and what it needs.
func (r *runtimeFinder) add(path, target string) error {
	if r.seen[target] {
		return nil
	}
	r.seen[target] = true
	source, err := filepath.EvalSymlinks(path)
	if err != nil {
		return missing("runtime", path, err)
	}
	r.mounts = append(r.mounts, Mount{Source: source, Target: target})
	f, err := elf.Open(source)
	if err != nil {
		return unsupported(path, err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz > 4096 {
			continue
		}
		name := make([]byte, p.Filesz)
		if _, err := p.ReadAt(name, 0); err != nil {
			return unsupported(path, err)
		}
		loader := strings.TrimRight(string(name), "\x00")
		if err := r.add(loader, loader); err != nil {
			return err
		}
	}
	return r.libraries(f, source)
}

// libraries adds what the dynamic section of a file names.
func (r *runtimeFinder) libraries(f *elf.File, path string) error {
	names, err := f.ImportedLibraries()
	if errors.Is(err, elf.ErrNoSymbols) {
		return nil
	}
	if err != nil {
		return unsupported(path, err)
	}
	dirs := slices.Clone(libraryDirs[f.Machine])
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		list, err := f.DynString(tag)
		if err != nil {
			continue // it has none
		}
		for _, dir := range strings.Split(strings.Join(list, ":"), ":") {
			dir = strings.NewReplacer("${ORIGIN}", filepath.Dir(path), "$ORIGIN", filepath.Dir(path)).Replace(dir)
			if filepath.IsAbs(dir) {
				dirs = slices.Insert(dirs, 0, filepath.Clean(dir))
			}
		}
	}
	for _, name := range names {
		if r.seen[name] {
			continue
		}
		r.seen[name] = true
		at := slices.IndexFunc(dirs, func(dir string) bool {
			st, err := os.Stat(filepath.Join(dir, name))
			return err == nil && st.Mode().IsRegular()
		})
		if at < 0 {
			return missing("runtime", path, fmt.Errorf("its library %s: %w", name, os.ErrNotExist))
		}
		found := filepath.Join(dirs[at], name)
		if err := r.add(found, found); err != nil {
			return err
		}
	}
	return nil
}

func unsupported(path string, err error) error {
	return agentkernel.Errorf(agentkernel.CodeUnsupported, op, "%s is no executable that can be read: %w", path, err)
}
