package embedded

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/backup"
	"agentkernel/internal/datadir"
	"agentkernel/internal/store/blob"
	"agentkernel/internal/store/sqlite"
)

// BackupInfo describes a backup.
type BackupInfo struct {
	Created    time.Time `json:"created"` // when everything was as it is in there
	Version    string    `json:"version"` // of the agentkernel that wrote it
	Store      string    `json:"store"`   // uuid
	Schema     int       `json:"schema"`
	Processes  int64     `json:"processes"`
	Unfinished int64     `json:"unfinished"`
	Files      int       `json:"files"` // database, key, skills, state files ...
	Blobs      int64     `json:"blobs"`
	Unpacked   int64     `json:"unpacked"` // bytes
}

func infoOf(m *backup.Manifest) BackupInfo {
	return BackupInfo{Created: m.Created, Version: m.Version, Store: m.Store, Schema: m.Schema, Processes: m.Processes,
		Unfinished: m.Unfinished, Files: len(m.Files), Blobs: m.Blobs.Count, Unpacked: m.Size()}
}

// CheckBackup reads a whole backup and says whether it could be restored: each byte as it was written, the database
// sound, every blob there that it names. temp is a directory with room for the database. Errors: CodeCorrupt,
// CodeVersion, CodeStorage.
func CheckBackup(ctx context.Context, r io.Reader, temp string) (info BackupInfo, err error) {
	s, err := newSpool(temp)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, s.f.Close()) }()
	c := &checked{contents: contents{blobs: map[blob.Sum]int64{}}, database: s.f}
	m, err := backup.Read(ctx, r, c)
	if err != nil {
		return info, err
	}
	return infoOf(m), c.check(m, s.f)
}

// contents is what came out of a backup.
type contents struct {
	blobs map[blob.Sum]int64
}

// note checks a name, and remembers a blob.
func (c *contents) note(name string, size int64) error {
	if hexName, ok := strings.CutPrefix(name, backup.BlobPrefix); ok {
		raw, err := hex.DecodeString(hexName)
		if err != nil {
			return err
		}
		sum, err := blob.ParseSum(raw)
		c.blobs[sum] = size
		return err
	}
	if !datadir.MayRestore(name, size) {
		return agentkernel.Errorf(agentkernel.CodeCorrupt, "restore", "the backup has a file that belongs in no data directory: %.100s", name)
	}
	return nil
}

// check compares the database with everything else. It is read, and trusted with nothing.
func (c *contents) check(m *backup.Manifest, database io.ReaderAt) error {
	found, err := sqlite.CheckDatabase(database, m.Files[0].Size)
	if err != nil {
		return err
	}
	if found.Store != m.Store || found.Schema != m.Schema || found.Processes != m.Processes || found.Unfinished != m.Unfinished ||
		int64(len(found.Blobs)) != m.Blobs.Count {
		return agentkernel.Errorf(agentkernel.CodeCorrupt, "restore", "the backup's manifest and its database do not belong together")
	}
	for _, b := range found.Blobs {
		if size, ok := c.blobs[b.Sum]; !ok || size != b.Size {
			return agentkernel.Errorf(agentkernel.CodeCorrupt, "restore", "the backup lacks blob %s, which its database names", b.Sum)
		}
	}
	return nil
}

// checked takes the members of a backup that is only looked at: of them it keeps the database.
type checked struct {
	contents
	database *os.File
}

func (c *checked) Begin(*backup.Manifest) error { return nil }

func (c *checked) Member(name string, size int64) (io.WriteCloser, error) {
	if err := c.note(name, size); err != nil {
		return nil, err
	}
	if name == backup.DatabaseName {
		return unclosed{c.database}, nil
	}
	return unclosed{io.Discard}, nil
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// RestoreOptions say how a backup is restored.
type RestoreOptions struct {
	Home    string // data directory; as in Config
	Version string // of the calling program
	// Force moves what is in the data directory aside.
	Force bool
	// Moved says that the original did nothing after the backup and never will: its identity is kept, and
	// unfinished processes are not paused.
	Moved bool
}

// Restored says what a restore did.
type Restored struct {
	BackupInfo
	Home     string `json:"home"`
	Replaced string `json:"replaced,omitempty"` // where what was there before is now
	Paused   int    `json:"paused"`             // unfinished processes that wait for somebody to say that they may go on
}

// Restore puts a backup into a data directory. Nothing is in its place before everything was checked. Errors:
// CodeCorrupt and CodeVersion (the backup), CodeConflict (the directory is not empty, or a kernel runs), CodeStorage.
func Restore(ctx context.Context, r io.Reader, o RestoreOptions) (done Restored, err error) {
	home, err := datadir.Resolve(o.Home)
	if err != nil {
		return done, err
	}
	dir, err := datadir.Open(home)
	if err != nil {
		return done, err
	}
	lock, err := dir.Lock(datadir.Holder{OSPID: os.Getpid(), Version: o.Version, Mode: datadir.ModeRestore, Started: time.Now()})
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	occupied, err := dir.Occupied()
	if err != nil {
		return done, err
	}
	if len(occupied) > 0 && !o.Force {
		return done, agentkernel.Errorf(agentkernel.CodeConflict, "restore", "%s is in use: it holds %s", home, strings.Join(occupied, ", ")).
			WithHint("--home names another directory; --force moves what is there aside, and deletes nothing")
	}
	defer func() {
		if err != nil && done.Replaced == "" {
			err = errors.Join(err, os.RemoveAll(dir.Restoring()))
		}
	}()
	m, err := unpack(ctx, r, dir)
	if err != nil {
		return done, err
	}
	done = Restored{BackupInfo: infoOf(m), Home: home}
	if !o.Moved {
		if done.Paused, err = settle(ctx, dir.Restoring(), m); err != nil {
			return done, err
		}
	}
	done.Replaced, err = dir.Place(time.Now().UTC().Format("20060102T150405.000Z"))
	return done, err
}

// unpack unpacks a backup into the directory for it, and checks it.
func unpack(ctx context.Context, r io.Reader, dir *datadir.Dir) (m *backup.Manifest, err error) {
	if err := os.RemoveAll(dir.Restoring()); err != nil {
		return nil, restoreFailed(err)
	}
	if err := os.Mkdir(dir.Restoring(), 0o700); err != nil {
		return nil, restoreFailed(err)
	}
	root, err := os.OpenRoot(dir.Restoring())
	if err != nil {
		return nil, restoreFailed(err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	u := &unpacked{contents: contents{blobs: map[blob.Sum]int64{}}, root: root, dir: dir}
	if m, err = backup.Read(ctx, r, u); err != nil {
		return nil, err
	}
	database, err := root.Open(backup.DatabaseName)
	if err != nil {
		return nil, restoreFailed(err)
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	if err := u.check(m, database); err != nil {
		return nil, err
	}
	return m, u.syncDirs()
}

// unpacked takes the members of a backup into a directory, which they cannot leave.
type unpacked struct {
	contents
	root *os.Root
	dir  *datadir.Dir
}

// Begin refuses a backup for which there is no room.
func (u *unpacked) Begin(m *backup.Manifest) error {
	var st unix.Statfs_t
	if err := unix.Statfs(u.dir.Path(), &st); err != nil {
		return restoreFailed(err)
	}
	free := int64(st.Bavail) * int64(st.Bsize) //nolint:unconvert // other types on other systems
	if m.Size() > free {
		return agentkernel.Errorf(agentkernel.CodeStorage, "restore", "the backup unpacks to %d MiB, and %s has %d MiB free", m.Size()>>20, u.dir.Path(), free>>20).
			WithHint("make room, or restore into another directory with --home")
	}
	return nil
}

func (u *unpacked) Member(name string, size int64) (io.WriteCloser, error) {
	if err := u.note(name, size); err != nil {
		return nil, err
	}
	if hexName, ok := strings.CutPrefix(name, backup.BlobPrefix); ok {
		name = path.Join("blobs", hexName[:2], hexName[2:4], hexName)
	}
	name = filepath.FromSlash(name)
	if err := u.root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, restoreFailed(err)
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, restoreFailed(err)
	}
	return &syncedFile{f}, nil
}

// syncDirs makes the names of what was unpacked durable; their contents are.
func (u *unpacked) syncDirs() error {
	err := fs.WalkDir(u.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		d, err := u.root.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(d.Sync(), d.Close())
	})
	if err != nil {
		return restoreFailed(err)
	}
	return nil
}

// syncedFile is durable when it is closed.
type syncedFile struct{ *os.File }

func (f *syncedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if err != nil {
		err = restoreFailed(err)
	}
	return n, err
}

func (f *syncedFile) Close() error {
	if err := errors.Join(f.Sync(), f.File.Close()); err != nil {
		return restoreFailed(err)
	}
	return nil
}

func restoreFailed(err error) error {
	return agentkernel.Errorf(agentkernel.CodeStorage, "restore", "the backup cannot be unpacked: %w", err).
		WithHint("the data directory is as it was; make room, or choose another one with --home")
}

// settle makes an unpacked database a store of its own, in which nothing goes on unasked.
func settle(ctx context.Context, at string, m *backup.Manifest) (paused int, err error) {
	dir := datadir.At(at)
	key, err := dir.Key()
	if err != nil {
		return 0, err
	}
	store, err := sqlite.Open(ctx, sqlite.Config{Path: dir.Database(), Blobs: dir.Blobs(), Key: key, NoCopy: true})
	if err != nil {
		return 0, err
	}
	next, err := store.NewPID(ctx)
	if err != nil {
		return 0, errors.Join(err, store.Close())
	}
	paused, err = backup.PauseRestored(ctx, store, time.Now(), "restored from the backup of "+m.Created.UTC().Format("2006-01-02 15:04 UTC")+
		": what it did after that is not known here; when it goes on, it does that again")
	if err = errors.Join(err, store.Close()); err != nil {
		return 0, err
	}
	return paused, sqlite.Renew(dir.Database(), next-1, 0)
}
