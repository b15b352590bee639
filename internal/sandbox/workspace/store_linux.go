package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/mounts"
)

// Store keeps the layers of all processes. It is safe for concurrent use.
type Store struct {
	cfg Config

	mu      sync.Mutex
	busy    map[agentkernel.PID]bool // is being applied or discarded
	written map[string]chan struct{} // by folder: takes one, who changes it
	found   map[agentkernel.PID]bool // homes that earlier kernels have left, and this one has not made anew

	step   func(what string)  // for tests: called before each step of an Apply
	syncfs func(fd int) error // syncfs(2)
}

// New makes nothing: directories come with the first process that has a folder. It notes what is there already.
func New(cfg Config) *Store {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{cfg: cfg, busy: map[agentkernel.PID]bool{}, written: map[string]chan struct{}{}, found: map[agentkernel.PID]bool{}, step: func(string) {}, syncfs: unix.Syncfs}
	names, _ := s.names() // what cannot be read now is found by the next kernel
	for _, pid := range pidsIn(names) {
		s.found[pid] = true
	}
	return s
}

// take makes the caller the only one who changes what is kept of a process.
func (s *Store) take(pid agentkernel.PID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[pid] {
		return conflict("the changes of process %d are being applied or discarded at this moment", pid).WithPID(pid)
	}
	s.busy[pid] = true
	return nil
}

func (s *Store) release(pid agentkernel.PID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, pid)
}

// alone waits until no other Apply changes the folders of a process: what one has looked at, another would change.
func (s *Store) alone(ctx context.Context, h *home) (free func(), err error) {
	var held []chan struct{}
	free = func() {
		for _, c := range held {
			<-c
		}
	}
	for _, source := range h.sources() {
		s.mu.Lock()
		c := s.written[source]
		if c == nil {
			c = make(chan struct{}, 1)
			s.written[source] = c
		}
		s.mu.Unlock()
		select {
		case c <- struct{}{}:
			held = append(held, c)
		case <-ctx.Done():
			free()
			return nil, agentkernel.Errorf(agentkernel.CodeCanceled, op, "cut off while %s was written for another process: %w", source, ctx.Err())
		}
	}
	return free, nil
}

// sources are the folders that may be changed, each once, in one order for all.
func (h *home) sources() (list []string) {
	for i := range h.rec.Folders {
		if f := &h.rec.Folders[i]; !f.ReadOnly {
			list = append(list, f.Source)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Create notes the folders of a process that is about to be created and what they hold, durably. Errors: CodeNotFound,
// CodeInvalid and CodeDenied for a folder that cannot be one, CodeStorage.
func (s *Store) Create(pid agentkernel.PID, spec *agentkernel.Spec) error {
	return s.make(pid, agentkernel.LayerKept, func(h *home) (err error) {
		if h.rec.Folders, err = s.folders(spec); err != nil {
			return err
		}
		for i := range h.rec.Folders {
			if err := s.begun(h, i); err != nil {
				return err
			}
		}
		return s.keepStdin(h, spec)
	})
}

// make makes the home of a process, durably, with what fill puts there; nothing is left of it if that fails.
func (s *Store) make(pid agentkernel.PID, state agentkernel.LayerState, fill func(*home) error) (err error) {
	at := s.path(pid)
	s.mu.Lock()
	delete(s.found, pid)
	s.mu.Unlock()
	if err := removeAll(at); err != nil { // of a PID that was given out once and never became durable
		return storage(err)
	}
	if err := os.MkdirAll(at, 0o700); err != nil {
		return storage(err)
	}
	defer func() {
		if err != nil {
			_ = removeAll(at)
		}
	}()
	d, err := openRoot(at, true)
	if err != nil {
		return storage(err)
	}
	defer d.Close()
	h := &home{dir: d, rec: record{Version: recordVersion, Token: newToken(), Origin: s.cfg.Origin, State: state}}
	if err := fill(h); err != nil {
		return err
	}
	return h.save()
}

// folders looks at what a Spec names.
func (s *Store) folders(spec *agentkernel.Spec) (list []folder, err error) {
	add := func(what string, f folder) error {
		source, info, err := folderPath(what, f.Path)
		if err != nil {
			return err
		}
		if err := s.apart(what, source); err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return invalid("the %s %s: nobody can say what it is", what, f.Path)
		}
		f.Source, f.Dev, f.Ino = source, st.Dev, st.Ino
		if f.Optional {
			f.Tools = toolsIn(source, spec.Tools)
		}
		list = append(list, f)
		return nil
	}
	if w := spec.Workspace; w != nil {
		if err := add("workspace", folder{Path: w.Path, ReadOnly: w.ReadOnly, Optional: w.Optional}); err != nil {
			return nil, err
		}
	}
	for _, v := range spec.Volumes {
		if err := add("volume "+v.Name, folder{Volume: v.Name, Path: v.Path, ReadOnly: v.ReadOnly, Size: v.Size}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// apart refuses a folder that has to do with the kernel's own directory, and the whole machine.
func (s *Store) apart(what, source string) error {
	if source == "/" {
		return invalid("the %s is the whole machine", what).WithHint("name a folder")
	}
	own, err := filepath.EvalSymlinks(s.cfg.Apart)
	if err != nil {
		return storage(err)
	}
	table, err := mounts.Read()
	if err != nil {
		return storage(err)
	}
	switch within, at := table.Overlap(source, own); {
	case within || own == source || strings.HasPrefix(source, own+"/"):
		return invalid("the %s %s lies in the kernel's data directory %s", what, source, own).WithHint("choose another folder")
	case len(at) > 0 || strings.HasPrefix(own, source+"/"):
		return invalid("the %s %s holds the kernel's data directory %s", what, source, own).
			WithHint("choose a smaller folder, or keep the data directory elsewhere with --home")
	}
	return nil
}

// begun surveys folder i.
func (s *Store) begun(h *home, i int) error {
	f := &h.rec.Folders[i]
	root, err := f.root()
	if err != nil {
		return err
	}
	defer root.Close()
	if f.ReadOnly {
		return nil
	}
	b, unlisted, err := survey(root, MaxFiles)
	switch {
	case len(unlisted) > maxHidden:
		return invalid("%s holds more than %d directories that cannot be listed", f.Path, maxHidden).WithHint("choose a smaller folder")
	case noText(unlisted):
		return invalid("%s holds a directory that cannot be listed, and whose name is no text", f.Path).WithHint("choose a smaller folder")
	case errors.Is(err, errTooMany):
		return invalid("%s holds more than %d files", f.Path, MaxFiles).WithHint("choose a smaller folder")
	case errors.Is(err, errTooDeep):
		return invalid("%s: %w", f.Path, err).WithHint("choose a smaller folder")
	case err != nil:
		return unreadable("folder", f.Path, err)
	}
	if f.Copy, err = s.mustCopy(); err != nil {
		return err
	}
	f.Base, f.Unlisted = fmt.Sprintf("base.%d", i), unlisted
	return b.write(h.dir, f.Base)
}

// root opens the folder, if it is still the one that was noted.
func (f *folder) root() (dir, error) {
	d, err := openRoot(f.Source, false)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return d, agentkernel.Errorf(agentkernel.CodeNotFound, op, "the folder %s is %w", f.Path, errNoFolder)
	}
	if err != nil {
		return d, unreadable("folder", f.Path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(d.fd(), &st); err != nil || st.Dev != f.Dev || st.Ino != f.Ino {
		_ = d.Close()
		return d, agentkernel.Errorf(agentkernel.CodeConflict, op, "%s is %w", f.Path, errOtherFolder)
	}
	return d, nil
}

var (
	errNoFolder    = errors.New("not there any more")
	errOtherFolder = errors.New("not the folder any more that it was when the process was created")
)

// away says whether an error of folder.root is that the folder has gone, or that another is in its place. What the
// process wrote lies in its layer, and can be read all the same.
func away(err error) bool { return errors.Is(err, errNoFolder) || errors.Is(err, errOtherFolder) }

// notApplied is the error of an Apply for a folder that is away.
func notApplied(pid agentkernel.PID, err error) error {
	e := agentkernel.AsError(err, agentkernel.CodeNotFound, op)
	return agentkernel.Errorf(e.Code, op, "%w; nothing was written", e.Err).WithPID(pid).
		WithHint("move the folder back to where it was and apply again; or copy files out: agentkernel artifacts %[1]d lists them, agentkernel get %[1]d FILE -o PATH copies one", pid)
}

// Begin throws away what the layers of a process hold and gives what its sandbox is to see.
func (s *Store) Begin(pid agentkernel.PID) ([]agentkernel.Mount, error) {
	h, err := s.open(pid)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if h.rec.State != agentkernel.LayerKept {
		return nil, conflict("the changes of process %d were %s already", pid, h.rec.State).WithPID(pid)
	}
	if h.rec.Decided != nil || len(h.rec.Changes) > 0 || slices.ContainsFunc(h.rec.Folders, func(f folder) bool { return f.Applied }) {
		return nil, conflict("changes of process %d were applied already", pid).WithPID(pid)
	}
	var mounts []agentkernel.Mount
	for i := range h.rec.Folders {
		f := &h.rec.Folders[i]
		root, err := f.root()
		if errors.Is(err, errNoFolder) { // it may be put back, and the process waits for that
			return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, op, "%w", agentkernel.AsError(err, "", op).Err).WithPID(pid)
		}
		if err != nil {
			return nil, err
		}
		m, err := s.fresh(h, f, root)
		_ = root.Close()
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, m)
	}
	if !slices.ContainsFunc(h.rec.Folders, func(f folder) bool { return !f.ReadOnly || len(f.Hidden)+len(f.Unlisted) > 0 }) {
		return mounts, nil // there are no layers, of which the record would have to tell
	}
	return mounts, h.save()
}

// fresh makes an empty layer. It is a new directory each time: whatever of the old sandbox might still live writes to
// the old one.
func (s *Store) fresh(h *home, f *folder, root dir) (agentkernel.Mount, error) {
	m := agentkernel.Mount{Volume: f.Volume, Source: f.Source, ReadOnly: f.ReadOnly, Optional: f.Optional, Hidden: f.Unlisted}
	if f.Optional {
		var err error
		f.Hidden, f.Unlisted, err = f.hidden(root)
		m.Hidden = slices.Concat(f.Hidden, f.Unlisted)
		return m, err
	}
	if f.ReadOnly {
		return m, nil
	}
	if f.Layer != "" {
		if err := removeAll(h.path(f.Layer)); err != nil {
			return m, storage(err)
		}
	}
	layer, err := os.MkdirTemp(h.Name(), "layer.")
	if err != nil {
		return m, storage(err)
	}
	f.Layer = filepath.Base(layer)
	if !f.Copy {
		m.Scratch = layer
		return m, nil
	}
	m.Source, m.Own = filepath.Join(layer, f.top()), true
	if err := copyFolder(root, m.Source, f.Unlisted); err != nil {
		return m, err
	}
	top, err := openRoot(m.Source, true)
	if err != nil {
		return m, storage(err)
	}
	defer top.Close()
	f.Held, err = top.used()
	return m, storage(err)
}

// Drift lists paths, a few, at which the folders of a process are not what they were when it was created.
func (s *Store) Drift(pid agentkernel.PID) ([]string, error) {
	h, err := s.open(pid)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return s.drift(pid, h)
}

const shownDrift = 20

func (s *Store) drift(pid agentkernel.PID, h *home) (list []string, err error) {
	a := &applying{s: s, h: h, pid: pid}
	defer a.closePlans()
	if h.rec.Decided != nil {
		if err := a.planDecided(); err != nil {
			return nil, err
		}
	}
	for i := range h.rec.Folders {
		f := &h.rec.Folders[i]
		if f.ReadOnly || f.Applied {
			continue
		}
		b, err := readBase(h.dir, f.Base)
		if err != nil {
			return nil, err
		}
		root, err := f.root()
		if err != nil {
			return list, err
		}
		paths, err := b.drift(root, others{temp: h.temp(), unlisted: f.Unlisted, applied: a.hasApplied(f)}, shownDrift-len(list))
		_ = root.Close()
		if err != nil {
			return nil, unreadable("folder", f.Path, err)
		}
		for _, p := range paths {
			list = append(list, agentkernel.FileName{Volume: f.Volume, Path: p}.String())
		}
	}
	return list, nil
}

// kept says whether there is something to apply or discard.
func (h *home) kept(pid agentkernel.PID) error {
	switch h.rec.State {
	case agentkernel.LayerApplied:
		return conflict("the changes of process %d were applied to %s already, at %s", pid, h.where(), h.rec.Applied.Local().Format("2006-01-02 15:04:05")).WithPID(pid)
	case agentkernel.LayerDiscarded:
		return conflict("the changes of process %d were discarded", pid).WithPID(pid).WithHint("agentkernel rerun %d makes them again", pid)
	case agentkernel.LayerImported:
		return conflict("the files of process %d came with a recording, and belong to no folder here", pid).WithPID(pid).
			WithHint("agentkernel get %d FILE -o PATH copies one out", pid)
	}
	return nil
}

// where names the folders for messages.
func (h *home) where() string {
	var list []string
	for i := range h.rec.Folders {
		if !h.rec.Folders[i].ReadOnly {
			list = append(list, h.rec.Folders[i].Path)
		}
	}
	return strings.Join(list, " and ")
}

// drop notes that nothing waits any more, then frees the disk.
func (h *home) drop() error {
	h.rec.State, h.rec.Decided = agentkernel.LayerDiscarded, nil
	var gone []string
	for i := range h.rec.Folders {
		f := &h.rec.Folders[i]
		gone = append(gone, f.Layer, f.Base)
	}
	return h.saveWithout(gone)
}

// saveWithout saves the record, which does not name these files any more, and removes them.
func (h *home) saveWithout(gone []string) error {
	if err := h.save(); err != nil {
		return err
	}
	var errs []error
	for _, name := range gone {
		if name != "" {
			errs = append(errs, removeAll(h.path(name)))
		}
	}
	return storage(errors.Join(errs...))
}

// removePatience is how long Remove waits for whoever has the folders.
const removePatience = 5 * time.Second

// Remove forgets a process altogether. It does nothing if there is nothing. What an Apply that was cut off has left in the folders, and
// nobody could finish or undo afterwards, goes the way of Discard; where somebody else has the folders now, all stays for the next time.
func (s *Store) Remove(pid agentkernel.PID) error {
	ctx, cancel := context.WithTimeout(context.Background(), removePatience)
	defer cancel()
	switch err := s.Discard(ctx, pid); agentkernel.CodeOf(err) {
	case "", agentkernel.CodeConflict, agentkernel.CodeNotFound: // there was nothing to do, or it is done
	case agentkernel.CodeCanceled, agentkernel.CodeTimeout:
		return nil
	default:
		s.cfg.Logger.Warn("what an apply that was cut off has put into a folder stays there", "pid", pid, "err", err)
	}
	if err := s.take(pid); err != nil {
		return err
	}
	defer s.release(pid)
	return storage(removeAll(s.path(pid)))
}

// removing begins the names of homes that are being removed.
const removing = "removed."

// RemoveStray removes what an earlier kernel was making for a process when it was killed. The caller knows that the store
// has no such process. What belongs to another store stays, and so does what this kernel makes: a PID that never became
// durable is given out again.
func (s *Store) RemoveStray(pid agentkernel.PID) error {
	if !s.stray(pid) {
		return nil
	}
	gone := filepath.Join(s.cfg.Dir, removing+pid.String()+"."+newToken())
	s.mu.Lock()
	var err error
	if s.found[pid] {
		err = os.Rename(s.path(pid), gone)
		delete(s.found, pid)
	}
	s.mu.Unlock()
	if err != nil {
		return storage(err)
	}
	return storage(removeAll(gone))
}

// stray says whether a home is one that the store of this kernel would know: of another store it has the name, and
// without a record it was never finished.
func (s *Store) stray(pid agentkernel.PID) bool {
	if _, err := os.Lstat(filepath.Join(s.path(pid), recordFile)); errors.Is(err, fs.ErrNotExist) {
		return true
	}
	h, err := s.open(pid)
	if err != nil {
		return false
	}
	defer h.Close()
	return h.rec.Origin != "" && h.rec.Origin == s.cfg.Origin
}

// SweepRemoved removes the rest of homes whose removal was cut off.
func (s *Store) SweepRemoved() error {
	names, err := s.names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if strings.HasPrefix(name, removing) {
			errs = append(errs, removeAll(filepath.Join(s.cfg.Dir, name)))
		}
	}
	return storage(errors.Join(errs...))
}
