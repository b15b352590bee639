package sqlite

import (
	"context"
	"fmt"
	"os"

	"agentkernel"
	"agentkernel/internal/shellword"
	"agentkernel/internal/store/blob"
)

// Bounds of what Examine reads.
const (
	examineDatabase = 512 << 20 // of a larger one only the length is looked at
	examineFiles    = 100_000   // blobs that are looked for
	examineBytes    = 256 << 20 // of blobs whose content is compared with their names
)

// Examination is what Examine has found.
type Examination struct {
	Damage *agentkernel.Error // of the database itself; nil: none was found
	Pages  bool               // how its pages fit together was looked at, too

	Blobs   int                // that rows name
	There   int                // of them looked for
	Read    int                // of these read, and compared with their names
	Bad     int                // missing or damaged
	BadBlob *agentkernel.Error // the first; nil: none
}

// Examine looks for damage that opening a database does not show: a file that was cut, pages that do not fit together, blobs that
// are missing or not what was written. It changes nothing, reads a bounded part and says how much that was. A kernel may run.
func Examine(ctx context.Context, cfg Config) (e Examination, err error) {
	r, err := OpenReader(ctx, cfg)
	if err != nil {
		return e, err
	}
	defer r.Close()
	var list []BlobSize
	err = r.reads.do(ctx, func(c *conn) error {
		e, list = Examination{}, nil
		if err := examinePages(c, cfg.Path, &e); err != nil || e.Damage != nil || r.Info().Schema != len(steps()) {
			return err
		}
		if list, err = namedBlobs(c); err != nil {
			return err
		}
		e.Blobs = len(list)
		list = list[:min(len(list), examineFiles)]
		return nil
	})
	if agentkernel.CodeOf(err) == agentkernel.CodeCorrupt {
		e.Damage = agentkernel.AsError(err, agentkernel.CodeCorrupt, "store")
		return e, nil
	}
	if err == nil {
		err = e.examineBlobs(ctx, blob.NewDir(cfg.Blobs, 0), list, r.named)
	}
	return e, err
}

func examinePages(c *conn, path string, e *Examination) error {
	pages, err := c.int("PRAGMA page_count")
	if err != nil {
		return err
	}
	size, err := c.int("PRAGMA page_size")
	if err != nil {
		return err
	}
	files, err := stateOf(path)
	if err != nil {
		return err
	}
	if missing := pages - files.size/size; missing > 0 && missing*size > files.logSize { // pages that are nowhere
		e.Damage = errDoesNotFit(path, fmt.Sprintf("it has %d of the %d pages that its header says", files.size/size, pages))
		return nil
	}
	page, found, err := c.one("SELECT data FROM sqlite_dbpage WHERE pgno = 1") // of the log, if that has it: the file is mended from there
	if err != nil {
		return err
	}
	var h header
	if found && copy(h[:], page.blob(0)) == len(h) {
		if what := h.damage(); what != "" { // it may be read, and not written
			e.Damage = errDoesNotFit(path, what)
			return nil
		}
	}
	if pages*size > examineDatabase {
		return nil
	}
	e.Pages = true
	r, found, err := c.one("PRAGMA quick_check(1)")
	if resultCode(err) != 0 { // it cannot even be read
		e.Damage, err = errDoesNotFit(path, err.Error()), nil
	} else if err == nil && (!found || r.text(0) != "ok") {
		e.Damage = errDoesNotFit(path, r.text(0))
	}
	return err
}

// errDoesNotFit is of a database whose parts do not fit together.
func errDoesNotFit(path, what string) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "the database %s is damaged: %s", path, what).
		WithHint("restore a backup: agentkernel restore FILE --force; `sqlite3 %s .recover` saves what can be read", shellword.File(path))
}

// examineBlobs looks for files, and reads them as long as they are not too much together.
func (e *Examination) examineBlobs(ctx context.Context, dir *blob.Dir, list []BlobSize, named func(context.Context, blob.Sum) (bool, error)) error {
	left := int64(examineBytes)
	for _, b := range list {
		e.There++
		var err error
		if left -= b.Size; left >= 0 {
			e.Read++
			_, err = dir.Get(ctx, b.Sum)
		} else if info, gone := os.Stat(dir.Path(b.Sum)); gone != nil || info.Size() != b.Size {
			_, err = dir.Get(ctx, b.Sum) // says what is wrong
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if still, unread := named(ctx, b.Sum); unread != nil {
				return unread
			} else if !still { // a kernel has deleted it meanwhile
				continue
			}
			if e.Bad++; e.BadBlob == nil {
				e.BadBlob = agentkernel.AsError(err, agentkernel.CodeCorrupt, "blob")
			}
		}
	}
	return nil
}

// named says whether a row names a blob.
func (r *Reader) named(ctx context.Context, sum blob.Sum) (yes bool, err error) {
	err = r.reads.do(ctx, func(c *conn) error {
		_, yes, err = c.one("SELECT 1 FROM blobs WHERE sha256 = ? AND refs > 0", sum[:])
		return err
	})
	return yes, err
}
