package blob

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"agentkernel"
	"agentkernel/internal/access"
)

// DefaultMaxSize bounds one blob in bytes: above any payload that the kernel's limits let through.
const DefaultMaxSize = 1 << 30

// Dir keeps blobs as files below one directory: ab/cd/abcd.... The directory is made by the first Put, in one that is there. It is opened
// once, so that blobs stay with a database whose files are open when somebody moves both.
// Safe for concurrent use, also by several processes.
type Dir struct {
	root string
	max  int64

	mu   sync.Mutex
	dir  *os.Root        // root, opened; nil: not yet
	made map[string]bool // fan-out directories known to exist durably
	kept map[Sum]bool    // blobs whose names are known to be durable, at most maxKept
}

// maxKept bounds Dir.kept: it is for the few that are put again and again.
const maxKept = 1024

// NewDir keeps blobs of at most maxSize bytes (0: DefaultMaxSize) below root.
func NewDir(root string, maxSize int64) *Dir {
	if maxSize <= 0 {
		maxSize = DefaultMaxSize
	}
	return &Dir{root: root, max: maxSize, made: map[string]bool{}, kept: map[Sum]bool{}}
}

// Path is the file that holds, or would hold, a blob.
func (d *Dir) Path(sum Sum) string { return filepath.Join(d.root, below(sum)) }

// below is a blob's file as the directory has it.
func below(sum Sum) string {
	name := sum.String()
	return filepath.Join(name[:2], name[2:4], name)
}

// open opens the directory, if it is not; d.mu is held.
func (d *Dir) open() (_ *os.Root, err error) {
	if d.dir == nil {
		d.dir, err = os.OpenRoot(d.root)
	}
	return d.dir, err
}

// opened is the directory.
func (d *Dir) opened() (*os.Root, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open()
}

// Put writes a temporary file, syncs it, renames it to its name and syncs the directory. Of a file that is there
// only the directory is synced, and that once: an earlier writer may have died between the rename and its sync.
func (d *Dir) Put(ctx context.Context, data []byte) (Sum, error) {
	sum := SumOf(data)
	if err := ctx.Err(); err != nil {
		return sum, agentkernel.AsError(err, agentkernel.CodeCanceled, "blob")
	}
	if int64(len(data)) > d.max {
		return sum, agentkernel.Errorf(agentkernel.CodeLimit, "blob",
			"a payload of %d bytes is larger than the largest blob, %d bytes", len(data), d.max)
	}
	path := below(sum)
	fan := filepath.Dir(path)
	dir, err := d.makeFanOut(fan)
	if err != nil {
		return sum, d.explain("write", err)
	}
	info, err := dir.Lstat(path)
	switch there := err == nil && info.Mode().IsRegular() && info.Size() == int64(len(data)); {
	case there && d.isKept(sum):
		return sum, nil
	case there:
		err = syncDir(dir, fan)
	default:
		err = writeDurably(dir, fan, path, data)
	}
	if err != nil {
		return sum, d.explain("write", err)
	}
	d.keep(sum)
	return sum, nil
}

func (d *Dir) isKept(sum Sum) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept[sum]
}

func (d *Dir) keep(sum Sum) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.kept) >= maxKept {
		clear(d.kept)
	}
	d.kept[sum] = true
}

func (d *Dir) lose(sum Sum) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.kept, sum)
}

func writeDurably(dir *os.Root, fan, path string, data []byte) (err error) {
	name := filepath.Join(fan, partialPrefix+rand.Text())
	tmp, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = dir.Remove(name)
		}
	}()
	if _, err = tmp.Write(data); err != nil {
		tmp.Close()
		return err
	}
	if err = tmp.Sync(); err != nil {
		tmp.Close()
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	if err = dir.Rename(name, path); err != nil {
		return err
	}
	return syncDir(dir, fan)
}

// makeFanOut makes the directory root/ab/cd, of which fan is ab/cd, and syncs each directory that got a new name. The one above root is not
// made: whoever has moved it would find an empty one in its place, with blobs that the database elsewhere misses.
func (d *Dir) makeFanOut(fan string) (*os.Root, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made[fan] {
		return d.dir, nil
	}
	if d.dir == nil {
		if err := os.Mkdir(d.root, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	if len(d.made) == 0 { // also of one that was opened to be read: whoever made it may have died before this
		if err := syncFile(os.Open(filepath.Dir(d.root))); err != nil {
			return nil, err
		}
	}
	dir, err := d.open()
	if err != nil {
		return nil, err
	}
	if err := dir.MkdirAll(fan, 0o700); err != nil {
		return nil, err
	}
	for _, parent := range []string{".", filepath.Dir(fan)} {
		if err := syncDir(dir, parent); err != nil {
			return nil, err
		}
	}
	d.made[fan] = true
	return dir, nil
}

func syncDir(dir *os.Root, name string) error { return syncFile(dir.Open(name)) }

func syncFile(f *os.File, err error) error {
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) { // file systems without directory sync keep names themselves
		err = nil
	}
	return errors.Join(err, f.Close())
}

// Get reads the file and compares its hash with its name.
func (d *Dir) Get(ctx context.Context, sum Sum) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, agentkernel.AsError(err, agentkernel.CodeCanceled, "blob")
	}
	dir, err := d.opened()
	var f *os.File
	if err == nil {
		f, err = dir.Open(below(sum))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, d.absent(sum)
	}
	if err != nil {
		return nil, d.explain("read", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, d.explain("read", err)
	}
	if info.Size() > d.max {
		return nil, agentkernel.Errorf(agentkernel.CodeLimit, "blob",
			"blob %s has %d bytes; at most %d are read", sum, info.Size(), d.max)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, d.explain("read", fmt.Errorf("%s: %w", d.Path(sum), err))
	}
	if SumOf(data) != sum {
		return nil, agentkernel.Errorf(agentkernel.CodeCorrupt, "blob",
			"blob %s in %s is damaged: its content has another hash", sum, d.root).
			WithHint("restore %s from a backup", d.Path(sum))
	}
	return data, nil
}

// absent is the error for a blob that is not there. Where no blob is, the directory is what is missing: a disk that is not mounted, say.
func (d *Dir) absent(sum Sum) error {
	if list, err := os.ReadDir(d.root); len(list) == 0 {
		if err == nil {
			err = errors.New("it is empty")
		}
		return agentkernel.Errorf(agentkernel.CodeStorage, "blob", "the directory %s, in which blob %s lies, is not there: %w", d.root, sum, err).
			WithHint("mount it, or restore it from the same backup as the database")
	}
	return agentkernel.Errorf(agentkernel.CodeNotFound, "blob", "blob %s is not in %s", sum, d.root).
		WithHint("put the file back from a copy of that directory; or restore a whole backup: agentkernel restore FILE --force")
}

// Delete removes the file.
func (d *Dir) Delete(_ context.Context, sum Sum) error {
	d.lose(sum)
	return d.remove(below(sum))
}

// remove removes a file, if it is there.
func (d *Dir) remove(name string) error {
	dir, err := d.opened()
	if err == nil {
		err = dir.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return d.explain("delete", err)
}

// explain turns an error of the operating system into one that says what to do.
func (d *Dir) explain(verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return agentkernel.Errorf(agentkernel.CodeStorage, "blob", "the disk that holds %s is full: %w", d.root, err).
			WithHint("free space, then: agentkernel recover")
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return agentkernel.Errorf(agentkernel.CodeStorage, "blob", "cannot %s below %s: %w", verb, d.root, err).
			WithHint("allow more open files, as by ulimit -n 4096, then: agentkernel recover")
	case errors.Is(err, fs.ErrPermission):
		at := []string{d.root}
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			path := e.Path
			if !filepath.IsAbs(path) {
				path = filepath.Join(d.root, path)
			}
			at = []string{path, filepath.Dir(path), d.root}
		}
		return agentkernel.Errorf(agentkernel.CodeDenied, "blob", "no permission to %s below %s: %w", verb, d.root, err).
			WithHint("%s", cmp.Or(access.Hint(at...), "look who owns "+d.root))
	case errors.Is(err, syscall.EROFS):
		return agentkernel.Errorf(agentkernel.CodeStorage, "blob", "%s is on a read-only file system: %w", d.root, err).
			WithHint("remount it writable, or choose another data directory with AGENTKERNEL_HOME")
	default:
		return agentkernel.Errorf(agentkernel.CodeStorage, "blob", "cannot %s below %s: %w", verb, d.root, err)
	}
}
