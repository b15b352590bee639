package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/config"
)

// addFiles puts the folders that the flags name into a Spec.
func (a *app) addFiles(f *specFlags, s *agentkernel.Spec) error {
	if f.Workspace != "" {
		path, err := a.absolute(f.Workspace)
		if err != nil {
			return err
		}
		if err := a.missingFolder("--workspace ", f.Workspace, path); err != nil {
			return err
		}
		s.Workspace = &agentkernel.Workspace{Path: path, Publish: f.Publish}
	} else if f.Publish && s.Workspace == nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--publish writes to the folder of --workspace, and none is named").
			WithHint("agentkernel run --workspace DIR --publish PROGRAM")
	} else if f.Publish {
		w := *s.Workspace
		w.Publish = true
		s.Workspace = &w
	}
	if len(f.Volume) > 0 {
		s.Volumes = nil
	}
	for _, text := range f.Volume {
		v, err := a.volume(text)
		if err != nil {
			return err
		}
		s.Volumes = append(s.Volumes, v)
	}
	return nil
}

func (a *app) absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	dir, err := a.workingDir()
	if err != nil {
		return "", agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "%s: %w", path, err)
	}
	return filepath.Join(dir, path), nil
}

// volume reads NAME:DIR[:ro|rw][:size=SIZE].
func (a *app) volume(text string) (v agentkernel.Volume, err error) {
	bad := func(format string, args ...any) error {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--volume %s: "+format, append([]any{text}, args...)...).
			WithHint("NAME:DIR, and behind it :ro or :size=1g; the program sees it as /volumes/NAME")
	}
	name, rest, ok := strings.Cut(text, ":")
	if !ok || rest == "" {
		return v, bad("it names no folder")
	}
	v.Name = name
	for {
		i := strings.LastIndexByte(rest, ':')
		if i < 0 {
			break
		}
		option := rest[i+1:]
		size, sized := strings.CutPrefix(option, "size=")
		switch {
		case option == "ro":
			v.ReadOnly = true
		case option == "rw":
		case sized:
			if v.Size, err = config.ParseSize(size); err != nil {
				return v, bad("%w", err)
			}
		case i == 0:
			return v, bad("it names no folder")
		default:
			i = -1 // a colon of the folder's own name
		}
		if i < 0 {
			break
		}
		rest = rest[:i]
	}
	if v.Path, err = a.absolute(rest); err != nil {
		return v, err
	}
	return v, a.missingFolder("--volume "+name+":", rest, v.Path)
}

// fileText is a name that a program chose, as it may stand on a terminal.
func fileText(name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) && r != ' ' }) || name != strings.TrimSpace(name) {
		return strconv.Quote(name)
	}
	return name
}

const nothingChanged = "nothing changed"

// countText is "2 added, 1 changed".
func countText(added, changed, deleted int) string {
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{{added, "added"}, {changed, "changed"}, {deleted, "deleted"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	if len(parts) == 0 {
		return nothingChanged
	}
	return strings.Join(parts, ", ")
}

func countChanges(c *agentkernel.Changes) string {
	return withNever(countText(c.Count(agentkernel.FileAdded), c.Count(agentkernel.FileChanged), c.Count(agentkernel.FileDeleted)), c.Never())
}

// withNever is a countText of changes of which some more are never applied.
func withNever(count string, never int) string {
	switch {
	case never == 0:
		return count
	case count == nothingChanged:
		return fmt.Sprintf("%d never applied", never)
	}
	return fmt.Sprintf("%s, %d never applied", count, never)
}

// folderText names the folders of a process, as the user would.
func (a *app) folderText(folder string, volumes []agentkernel.Volume) string {
	var list []string
	if folder != "" {
		list = append(list, a.relative(folder))
	}
	for _, v := range volumes {
		if !v.ReadOnly {
			list = append(list, a.relative(v.Path))
		}
	}
	return strings.Join(list, " and ")
}

// waiting are the volumes whose changes wait with those of the workspace.
func waiting(c *agentkernel.Changes) []agentkernel.Volume {
	if !slices.ContainsFunc(c.Changes, func(ch agentkernel.Change) bool { return ch.Applied }) {
		return c.Volumes
	}
	return slices.DeleteFunc(slices.Clone(c.Volumes), func(v agentkernel.Volume) bool {
		return !slices.ContainsFunc(c.Changes, func(ch agentkernel.Change) bool { return ch.Volume == v.Name && !ch.Applied })
	})
}

// publishedTo names the folders that have some of the changes, while others wait or were thrown away; "": none has.
func (a *app) publishedTo(c *agentkernel.Changes) string {
	in := map[string]bool{}
	for i := range c.Changes {
		if c.Changes[i].Applied {
			in[c.Changes[i].Volume] = true
		}
	}
	folder := c.Folder
	if !in[""] {
		folder = ""
	}
	return a.folderText(folder, slices.DeleteFunc(slices.Clone(c.Volumes), func(v agentkernel.Volume) bool { return !in[v.Name] }))
}

// split are the changes that wait to be applied, and those that are withheld from that.
func split(c *agentkernel.Changes) (rest int, withheld []agentkernel.Change) {
	for _, ch := range c.Changes {
		switch {
		case ch.Applied || c.State != agentkernel.LayerKept:
		case ch.Withheld != "":
			withheld = append(withheld, ch)
		case ch.LeftOut == "":
			rest++
		}
	}
	return rest, withheld
}

// filesLine says what became of the files of a run, and what to do with them; "": there is nothing to say.
func (a *app) filesLine(c *agentkernel.Changes) string {
	where, n := a.folderText(c.Folder, waiting(c)), c.Count(agentkernel.FileAdded)+c.Count(agentkernel.FileChanged)+c.Count(agentkernel.FileDeleted)
	rest, withheld := split(c)
	var lines []string
	published := a.publishedTo(c)
	if published != "" {
		lines = append(lines, "published to "+published)
	}
	switch {
	case n == 0 && c.State == agentkernel.LayerKept && c.Never() > 0:
		lines = append(lines, fmt.Sprintf("%s in %s · why: agentkernel diff %d", countChanges(c), where, c.PID))
	case n == 0:
	case c.State == agentkernel.LayerApplied:
		lines = append(lines, fmt.Sprintf("published to %s: %s", where, countChanges(c)))
	case c.State != agentkernel.LayerKept:
	case rest == 0 && len(withheld) > 0:
		lines = append(lines, withheldLines(c.PID, withheld)...)
		if c.Hint != "" {
			lines = append(lines, c.Hint)
		}
	default:
		lines = append(lines, fmt.Sprintf("%s in %s, kept apart · look: agentkernel diff %d · keep: agentkernel apply %d · throw away: agentkernel discard %d",
			countChanges(c), where, c.PID, c.PID, c.PID))
	}
	return strings.Join(lines, "\n")
}

// fileCounts is what run --json says of files; diff --json has them all.
type fileCounts struct {
	State    agentkernel.LayerState `json:"state"`
	Added    int                    `json:"added"`
	Changed  int                    `json:"changed"`
	Deleted  int                    `json:"deleted"`
	Withheld int                    `json:"withheld,omitempty"`      // of these
	Never    int                    `json:"never_applied,omitempty"` // none of these
	Hidden   []string               `json:"hidden,omitempty"`        // what the program did not see, since keys may lie there
	Unlisted []string               `json:"unlisted,omitempty"`      // directories that it did not see, since they cannot be listed
	Children []agentkernel.PID      `json:"children,omitempty"`      // whose changes wait to be applied, too
	Hint     string                 `json:"hint,omitempty"`
	Error    *agentkernel.Error     `json:"error,omitempty"` // why the rest is not known
}

// noteFiles finds out what a run that has ended did to files. Not to know is no failure of the run.
func (w *watch) noteFiles(s *agentkernel.Spec, p agentkernel.Process) {
	if !s.HasFiles() || !p.State.Terminal() {
		return
	}
	c, err := w.k.Changes(w.a.ctx, p.PID)
	if err == nil {
		w.files = &c
	} else if began(p) {
		w.unknown = asError(err)
	}
	children, err := w.k.List(w.a.ctx, agentkernel.Filter{Parent: p.PID, Limit: shownChildren})
	if err != nil {
		return
	}
	if len(children) < shownChildren { // all of them
		w.children = append([]agentkernel.Process{}, children...)
	}
	for i := range slices.Backward(children) { // the newest is listed first
		if c, err := w.k.Changes(w.a.ctx, children[i].PID); err == nil && c.State == agentkernel.LayerKept && w.a.filesLine(&c) != "" {
			w.below = append(w.below, c)
		}
	}
}

// mentionFiles says what the program and its children did to files.
func (w *watch) mentionFiles(p agentkernel.Process) {
	if w.files != nil {
		if line := w.a.filesLine(w.files); line != "" {
			w.a.con.Note("%s", line)
		}
	}
	if line := w.unlistedLine(p); line != "" {
		w.a.con.Note("%s", line)
	}
	for i := range w.below {
		w.a.con.Note("a child, process %d: %s", w.below[i].PID, w.a.filesLine(&w.below[i]))
	}
	if len(w.below) > 0 {
		w.a.con.Note("with its children: agentkernel apply --tree %d · agentkernel discard --tree %d", p.PID, p.PID)
	}
}

// unlistedLine says of which directories a program that was to see a folder saw nothing, and why what it changed is not known.
func (w *watch) unlistedLine(p agentkernel.Process) string {
	switch {
	case w.unknown != nil:
		return fmt.Sprintf("what it changed is not known: %s · when that is put right: agentkernel diff %d", w.unknown.Message(), p.PID)
	case w.files == nil || len(w.files.Unlisted) == 0 || w.seen == seenHere:
		return ""
	}
	return "it saw nothing of " + unlistedText(w.files.Unlisted)
}

func unlistedText(list []string) string { return shownNames(list) + ", which cannot be listed" }

// shownChildren is of how many children it is told what they did to files.
const shownChildren = 32

func (w *watch) fileCounts() *fileCounts {
	if w.files == nil && w.unknown == nil {
		return nil
	}
	if w.files == nil {
		return &fileCounts{Error: w.unknown}
	}
	_, withheld := split(w.files)
	var children []agentkernel.PID
	for i := range w.below {
		children = append(children, w.below[i].PID)
	}
	return &fileCounts{w.files.State, w.files.Count(agentkernel.FileAdded), w.files.Count(agentkernel.FileChanged), w.files.Count(agentkernel.FileDeleted), len(withheld), w.files.Never(), w.files.Hidden, w.files.Unlisted, children, w.a.withHome(w.files.Hint), nil}
}

// leftOut says why a change stays out of the folder, or a file's content out of a recording.
func leftOut(changes *agentkernel.Changes, c *agentkernel.Change) string {
	if changes.State == agentkernel.LayerImported && c.Type == agentkernel.TypeFile {
		return "not in the recording: " + c.LeftOut
	}
	return "never applied: " + c.LeftOut
}

// changeRow is a change as a row of a table: what, name, size, what it is.
func changeRow(changes *agentkernel.Changes, c *agentkernel.Change) []string {
	sign := map[agentkernel.ChangeKind]string{agentkernel.FileAdded: "+", agentkernel.FileChanged: "~", agentkernel.FileDeleted: "-"}[c.Kind]
	name, size, what := fileText(c.Name()), "", c.Media
	switch {
	case c.Type == agentkernel.TypeDir:
		name += "/"
	case c.Type == agentkernel.TypeSymlink:
		what = "link to " + fileText(c.Target)
		if c.Kind == agentkernel.FileDeleted {
			what = "link"
		}
	case c.Type != agentkernel.TypeFile:
	case c.Kind == agentkernel.FileAdded:
		size = console.Bytes(c.Size)
	case c.Kind == agentkernel.FileDeleted:
		size = console.Bytes(c.Before)
	case c.Kind == agentkernel.FileChanged:
		size = console.Bytes(c.Before) + " → " + console.Bytes(c.Size)
	}
	if c.Conflict != "" {
		what = "conflict: it " + c.Conflict
	}
	switch {
	case c.LeftOut != "":
		what = leftOut(changes, c)
	case c.Withheld != "":
		what = "withheld until it is named: " + c.Withheld
	}
	if c.Applied {
		what = "applied"
	}
	return []string{sign, name, size, what}
}
