package blob

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"agentkernel"
)

// partialPrefix begins the names of files that are being written.
const partialPrefix = "tmp-"

// List walks the directory. Files that are neither blobs nor partial ones are not ours and are left out.
func (d *Dir) List(ctx context.Context, fn func(Item) error) error {
	err := filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // none was ever put, or it was deleted meanwhile
		}
		if err != nil {
			return d.explain("read", err)
		}
		if ctx.Err() != nil {
			return agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "blob")
		}
		i, ok := d.item(path, e)
		if !ok {
			return nil
		}
		return fn(i)
	})
	return err
}

func (d *Dir) item(path string, e fs.DirEntry) (i Item, ok bool) {
	if !e.Type().IsRegular() {
		return i, false
	}
	info, err := e.Info()
	if err != nil {
		return i, false // it was deleted meanwhile
	}
	i.Size = info.Size()
	raw, err := hex.DecodeString(e.Name())
	if err == nil && len(raw) == len(i.Sum) {
		i.Sum = Sum(raw)
		return i, path == d.Path(i.Sum)
	}
	below, err := filepath.Rel(d.root, path)
	if err != nil || !strings.HasPrefix(e.Name(), partialPrefix) || strings.Count(below, string(filepath.Separator)) != 2 {
		return i, false
	}
	i.Partial = below
	return i, true
}

// Discard removes a file that List reported.
func (d *Dir) Discard(ctx context.Context, i Item) error {
	if i.Partial == "" {
		return d.Delete(ctx, i.Sum)
	}
	return d.remove(i.Partial)
}
