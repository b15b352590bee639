package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Damage is what is wrong with a log.
type Damage struct {
	Log   string // its path
	What  string // a sentence: "frame 12 of 53 has another checksum ..."
	Frame int64  // the first frame that is lost; 0: the whole log is
	Good  int64  // so many frames in front of it are whole transactions
	Moved int64  // so many frames are known to be in the database, whatever becomes of the log
}

// IndexPath is where SQLite keeps the index of the log of a database.
func IndexPath(database string) string { return database + "-shm" }

// Path is where SQLite keeps the log of a database.
func Path(database string) string { return database + "-wal" }

// Check says what is wrong with the log of a database that is not open, nil if nothing is: a log that ends in the middle of
// its last transaction is as it should be. It reads the log once.
func Check(database string) (*Damage, error) {
	d, _, err := check(database, nil)
	return d, err
}

func check(database string, p *pages) (*Damage, *scan, error) {
	known, err := readClaim(IndexPath(database))
	if err != nil {
		return nil, nil, err
	}
	d := &Damage{Log: Path(database), Moved: known.moved}
	moved := known.moved >= known.frames // all that is known of
	file, err := os.Open(d.Log)
	if errors.Is(err, fs.ErrNotExist) {
		if moved {
			return nil, nil, nil
		}
		d.What = fmt.Sprintf("the log is missing; it had at least %d frames", known.frames)
		return d, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	s, err := readLog(file, known, p)
	if err != nil || s == nil && moved {
		return nil, s, err
	}
	d.What, d.Frame = s.compare(known)
	if d.What == "" {
		return nil, s, nil
	}
	if s != nil {
		d.Good = s.good
	}
	return d, s, nil
}

// readLog reads a log, and notes in p where its pages are; nil: it is too short to be one.
func readLog(file *os.File, known claim, p *pages) (*scan, error) {
	info, err := file.Stat()
	if err != nil || info.Size() < headerSize {
		return nil, err
	}
	var b [headerSize]byte
	if _, err := io.ReadFull(file, b[:]); err != nil {
		return nil, err
	}
	s := &scan{size: info.Size(), pages: p}
	var sound bool
	if s.header, sound = parseHeader(b[:]); !sound {
		s.header.page = 0
		return s, nil
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return s, s.read(file, known.frames)
}

// compare says what a log lacks, by its own evidence and by what is known of it: in words, and the first frame that is lost.
// "": nothing.
func (s *scan) compare(known claim) (what string, frame int64) {
	switch {
	case s == nil:
		return fmt.Sprintf("the log was emptied; it had at least %d frames", known.frames), 0
	case s.header.page == 0 && s.size > headerSize, s.header.page == 0 && known.frames > 0: // the header is durable before the first frame is written
		return "the header of the log is damaged", 0
	case s.proof != 0:
		return fmt.Sprintf("frame %d of %d %s, and later transactions follow it", s.bad, s.frames(), s.badIs), s.good + 1
	case s.header.page == 0, known.frames == 0, begunLater(s.header.salt, known.salt): // what is known is of an earlier log
		return "", 0
	case s.header.salt != known.salt:
		return fmt.Sprintf("the log is not the newest: another one with at least %d frames followed it", known.frames), 0
	case s.good >= known.frames && s.claimed == known.sum:
		return "", 0
	case s.good >= known.frames:
		return fmt.Sprintf("frame %d of %d is not the one that was written", known.frames, s.frames()), 1
	case s.bad != 0 && s.bad <= known.frames:
		return fmt.Sprintf("frame %d of at least %d %s", s.bad, known.frames, s.badIs), s.good + 1
	}
	return fmt.Sprintf("the log was cut off after frame %d; it had at least %d", s.frames(), known.frames), s.good + 1
}

// frames is how many whole frames the file has room for.
func (s *scan) frames() int64 {
	if s.header.page == 0 {
		return 0
	}
	return (s.size - headerSize) / int64(frameHeaderSize+s.header.page)
}
