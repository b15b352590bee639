package wal

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
)

// claim is what the index beside a log says of it. The zero value says nothing.
type claim struct {
	frames int64 // so many were durable
	moved  int64 // so many of them were in the database
	salt   [8]byte
	sum    sum // checksum of the last
}

// Places in the index, in bytes; numbers are in the machine's order.
const (
	indexSize    = 136 // of what is read here
	indexHeader  = 48  // there are two, one after the other
	indexPageAt  = 14
	indexFrames  = 16
	indexSum     = 24
	indexSalt    = 32
	indexOwnSum  = 40
	indexMovedAt = 96
)

// readClaim reads the index. One that is not there, or of which both headers are broken, claims nothing.
func readClaim(path string) (claim, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return claim{}, nil
	}
	if err != nil {
		return claim{}, err
	}
	defer f.Close()
	var b [indexSize]byte
	switch _, err := io.ReadFull(f, b[:]); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return claim{}, nil
	case err != nil:
		return claim{}, err
	}
	order := binary.NativeEndian
	var best claim
	for _, h := range [][]byte{b[:indexHeader], b[indexHeader : 2*indexHeader]} {
		if (sum{order.Uint32(h[indexOwnSum:]), order.Uint32(h[indexOwnSum+4:])}) != (sum{}).add(machine(), h[:indexOwnSum]) ||
			order.Uint16(h[indexPageAt:]) == 0 {
			continue
		}
		c := claim{frames: int64(order.Uint32(h[indexFrames:])), moved: int64(order.Uint32(b[indexMovedAt:])), salt: [8]byte(h[indexSalt:]),
			sum: sum{order.Uint32(h[indexSum:]), order.Uint32(h[indexSum+4:])}}
		if best == (claim{}) || newer(c, best) {
			best = c
		}
	}
	return best, nil
}

// machine is the machine's byte order as a value that can be compared.
func machine() binary.ByteOrder {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return binary.LittleEndian
	}
	return binary.BigEndian
}

func newer(a, b claim) bool {
	if a.salt == b.salt {
		return a.frames > b.frames
	}
	return begunLater(a.salt, b.salt)
}

// begunLater says whether a log with salt a was begun after one with salt b in the same file: the first word counts.
func begunLater(a, b [8]byte) bool {
	return int32(binary.BigEndian.Uint32(a[:])-binary.BigEndian.Uint32(b[:])) > 0
}
