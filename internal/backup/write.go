package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"agentkernel"
)

// Source is what a backup is made of. Files open in the order of Manifest.Files, blobs as Blobs lists them.
type Source struct {
	Manifest Manifest // Format, Blobs are filled in by Write
	Open     func(i int) (io.Reader, error)
	Blobs    []Blob
	// Blob reads a blob; it fails if the content is not the one that was asked for.
	Blob func(ctx context.Context, sum Sum) ([]byte, error)
}

// Blob is a blob with its size in bytes.
type Blob struct {
	Sum  Sum
	Size int64
}

// Write writes a backup to w as a stream. What it has written is no backup until it has returned nil: the last
// frame is missing.
func Write(ctx context.Context, w io.Writer, s Source) error {
	h := sha256.New()
	out := io.MultiWriter(w, h)
	if _, err := out.Write(titleFrame()); err != nil {
		return writeFailed(err)
	}
	// Most of a database is text; speed matters more than the last tenth of the size.
	z, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		return agentkernel.AsError(err, agentkernel.CodeInternal, op)
	}
	t := &archive{Writer: tar.NewWriter(z), ctx: ctx}
	if err := t.writeAll(&s); err != nil {
		_ = z.Close() // it frees memory; the backup has failed already
		return err
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return writeFailed(err)
	}
	if _, err := w.Write(sumFrame(h)); err != nil {
		return writeFailed(err)
	}
	return nil
}

// window is how far back the compressor looks, and so how much memory a reader needs.
const window = 1 << 20

// archive is the tar of a backup.
type archive struct {
	*tar.Writer
	ctx context.Context
}

func (t *archive) writeAll(s *Source) error {
	m := &s.Manifest
	m.Format, m.Blobs = Format, sumUp(s.Blobs)
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return agentkernel.AsError(err, agentkernel.CodeInternal, op)
	}
	if len(text) > maxManifest {
		return agentkernel.Errorf(agentkernel.CodeLimit, op, "the data directory has too many files for a backup: %d", len(m.Files))
	}
	if err := t.bytes(m, manifestName, text); err != nil {
		return err
	}
	for i, f := range m.Files {
		if err := t.file(m, f, i, s.Open); err != nil {
			return err
		}
	}
	for _, blob := range s.Blobs {
		data, err := s.Blob(t.ctx, blob.Sum)
		if err != nil {
			return err
		}
		if int64(len(data)) != blob.Size {
			return corrupt("blob %x has %d bytes; the database says %d", blob.Sum, len(data), blob.Size)
		}
		if err := t.bytes(m, BlobPrefix+hex.EncodeToString(blob.Sum[:]), data); err != nil {
			return err
		}
	}
	return nil
}

func sumUp(blobs []Blob) Blobs {
	all, h := Blobs{}, sha256.New()
	for _, b := range blobs {
		all.Count++
		all.Bytes += b.Size
		h.Write(b.Sum[:])
	}
	all.SHA256 = hex.EncodeToString(h.Sum(nil))
	return all
}

func (t *archive) header(m *Manifest, name string, size int64) error {
	err := t.ctx.Err()
	if err != nil {
		return agentkernel.AsError(err, agentkernel.CodeCanceled, op)
	}
	err = t.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o600, Typeflag: tar.TypeReg, ModTime: m.Created.Truncate(time.Second)})
	if err != nil {
		return writeFailed(err)
	}
	return nil
}

func (t *archive) bytes(m *Manifest, name string, data []byte) error {
	if err := t.header(m, name, int64(len(data))); err != nil {
		return err
	}
	if _, err := t.Write(data); err != nil {
		return writeFailed(err)
	}
	return nil
}

func (t *archive) file(m *Manifest, f File, i int, open func(int) (io.Reader, error)) error {
	if err := t.header(m, f.Name, f.Size); err != nil {
		return err
	}
	r, err := open(i)
	if err != nil {
		return err
	}
	n, err := io.Copy(t.Writer, &stoppable{r, t.ctx})
	switch {
	case err != nil && t.ctx.Err() != nil:
		return agentkernel.AsError(t.ctx.Err(), agentkernel.CodeCanceled, op)
	case err != nil:
		return writeFailed(err)
	case n != f.Size:
		return agentkernel.Errorf(agentkernel.CodeInternal, op, "%s has %d bytes, and the manifest says %d", f.Name, n, f.Size)
	}
	return nil
}

// stoppable ends a copy when its context ends.
type stoppable struct {
	io.Reader
	ctx context.Context
}

func (s *stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.Reader.Read(p)
}

func writeFailed(err error) error {
	if own, ok := errors.AsType[*agentkernel.Error](err); ok {
		return own
	}
	return agentkernel.Errorf(agentkernel.CodeStorage, op, "the backup cannot be written: %w", err)
}
