package sqlite

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"unicode/utf8"

	"agentkernel"
)

// How conversations are kept. Each turn of a conversation is a call whose arguments hold all of it again. So the arguments of
// paid calls are not written as they are: a process has one text (the table parts) to which only what it does not have yet is
// appended, and the column args says where in it the arguments stand. No two processes share a text, so that what is pruned
// takes nothing from others, and what is told of one tells nothing of another.
//
// A text is named by bytes, and what is compared are bytes: nothing here knows what a message is. Where a call is cut, so that
// its pieces are found again, is a guess ([isCut]); a wrong one costs space.

const (
	// minShared and maxShared bound the arguments that are kept so, in bytes: what is shorter gains nothing, what is longer is a blob.
	minShared = 1 << 10
	maxShared = 4 << 20
	// maxSpans bounds the pieces that one call is put together from; one that would need more is appended whole. Reading an entry
	// costs as many lookups, and writing it some ten bytes each.
	maxSpans = 128
	// minSpan is the least that is worth a span of its own, in bytes.
	minSpan = 64
	// partSize is how large a part grows, in bytes: with its columns a row fills a page of the database.
	partSize = 4000
)

// span is a piece of a process's text, in bytes.
type span struct{ start, size int64 }

func (s span) end() int64 { return s.start + s.size }

// join puts a span behind others, or makes the last one longer.
func join(list []span, s span) []span {
	if s.size == 0 {
		return list
	}
	if n := len(list); n > 0 && list[n-1].end() == s.start {
		list[n-1].size += s.size
		return list
	}
	return append(list, s)
}

// spansColumn is the value of args: a JSON array of the CRC-32C of the arguments and of pairs of where a span begins and how
// long it is. It is of type blob, so that what looks for text does not take it for one, and never as long as the name of a blob.
func spansColumn(args []byte, list []span) []byte {
	out := fmt.Appendf(nil, "[%d", checksum(args))
	for _, s := range list {
		out = fmt.Appendf(out, ",[%d,%d]", s.start, s.size)
	}
	out = append(out, ']')
	if len(out) == sha256.Size {
		out = append(out, ' ')
	}
	return out
}

func checksum(args []byte) uint32 { return crc32.Checksum(args, crc32.MakeTable(crc32.Castagnoli)) }

// isSpans says whether a column of type blob holds what spansColumn gave; else it names a blob.
func isSpans(column []byte) bool { return len(column) != sha256.Size }

// parseSpans reads what spansColumn gave. It takes nothing that would be more than arguments may be.
func parseSpans(column []byte) (sum uint32, list []span, size int64, err error) {
	var items []json.RawMessage
	if err := json.Unmarshal(column, &items); err != nil || len(items) < 2 || len(items) > maxSpans+1 {
		return 0, nil, 0, errSpans("its arguments are in no list of spans")
	}
	if err := json.Unmarshal(items[0], &sum); err != nil {
		return 0, nil, 0, errSpans("its arguments have no checksum")
	}
	for _, item := range items[1:] {
		var pair []int64
		if err := json.Unmarshal(item, &pair); err != nil || len(pair) != 2 {
			return 0, nil, 0, errSpans("its arguments are in a span that is none")
		}
		s := span{pair[0], pair[1]}
		if s.start < 0 || s.size < 1 || s.size > maxShared || s.end() < s.start || size+s.size > maxShared {
			return 0, nil, 0, errSpans("its arguments are in a span at %d of %d bytes", s.start, s.size)
		}
		size += s.size
		list = append(list, s)
	}
	return sum, list, size, nil
}

func errSpans(format string, args ...any) error {
	return agentkernel.Errorf(agentkernel.CodeCorrupt, "store", format, args...)
}

// isCut says whether a new piece begins at i: between the objects of a list, and behind the last one. In canonical JSON no
// string has these bytes but where an object is written in it, and then a cut does no harm.
func isCut(b []byte, i int) bool {
	if i <= 0 || i >= len(b) || b[i-1] != '}' {
		return false
	}
	return b[i] == ']' || bytes.HasPrefix(b[i:], []byte(`,{"`))
}

// nextCut is the first cut from i on, or the end.
func nextCut(b []byte, i int) int {
	if isCut(b, i) {
		return i
	}
	for i < len(b) {
		at := bytes.IndexByte(b[i:], '}')
		if at < 0 {
			break
		}
		if i += at + 1; isCut(b, i) {
			return i
		}
	}
	return len(b)
}

// maxBack is how far behind the place up to which two texts are equal a cut may be, in bytes; beyond, the place itself is one.
const maxBack = 1 << 10

// cutBefore is where to cut what is shared up to n.
func cutBefore(b []byte, n int) int {
	for i := n; i > max(0, n-maxBack); i-- {
		if isCut(b, i) {
			return i
		}
	}
	if n <= maxBack {
		return 0
	}
	return runeStart(b, n)
}

// cutAfter is where to cut what is shared from n on.
func cutAfter(b []byte, n int) int {
	if isCut(b, n) {
		return n
	}
	if i := nextCut(b[:min(len(b), n+maxBack)], n); i < n+maxBack {
		return i
	}
	for n < len(b) && !utf8.RuneStart(b[n]) {
		n++
	}
	return n
}

// runeStart is n, or where the character begins that n is in the middle of.
func runeStart(b []byte, n int) int {
	for i := n; i > max(0, n-utf8.UTFMax); i-- {
		if i == len(b) || utf8.RuneStart(b[i]) {
			return i
		}
	}
	return n
}

const compareStep = 4 << 10

// commonSuffix is how many bytes two texts end with that are equal.
func commonSuffix(a, b []byte) int {
	n, i := min(len(a), len(b)), 0
	for i+compareStep <= n && bytes.Equal(a[len(a)-i-compareStep:len(a)-i], b[len(b)-i-compareStep:len(b)-i]) {
		i += compareStep
	}
	for i < n && a[len(a)-1-i] == b[len(b)-1-i] {
		i++
	}
	return i
}
