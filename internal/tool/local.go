package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"agentkernel"
)

// Limits of local tools: they travel with the program into the store and into the sandbox.
const (
	maxModuleSize  = 1 << 20
	maxModulesSize = 16 << 20
	maxModules     = 1000
)

// LocalModules reads the local tools under dir, the files tools/<server>/<tool>.py, in the form of
// agentkernel.Program.Modules: "tools.<server>.<tool>" -> source. A dir without a folder "tools" has none.
// Names that begin with "_" or "." are passed over. Errors: CodeInvalid for a name that cannot be imported,
// text that is not UTF-8, or too much of it; CodeDenied for a link that leaves dir; those of read, which has the part of
// regular.ReadIn and may refuse a file.
func LocalModules(dir string, read func(root *os.Root, name string, limit int64) ([]byte, error)) (map[string]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fileError(dir, err)
	}
	defer root.Close()
	r := &moduleReader{root: root, read: read, dir: dir, modules: map[string]string{}}
	if err := r.readAll(); err != nil {
		return nil, err
	}
	return r.modules, nil
}

type moduleReader struct {
	root    *os.Root
	read    func(root *os.Root, name string, limit int64) ([]byte, error)
	dir     string
	modules map[string]string
	total   int64
}

func (r *moduleReader) readAll() error {
	servers, err := r.list("tools")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return r.escape("tools", err)
	}
	for _, s := range servers {
		name := path.Join("tools", s.Name())
		if hidden(s.Name()) {
			continue
		}
		if st, err := r.root.Stat(name); err != nil {
			return r.escape(name, err)
		} else if !st.IsDir() {
			continue // a README, or tools/x.py without a server: not a local tool
		}
		if err := r.identifier(s.Name(), name); err != nil {
			return err
		}
		if err := r.readServer(s.Name(), name); err != nil {
			return err
		}
	}
	return nil
}

func (r *moduleReader) readServer(server, dir string) error {
	files, err := r.list(dir)
	if err != nil {
		return r.escape(dir, err)
	}
	for _, f := range files {
		stem, isPython := strings.CutSuffix(f.Name(), ".py")
		if !isPython || hidden(f.Name()) {
			continue
		}
		name := path.Join(dir, f.Name())
		st, err := r.root.Stat(name)
		switch {
		case err != nil:
			return r.escape(name, err)
		case !st.Mode().IsRegular():
			continue
		}
		if err := r.identifier(stem, name); err != nil {
			return err
		}
		src, err := r.source(name, st.Size())
		if err != nil {
			return err
		}
		r.modules["tools."+server+"."+stem] = src
	}
	return nil
}

func (r *moduleReader) source(name string, size int64) (string, error) {
	r.total += size
	switch {
	case size > maxModuleSize:
		return "", r.invalid(name, "it is larger than %s", megabytes(maxModuleSize))
	case r.total > maxModulesSize || len(r.modules) >= maxModules:
		return "", r.invalid("tools", "there are more than %s or %d files of local tools", megabytes(maxModulesSize), maxModules)
	}
	src, err := r.read(r.root, name, maxModuleSize)
	if err != nil {
		return "", r.escape(name, err)
	}
	if !utf8.Valid(src) {
		return "", r.invalid(name, "it is not UTF-8 text")
	}
	return strings.TrimPrefix(string(src), "\ufeff"), nil
}

func (r *moduleReader) list(dir string) ([]fs.DirEntry, error) {
	return fs.ReadDir(r.root.FS(), dir)
}

func (r *moduleReader) identifier(name, file string) error {
	if PythonName(name) == name {
		return nil
	}
	return r.invalid(file, "%q cannot be imported", name).
		WithHint("rename it to %q: letters, digits and underscores, no Python keyword", PythonName(name))
}

func (r *moduleReader) invalid(file, format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, "local tools", "%s in %s: %s", file, r.dir, fmt.Sprintf(format, args...))
}

// escape names the reason why os.Root did not open something; a link that leads out of dir is the usual one.
func (r *moduleReader) escape(file string, err error) error {
	if own, ok := errors.AsType[*agentkernel.Error](err); ok {
		return own
	}
	if strings.Contains(err.Error(), "escapes") {
		return agentkernel.Errorf(agentkernel.CodeDenied, "local tools", "%s is a link that leads out of %s", file, r.dir).
			WithHint("copy the file into the folder")
	}
	return &agentkernel.Error{Code: agentkernel.CodeUnavailable, Op: "local tools", Err: fmt.Errorf("reading %s in %s: %w", file, r.dir, err)}
}

func hidden(name string) bool { return strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") }
