package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/cmd/agentkernel/internal/diff"
)

// fileDiff shows what a process did to files. The exit code is that of diff for two processes.
func (c *diffCmd) fileDiff(a *app) error {
	k, changes, err := a.changes(c.A)
	if err != nil {
		return err
	}
	defer k.Close()
	if a.cli.JSON {
		err = a.printJSON(changes)
	} else {
		err = c.showFiles(a, k, &changes)
	}
	if err == nil && len(changes.Changes) > 0 {
		err = exitCode(agentkernel.ExitFailed)
	}
	return err
}

func (c *diffCmd) showFiles(a *app, k agentkernel.Kernel, changes *agentkernel.Changes) error {
	if c.Patch {
		for i := range changes.Changes {
			text, err := a.patch(k, changes, &changes.Changes[i])
			if err != nil {
				return err
			}
			a.con.Out(text)
		}
		return a.outputError()
	}
	rows := make([][]string, 0, len(changes.Changes))
	for i := range changes.Changes {
		rows = append(rows, changeRow(changes, &changes.Changes[i]))
	}
	a.con.Out(console.Table(rows))
	a.con.Note("%s", a.fileDiffNote(changes))
	if slices.ContainsFunc(changes.Changes, noFolder) {
		a.con.Note("the folder is not there any more: move it back, or copy files out: agentkernel get %s FILE -o PATH", changes.PID)
	}
	if len(changes.Unlisted) > 0 {
		a.con.Note("the program saw nothing of %s", unlistedText(changes.Unlisted))
	}
	if len(changes.Drift) > 0 && changes.State != agentkernel.LayerApplied {
		var names []string
		for _, name := range changes.Drift {
			names = append(names, fileText(name))
		}
		a.con.Note("the folder itself has changed since the process was created: %s", strings.Join(names, ", "))
	}
	return a.outputError()
}

func noFolder(c agentkernel.Change) bool { return c.Conflict == agentkernel.NoFolder }

func (a *app) fileDiffNote(c *agentkernel.Changes) string {
	where := a.folderText(c.Folder, waiting(c))
	note := countChanges(c) + " in " + where
	switch {
	case c.State == agentkernel.LayerDiscarded:
		if published := a.publishedTo(c); published != "" {
			return "the rest of the changes was discarded: these are in " + published
		}
		return strings.TrimSuffix("the changes in "+where, " in ") + " were discarded"
	case c.State == agentkernel.LayerApplied:
		return note + ", applied " + c.Applied.Local().Format("2006-01-02 15:04:05")
	case c.State == agentkernel.LayerImported:
		return countChanges(c) + ", as the recording has it · one of them: agentkernel get " + c.PID.String() + " FILE"
	case c.State == agentkernel.LayerOpen:
		return note + " so far: the process has not ended"
	case len(c.Changes) == 0:
		return note
	case !c.CutOff.IsZero():
		return note + ": an apply was cut off " + c.CutOff.Local().Format("2006-01-02 15:04:05") + ", and some of them are there · finish it: agentkernel apply " + c.PID.String()
	}
	return note + ", kept apart · keep: agentkernel apply " + c.PID.String() + " · throw away: agentkernel discard " + c.PID.String()
}

// maxPatch is the largest file of which lines are compared, in bytes.
const maxPatch = 1 << 20

// patch is one change as a unified diff; of what has no lines, a sentence.
func (a *app) patch(k agentkernel.Kernel, changes *agentkernel.Changes, c *agentkernel.Change) (string, error) {
	switch {
	case c.Type == agentkernel.TypeDir && c.Kind == agentkernel.FileAdded:
		return "", nil
	case c.Type != agentkernel.TypeFile || c.Applied || changes.State == agentkernel.LayerApplied || changes.State == agentkernel.LayerDiscarded,
		(changes.State == agentkernel.LayerImported || noFolder(*c)) && c.Kind != agentkernel.FileAdded:
		return strings.Join(changeRow(changes, c), " ") + "\n", nil
	case c.Size > maxPatch || c.Before > maxPatch:
		return strings.Join(changeRow(changes, c), " ") + ": too large to compare\n", nil
	}
	before, after := "", ""
	var err error
	there := c.Kind != agentkernel.FileAdded
	if c.Conflict != "" { // what the process saw is not kept: the comparison is with what the folder has now
		there = !noFolder(*c) && !strings.Contains(c.Conflict, "deleted")
	}
	switch {
	case there && c.Conflict != "":
		before, err = folderContent(changes, c)
	case there:
		before, err = a.fileContent(k, changes.PID, agentkernel.FileName{Volume: c.Volume, Path: c.Path, Before: true})
	}
	if err == nil && c.Kind != agentkernel.FileDeleted {
		after, err = a.fileContent(k, changes.PID, agentkernel.FileName{Volume: c.Volume, Path: c.Path})
	}
	if err != nil {
		return strings.Join(changeRow(changes, c), " ") + ": " + asError(err).Message() + "\n", nil //nolint:nilerr // one file that cannot be shown hides no other
	}
	if !showable(before) || !showable(after) {
		return strings.Join(changeRow(changes, c), " ") + ": not text\n", nil
	}
	oldName, newName, head := patchName("a/"+c.Name()), patchName("b/"+c.Name()), patchHead(c)
	if !there {
		oldName = "/dev/null"
	}
	if c.Kind == agentkernel.FileDeleted {
		newName = "/dev/null"
	}
	if there != (newName != "/dev/null") && before+after == "" { // it has no lines that would say what becomes of it
		return head + emptyFile(c), nil
	}
	return head + diff.Unified(oldName, newName, before, after), nil
}

// emptyFile is the patch of an empty file that was added or deleted, as git writes it.
func emptyFile(c *agentkernel.Change) string {
	does, mode := "new", "100644"
	if c.Kind == agentkernel.FileDeleted {
		does = "deleted"
	}
	if bits, err := strconv.ParseUint(c.Mode, 8, 32); err == nil && bits&0o100 != 0 {
		mode = "100755"
	}
	return fmt.Sprintf("diff --git %s %s\n%s file mode %s\n", inQuotes("a/"+c.Name()), inQuotes("b/"+c.Name()), does, mode)
}

// patchHead says before a patch what it compares, where that is not what the process saw. It begins with no name, which patch could take for a
// line of its own.
func patchHead(c *agentkernel.Change) string {
	switch {
	case c.Conflict == "":
		return ""
	case noFolder(*c):
		return "# " + fileText(c.Name()) + " " + c.Conflict + "\n"
	}
	return "# " + fileText(c.Name()) + " " + c.Conflict + " in the folder: this is the difference to what the folder has now, not to what the process saw\n"
}

// patchName is a name as git writes it into a patch, and git and patch read it: the whole in quotes if need be, with
// bytes in octal. It takes the name as PathText writes it: git and patch do not know that writing. A tab ends a name with blanks, which patch
// reads to the first otherwise.
func patchName(name string) string {
	raw := agentkernel.RawPath(name)
	switch {
	case !utf8.ValidString(raw) || fileText(raw) != raw || strings.ContainsAny(raw, `"\\`):
		return inQuotes(name)
	case strings.Contains(raw, " "):
		return raw + "\t"
	}
	return raw
}

// inQuotes is a name, as PathText writes it, as git and patch read it in quotes.
func inQuotes(name string) string {
	name = agentkernel.RawPath(name)
	var b strings.Builder
	for rest := name; rest != ""; {
		c, n := utf8.DecodeRuneInString(rest)
		char := rest[:n]
		rest = rest[n:]
		switch {
		case c == '"' || c == '\\':
			b.WriteString("\\" + string(c))
		case unicode.IsPrint(c) && (c != utf8.RuneError || n > 1): // one byte of it is a byte that is not of UTF-8
			b.WriteRune(c)
		default:
			for _, octet := range []byte(char) {
				fmt.Fprintf(&b, "\\%03o", octet)
			}
		}
	}
	return `"` + b.String() + `"`
}

func (a *app) fileContent(k agentkernel.Kernel, pid agentkernel.PID, name agentkernel.FileName) (string, error) {
	f, err := k.OpenFile(a.ctx, pid, name)
	if err != nil {
		return "", err
	}
	defer f.Content.Close()
	b, err := io.ReadAll(io.LimitReader(f.Content, maxPatch+1))
	return string(b), err
}

// folderContent is what the folder itself has now in the place of a change.
func folderContent(changes *agentkernel.Changes, c *agentkernel.Change) (string, error) {
	folder := changes.Folder
	for _, v := range changes.Volumes {
		if v.Name == c.Volume {
			folder = v.Path
		}
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", err
	}
	defer root.Close()
	name := agentkernel.RawPath(c.Path)
	if st, err := root.Lstat(name); err != nil || !st.Mode().IsRegular() || st.Size() > maxPatch {
		return "", agentkernel.Errorf(agentkernel.CodeInvalid, "diff", "what the folder has now cannot be compared; look at it there")
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPatch+1))
	return string(b), err
}

// showable says whether a text can be put on a terminal as it is.
func showable(s string) bool {
	return utf8.ValidString(s) && !bytes.ContainsFunc([]byte(s), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f })
}
