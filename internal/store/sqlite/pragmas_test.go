package sqlite

import (
	"fmt"
	"testing"
)

// What durability rests on is in force on the very connection that writes, also after it has worked.
func TestTheWritersPragmas(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	if err := appendFlush(s, note(1, 1, 10)); err != nil {
		t.Fatal(err)
	}
	for pragma, want := range map[string]string{"synchronous": "2", "fullfsync": "1", "journal_mode": "wal", "locking_mode": "normal", "wal_autocheckpoint": "1000"} {
		err := s.work(func(w *writer) error {
			r, _, err := w.c.one("PRAGMA " + pragma)
			if err != nil {
				return err
			}
			if got := fmt.Sprint(r[0]); got != want {
				t.Errorf("%s is %s, want %s", pragma, got, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
