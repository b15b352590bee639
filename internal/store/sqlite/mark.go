package sqlite

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"strconv"

	"agentkernel"
)

// MarkPath is where it is noted how far the newest commit went, for as long as the database is open for writing. The file is
// gone after an orderly end: one that is there says that the log has to be, too.
func MarkPath(path string) string { return path + "-mark" }

// logMark is that file. It is written after each commit and before anybody hears of it, and never synced: that costs a
// microsecond. A kernel that was killed leaves it exact; a machine that lost power may leave an older one, which is true as well.
type logMark struct {
	file  *os.File
	log   *slog.Logger
	fixed bool // it says what it says until the end: see Config.Lossy
	said  bool // that it cannot be written
	text  []byte
}

// place is an entry that is durable, so that all before it are. The zero value names none.
type place struct {
	pid agentkernel.PID
	seq int64
}

// founded is the place of a mark whose database has its tables, and no entry that this kernel wrote.
var founded = place{0, 1}

// String says what was durable.
func (p place) String() string {
	if p == founded {
		return "its tables were durable"
	}
	return fmt.Sprintf("entry %d of process %d was durable", p.seq, p.pid)
}

// unsettled is the place of a mark whose database has lost something that was not dealt with yet: see AcceptLoss.
var unsettled = place{-1, -1}

const (
	markHead   = "agentkernel mark 1: "
	markFormat = markHead + "%020d %020d"
)

// encode writes markFormat and a checksum, without package fmt, since each commit does.
func (p place) encode(text []byte) []byte {
	text = appendPadded(append(text, markHead...), int64(p.pid))
	text = appendPadded(append(text, ' '), p.seq)
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(text))
	return append(hex.AppendEncode(append(text, ' '), sum), '\n')
}

// appendPadded is %020d.
func appendPadded(text []byte, n int64) []byte {
	const zeros = "00000000000000000000"
	var room [len(zeros)]byte
	digits, width := strconv.AppendInt(room[:0], n, 10), len(zeros)
	if n < 0 {
		text, digits, width = append(text, '-'), digits[1:], width-1
	}
	return append(append(text, zeros[:width-len(digits)]...), digits...)
}

// readMark gives what the mark of a database says; there is false if there is no mark. One that cannot be read says nothing.
func readMark(path string) (p place, there bool, err error) {
	text, err := os.ReadFile(MarkPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return p, false, nil
	}
	if err != nil {
		return p, false, err
	}
	if _, err := fmt.Sscanf(string(text), markFormat, &p.pid, &p.seq); err != nil || string(p.encode(nil)) != string(text) {
		return place{}, true, nil //nolint:nilerr // the power went before it was on the disk
	}
	return p, true, nil
}

// openMark makes the mark, or takes the one that is there, before the database is written to.
func openMark(cfg Config) (*logMark, error) {
	f, err := os.OpenFile(MarkPath(cfg.Path), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	m := &logMark{file: f, log: cfg.Logger, fixed: cfg.Lossy}
	if info, err := f.Stat(); err == nil && info.Size() == 0 {
		m.note(place{})
	}
	return m, nil
}

func (m *logMark) write(p place) error {
	m.text = p.encode(m.text[:0])
	_, err := m.file.WriteAt(m.text, 0)
	return err
}

// committed notes a group that is durable. A mark that cannot be written is older than it could be, and true.
func (m *logMark) committed(group []pending) {
	if m.fixed {
		return
	}
	for i := len(group) - 1; i >= 0; i-- {
		entries := group[i].batch.Entries
		if len(entries) == 0 {
			continue
		}
		m.note(place{group[i].pid, entries[len(entries)-1].Seq})
		return
	}
}

// found notes that the tables are durable, where no entry is known to be.
func (m *logMark) found(path string) {
	if p, _, err := readMark(path); err == nil && p == (place{}) && !m.fixed {
		m.note(founded)
	}
}

func (m *logMark) note(p place) {
	if err := m.write(p); err != nil && !m.said {
		m.said = true
		m.log.Warn("how far the log goes cannot be noted; less damage to it would be noticed", "error", err)
	}
}

// close leaves the mark as it is.
func (m *logMark) close() error { return m.file.Close() }

// end ends the mark of a database that is about to be closed. moved says that everything is in the database file, so that
// the log may go. The mark goes first.
func (m *logMark) end(moved bool) error {
	if moved {
		return errors.Join(m.close(), os.Remove(m.file.Name()))
	}
	var err error
	if m.fixed {
		err = m.write(place{})
	}
	return errors.Join(err, m.close())
}
