package wal

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
)

// View is a database as it stands with its log: one file, of which each page is the newest that a whole transaction wrote.
// It is right for as long as no process writes the database.
type View struct {
	database, log *os.File // log is nil where the database has all there is
	page          int64    // bytes
	at            map[uint32]int64
	size          int64
}

// pages notes where in a log the newest version of each page is. A nil one notes nothing.
type pages struct {
	at      map[uint32]int64 // by number of the page, from 1; of whole transactions
	size    uint32           // pages of the database after the last of those
	pending map[uint32]int64 // of the transaction that is being read
}

func (p *pages) note(frame int64, b []byte) {
	if p == nil {
		return
	}
	if p.at == nil {
		p.at, p.pending = map[uint32]int64{}, map[uint32]int64{}
	}
	p.pending[binary.BigEndian.Uint32(b)] = headerSize + (frame-1)*int64(len(b)) + frameHeaderSize
	if size := binary.BigEndian.Uint32(b[4:]); size != 0 {
		maps.Copy(p.at, p.pending)
		clear(p.pending)
		p.size = size
	}
}

// OpenView opens a database for reading, with what is whole of its log. It opens both files and writes neither. The
// caller closes it.
func OpenView(database string) (_ *View, err error) {
	v := &View{}
	if v.database, err = os.Open(database); err != nil {
		return nil, err
	}
	if err = v.read(database); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

func (v *View) read(database string) error {
	info, err := v.database.Stat()
	if err != nil {
		return err
	}
	v.size = info.Size()
	if v.size == 0 { // SQLite, too, ignores the log of a database that has nothing
		return nil
	}
	if v.log, err = os.Open(Path(database)); errors.Is(err, fs.ErrNotExist) {
		v.log = nil
		return nil
	} else if err != nil {
		return err
	}
	known, err := readClaim(IndexPath(database))
	if err != nil {
		return err
	}
	p := &pages{}
	s, err := readLog(v.log, known, p)
	if err != nil || s == nil || s.good == 0 {
		return err
	}
	if known.salt == s.header.salt && known.moved > s.good { // its pages are older than those in the database
		return nil
	}
	v.page, v.at, v.size = int64(s.header.page), p.at, int64(p.size)*int64(s.header.page)
	return nil
}

// Size is how long the database is with its log, in bytes.
func (v *View) Size() int64 { return v.size }

// ReadAt reads from the newest version of each page.
func (v *View) ReadAt(b []byte, off int64) (n int, err error) {
	if v.page == 0 {
		return v.database.ReadAt(b, off)
	}
	for n < len(b) && err == nil {
		at := off + int64(n)
		if at >= v.size {
			return n, io.EOF
		}
		within := at % v.page
		part := b[n:min(len(b), n+int(v.page-within))]
		from, in := at, v.database
		if frame, ok := v.at[uint32(at/v.page)+1]; ok { //nolint:gosec // SQLite counts pages in 32 bits
			from, in = frame+within, v.log
		}
		var k int
		k, err = in.ReadAt(part, from)
		n += k
		if k == len(part) {
			err = nil
		}
	}
	return n, err
}

// Close closes the files.
func (v *View) Close() error {
	err := v.database.Close()
	if v.log != nil {
		err = errors.Join(err, v.log.Close())
	}
	return err
}
