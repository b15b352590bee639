package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/shellword"
)

// Artifacts are the files that a program has made or changed in the folder that the server was started with. An answer
// lists them; pictures among them are shown, and each has an address.

const artifactPrefix = "agentkernel://artifact/"

// Bounds of what is told of files.
const (
	maxArtifacts = 40      // listed in one answer
	maxBlob      = 8 << 20 // bytes of a file that is not text, in one reading
)

// artifact is one file that a program made or changed.
type artifact struct {
	Path   string `json:"path"` // as the program names it
	Type   string `json:"type"`
	Size   int64  `json:"size"`
	Change string `json:"change"` // added, changed
}

// artifactURI is where a file of a process is read; one of a volume keeps the slash at its beginning.
func artifactURI(pid agentkernel.PID, name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return artifactPrefix + pid.String() + "/" + strings.Join(parts, "/")
}

// addArtifacts puts the files that a program has left into its answer. A session's are all that its cells have left so
// far; shown are those of which its client has seen the pictures.
func (c *call) addArtifacts(ctx context.Context, out *executeOutput, shown *sync.Map) {
	if !c.h.cfg.Spec.HasFiles() || out.PID == 0 {
		return
	}
	pid := agentkernel.PID(out.PID)
	changes, err := c.kernel().Changes(ctx, pid)
	switch {
	case agentkernel.CodeOf(err) == agentkernel.CodeInvalid: // it had no folder
		return
	case err != nil:
		out.addNote("the files that it made could not be listed: " + agentkernel.AsError(err, "", "").Message())
		return
	}
	left := 0
	for i := range changes.Changes {
		ch := &changes.Changes[i]
		if ch.Type != agentkernel.TypeFile || ch.Kind == agentkernel.FileDeleted {
			continue
		}
		if len(out.Artifacts) == maxArtifacts {
			left++
			continue
		}
		a := artifact{Path: ch.Name(), Type: ch.Media, Size: ch.Size, Change: string(ch.Kind)}
		out.Artifacts = append(out.Artifacts, a)
		out.links = append(out.links, link{artifactURI(pid, a.Path), a.Path, "A file that the program left.", a.Type, a.Size})
		if _, seen := shown.LoadOrStore(a, true); !seen {
			c.showPicture(ctx, out, &a)
		}
	}
	if left > 0 {
		out.addNote(fmt.Sprintf("%d more files are not listed here; agentkernel artifacts %d lists them", left, pid))
	}
	out.open = changes.State == agentkernel.LayerOpen
	out.kept = (out.open || changes.State == agentkernel.LayerKept) && slices.ContainsFunc(changes.Changes, func(ch agentkernel.Change) bool { return !ch.Applied })
}

// showPicture adds a file to the images of an answer if it is one, by its bytes, and if there is room.
func (c *call) showPicture(ctx context.Context, out *executeOutput, a *artifact) {
	room := maxImageBytes
	for _, i := range out.images {
		room -= len(i.data)
	}
	if !strings.HasPrefix(a.Type, "image/") || a.Size > int64(room) || len(out.images) == maxImages {
		return
	}
	data, _, err := c.readFile(ctx, agentkernel.PID(out.PID), a.Path, 0, room)
	if mime := imageType(data); err == nil && mime != "" && int64(len(data)) == a.Size {
		out.images = append(out.images, image{mime, data})
	}
}

// readFile reads at most `most` bytes of a file of a process from a byte on, and one more if there is more.
func (c *call) readFile(ctx context.Context, pid agentkernel.PID, file string, from int64, most int) ([]byte, agentkernel.File, error) {
	name, err := agentkernel.ParseFileName(file)
	if err != nil {
		return nil, agentkernel.File{}, err
	}
	f, err := c.kernel().OpenFile(ctx, pid, name)
	if err != nil {
		return nil, f, err
	}
	defer f.Content.Close()
	if _, err := io.CopyN(io.Discard, f.Content, from); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, f, nil
		}
		return nil, f, err
	}
	data, err := io.ReadAll(io.LimitReader(f.Content, int64(most)+1))
	return data, f, err
}

// readArtifact gives a file of a process: a text page by page, anything else at once.
func readArtifact(ctx context.Context, c *call, w wanted) (content, error) {
	text, file, found := strings.Cut(w.name, "/")
	if !found {
		return content{}, agentkernel.Errorf(agentkernel.CodeInvalid, "resource", "%q names no file", w.name)
	}
	p, err := c.readable(ctx, text)
	if err != nil {
		return content{}, err
	}
	data, f, err := c.readFile(ctx, p.PID, file, w.from, maxPage+utf8.UTFMax)
	if err != nil {
		return content{}, err
	}
	if isText(f.Media) && utf8.Valid(data[:wholeRunes(data)]) {
		return content{text: string(data[:wholeRunes(data)]), mime: f.Media, total: f.Size}, nil
	}
	if f.Size > maxBlob {
		return content{}, agentkernel.Errorf(agentkernel.CodeLimit, "resource", "%s has %d bytes; a file that is not text is read here up to %d", path.Base(file), f.Size, maxBlob).
			WithHint("agentkernel get %d %s -o FILE", p.PID, shellword.File(file))
	}
	if data, _, err = c.readFile(ctx, p.PID, file, 0, maxBlob); err != nil {
		return content{}, err
	}
	return content{blob: data, mime: f.Media, total: f.Size}, nil
}

// wholeRunes is how much of data there is before a character that is cut off at its end.
func wholeRunes(data []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(data)); n++ {
		if c := data[len(data)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(data[len(data)-n:]) {
				return len(data) - n
			}
			break
		}
	}
	return len(data)
}

// isText says whether files of a media type are read as text.
func isText(media string) bool {
	media, _, _ = strings.Cut(media, ";")
	if strings.HasPrefix(media, "text/") {
		return true
	}
	for _, end := range []string{"json", "xml", "yaml", "toml", "sql", "-sh", "javascript"} {
		if strings.HasSuffix(media, end) {
			return true
		}
	}
	return false
}

// artifactText lists the files for a model.
func (o *executeOutput) artifactText() string {
	if len(o.Artifacts) == 0 {
		return ""
	}
	var b strings.Builder
	for _, a := range o.Artifacts {
		fmt.Fprintf(&b, "\n  %s  %d bytes  %s", a.Path, a.Size, a.Type)
	}
	if o.kept {
		says := "kept apart, other programs do not see them; agentkernel apply %d puts them into the folder"
		if o.open {
			says = `kept apart, for this session, which session "new" ends; agentkernel apply %d then puts them into the folder`
		}
		fmt.Fprintf(&b, "\n  (%s)", agentkernel.OverMCP.Hint(fmt.Sprintf(says, o.PID)))
	}
	return b.String()
}
