package agentkernel

import (
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Workspaces is what processes did to files. A process sees the folder of its Spec through a private layer: what it
// writes stays in the layer until somebody applies it.
type Workspaces interface {
	// Changes says what a process has done to its workspace and volumes, also while it runs. Errors: CodeNotFound
	// (no such process), CodeInvalid (it has no workspace).
	Changes(ctx context.Context, pid PID) (Changes, error)
	// Apply writes the changes to the folders they belong to, each file in one step. It never follows a link out
	// of a folder, and withholds files that the host acts on (Change.Withheld) unless o.Paths names them. Errors:
	// CodeInvalid as above, and for a path that names no change; CodeConflict when the process has not ended, when
	// its changes were applied or discarded already, and, unless o.Force, when something that it would replace has
	// changed since the process was created: nothing is written then, and the message lists what; CodeDenied,
	// CodeStorage.
	Apply(ctx context.Context, pid PID, o ApplyOptions) (Applied, error)
	// Discard throws away for good what was not applied. CodeConflict when the process has not ended, or when there
	// is nothing left to throw away. An Apply that was cut off in the middle is finished first, which leaves nothing.
	Discard(ctx context.Context, pid PID) error
	// OpenFile opens one file of a process, as the process left it or as it was before. The caller closes Content.
	// Errors: CodeNotFound, CodeInvalid (a directory, a link, a path that leaves the folder), CodeConflict (it was
	// applied and has changed in the folder since).
	OpenFile(ctx context.Context, pid PID, name FileName) (File, error)
}

// Workspace is a folder of the host that a program has as its working directory, /workspace.
type Workspace struct {
	Path string `json:"path"` // absolute; a directory, not a symbolic link
	// Publish applies the changes when the program exits with 0, before the process counts as ended.
	Publish bool `json:"publish,omitempty"`
	// ReadOnly refuses the program every change: there is nothing to apply then.
	ReadOnly bool `json:"read_only,omitempty"`
	// Optional, with ReadOnly, lets a program start without the folder where the system cannot show it. The program's
	// standard error says why.
	Optional bool `json:"optional,omitempty"`
}

// NotShown begins the line on the standard error of a program that an optional workspace could not be shown to.
const NotShown = "agentkernel: no folder is shown: "

// Volume is a further folder of the host, which a program sees as /volumes/NAME. Changes to one that is not read-only
// are applied when the program exits with 0.
type Volume struct {
	Name     string `json:"name"` // letters, digits, dot, dash and underscore, at most 64
	Path     string `json:"path"` // as of Workspace
	ReadOnly bool   `json:"read_only,omitempty"`
	// Size is how many bytes the folder may hold when the changes are applied; 0: no limit but Limits.Disk.
	Size int64 `json:"size,omitempty"`
}

// MaxVolumes bounds the volumes of one process.
const MaxVolumes = 16

var volumeName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`) })

// HasFiles says whether a process sees folders of the host, so that only a backend with BackendInfo.Files can run it.
func (s *Spec) HasFiles() bool { return s.Workspace != nil || len(s.Volumes) > 0 }

// NeedsFiles says whether only a backend with BackendInfo.Files can run the process: it sees folders, or reads input.
func (s *Spec) NeedsFiles() bool { return s.HasFiles() || s.Stdin != "" }

// Publishes says whether the process's changes, or some of them, are applied when it exits with 0.
func (s *Spec) Publishes() bool {
	if s.Workspace != nil && s.Workspace.Publish {
		return true
	}
	for i := range s.Volumes {
		if !s.Volumes[i].ReadOnly {
			return true
		}
	}
	return false
}

// validateFiles says what is wrong with workspace and volumes as far as their names tell.
func (s *Spec) validateFiles() error {
	if s.Workspace != nil {
		switch w := s.Workspace; {
		case w.ReadOnly && w.Publish:
			return Errorf(CodeInvalid, "spec", "the workspace is read-only: there is nothing to publish").WithHint("--workspace DIR names one that the program may change")
		case w.Optional && !w.ReadOnly:
			return Errorf(CodeInvalid, "spec", "a workspace that the program may change cannot be optional")
		}
		if err := validFolder("workspace", s.Workspace.Path); err != nil {
			return err
		}
	}
	if s.Stdin != "" {
		if err := validFolder("standard input", s.Stdin); err != nil {
			return err
		}
		if s.Backend == "hosted" {
			return Errorf(CodeUnsupported, "spec", "a hosted program has a standard input of its own")
		}
	}
	if len(s.Volumes) > MaxVolumes {
		return Errorf(CodeInvalid, "spec", "there are %d volumes; at most %d are possible", len(s.Volumes), MaxVolumes)
	}
	seen := map[string]bool{}
	for _, v := range s.Volumes {
		switch {
		case !volumeName().MatchString(v.Name):
			return Errorf(CodeInvalid, "spec", "%q is no name for a volume", v.Name).
				WithHint("letters, digits, dot, dash and underscore, at most 64: --volume data:/srv/data:ro")
		case seen[v.Name]:
			return Errorf(CodeInvalid, "spec", "the volume %q is there twice", v.Name)
		case v.Size < 0:
			return Errorf(CodeInvalid, "spec", "the size of volume %q is negative; leave it out for none", v.Name)
		}
		seen[v.Name] = true
		if err := validFolder("volume "+v.Name, v.Path); err != nil {
			return err
		}
	}
	return nil
}

func validFolder(what, p string) error {
	if err := validText(what, p); err != nil {
		return err
	}
	if !filepath.IsAbs(p) || filepath.Clean(p) != p || strings.ContainsRune(p, 0) {
		return Errorf(CodeInvalid, "spec", "the %s %q is not an absolute path without dots and double slashes", what, p)
	}
	return nil
}

// ChangeKind is what became of a file.
type ChangeKind string

const (
	FileAdded   ChangeKind = "added"
	FileChanged ChangeKind = "changed"
	FileDeleted ChangeKind = "deleted"
)

// FileType is what a file is. Only the first three are ever applied.
type FileType string

const (
	TypeFile    FileType = "file"
	TypeDir     FileType = "dir"
	TypeSymlink FileType = "symlink"
	TypeOther   FileType = "other" // a pipe, a socket, a device
)

// Change is one file that a process has added, changed or deleted. Path has slashes and is relative to the folder;
// bytes that are not UTF-8 are shown as the replacement character.
type Change struct {
	Volume string     `json:"volume,omitempty"` // "": the workspace
	Path   string     `json:"path"`             // see PathText
	Kind   ChangeKind `json:"kind"`
	Type   FileType   `json:"type"`             // of a deleted one: what it was
	Size   int64      `json:"size"`             // bytes now; 0 for everything but files
	Before int64      `json:"before,omitempty"` // bytes before
	Mode   string     `json:"mode,omitempty"`   // permission bits, octal: "644"
	Media  string     `json:"media,omitempty"`  // of an added or changed file: its media type
	Target string     `json:"target,omitempty"` // of a symbolic link, see PathText
	// Conflict says how the folder has changed at this place since the process was created; "": it has not.
	Conflict string `json:"conflict,omitempty"`
	// LeftOut says why this is never applied; "": it is.
	LeftOut string `json:"left_out,omitempty"`
	// Withheld says why this is applied only when it is named: the host acts on the file. "": it is applied with all.
	Withheld string `json:"withheld,omitempty"`
	// Applied says of a process whose other changes wait, or were discarded, that this one is in the folder.
	Applied bool `json:"applied,omitempty"`
}

// NoFolder is the Conflict of each change to a folder that was removed or moved since the process was created, or has
// another in its place: there is nothing to compare with.
const NoFolder = "cannot be compared: the folder is not there any more"

// Name is how users write the path: files of a volume begin with /volumes/NAME.
func (c *Change) Name() string { return FileName{Volume: c.Volume, Path: c.Path}.String() }

// LayerState is what became of a process's changes.
type LayerState string

const (
	LayerOpen      LayerState = "open"      // the process has not ended
	LayerKept      LayerState = "kept"      // they wait for apply or discard
	LayerApplied   LayerState = "applied"   // they are in the folder
	LayerDiscarded LayerState = "discarded" // they are gone
	LayerImported  LayerState = "imported"  // they came with a recording, and belong to no folder here
)

// Changes is what a process has done to its workspace and volumes.
type Changes struct {
	PID     PID        `json:"pid"`
	Folder  string     `json:"folder,omitempty"` // of the workspace, on the host
	Volumes []Volume   `json:"volumes,omitempty"`
	State   LayerState `json:"state"`
	Applied time.Time  `json:"applied,omitzero"` // LayerApplied
	// CutOff is when an Apply began to change the folders that did not come to its end: some of the changes are there.
	CutOff  time.Time `json:"cut_off,omitzero"`
	Changes []Change  `json:"changes"` // in the order of paths; of LayerApplied: what was applied
	// Drift lists paths at which the folder has changed since the process was created, at most a few. The process
	// may or may not have read them.
	Drift []string `json:"drift,omitempty"`
	Bytes int64    `json:"bytes"` // what the layer holds, as Limits.Disk counts
	// Hidden lists the files of an optional workspace that the program did not see, since keys usually lie in such.
	Hidden []string `json:"hidden,omitempty"`
	// Unlisted lists directories of which the program saw nothing, as FileName.String writes them with a slash behind: the
	// kernel may not list what is in them, or not look at it. A folder that is only read has any if it was optional.
	Unlisted []string `json:"unlisted,omitempty"`
	// Hint is [Applied.Hint] where a part was applied or published.
	Hint string `json:"hint,omitempty"`
}

// Count counts the changes of a kind, without those that were applied before the others, and those that never are.
func (c *Changes) Count(kind ChangeKind) (n int) {
	for i := range c.Changes {
		if ch := &c.Changes[i]; ch.Kind == kind && !ch.Applied && !c.never(ch) {
			n++
		}
	}
	return n
}

// Never counts the changes that are never applied.
func (c *Changes) Never() (n int) {
	for i := range c.Changes {
		if c.never(&c.Changes[i]) {
			n++
		}
	}
	return n
}

// never says whether a change is never applied. Nothing of a recording is, of which LeftOut says that its content did not come along.
func (c *Changes) never(ch *Change) bool { return ch.LeftOut != "" && c.State != LayerImported }

// ApplyOptions say how to apply.
type ApplyOptions struct {
	Force bool `json:"force,omitempty"` // replace also what has changed meanwhile
	// Paths are the files and directories that are applied, as FileName.String writes them; all others wait. None: all
	// but what is withheld. A directory takes along what is withheld in it only where all in it is.
	Paths []string `json:"paths,omitempty"`
	// Volumes leaves the workspace as it is: its changes wait on. It is how a program ends that was to publish nothing.
	Volumes bool `json:"volumes,omitempty"`
	// GitConfigs are further configs of git, as absolute paths, that may name what is withheld: those that the caller's
	// environment names, where the kernel has another.
	GitConfigs []string `json:"git_configs,omitempty"`
}

// GitConfigs are the configs that git reads because an environment names them (git-config(1), "ENVIRONMENT"), as it writes them,
// by the variable that does.
func GitConfigs(getenv func(name string) string) map[string]string {
	files := map[string]string{}
	for name, rest := range map[string]string{"GIT_CONFIG_GLOBAL": "", "GIT_CONFIG_SYSTEM": "", "XDG_CONFIG_HOME": "git/config"} {
		if value := getenv(name); value != "" {
			files[name] = filepath.Join(value, rest)
		}
	}
	return files
}

// Applied is what Apply did.
type Applied struct {
	PID     PID      `json:"pid"`
	Folder  string   `json:"folder,omitempty"`
	Added   int      `json:"added"`
	Changed int      `json:"changed"`
	Deleted int      `json:"deleted"`
	Bytes   int64    `json:"bytes"`              // written
	LeftOut []Change `json:"left_out,omitempty"` // what is never applied, with the reason
	// Withheld is what waits until it is named in ApplyOptions.Paths, with the reason.
	Withheld []Change `json:"withheld,omitempty"`
	Waiting  int      `json:"waiting,omitempty"` // how many changes wait because others were named
	// Hint says how to look for what is withheld where git may have it: its index or commits were applied. "": they were not.
	Hint string `json:"hint,omitempty"`
}

// FileName names one file of a process.
type FileName struct {
	Volume string `json:"volume,omitempty"` // "": the workspace
	Path   string `json:"path"`             // with slashes, relative to the folder; see PathText
	Before bool   `json:"before,omitempty"` // as it was before the process
}

// PathText writes a path, which may be of any bytes, as text; RawPath reads it back. A byte that is not of UTF-8 becomes
// \xff, with its two digits, and a backslash before what would look like that becomes \x5c. So two paths are never
// written alike, and nearly all are written as they are.
func PathText(raw string) string {
	if utf8.ValidString(raw) && !strings.Contains(raw, `\x`) {
		return raw
	}
	var b strings.Builder
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRuneInString(raw[i:])
		if _, looks := escaped(raw[i:]); looks || r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, raw[i])
		} else {
			b.WriteString(raw[i : i+n])
		}
		i += n
	}
	return b.String()
}

// RawPath is the path of which PathText has made text.
func RawPath(text string) string {
	if !strings.Contains(text, `\x`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		if c, ok := escaped(text[i:]); ok {
			b.WriteByte(c)
			i += len(`\xff`)
		} else {
			b.WriteByte(text[i])
			i++
		}
	}
	return b.String()
}

// escaped is the byte that an escape at the beginning of a text stands for: no other bytes are ever escaped.
func escaped(text string) (c byte, ok bool) {
	if len(text) < len(`\xff`) || text[:2] != `\x` || strings.ToLower(text[2:4]) != text[2:4] {
		return 0, false
	}
	n, err := strconv.ParseUint(text[2:4], 16, 8)
	return byte(n), err == nil && (n == '\\' || n >= utf8.RuneSelf)
}

// ParseFileName reads "out/report.csv", "/workspace/out/report.csv" and "/volumes/NAME/report.csv": as PathText writes
// them, or, where it is not UTF-8, byte for byte.
func ParseFileName(s string) (FileName, error) {
	if !utf8.ValidString(s) {
		s = PathText(s)
	}
	bad := Errorf(CodeInvalid, "file", "%q is not a file of a workspace: write it as the program sees it, out/report.csv", s)
	p := path.Clean(s)
	n := FileName{Path: strings.TrimPrefix(p, "/workspace/")}
	if rest, ok := strings.CutPrefix(p, "/volumes/"); ok {
		n.Volume, n.Path, _ = strings.Cut(rest, "/")
	}
	if s == "" || n.Path == "" || !filepath.IsLocal(n.Path) || n.Path == "." || strings.ContainsRune(s, 0) {
		return FileName{}, bad
	}
	if PathText(RawPath(n.Path)) != n.Path {
		return FileName{}, Errorf(CodeInvalid, "file", `%s is not how a file is written: \xff stands for a byte that is not of UTF-8`, s).
			WithHint("a file of just these characters is written %s; agentkernel diff and artifacts write all as they are named", PathText(s))
	}
	return n, nil
}

func (n FileName) String() string {
	if n.Volume == "" {
		return n.Path
	}
	return "/volumes/" + n.Volume + "/" + n.Path
}

// File is an open file of a process.
type File struct {
	Size    int64
	Media   string // media type
	Content io.ReadCloser
}

// Layers keeps what processes do to folders of the host. Errors: CodeLimit where Limits.Disk is hit,
// CodeConflict where the host has changed, CodeStorage.
type Layers interface {
	// Create notes the folders of a process that is about to be created.
	Create(pid PID, s *Spec) error
	// Stdin is the path of what a process reads as its standard input, as it was when the process was created.
	Stdin(pid PID) (string, error)
	// Begin throws away what the process wrote in an earlier life and gives what its sandbox is to see.
	Begin(pid PID) ([]Mount, error)
	// Drift lists paths, a few, at which the folders are not what they were when the process was created.
	Drift(pid PID) ([]string, error)
	// Used is what the process's changes hold, as Limits.Disk counts, and what is kept beside them: how the folders were found, and
	// copies of them.
	Used(pid PID) (changes, beside int64, err error)
	Changes(pid PID) (Changes, error)
	Apply(ctx context.Context, pid PID, o ApplyOptions) (Applied, error)
	Discard(ctx context.Context, pid PID) error
	Open(pid PID, name FileName) (File, error)
	// Import keeps, durably, what came with a recording for a process that is about to be.
	Import(pid PID, files []RecordedFile) error
	// Imported says whether what is kept of a process came with a recording.
	Imported(pid PID) bool
}
