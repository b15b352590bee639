package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/internal/backup"
	"agentkernel/internal/datadir"
	"agentkernel/internal/store/blob"
	"agentkernel/internal/store/sqlite"
)

// Backup writes a backup of a data directory on which no kernel runs; a kernel that runs is asked itself
// ([agentkernel.Backups]). version is that of the calling program. Errors: those of agentkernel.Backups;
// CodeConflict, a kernel runs; CodeNotFound, nothing ever ran.
func Backup(ctx context.Context, home, version string, w io.Writer) (err error) {
	home, err = datadir.Resolve(home)
	if err != nil {
		return err
	}
	dir := datadir.At(home)
	if !dir.Begun() {
		return agentkernel.Errorf(agentkernel.CodeNotFound, "backup", "there is nothing to back up: no process has run with the data directory %s", home)
	}
	if dir, err = datadir.Open(home); err != nil {
		return err
	}
	lock, err := dir.Lock(datadir.Holder{OSPID: os.Getpid(), Version: version, Mode: datadir.ModeBackup, Started: time.Now()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	cfg := sqlite.Config{Path: dir.Database(), Blobs: dir.Blobs()}
	if err := sqlite.CheckLog(ctx, cfg); err != nil { // what is lost would be lost without a word
		return err
	}
	return writeBackup(ctx, backupJob{dir: dir, version: version, log: slog.New(slog.DiscardHandler), to: w,
		snapshot: func(ctx context.Context, w io.Writer) (*sqlite.Snapshot, error) {
			return sqlite.OpenSnapshot(ctx, cfg, w)
		}})
}

// snapshotter is what a store that can be backed up under load does.
type snapshotter interface {
	Snapshot(ctx context.Context, w io.Writer) (*sqlite.Snapshot, error)
}

// backups gives a kernel its way to back itself up; nil if its store has none.
func backups(cfg Config, dir *datadir.Dir, store agentkernel.Store) func(context.Context, io.Writer) error {
	s, ok := store.(snapshotter)
	if !ok {
		return nil
	}
	return func(ctx context.Context, w io.Writer) error {
		return writeBackup(ctx, backupJob{dir: dir, version: cfg.Version, log: cfg.Logger, snapshot: s.Snapshot, to: w})
	}
}

// backupJob is one backup.
type backupJob struct {
	dir      *datadir.Dir
	version  string
	log      *slog.Logger
	snapshot func(ctx context.Context, w io.Writer) (*sqlite.Snapshot, error)
	to       io.Writer
}

// writeBackup copies database and documents into a file without a name first: the database is read as quickly as
// the disk takes it, however slow the one is that takes the backup, and whatever dies leaves nothing behind.
func writeBackup(ctx context.Context, j backupJob) (err error) {
	s, err := newSpool(j.dir.Path())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.f.Close()) }()
	var snap *sqlite.Snapshot
	err = s.add(backup.DatabaseName, func(w io.Writer) error {
		snap, err = j.snapshot(ctx, w)
		return err
	})
	if err != nil {
		return err
	}
	defer snap.Close()
	strangers, err := s.documents(ctx, j.dir)
	if err != nil {
		return err
	}
	if len(strangers) > 0 {
		j.log.Warn("the backup leaves out what is in the data directory and not the kernel's", "names", strangers)
	}
	blobs := make([]backup.Blob, len(snap.Blobs))
	for i, b := range snap.Blobs {
		blobs[i] = backup.Blob{Sum: backup.Sum(b.Sum), Size: b.Size}
	}
	return backup.Write(ctx, j.to, backup.Source{
		Manifest: backup.Manifest{Version: j.version, Created: snap.At, Store: snap.Store, Schema: snap.Schema,
			Processes: snap.Processes, Unfinished: snap.Unfinished, Files: s.files},
		Open:  s.open,
		Blobs: blobs,
		Blob:  func(ctx context.Context, sum backup.Sum) ([]byte, error) { return snap.Blob(ctx, blob.Sum(sum)) },
	})
}

// spool is a file without a name that holds the files of a backup one behind the other.
type spool struct {
	f      *os.File
	files  []backup.File
	starts []int64
	end    int64
}

func newSpool(dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, ".backup-*")
	if err == nil {
		if err = os.Remove(f.Name()); err != nil {
			_ = f.Close() // the first error says what happened
		}
	}
	if err != nil {
		return nil, spoolFailed(err)
	}
	return &spool{f: f}, nil
}

func spoolFailed(err error) error {
	if own, ok := errors.AsType[*agentkernel.Error](err); ok {
		return own
	}
	return agentkernel.Errorf(agentkernel.CodeStorage, "backup", "the database cannot be copied: %w", err).
		WithHint("a backup needs as much room in the data directory as the database has bytes, while it runs")
}

// add appends what fill writes as one more file.
func (s *spool) add(name string, fill func(io.Writer) error) error {
	h := sha256.New()
	at := &counted{w: io.MultiWriter(io.NewOffsetWriter(s.f, s.end), h)}
	if err := fill(at); err != nil {
		return spoolFailed(err)
	}
	s.files = append(s.files, backup.File{Name: name, Size: at.n, SHA256: hex.EncodeToString(h.Sum(nil))})
	s.starts = append(s.starts, s.end)
	s.end += at.n
	return nil
}

type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func (s *spool) open(i int) (io.Reader, error) {
	return io.NewSectionReader(s.f, s.starts[i], s.files[i].Size), nil
}

// documentTries is how often the documents are read until nothing changed meanwhile.
const documentTries = 20

// documents adds the files beside database and blobs as they stood at one moment: they are read again if any of
// them changed meanwhile.
func (s *spool) documents(ctx context.Context, dir *datadir.Dir) (strangers []string, err error) {
	files, starts, end := s.files, s.starts, s.end
	for range documentTries {
		s.files, s.starts, s.end = slices.Clone(files), slices.Clone(starts), end
		if ctx.Err() != nil {
			return nil, agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "backup")
		}
		before, strangers, err := look(dir)
		if err != nil {
			return nil, err
		}
		if err := s.addAll(dir, before); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		after, _, err := look(dir)
		if err != nil {
			return nil, err
		}
		if slices.Equal(before, after) {
			return strangers, nil
		}
	}
	return nil, agentkernel.Errorf(agentkernel.CodeConflict, "backup", "skills or state files change all the time").WithHint("try again when less is going on")
}

// document is a file as a directory shows it.
type document struct {
	name string
	size int64
	mod  time.Time
}

func look(dir *datadir.Dir) (list []document, strangers []string, err error) {
	names, strangers, err := dir.Documents()
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir.Path(), filepath.FromSlash(name)))
		if err == nil && info.Mode().IsRegular() {
			list = append(list, document{name, info.Size(), info.ModTime()})
		}
	}
	return list, strangers, err
}

func (s *spool) addAll(dir *datadir.Dir, list []document) error {
	for _, d := range list {
		f, err := os.Open(filepath.Join(dir.Path(), filepath.FromSlash(d.name)))
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		err = s.add(d.name, func(w io.Writer) error {
			_, err := io.Copy(w, io.LimitReader(f, d.size))
			return err
		})
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
