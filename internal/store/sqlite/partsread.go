package sqlite

import (
	"cmp"
	"context"
	"slices"

	"agentkernel"
)

// selectParts finds the parts that a span is in.
const selectParts = `SELECT start, size, text FROM parts WHERE pid = ?1 AND start < ?3
AND start >= (SELECT max(start) FROM parts WHERE pid = ?1 AND start <= ?2) ORDER BY start`

// partsReader puts arguments together from the text of a process, in one transaction. It keeps what it has read: the calls of a
// conversation have most of it in common.
type partsReader struct {
	reads *reads
	c     *conn
	pid   agentkernel.PID
	parts []textPart // by start
}

// args gives the arguments that a column says where to find. What is not what was written is CodeCorrupt; with a salvage it is
// nil, and noted there.
func (p *partsReader) args(ctx context.Context, column []byte, lost *salvage) ([]byte, error) {
	sum, list, size, err := parseSpans(column)
	if err != nil {
		return nil, lost.note(err)
	}
	out := make([]byte, 0, size)
	for _, s := range list {
		if out, err = p.add(ctx, out, s); agentkernel.CodeOf(err) == agentkernel.CodeCorrupt {
			return nil, lost.note(err)
		} else if err != nil {
			return nil, err
		}
	}
	if checksum(out) != sum {
		return nil, lost.note(errSpans("its arguments are not those that were written: their CRC-32C is %08x, and not %08x", checksum(out), sum))
	}
	return out, nil
}

// add appends what stands in a span.
func (p *partsReader) add(ctx context.Context, out []byte, s span) ([]byte, error) {
	for at := s.start; at < s.end(); {
		part, ok := p.find(at)
		if !ok {
			if err := p.load(ctx, at, s.end()); err != nil {
				return nil, err
			}
			if part, ok = p.find(at); !ok {
				return nil, errSpans("its arguments are lost: the text of its process has nothing at %d", at)
			}
		}
		end := min(s.end(), part.start+int64(len(part.text)))
		out = append(out, part.text[at-part.start:end-part.start]...)
		at = end
	}
	return out, nil
}

// find finds the part that a place is in among those that were read.
func (p *partsReader) find(at int64) (textPart, bool) {
	i, found := slices.BinarySearchFunc(p.parts, at, func(p textPart, at int64) int { return cmp.Compare(p.start, at) })
	if !found {
		i--
	}
	if i < 0 || at >= p.parts[i].start+int64(len(p.parts[i].text)) {
		return textPart{}, false
	}
	return p.parts[i], true
}

// load reads parts up to a place.
func (p *partsReader) load(ctx context.Context, from, to int64) error {
	return p.c.query(func(v row) error {
		data, err := p.reads.payload(ctx, v[2], nil)
		if err != nil {
			return err
		}
		if int64(len(data)) != v.int(1) {
			return errSpans("the part at %d of the text of its process has %d bytes, and not %d", v.int(0), len(data), v.int(1))
		}
		found := textPart{start: v.int(0), text: data}
		i, known := slices.BinarySearchFunc(p.parts, found.start, func(p textPart, at int64) int { return cmp.Compare(p.start, at) })
		if !known {
			p.parts = slices.Insert(p.parts, i, found)
		}
		return ctx.Err()
	}, selectParts, int64(p.pid), from, to)
}
