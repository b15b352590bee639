package sqlite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
)

// header is the beginning of a database file: https://www.sqlite.org/fileformat2.html#the_database_header
type header [100]byte

// readHeader reads that of a file; false: it has none, or one of something else.
func readHeader(path string) (h header, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return h, false
	}
	defer f.Close()
	_, err = io.ReadFull(f, h[:])
	return h, err == nil && bytes.HasPrefix(h[:], []byte("SQLite format 3\x00"))
}

func (h *header) uint32(at int) uint32 { return binary.BigEndian.Uint32(h[at:]) }

// foundedOnly says that it is of a database whose tables have only ever been in its log.
func (h *header) foundedOnly() bool {
	const cookie, version, app = 40, 60, 68 // each change of the tables changes the first
	return h[18] == 2 && h.uint32(cookie) == 0 && h.uint32(version) == 0 && h.uint32(app) == 0
}

// damage says which fields have values that no version of SQLite writes; "": none.
func (h *header) damage() string {
	var wrong []string
	for _, f := range []struct {
		at, last int
		what     string
		is, most uint32
	}{
		{18, 18, "version for writing", uint32(h[18]), 2},
		{19, 19, "version for reading", uint32(h[19]), 2},
		{44, 47, "format of the schema", h.uint32(44), 4},
	} {
		if f.is > f.most {
			where := fmt.Sprintf("byte %d", f.at)
			if f.last > f.at {
				where = fmt.Sprintf("bytes %d to %d", f.at, f.last)
			}
			wrong = append(wrong, fmt.Sprintf("the %s in its header (%s) is %d, and %d is the greatest that there is", f.what, where, f.is, f.most))
		}
	}
	return strings.Join(wrong, "; ")
}

// headerDamage is that of the database at path, of which SQLite says little; "": there is none.
func headerDamage(path string) string {
	if h, ok := readHeader(path); ok {
		return h.damage()
	}
	return ""
}

// checkVersion compares what the header says of the tables, which is in two numbers, with the tables. A version that is not one, or
// newer than what is known, says enough by itself.
func checkVersion(c *conn, path string, app, version int64, known int) error {
	ours, err := c.int("SELECT count(*) = 4 FROM sqlite_schema WHERE type = 'table' AND name IN ('migrations', 'meta', 'processes', 'entries')")
	if err != nil || ours == 0 {
		return explain(path, err)
	}
	if app != applicationID {
		return errDoesNotFit(path, fmt.Sprintf("its tables are those of AgentKernel, and its header (bytes 68 to 71) says that another program made it, %#x", uint32(app))) //nolint:gosec // SQLite has it with a sign
	}
	if version <= 0 || version > int64(known) {
		return nil
	}
	made, err := c.int("SELECT coalesce(max(version), 0) FROM migrations")
	if err != nil {
		return explain(path, err)
	}
	if made != version {
		return errDoesNotFit(path, fmt.Sprintf("its tables are those of schema version %d, and its header (bytes 60 to 63) says %d", made, version))
	}
	return nil
}
