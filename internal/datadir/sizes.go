package datadir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Part is something that takes room in a data directory.
type Part struct {
	Name  string // for people: "skills and states"
	Bytes int64  // of the files, not of the blocks that they occupy
}

// Sizes measures what is in the directory beside database and blobs, of which the store knows more. What vanishes
// meanwhile, or may not be read, does not count.
func (d *Dir) Sizes(ctx context.Context) ([]Part, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, openError(d.path, "cannot be read", err)
	}
	order := []string{"skills and states", "workspaces", "tools", "engines", "kernel logs", "replaced by restores"}
	sizes := map[string]int64{}
	for _, e := range entries {
		part := partOf(e.Name())
		if part == "" {
			continue
		}
		n, err := sizeOf(ctx, d.file(e.Name()))
		if err != nil {
			return nil, err
		}
		sizes[part] += n
	}
	var out []Part
	for _, name := range order {
		out = append(out, Part{name, sizes[name]})
	}
	return out, nil
}

// partOf says to which part something in the directory belongs; "": to none of these.
func partOf(name string) string {
	switch name {
	case "skills", "states":
		return "skills and states"
	case workspacesDir, toolsDir, enginesDir:
		return name
	}
	switch {
	case strings.HasPrefix(name, logFile):
		return "kernel logs"
	case strings.HasPrefix(name, replacedPrefix):
		return "replaced by restores"
	}
	return ""
}

// sizeOf adds up the regular files at and below a path.
func sizeOf(ctx context.Context, path string) (sum int64, err error) {
	err = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var info fs.FileInfo
		if err == nil && e.Type().IsRegular() {
			info, err = e.Info()
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil // it is left out; what is in a directory that cannot be read, too
		}
		if info != nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
