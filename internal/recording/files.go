package recording

import (
	"context"
	"io"
	"strings"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/bytesize"
)

// maxRecordedFiles bounds the bytes of files that are read for a recording, which has room for no more.
const maxRecordedFiles = 256 << 20

// recordFiles reads what a process did to its files.
func (r *Recorder) recordFiles(ctx context.Context, pid agentkernel.PID) ([]agentkernel.RecordedFile, error) {
	c, err := r.host.Changes(ctx, pid)
	if err != nil {
		return nil, err
	}
	if c.State == agentkernel.LayerDiscarded {
		return nil, agentkernel.Errorf(agentkernel.CodeConflict, "export", "the changes of process %d were discarded", pid).WithPID(pid).
			WithHint("leave --files out; agentkernel rerun %d makes them again", pid)
	}
	files, room := make([]agentkernel.RecordedFile, 0, len(c.Changes)), int64(maxRecordedFiles)
	for _, ch := range c.Changes {
		ch.Conflict, ch.Withheld, ch.Applied = "", "", false
		f := agentkernel.RecordedFile{Change: ch}
		if ch.Type == agentkernel.TypeFile && ch.Kind != agentkernel.FileDeleted && ch.LeftOut == "" {
			if err := r.recordFile(ctx, pid, &f, room); err != nil {
				return nil, err
			}
			room -= f.Size
		}
		if f.Type != agentkernel.TypeFile {
			f.Size, f.Before = 0, 0
		}
		files = append(files, f)
	}
	return files, nil
}

// recordFile reads one file as it is now: its process may still write it.
func (r *Recorder) recordFile(ctx context.Context, pid agentkernel.PID, f *agentkernel.RecordedFile, room int64) error {
	if f.Size > room {
		return filesTooLarge(pid)
	}
	file, err := r.host.OpenFile(ctx, pid, agentkernel.FileName{Volume: f.Volume, Path: f.Path})
	if agentkernel.CodeOf(err) == agentkernel.CodeNotFound {
		f.Size, f.LeftOut = 0, "it could not be read under this name"
		return nil
	}
	if err == nil {
		f.Content, err = io.ReadAll(io.LimitReader(file.Content, room+1))
		_ = file.Content.Close() // it was only read
	}
	if err != nil {
		e := agentkernel.AsError(err, agentkernel.CodeStorage, "export")
		return agentkernel.Errorf(e.Code, "export", "%s cannot be taken along: %w", f.Name(), e).WithHint("leave --files out")
	}
	if f.Size = int64(len(f.Content)); f.Size > room {
		return filesTooLarge(pid) // it has grown meanwhile
	}
	return nil
}

func filesTooLarge(pid agentkernel.PID) error {
	return agentkernel.Errorf(agentkernel.CodeLimit, "export", "the files of process %d hold more than a recording may, %s", pid, bytesize.Text(maxRecordedFiles)).
		WithPID(pid).WithHint("leave --files out; agentkernel get %d FILE copies one out", pid)
}

// redactFiles takes secrets out of files and their names. What is no text would be damaged, and stays at home whole.
func redactFiles(files []agentkernel.RecordedFile, red agentkernel.Redaction) {
	for i := range files {
		f := &files[i]
		f.Path, f.Target = red.Text(f.Path), red.Text(f.Target)
		clean := red.Text(string(f.Content))
		switch {
		case clean == string(f.Content):
		case utf8.Valid(f.Content):
			f.Content, f.Size = []byte(clean), int64(len(clean))
		default:
			f.Content, f.Size, f.LeftOut = nil, 0, "it is no text, and has a secret in it"
		}
	}
}

// withoutTwins leaves out what is shown under the name of something before it: names that had a secret in them can
// become the same. A name that is none any more goes, too.
func withoutTwins(files []agentkernel.RecordedFile) []agentkernel.RecordedFile {
	if files == nil {
		return nil
	}
	seen := map[string]bool{}
	out := make([]agentkernel.RecordedFile, 0, len(files))
	for _, f := range files {
		name := f.Name()
		parsed, err := agentkernel.ParseFileName(name)
		if err != nil || parsed.Path != f.Path || seen[name] || strings.HasPrefix(f.Path, "/") {
			continue
		}
		seen[name] = true
		out = append(out, f)
	}
	return out
}
