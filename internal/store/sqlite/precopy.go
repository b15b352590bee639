package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"agentkernel"
)

// CopyPath is where the copy of a database is kept that was made before it was brought from a schema version to a
// newer one.
func CopyPath(path string, version int) string { return fmt.Sprintf("%s.v%d.bak", path, version) }

// copyBeforeMigration copies a database that is about to be migrated, whole and durably, beside it. Without the copy
// the migration does not begin. Of the copies of earlier migrations none is kept: one step back is what a copy is for.
func copyBeforeMigration(c *conn, cfg Config, history []step) error {
	version, err := inspect(c, cfg.Path, len(history))
	if err != nil || version == 0 || version == len(history) || cfg.NoCopy {
		return err
	}
	to := CopyPath(cfg.Path, version)
	if err := copyTo(c, cfg.Path, to); err != nil {
		e := agentkernel.AsError(explain(cfg.Path, err), agentkernel.CodeStorage, "store")
		return agentkernel.Errorf(e.Code, "store", "the database has schema version %d and must be brought to %d, but could not be copied to %s before: %w",
			version, len(history), to, err).WithHint("nothing was changed; make room for a second database in %s, then run the command again", filepath.Dir(cfg.Path))
	}
	cfg.Logger.Info("the database was copied before it is migrated", "copy", to, "from", version, "to", len(history))
	for v := range version {
		if err := os.Remove(CopyPath(cfg.Path, v)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			cfg.Logger.Warn("an old copy of the database could not be removed", "version", v, "error", err)
		}
	}
	return nil
}

// copyTo makes a database file that has its name only once it is complete.
func copyTo(c *conn, path, to string) (err error) {
	partial := to + ".partial"
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(partial) // the first error says what happened
		}
	}()
	if err := c.script("BEGIN"); err != nil {
		return errors.Join(err, f.Close())
	}
	err = copyPages(context.Background(), c, path, f)
	err = errors.Join(err, c.script("COMMIT"))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(partial, to); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
