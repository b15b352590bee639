package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/internal/regular"
	"agentkernel/internal/shellword"
)

// maxConfigSize is the largest configuration file that is read.
const maxConfigSize = 4 << 20

// configFile is what a file said when it was last read.
type configFile struct {
	modTime time.Time
	size    int64
	inode   os.FileInfo
	digest  string
	src     []byte
	entries []*entry // nil if one of them has a problem, which may go away without the file changing
}

// maxPinned is how many contents of files are kept for the processes that were created with them.
const maxPinned = 64

// entries reads a file, or takes what is known if it has not changed since. With a digest beside the path the
// content that has it counts, also when the file holds another by now.
func (h *Hub) entries(file string) (entries []*entry, path, digest string, err error) {
	path, want := agentkernel.SplitPin(file)
	if !filepath.IsAbs(path) {
		return nil, path, "", agentkernel.Errorf(agentkernel.CodeInvalid, opConfig, "%s is not an absolute path", path)
	}
	f, err := h.configFile(path, want)
	if err != nil {
		return nil, path, "", err
	}
	h.mu.Lock()
	entries = f.entries
	h.mu.Unlock()
	if entries == nil {
		entries, err = h.parse(path, f)
	}
	return entries, path, f.digest, err
}

// configFile gives what a file holds, or held when it had the digest.
func (h *Hub) configFile(path, want string) (*configFile, error) {
	h.mu.Lock()
	known, pinned := h.files[path], h.pinned[agentkernel.PinFile(path, want)]
	h.mu.Unlock()
	if want != "" && pinned != nil {
		return pinned, nil
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	if known == nil || !known.modTime.Equal(st.ModTime()) || known.size != st.Size() || !os.SameFile(known.inode, st) {
		if known, err = readConfigFile(path, st); err != nil {
			return nil, err
		}
	}
	if want != "" && known.digest != want {
		if err := h.changed(path, known.src); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files[path] = known
	if len(h.pinned) >= maxPinned {
		clear(h.pinned)
	}
	h.pinned[agentkernel.PinFile(path, known.digest)] = known
	return known, nil
}

func readConfigFile(path string, st os.FileInfo) (*configFile, error) {
	src, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return &configFile{modTime: st.ModTime(), size: st.Size(), inode: st, digest: Digest(src), src: src}, nil
}

// ReadFile reads a configuration file: a regular one, of a size that one can have.
func ReadFile(path string) ([]byte, error) {
	src, err := regular.Read(path, maxConfigSize)
	switch {
	case errors.Is(err, regular.ErrNotRegular): // a pipe or a device has no end
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, opConfig, "%s is not a regular file", path)
	case errors.Is(err, regular.ErrTooLarge):
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, opConfig, "%s is larger than %s: is it the right file?",
			path, megabytes(maxConfigSize))
	case err != nil:
		return nil, fileError(path, err)
	}
	return src, nil
}

// Digest is what agentkernel.PinFile takes for a content.
func Digest(content []byte) string { return contentHash(content) }

// changed says why the content of a file does not count any more.
func (h *Hub) changed(path string, content []byte) error {
	if h.cfg.Changed != nil && h.cfg.Changed(path, content) == nil {
		return nil
	}
	if entries, err := parseConfig(path, content, h.cfg.LookupEnv); err == nil {
		for _, e := range entries {
			if e.program != 0 { // the file is now that of another program, whose functions are not those that were meant
				return agentkernel.Errorf(agentkernel.CodeUnavailable, "tool.start", "%w", e.programGone()).WithHint("%s", runAgain)
			}
		}
	}
	return agentkernel.Errorf(agentkernel.CodeDenied, "trust",
		"the tools file %s is not what it was when it was named, and what it is now has not been accepted", path).
		WithHint("read it, then: agentkernel tools trust %s; or put its old content back", shellword.File(path))
}

// parse reads the entries of a file's content.
func (h *Hub) parse(path string, f *configFile) ([]*entry, error) {
	entries, err := parseConfig(path, f.src, h.cfg.LookupEnv)
	if err != nil {
		return nil, err
	}
	h.noteSecrets(entries)
	if !slices.ContainsFunc(entries, func(e *entry) bool { return e.problem != nil }) { // a problem may go away without the file changing: look again next time
		h.mu.Lock()
		defer h.mu.Unlock()
		if f.entries == nil {
			f.entries = entries
		}
		return f.entries, nil
	}
	return entries, nil
}

func fileError(file string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return agentkernel.Errorf(agentkernel.CodeNotFound, opConfig, "there is no file %s", file).
			WithHint("give the path of an MCP configuration file ({\"mcpServers\": ...}) with --tools")
	case errors.Is(err, fs.ErrPermission):
		return agentkernel.Errorf(agentkernel.CodeDenied, opConfig, "%s may not be read", file)
	}
	return &agentkernel.Error{Code: agentkernel.CodeUnavailable, Op: opConfig, Err: fmt.Errorf("reading %s: %w", file, err)}
}
