package assistant

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/internal/shellword"
)

const op = "install"

// maxFile is the largest client's file that is read; ~/.claude.json grows with every project.
const maxFile = 64 << 20

// private is the mode of a file that may hold secrets.
const private = 0o600

// content is what a file held when it was read.
type content struct {
	path   string // with symbolic links followed: this is what is replaced
	there  bool
	bytes  []byte
	mode   fs.FileMode
	digest string // of bytes; "" if it is not there
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// read reads a file through its symbolic links. One that is not there is no error.
func read(path string) (content, error) {
	c := content{path: path, mode: private}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return c, agentkernel.Errorf(agentkernel.CodeInvalid, op, "%s leads nowhere: %w", path, unwrap(err)).
			WithHint("mend the link, or remove it")
	}
	c.path = real
	info, err := os.Stat(real)
	if err != nil {
		return c, storage("reading "+path, err)
	}
	if !info.Mode().IsRegular() {
		return c, agentkernel.Errorf(agentkernel.CodeInvalid, op, "%s is not a regular file", path)
	}
	if info.Size() > maxFile {
		return c, agentkernel.Errorf(agentkernel.CodeInvalid, op, "%s is larger than %d MiB: is it the right file?", path, maxFile>>20)
	}
	f, err := os.Open(real)
	if err != nil {
		return c, storage("reading "+path, err)
	}
	defer f.Close()
	if c.bytes, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err != nil {
		return c, storage("reading "+path, err)
	}
	c.there, c.mode, c.digest = true, info.Mode().Perm(), digest(c.bytes)
	return c, nil
}

// read is read for the files of a place. Those of a project are whoever's who wrote it, and so are its links: one that leads out of the
// project would have servers of the project written into files of the user's own, and those of the user into the project. A file
// that was named is the user's choice.
func (p *Place) read(path string) (content, error) {
	c, err := read(path)
	if err != nil || p.Scope != Project || p.named && path == p.File {
		return c, err
	}
	folder, err := filepath.EvalSymlinks(p.Folder)
	if err != nil {
		return c, storage("reading "+p.Folder, err)
	}
	to := followed(c.path)
	if rest, err := filepath.Rel(folder, to); err != nil || !filepath.IsLocal(rest) {
		e := agentkernel.Errorf(agentkernel.CodeDenied, op, "%s is, or lies behind, a link that leads out of the project, to %s; nothing was changed", path, to)
		if path == p.File {
			return content{}, e.WithHint("remove the link; if that file is meant: --file %s", shellword.File(to))
		}
		return content{}, e.WithHint("remove the link")
	}
	return c, nil
}

// followed is a path with the links of what is there of it followed.
func followed(path string) string {
	for rest, dir := "", path; ; rest, dir = filepath.Join(filepath.Base(dir), rest), filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil || dir == filepath.Dir(dir) {
			return filepath.Join(real, rest)
		}
	}
}

// replace puts new bytes in the place of what was read, in one step. CodeConflict if the file is not what was read any
// more: the client has written it meanwhile.
func (c content) replace(b []byte) error {
	now, err := read(c.path)
	if err != nil {
		return err
	}
	if now.there != c.there || now.digest != c.digest {
		return agentkernel.Errorf(agentkernel.CodeConflict, op, "%s was written by another program in this moment; nothing was changed", c.path).
			WithHint("close the client, then try again")
	}
	return write(c.path, b, c.mode)
}

// write makes or replaces a file in one step: a reader sees the old or the new, and after a power cut there is one of
// them.
func write(path string, b []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return storage("making "+dir, err)
	}
	tmp, err := os.CreateTemp(dir, ".agentkernel-*")
	if err != nil {
		return storage("writing "+path, err)
	}
	defer os.Remove(tmp.Name()) // gone after the rename
	if info, serr := os.Stat(path); serr == nil {
		keepOwner(tmp, info)
	}
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return storage("writing "+path, err)
	}
	return syncDir(dir)
}

// keepOwner gives the new file the old one's owner, where that is allowed (sudo).
func keepOwner(f *os.File, old fs.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		_ = f.Chown(int(st.Uid), int(st.Gid))
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return storage("syncing "+dir, err)
	}
	_ = d.Sync() // not every file system can
	return d.Close()
}

// backup keeps what a file held, with its mode, under a name with the time in it, and gives the path; "" if it was not
// there. The same bytes are kept once.
func (p *Place) backup(c content, now time.Time) (string, error) {
	if !c.there {
		return "", nil
	}
	dir := filepath.Join(p.host.Config, "mcp", "backups")
	name := fmt.Sprintf("%s-%s-%s.json", filepath.Base(p.record[:len(p.record)-len(".json")]), now.UTC().Format("20060102T150405Z"), c.digest[:8])
	path := filepath.Join(dir, name)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, c.bytes) {
		return path, nil
	}
	return path, write(path, c.bytes, c.mode)
}

func storage(what string, err error) error {
	e := agentkernel.Errorf(agentkernel.CodeStorage, op, "%s: %w", what, unwrap(err))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		e.Code = agentkernel.CodeDenied
		return e.WithHint("the file, or its folder, belongs to another user or to a program that makes it (a dotfile manager): change it there")
	}
	return e
}

func unwrap(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
