package journal

import (
	"hash/crc32"
	"sync"
	"weak"
)

// What a canonizer finds out about a long text on the way is asked for again by others, who have that very text: its checksum, and with how
// many of its bytes the text before began. It is noted by where a text is in memory, which is not changed any more, and no text is kept for it.

// Name names a text that is not changed any more, for as long as that is somewhere: no other has its name, then or later.
type Name struct {
	at   weak.Pointer[byte]
	size int
}

// NameOf gives the name of a long text; short ones have none.
func NameOf(text []byte) Name {
	if len(text) < LongText {
		return Name{}
	}
	return Name{weak.Make(&text[0]), len(text)}
}

// noted is what is known of a text.
type noted struct {
	sum    uint32
	before Name
	same   int // bytes that the text and the one before begin with
}

// mostNotes bounds notes. Whoever asks does it soon.
const mostNotes = 256

var notes = struct {
	sync.Mutex
	of   map[Name]noted
	ring [mostNotes]Name
	next int
}{of: map[Name]noted{}}

// note notes something of a text.
func note(text []byte, n noted) {
	name := NameOf(text)
	if name == (Name{}) { // it was long as it was given
		return
	}
	notes.Lock()
	defer notes.Unlock()
	delete(notes.of, notes.ring[notes.next])
	notes.ring[notes.next] = name
	notes.next = (notes.next + 1) % mostNotes
	notes.of[name] = n
}

// Checksum is the CRC-32C of a text that is not changed any more.
func Checksum(text []byte) uint32 {
	if n, ok := notedOf(text); ok {
		return n.sum
	}
	return crc32.Checksum(text, castagnoli)
}

// Since is with how many bytes a text begins as the one of a name did, as far as that is known without comparing them; else 0.
func Since(text []byte, before Name) int {
	if n, ok := notedOf(text); ok && n.before == before {
		return n.same
	}
	return 0
}

func notedOf(text []byte) (n noted, ok bool) {
	name := NameOf(text)
	if name == (Name{}) {
		return n, false
	}
	notes.Lock()
	defer notes.Unlock()
	n, ok = notes.of[name]
	return n, ok
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumStep is how often a checksum is remembered, in bytes.
const sumStep = 8 << 10

// sums are checksums of what a text begins with, each of sumStep bytes more than the one before.
type sums []uint32

// grow gives the checksum of a text that begins with so many bytes of the one of which the sums are, and makes them those of the text.
func (s *sums) grow(text []byte, same int) (sum uint32) {
	*s = (*s)[:min(len(*s), same/sumStep)]
	if n := len(*s); n > 0 {
		sum, text = (*s)[n-1], text[n*sumStep:]
	}
	for ; len(text) >= sumStep; text = text[sumStep:] {
		sum = crc32.Update(sum, castagnoli, text[:sumStep])
		*s = append(*s, sum)
	}
	return crc32.Update(sum, castagnoli, text)
}
