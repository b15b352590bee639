package wal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// Sizes in bytes, and the two numbers that begin a log: its checksums read words as little endian, or as big endian.
const (
	headerSize      = 32
	frameHeaderSize = 24
	magicLittle     = 0x377f0682
	magicBig        = 0x377f0683
	formatVersion   = 3007000
)

// sum is the checksum of everything up to a place in the log.
type sum [2]uint32

// add returns the checksum after b, whose length is a multiple of 8.
func (s sum) add(order binary.ByteOrder, b []byte) sum {
	s0, s1 := s[0], s[1]
	if order == binary.LittleEndian { // a constant order is much faster, and the usual one
		for ; len(b) >= 8; b = b[8:] {
			s0 += binary.LittleEndian.Uint32(b) + s1
			s1 += binary.LittleEndian.Uint32(b[4:]) + s0
		}
		return sum{s0, s1}
	}
	for ; len(b) >= 8; b = b[8:] {
		s0 += order.Uint32(b) + s1
		s1 += order.Uint32(b[4:]) + s0
	}
	return sum{s0, s1}
}

func storedSum(b []byte) sum {
	return sum{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

// header is the beginning of a log.
type header struct {
	order binary.ByteOrder
	page  int // bytes
	salt  [8]byte
	sum   sum
}

// parseHeader says whether b is a header as SQLite wrote it.
func parseHeader(b []byte) (h header, ok bool) {
	switch binary.BigEndian.Uint32(b) {
	case magicLittle:
		h.order = binary.LittleEndian
	case magicBig:
		h.order = binary.BigEndian
	default:
		return h, false
	}
	h.page = int(binary.BigEndian.Uint32(b[8:]))
	h.salt, h.sum = [8]byte(b[16:24]), storedSum(b[24:])
	sound := h.page >= 512 && h.page <= 1<<16 && h.page&(h.page-1) == 0 && binary.BigEndian.Uint32(b[4:]) == formatVersion
	return h, sound && (sum{}).add(h.order, b[:24]) == h.sum
}

// frame is one frame, judged.
type frame struct {
	ours   bool // it is of this log, not of one that was in the file before
	commit bool // it ends a transaction
	follow bool // it continues the checksum that the frame before it has
	stored sum  // its checksum as it stands in it
	real   sum  // its checksum as it should be, if the one before is right
}

func (h *header) judge(b []byte, before sum) frame {
	f := frame{ours: [8]byte(b[8:16]) == h.salt, commit: binary.BigEndian.Uint32(b[4:]) != 0, stored: storedSum(b[16:])}
	f.real = before.add(h.order, b[:8]).add(h.order, b[frameHeaderSize:])
	f.follow = f.real == f.stored && binary.BigEndian.Uint32(b) != 0
	return f
}

// scan is what reading a log found. Frames count from 1.
type scan struct {
	header  header
	size    int64 // bytes of the file
	good    int64 // the last frame of the last whole transaction before bad: here SQLite ends
	sums    sum   // the checksum of frame good
	bad     int64 // the first frame that is not as it was written; 0: there is none
	badIs   string
	proof   int64  // a frame behind bad that was written when an earlier transaction behind bad was durable; 0: none
	claimed sum    // the checksum of frame at, if that is asked for
	pages   *pages // where the newest pages are, if that is asked for
}

// read reads the log's frames. at names a frame whose checksum is wanted.
func (s *scan) read(file *os.File, at int64) error {
	in := bufio.NewReaderSize(file, 64<<10)
	if _, err := in.Discard(headerSize); err != nil {
		return err
	}
	b := make([]byte, frameHeaderSize+s.header.page)
	before, last := s.header.sum, frame{}
	for n := int64(1); ; n++ {
		switch _, err := io.ReadFull(in, b); {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			if s.bad == 0 {
				s.bad, s.badIs = n, "is cut off"
			}
			return nil
		case err != nil:
			return err
		}
		f := s.header.judge(b, before)
		switch {
		case s.bad == 0 && f.ours && f.follow:
			if f.commit {
				s.good, s.sums = n, f.stored
			}
			s.pages.note(n, b)
			if n == at {
				s.claimed = f.stored
			}
		case s.bad == 0:
			s.bad, s.badIs = n, "has another checksum than it was written with"
			if !f.ours {
				s.badIs = "is not of this log"
			}
			last = f
		default:
			s.link(n, b, f, last)
			last = f
		}
		before = f.stored
	}
}

// link looks whether frame n, behind a bad one, was written after a transaction behind the last good one was durable: it
// continues the checksum of a frame that ends one. Frames that an interrupted commit left behind do not: there is no
// commit between them, and what was written over them continues another checksum.
func (s *scan) link(n int64, b []byte, f, last frame) {
	switch {
	case s.proof != 0 || !last.commit || !f.ours:
	case f.follow && (last.follow || last.ours && !s.torn(n-1)):
		s.proof = n
	case n == s.bad+1 && s.header.judge(b, last.real).follow: // of the first bad frame it was the checksum itself, or the salt
		s.proof = n
	}
}

// torn says whether the end of a transaction that a frame's header shows may be older than the rest of the header: what lies in one
// sector reaches the disk together, or not at all.
func (s *scan) torn(n int64) bool {
	at := headerSize + (n-1)*int64(frameHeaderSize+s.header.page)
	return (at+8)%sector == 0
}

const sector = 512 // bytes, of the smallest disks
