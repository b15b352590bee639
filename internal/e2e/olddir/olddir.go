// Package olddir holds data directories that an earlier version of the kernel left behind when it was killed, with a
// process in each state and of each kind. Every later version must open them, explain what is in them, continue it, and
// come to the same ends.
//
// The archives are made by this package's tests, with the code as it is at that moment:
//
//	AGENTKERNEL_OLDDIR=make go test -count=1 -run TestMake ./internal/e2e/olddir
//	go test -run TestOldDirectory ./internal/e2e/olddir ./cmd/agentkernel/internal/why -args -update
//
// The first command replaces the archives; a reason to do so is a kind of process that they do not have yet. The second
// replaces the golden files, which say what the tests expect. A change in them without a change of the archives means
// that users with unfinished processes will see something else after an upgrade.
//
// main was made by a kernel that parks what waits. In noimages nothing was parked, so that everything in it is repeated
// from its journal. Both have the same processes.
package olddir

import (
	"archive/tar"
	"bytes"
	"embed"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

//go:embed testdata
var testdata embed.FS

// Archives are the names of the data directories.
func Archives() []string { return []string{"main", "noimages"} }

// Unpack puts a data directory at dir, which need not exist.
func Unpack(name, dir string) error {
	packed, err := testdata.ReadFile("testdata/" + name + ".tar.zst")
	if err != nil {
		return err
	}
	z, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(at, fs.FileMode(h.Mode)|0o700) //nolint:gosec // modes and names are ours
		} else {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(at, text, fs.FileMode(h.Mode)) //nolint:gosec // modes and names are ours
			}
		}
		if err != nil {
			return err
		}
	}
}

// Pack gives a data directory as an archive. What belongs to a running kernel, or to the machine, is left out.
func Pack(dir string) ([]byte, error) {
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, at)
		switch {
		case err != nil:
			return err
		case passing(filepath.ToSlash(name)) && d.IsDir():
			return fs.SkipDir
		case passing(filepath.ToSlash(name)) || !d.IsDir() && !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h := &tar.Header{Name: filepath.ToSlash(name), Mode: int64(info.Mode().Perm()), ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg, Size: info.Size()}
		if d.IsDir() {
			h.Typeflag, h.Size = tar.TypeDir, 0
			return w.WriteHeader(h)
		}
		text, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	err = errors.Join(err, w.Close(), z.Close())
	return packed.Bytes(), err
}

// passing says whether a file or directory is not part of what a data directory holds.
func passing(name string) bool {
	if ofOverlay, _ := path.Match("workspaces/*/*/work/*", name); ofOverlay { // the system's, while it is mounted
		return true
	}
	top, _, _ := strings.Cut(name, "/")
	switch top {
	case "run", "engines", "engine.json", "python.json", "kernel.db-shm", "kernel.log", "kernel.sock":
		return true
	}
	return strings.HasSuffix(top, "lock")
}
