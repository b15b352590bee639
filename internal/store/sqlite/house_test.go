package sqlite

import (
	"context"
	"encoding/hex"
	"testing"

	"agentkernel/internal/store/blob"
)

// checkHouse fails unless every blob that a column names is there, counted rightly, and nothing else is: no
// file, row of a pruned process, or program without a name.
func checkHouse(t failer, s *Store) {
	t.Helper()
	named := map[string]int64{}
	files := map[string]bool{}
	if err := s.writer.blobs.List(context.Background(), func(i blob.Item) error {
		files[hex.EncodeToString(i.Sum[:])+i.Partial] = true
		return nil
	}); err != nil {
		t.Fatalf("list: %v", err)
	}
	err := s.reads.do(context.Background(), func(c *conn) error {
		clear(named)
		for _, column := range []string{"args FROM entries", "data FROM entries", "result FROM processes", "source FROM programs", "modules FROM programs", "blob FROM images", "text FROM parts"} {
			if err := c.query(func(r row) error {
				if b := r.blob(0); b != nil && !(column == "args FROM entries" && isSpans(b)) {
					named[hex.EncodeToString(b)]++
				}
				return nil
			}, "SELECT "+column); err != nil {
				return err
			}
		}
		rows := 0
		if err := c.query(func(r row) error {
			rows++
			if name := hex.EncodeToString(r.blob(0)); r.int(1) != named[name] {
				t.Errorf("blob %.8s has %d references, and %d columns name it", name, r.int(1), named[name])
			}
			return nil
		}, "SELECT sha256, refs FROM blobs"); err != nil {
			return err
		}
		if rows != len(named) || len(files) != len(named) {
			t.Errorf("%d blobs are named, %d are in the table, %d files are there", len(named), rows, len(files))
		}
		for name := range named {
			if !files[name] {
				t.Errorf("blob %.8s is named and not there", name)
			}
		}
		return nothingElse(t, c)
	})
	if err != nil {
		t.Fatalf("house: %v", err)
	}
}

func nothingElse(t failer, c *conn) error {
	for what, query := range map[string]string{
		"leftovers":              "SELECT count(*) FROM leftovers",
		"journals of the pruned": "SELECT count(*) FROM entries e JOIN pruned p ON e.pid BETWEEN p.first AND p.last",
		"texts of the pruned":    "SELECT count(*) FROM parts e JOIN pruned p ON e.pid BETWEEN p.first AND p.last",
		"states of the pruned":   "SELECT count(*) FROM state e JOIN pruned p ON e.pid BETWEEN p.first AND p.last",
		"images of the pruned":   "SELECT count(*) FROM images e JOIN pruned p ON e.pid BETWEEN p.first AND p.last",
		"the pruned alive":       "SELECT count(*) FROM processes e JOIN pruned p ON e.pid BETWEEN p.first AND p.last",
		"programs of nobody":     "SELECT count(*) FROM programs WHERE id NOT IN (SELECT program FROM processes) AND id NOT IN (SELECT program FROM image_bases)",
		"wrong totals":           "SELECT abs(bytes - (SELECT coalesce(sum(size), 0) FROM blobs)) + abs(files - (SELECT count(*) FROM blobs)) FROM totals",
	} {
		n, err := c.int(query)
		if err != nil {
			return err
		}
		if n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	return nil
}

// failer is a test, or one draw of a property.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

var _ failer = (*testing.T)(nil)
