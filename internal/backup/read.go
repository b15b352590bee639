package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"agentkernel"
	"agentkernel/internal/strictjson"
)

// Sink takes the members of a backup.
type Sink interface {
	// Begin hears what will come, before anything does, and may refuse it.
	Begin(m *Manifest) error
	// Member takes the next one, of exactly size bytes. What was written counts only once Read has returned nil.
	Member(name string, size int64) (io.WriteCloser, error)
}

// Read reads a backup and hands its members to a sink, each checked against its hash as it ends. Errors: CodeCorrupt
// (any byte is not what was written, or what was written makes no sense), CodeVersion (written by a newer version),
// CodeStorage (r fails), CodeCanceled, those of the sink.
func Read(ctx context.Context, r io.Reader, into Sink) (*Manifest, error) {
	in := newSummed(&stoppable{r, ctx})
	m, err := read(ctx, in, into)
	if err == nil {
		return m, in.check()
	}
	if ctx.Err() != nil {
		return nil, agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, op)
	}
	return nil, err
}

func read(ctx context.Context, in *summed, into Sink) (*Manifest, error) {
	if err := readTitle(in); err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(window), zstd.WithDecoderMaxMemory(8*window))
	if err != nil {
		return nil, unpackFailed(err)
	}
	defer z.Close()
	// z.Read may be asked for any number of bytes; what a bomb would unpack to is bounded by the sizes that the
	// manifest announces, since each member must have exactly its own.
	u := &unpacked{Reader: tar.NewReader(z), ctx: ctx, into: into}
	m, err := u.manifest()
	if err != nil {
		return nil, err
	}
	if err := into.Begin(m); err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		if err := u.member(f); err != nil {
			return nil, err
		}
	}
	if err := u.blobs(m.Blobs); err != nil {
		return nil, err
	}
	if _, err := u.Next(); !errors.Is(err, io.EOF) {
		return nil, corrupt("something follows the last member of the backup")
	}
	if n, err := z.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return nil, corrupt("something follows the last member of the backup")
	}
	return m, nil
}

// unpacked are the members, in order.
type unpacked struct {
	*tar.Reader
	ctx  context.Context
	into Sink
}

// next wants a member of this name and size.
func (u *unpacked) next(name string) (*tar.Header, error) {
	h, err := u.Next()
	if err != nil {
		return nil, unpackFailed(err)
	}
	switch {
	case h.Name != name && (name != BlobPrefix || !strings.HasPrefix(h.Name, BlobPrefix)):
		return nil, corrupt("the backup has %.100q where %q belongs", h.Name, name)
	case h.Typeflag != tar.TypeReg:
		return nil, corrupt("%.100q in the backup is no regular file", h.Name)
	}
	return h, nil
}

func (u *unpacked) manifest() (*Manifest, error) {
	h, err := u.next(manifestName)
	if err != nil {
		return nil, err
	}
	if h.Size < 0 || h.Size > maxManifest {
		return nil, corrupt("the manifest of the backup has %d bytes", h.Size)
	}
	text, err := io.ReadAll(io.LimitReader(u, h.Size))
	if err != nil || int64(len(text)) != h.Size {
		return nil, unpackFailed(err)
	}
	m := &Manifest{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	err = dec.Decode(m)
	if err == nil {
		err = strictjson.Check(text, m) // a field that is there twice, or in another case
	}
	if _, more := dec.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("something follows it")
	}
	if err != nil {
		return nil, corrupt("the manifest of the backup cannot be read: %w", err)
	}
	return m, m.check()
}

func (u *unpacked) member(f File) error {
	h, err := u.next(f.Name)
	if err != nil {
		return err
	}
	if h.Size != f.Size {
		return corrupt("%s has %d bytes in the backup, and the manifest says %d", f.Name, h.Size, f.Size)
	}
	sum, err := u.copy(f.Name, f.Size)
	if err != nil {
		return err
	}
	if hex.EncodeToString(sum[:]) != f.SHA256 {
		return corrupt("%s in the backup is not what its manifest says: another hash", f.Name)
	}
	return nil
}

func (u *unpacked) blobs(want Blobs) error {
	left, names := want.Bytes, sha256.New()
	for range want.Count {
		h, err := u.next(BlobPrefix)
		if err != nil {
			return err
		}
		if h.Size < 0 || h.Size > left {
			return corrupt("the blobs of the backup are larger than its manifest says")
		}
		left -= h.Size
		name := strings.TrimPrefix(h.Name, BlobPrefix)
		if raw, err := hex.DecodeString(name); err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != name {
			return corrupt("the backup has a blob called %.100q", name)
		}
		sum, err := u.copy(h.Name, h.Size)
		if err != nil {
			return err
		}
		if hex.EncodeToString(sum[:]) != name {
			return corrupt("blob %s of the backup is damaged: its content has another hash", name)
		}
		names.Write(sum[:])
	}
	if left != 0 || hex.EncodeToString(names.Sum(nil)) != want.SHA256 {
		return corrupt("the blobs of the backup are not those that its manifest names")
	}
	return nil
}

// copy hands the present member to the sink and gives its hash.
func (u *unpacked) copy(name string, size int64) (Sum, error) {
	out, err := u.into.Member(name, size)
	if err != nil {
		return Sum{}, err
	}
	h := sha256.New()
	to := &marked{w: io.MultiWriter(out, h)}
	n, err := io.Copy(to, io.LimitReader(u, size))
	cerr := out.Close()
	switch {
	case to.err != nil:
		return Sum{}, to.err
	case err != nil || n != size:
		return Sum{}, unpackFailed(err)
	case cerr != nil:
		return Sum{}, cerr
	}
	return Sum(h.Sum(nil)), nil
}

// marked tells errors of writing from those of reading.
type marked struct {
	w   io.Writer
	err error
}

func (m *marked) Write(p []byte) (n int, err error) {
	n, m.err = m.w.Write(p)
	return n, m.err
}

// unpackFailed is the error of a stream that ends too early or is damaged; one that cannot be read keeps its own.
func unpackFailed(err error) error {
	if own, ok := errors.AsType[*agentkernel.Error](err); ok {
		return own
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return corrupt("the backup ends too early").WithHint("it was cut off on its way, or never finished: take another copy of it")
	}
	return corrupt("the backup cannot be unpacked: %w", err)
}
