package assistant

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/internal/regular"
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
	within string // the folder that it must lie in, with links followed; "": any
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
	return c, c.fill(path)
}

// fill reads what the file holds; name is what the user calls it.
func (c *content) fill(name string) error {
	root, rest, err := c.root()
	if err != nil {
		return storage("reading "+name, err)
	}
	defer root.Close()
	info, err := root.Stat(rest)
	if err == nil {
		c.bytes, err = regular.ReadIn(root, rest, maxFile)
	}
	switch {
	case errors.Is(err, regular.ErrNotRegular):
		return agentkernel.Errorf(agentkernel.CodeInvalid, op, "%s is not a regular file", name)
	case errors.Is(err, regular.ErrTooLarge):
		return agentkernel.Errorf(agentkernel.CodeInvalid, op, "%s is larger than %d MiB: is it the right file?", name, maxFile>>20)
	case err != nil:
		return storage("reading "+name, err)
	}
	c.there, c.mode, c.digest = true, info.Mode().Perm(), digest(c.bytes)
	return nil
}

// root opens the folder that the file must lie in, or the one that it lies in, and gives the name of the file there: whatever becomes of
// the names in between meanwhile, what is opened by that name lies in the folder.
func (c *content) root() (*os.Root, string, error) {
	dir := c.within
	if dir == "" {
		dir = filepath.Dir(c.path)
	}
	rest, err := filepath.Rel(dir, c.path)
	if err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(dir)
	return root, rest, err
}

// read is read for the files of a place. Those of a project are whoever's who wrote it, and so are its links: one that leads out of the
// project would have servers of the project written into files of the user's own, and those of the user into the project. A file
// that was named is the user's choice.
func (p *Place) read(path string) (content, error) {
	if p.Scope != Project || p.named && path == p.File {
		return read(path)
	}
	folder, err := filepath.EvalSymlinks(p.Folder)
	if err != nil {
		return content{}, storage("reading "+p.Folder, err)
	}
	c := content{path: followed(path), within: folder, mode: private}
	if rest, err := filepath.Rel(folder, c.path); err != nil || !filepath.IsLocal(rest) {
		e := agentkernel.Errorf(agentkernel.CodeDenied, op, "%s is, or lies behind, a link that leads out of the project, to %s; nothing was changed", path, c.path)
		if path == p.File {
			return content{}, e.WithHint("remove the link; if that file is meant: --file %s", shellword.File(c.path))
		}
		return content{}, e.WithHint("remove the link")
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if _, err := os.Stat(path); err != nil {
		return c, agentkernel.Errorf(agentkernel.CodeInvalid, op, "%s leads nowhere: %w", path, unwrap(err)).
			WithHint("mend the link, or remove it")
	}
	return c, c.fill(path)
}

// followed is a path with the links of what is there of it followed.
func followed(path string) string {
	for rest, dir := "", path; ; rest, dir = filepath.Join(filepath.Base(dir), rest), filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil || dir == filepath.Dir(dir) {
			return filepath.Join(real, rest)
		}
	}
}

// unchanged looks at a file again, in the way it was read first. CodeConflict if it is not what was read any more: the client has written it
// meanwhile, or somebody has made a link of it, or of a folder on the way to it.
func (p *Place) unchanged(name string, c content) error {
	now, err := p.read(name)
	if err != nil {
		return err
	}
	if now.path != c.path || now.there != c.there || now.digest != c.digest {
		return agentkernel.Errorf(agentkernel.CodeConflict, op, "%s was written by another program in this moment", name).
			WithHint("close the client, then try again")
	}
	return nil
}

// asPlanned is unchanged for both files of the place, before the first write.
func (p *Place) asPlanned(client, tools content) error {
	err := p.unchanged(p.File, client)
	if err == nil {
		err = p.unchanged(p.Tools, tools)
	}
	if e, ok := errors.AsType[*agentkernel.Error](err); ok && e.Code == agentkernel.CodeConflict {
		return agentkernel.Errorf(e.Code, op, "%s; nothing was changed", e.Message()).WithHint("%s", e.Hint)
	}
	return err
}

// replace puts new bytes in the place of what was read, in one step, if that has not changed.
func (p *Place) replace(name string, c content, b []byte) error {
	if err := p.unchanged(name, c); err != nil {
		return err
	}
	folder := fs.FileMode(0o700)
	if name == p.File {
		folder = 0o755 // open, as clients make it
	}
	return c.write(b, folder)
}

// remove takes away what was read, if it has not changed.
func (p *Place) remove(name string, c content) error {
	if err := p.unchanged(name, c); err != nil {
		return err
	}
	root, rest, err := c.root()
	if err == nil {
		err = errors.Join(root.Remove(rest), root.Close())
	}
	if err != nil {
		return storage("removing "+name, err)
	}
	return nil
}

// write makes or replaces a file of AgentKernel's own.
func write(path string, b []byte, mode fs.FileMode) error {
	return content{path: path, mode: mode}.write(b, 0o700)
}

// write makes or replaces the file in one step: a reader sees the old or the new, and after a power cut there is one of
// them. Another name of the same file (a hard link) keeps what it has. folder is the mode of folders that are made.
func (c content) write(b []byte, folder fs.FileMode) error {
	if c.within == "" {
		if err := os.MkdirAll(filepath.Dir(c.path), folder); err != nil {
			return storage("making "+filepath.Dir(c.path), err)
		}
	}
	root, rest, err := c.root()
	if err != nil {
		return storage("writing "+c.path, err)
	}
	defer root.Close()
	dir := filepath.Dir(rest)
	if err := root.MkdirAll(dir, folder); err != nil {
		return storage("making "+filepath.Dir(c.path), err)
	}
	name := filepath.Join(dir, ".agentkernel-"+rand.Text())
	tmp, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
	if err != nil {
		return storage("writing "+c.path, err)
	}
	if info, serr := root.Lstat(rest); serr == nil {
		keepOwner(tmp, info)
	}
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Chmod(c.mode), tmp.Sync(), tmp.Close())
	if err == nil {
		err = root.Rename(name, rest)
	}
	if err != nil {
		_ = root.Remove(name) // not there any more, or of no use
		return storage("writing "+c.path, err)
	}
	d, err := root.Open(dir)
	if err != nil {
		return storage("syncing "+filepath.Dir(c.path), err)
	}
	_ = d.Sync() // not every file system can
	return d.Close()
}

// keepOwner gives the new file the old one's owner, where that is allowed (sudo).
func keepOwner(f *os.File, old fs.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		_ = f.Chown(int(st.Uid), int(st.Gid))
	}
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
