package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"strconv"
	"strings"

	"agentkernel"
)

// A backup is three frames of zstd (RFC 8878): a skippable one with the name and version of the format, the
// compressed tar, and a skippable one with the SHA-256 of all before it. So `zstd -dc FILE | tar -t` reads it
// without this program.

// skippable is the first magic number of skippable frames (RFC 8878, 3.1.2), as its bytes stand in a file.
var skippable = [4]byte{0x50, 0x2a, 0x4d, 0x18}

const (
	title     = "agentkernel backup "
	maxTitle  = 64
	sumTitle  = "sha256 "
	sumLength = 8 + len(sumTitle) + 2*sha256.Size + 1
)

func skippableFrame(text string) []byte {
	frame := append([]byte{}, skippable[:]...)
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(text)))
	return append(frame, text...)
}

func titleFrame() []byte { return skippableFrame(title + strconv.Itoa(Format) + "\n") }

func sumFrame(h hash.Hash) []byte {
	return skippableFrame(sumTitle + hex.EncodeToString(h.Sum(nil)) + "\n")
}

// readTitle reads the first frame and says whether this version reads what follows.
func readTitle(r io.Reader) error {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil || [4]byte(head[:4]) != skippable {
		return notABackup(err)
	}
	n := binary.LittleEndian.Uint32(head[4:])
	if n > maxTitle {
		return notABackup(nil)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return notABackup(err)
	}
	number, ok := strings.CutPrefix(string(text), title)
	number, ended := strings.CutSuffix(number, "\n")
	if !ok || !ended {
		return notABackup(nil)
	}
	format, err := strconv.Atoi(number)
	switch {
	case err != nil || format < 1 || strconv.Itoa(format) != number:
		return corrupt("the beginning of the backup is damaged")
	case format > Format:
		return agentkernel.Errorf(agentkernel.CodeVersion, op, "the backup is of format %d; this agentkernel reads formats up to %d", format, Format).
			WithHint("use the newer agentkernel that wrote it")
	}
	return nil
}

func notABackup(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return readFailed(err)
	}
	return corrupt("this is no backup: it does not begin with %q", strings.TrimSpace(title)).WithHint("agentkernel backup FILE writes one")
}

// readFailed is the error of a file that cannot be read, as against one that was read and is wrong.
func readFailed(err error) error {
	return agentkernel.Errorf(agentkernel.CodeStorage, op, "the backup cannot be read: %w", err)
}

// summed reads a file up to its last frame, hashing what it hands out. The last frame is kept back: in a stream
// nobody knows before its end where it begins.
type summed struct {
	r    io.Reader
	h    hash.Hash
	buf  []byte // read and not handed out
	err  error  // of r
	read int64  // from r
}

func newSummed(r io.Reader) *summed { return &summed{r: r, h: sha256.New()} }

const readChunk = 256 << 10

func (s *summed) Read(p []byte) (int, error) {
	for len(s.buf) <= sumLength && s.err == nil {
		s.fill()
	}
	n := copy(p, s.buf[:max(0, len(s.buf)-sumLength)])
	if n == 0 && len(p) > 0 {
		if errors.Is(s.err, io.EOF) {
			return 0, io.EOF
		}
		return 0, readFailed(s.err)
	}
	s.h.Write(p[:n])
	s.buf = s.buf[n:]
	return n, nil
}

func (s *summed) fill() {
	if cap(s.buf)-len(s.buf) < readChunk {
		s.buf = append(make([]byte, 0, 2*readChunk+sumLength), s.buf...)
	}
	n, err := s.r.Read(s.buf[len(s.buf) : len(s.buf)+readChunk])
	s.buf = s.buf[:len(s.buf)+n]
	s.read += int64(n)
	s.err = err
}

// check compares the last frame with what was read. Everything before it has been read.
func (s *summed) check() error {
	if string(s.buf) != string(sumFrame(s.h)) {
		return corrupt("the backup is not what was written: its checksum is wrong").
			WithHint("it was changed, or cut off on its way: take another copy of it")
	}
	return nil
}
