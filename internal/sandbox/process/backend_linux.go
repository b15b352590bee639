package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/sandbox/confine"
)

// Backend runs Python programs in CPython processes. It is safe for concurrent use.
type Backend struct {
	cfg     Config
	python  *interpreter
	node    *nodejs
	golang  *golang
	tenants *tenants
	checked *checked
	used    sync.Once
}

var _ agentkernel.Backend = (*Backend)(nil)

// New prepares the backend and returns at once; the interpreter is asked for its version beside it. A missing one is
// not an error here: Info says so, and so do Check and Start.
func New(cfg Config) (*Backend, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Backend{cfg: cfg, checked: newChecked()}
	b.python = &interpreter{launch: cfg.Launcher, path: cfg.Python, cache: cfg.Cache}
	b.golang = &golang{launch: cfg.Launcher, cache: cfg.GoCache}
	b.node = &nodejs{launch: cfg.Launcher, path: cfg.Node}
	b.tenants = newTenants(&b.cfg)
	if b.cfg.Problem == nil && b.cfg.Stand == nil {
		b.tenants.tasks.Go(func() { _, _ = b.python.get() }) // whoever needs it hears of the error
	}
	return b, nil
}

// Info describes the backend. It waits for the interpreter's version if that is not known from an earlier kernel.
func (b *Backend) Info() agentkernel.BackendInfo {
	info := agentkernel.BackendInfo{
		Name:       "process",
		Languages:  languages,
		Sessions:   true,
		Replayable: true,
		Files:      b.cfg.Isolation != IsolationNone,
		Isolation:  agentkernel.IsolationProcess,
	}
	if b.cfg.Isolation == IsolationNone {
		info.Name, info.Isolation, info.Languages = "unconfined", agentkernel.IsolationNone, languages[:1]
	}
	python, err := b.ready()
	if err != nil {
		info.Problem, info.Fix = err.Message(), err.Hint
		return info
	}
	info.Available, info.Fingerprint = true, fingerprint(python)
	return info
}

// ready gives the interpreter if programs can run here, as far as is known.
func (b *Backend) ready() (Interpreter, *agentkernel.Error) {
	if p := b.problem(); p != nil {
		return Interpreter{}, p
	}
	python, err := b.python.get()
	return python, agentkernel.AsError(err, agentkernel.CodeUnavailable, "process")
}

// problem is why no walls can stand on this machine; nil if none is known.
func (b *Backend) problem() *agentkernel.Error {
	if b.cfg.Problem != nil {
		return b.cfg.Problem
	}
	if b.cfg.Stand != nil && b.cfg.Stand() {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "process", "walls can stand on this machine, and nothing runs without them here").
			WithHint("leave the backend out, or name process")
	}
	if b.cfg.Spawner == nil {
		return nil
	}
	return b.cfg.Spawner.Machine().Problem
}

// fingerprint names what a replay needs to be the same. Hashes of strings are not randomised, which is why no seed
// is part of it.
func fingerprint(python Interpreter) string {
	_, version := guestSources()
	return "cpython-" + python.Version + "+" + version
}

// leastPython is the smallest memory limit of a program in CPython. Below it the interpreter fails somewhere in its own
// imports, in words that help nobody.
const leastPython = 16 << 20

// Start makes a sandbox out of a child that waits, or of a new one.
func (b *Backend) Start(ctx context.Context, req agentkernel.StartRequest) (agentkernel.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if req.Image != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeVersion, "process", "the process backend has no images; a process is recovered by replay")
	}
	req.Limits = req.Limits.WithDefaults(agentkernel.DefaultLimits())
	if len(req.Mounts) > 0 && b.cfg.Isolation == IsolationNone {
		return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "process", "without walls there are no workspaces: the program sees every file as it is")
	}
	if !req.Program.Language.Replayable() { // it opens its standard input itself
		return b.startWhole(ctx, req)
	}
	if req.Limits.Memory < leastPython {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "process", "the memory limit is %s; CPython needs %s at least", bytesize.InMiB(req.Limits.Memory), bytesize.InMiB(leastPython))
	}
	python, problem := b.pythonFor(req.Program)
	if problem != nil {
		return nil, problem
	}
	v, err := b.verdict(ctx, req.Program)
	if err != nil {
		return nil, err
	}
	b.used.Do(func() { b.tenants.background(b.python.refresh) })
	var stdin *os.File
	if req.Stdin != "" {
		if stdin, err = os.Open(req.Stdin); err != nil {
			return nil, agentkernel.AsError(err, agentkernel.CodeStorage, "process")
		}
		defer func() { _ = stdin.Close() }() // the program has its own
	}
	c, err := b.tenants.take(ctx, python, tenant{req.Namespace, setFor(python, v, req.Program.Session), identity(req.Program.Host)}, req.Limits, req.Mounts, stdin)
	if err != nil {
		return nil, b.unavailable(err)
	}
	return newSandbox(&b.cfg, c, req, v), nil
}

func (b *Backend) unavailable(err error) error {
	if errors.Is(err, errClosed) {
		return agentkernel.Errorf(agentkernel.CodeCanceled, "process", "%w", err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return confine.WithShortage(agentkernel.AsError(err, agentkernel.CodeUnavailable, "process"))
}

// Stats counts the processes.
func (b *Backend) Stats() Stats { return b.tenants.stats() }

// Close kills every zygote and program and waits until they are gone.
func (b *Backend) Close() error {
	b.tenants.close()
	return nil
}

// refusal is the error for a program that the guest did not accept; nil if it did.
func (v *verdict) refusal(p agentkernel.Program, python Interpreter) error {
	if e := v.Error; e != nil {
		err := agentkernel.Errorf(agentkernel.CodeSyntax, "check", "%s", e.Message)
		err.Traceback, err.Exception = e.Traceback, e.Exception
		return err
	}
	if len(v.Missing) == 0 {
		return nil
	}
	var where, with []string
	for _, m := range v.Missing {
		at := fmt.Sprintf("line %d", m.Line)
		if m.File != p.Name {
			at = m.File + ", " + at
		}
		where = append(where, fmt.Sprintf("%s: module '%s' is not installed for Python %s (%s)", at, m.Module, python.Version, python.Executable))
		if flag := "--with " + packageOf(m.Module); !slices.Contains(with, flag) {
			with = append(with, flag)
		}
	}
	return agentkernel.Errorf(agentkernel.CodeUnsupported, "check", "%s", strings.Join(where, "; ")).
		WithHint("run it with %s; or install it there, or set `python` to an interpreter that has it, such as that of a virtual environment", strings.Join(with, " "))
}

// packageOf is the package that brings a module, where its name is another: of the ones that programs use most.
func packageOf(module string) string {
	switch module {
	case "bs4":
		return "beautifulsoup4"
	case "cv2":
		return "opencv-python-headless"
	case "dateutil":
		return "python-dateutil"
	case "docx":
		return "python-docx"
	case "dotenv":
		return "python-dotenv"
	case "PIL":
		return "pillow"
	case "skimage":
		return "scikit-image"
	case "sklearn":
		return "scikit-learn"
	case "yaml":
		return "pyyaml"
	}
	return module
}
