package workspace

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"agentkernel"
	"agentkernel/internal/shellword"
)

const (
	recordFile    = "record.json"
	recordVersion = 1
)

// record is what is kept of a process's folders: record.json.
type record struct {
	Version int                    `json:"version"`
	Token   string                 `json:"token"`            // in the names of files that Apply is about to put in place
	Origin  string                 `json:"origin,omitempty"` // Config.Origin
	State   agentkernel.LayerState `json:"state"`            // kept, applied or discarded; whether the process has ended others know
	Folders []folder               `json:"folders"`
	Applied time.Time              `json:"applied,omitzero"`
	Changes []done                 `json:"changes,omitempty"` // what was applied
	Decided *decision              `json:"decided,omitempty"` // an Apply is changing the folders, or was cut off when it did
	Stdin   *input                 `json:"stdin,omitempty"`
}

// folder is one folder of a process.
type folder struct {
	Volume   string `json:"volume,omitempty"` // "": the workspace
	Path     string `json:"path"`             // as the user named it
	Source   string `json:"source"`           // without symbolic links
	Dev      uint64 `json:"dev"`
	Ino      uint64 `json:"ino"`
	ReadOnly bool   `json:"read_only,omitempty"`
	Optional bool   `json:"optional,omitempty"`
	Size     int64  `json:"size,omitempty"` // of a volume, at most
	Base     string `json:"base,omitempty"` // file with the base; none of a read-only one
	Copy     bool   `json:"copy,omitempty"` // the layer is a copy
	Held     int64  `json:"held,omitempty"` // bytes that the copy had at the beginning, as Used counts
	Layer    string `json:"layer,omitempty"`
	Applied  bool   `json:"applied,omitempty"` // all that is ever applied of it

	Hidden   []string `json:"hidden,omitempty"`   // what a program does not see of it, since keys may lie there
	Unlisted []string `json:"unlisted,omitempty"` // directories that it does not see, since they cannot be looked through
	Tools    []string `json:"tools,omitempty"`    // tools files of the process in it, which it does not see if it was shown unasked
}

// done is a change that was applied, with what tells whether the file is still that.
type done struct {
	agentkernel.Change
	MTime int64 `json:"mtime,omitempty"`
}

// home is one process's directory, open.
type home struct {
	dir
	rec record
}

// path of a file or directory in it.
func (h *home) path(name string) string { return filepath.Join(h.Name(), name) }

// temp begins the names under which an apply stages what it brings to a folder.
func (h *home) temp() string { return ".agentkernel-" + h.rec.Token }

func (h *home) save() error {
	raw, err := json.MarshalIndent(h.rec, "", " ")
	if err != nil {
		return storage(err)
	}
	return writeFile(h.dir, recordFile, append(raw, '\n'))
}

// find gives the folder of a volume, or the workspace.
func (h *home) find(volume string) *folder {
	for i := range h.rec.Folders {
		if h.rec.Folders[i].Volume == volume {
			return &h.rec.Folders[i]
		}
	}
	return nil
}

// open opens a process's directory. CodeInvalid: it has none; that the process has a workspace whoever asks has seen to.
func (s *Store) open(pid agentkernel.PID) (*home, error) {
	d, err := openRoot(s.path(pid), true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, invalid("nothing that process %d changed is here: a backup does not have it, and a process that never began made nothing", pid).WithPID(pid).
			WithHint("agentkernel rerun %d runs it again", pid)
	}
	if err != nil {
		return nil, storage(err)
	}
	h := &home{dir: d}
	raw, err := readFile(d, recordFile)
	if err == nil {
		err = json.Unmarshal(raw, &h.rec)
	}
	if err == nil && h.rec.Version != recordVersion {
		err = agentkernel.Errorf(agentkernel.CodeVersion, op, "%s is of version %d; this kernel knows %d", h.path(recordFile), h.rec.Version, recordVersion)
	}
	if err != nil {
		_ = d.Close()
		return nil, agentkernel.AsError(err, agentkernel.CodeCorrupt, op)
	}
	return h, nil
}

func (s *Store) path(pid agentkernel.PID) string { return filepath.Join(s.cfg.Dir, pid.String()) }

func newToken() string {
	b := make([]byte, 6)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// folderPath finds what a path names: without symbolic links above it, and none itself.
func folderPath(what, p string) (string, os.FileInfo, error) {
	info, err := os.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, agentkernel.Errorf(agentkernel.CodeNotFound, op, "the %s %s does not exist", what, p).WithHint("mkdir %s", shellword.File(p))
	case err != nil:
		return "", nil, unreadable(what, p, err)
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := filepath.EvalSymlinks(p)
		e := invalid("the %s %s is a symbolic link", what, p)
		if err == nil {
			e = e.WithHint("name the folder itself: %s", to)
		}
		return "", nil, e
	case !info.IsDir():
		return "", nil, invalid("the %s %s is a file, not a folder", what, p).WithHint("name the folder that holds it: %s", filepath.Dir(p))
	}
	source, err := filepath.EvalSymlinks(p)
	if err != nil {
		return "", nil, unreadable(what, p, err)
	}
	return source, info, nil
}

// unreadable says that p cannot be read, or what in it: that is in err, relative to p.
func unreadable(what, p string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		if err = pe.Err; filepath.IsLocal(pe.Path) {
			p = filepath.Join(p, agentkernel.PathText(pe.Path))
		}
	}
	return agentkernel.Errorf(agentkernel.CodeDenied, op, "the %s %s cannot be read: %w", what, p, err).
		WithHint("ls -ld %s shows who may", shellword.File(p))
}
