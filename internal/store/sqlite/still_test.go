package sqlite

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"agentkernel"
	"agentkernel/internal/store/sqlite/wal"
)

// While no kernel runs, a reader changes no byte of what a killed one left, whatever became of it: SQLite would rewrite the index of the
// log, which says how far the log went.
func TestAReaderLeavesTheEvidence(t *testing.T) {
	_, after := written(t, 6)
	log, ends := after["-wal"], after.transactions()
	flipped := slices.Clone(log)
	flipped[32+(ends[len(ends)-3]-1)*after.frame()+200] ^= 1
	headless := slices.Clone(log)
	headless[3] ^= 1
	for _, c := range []struct {
		name    string
		change  picture
		entries int // -1: it cannot be read
	}{
		{"as it was left", nil, 6},
		{"the index is gone", picture{"-shm": nil}, 6},
		{"the log was cut at a transaction's end", picture{"-wal": log[:32+ends[len(ends)-3]*after.frame()]}, -2},
		{"the log was cut in a frame", picture{"-wal": log[:32+ends[len(ends)-3]*after.frame()+100]}, -2},
		{"a byte of the log was changed", picture{"-wal": flipped}, -2},
		{"the header of the log was changed", picture{"-wal": headless}, -1},
		{"the log is missing", picture{"-wal": nil}, -1},
		{"the log was emptied", picture{"-wal": {}}, -1},
		{"the database was emptied", picture{"": {}}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := after.put(t, c.change).alone()
			cfg.Key = nil
			dir := filepath.Dir(cfg.Path)
			before := files(t, dir)
			damage := fmt.Sprint(CheckLog(t.Context(), cfg))
			r, err := OpenReader(t.Context(), cfg)
			if (err != nil) != (c.entries == -1) {
				t.Fatalf("opened: %v", err)
			}
			if err == nil {
				list, err := r.Entries(t.Context(), 1, 1, 0)
				if err != nil || c.entries > 0 && len(list) != c.entries || c.entries == -2 && (len(list) == 0 || len(list) == 6) {
					t.Errorf("%d entries, %v", len(list), err)
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if q, err := OpenQuery(t.Context(), cfg); err == nil {
				if _, err := q.Run(t.Context(), "SELECT count(*), max(at) FROM calls ORDER BY 2 DESC", 0); err != nil {
					t.Error(err)
				}
				if err := q.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if again := fmt.Sprint(CheckLog(t.Context(), cfg)); again != damage {
				t.Errorf("it was said to be %s, and after reading %s", damage, again)
			}
			if now := files(t, dir); !maps.Equal(before, now) {
				t.Errorf("files %v became %v, or their content changed", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(now)))
			}
		})
	}
}

// What is read past SQLite is what SQLite reads, also of a log that was begun anew and of one that is in the database already.
func TestAViewIsTheDatabase(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	for i := range 40 {
		if err := appendFlush(s, note(1, int64(i+1), i*700%9000)); err != nil {
			t.Fatal(err)
		}
		if i%7 == 6 {
			if err := s.work(func(w *writer) error { return w.checkpoint() }); err != nil {
				t.Fatal(err)
			}
		}
		still := takePicture(t, cfg.Path).put(t, nil)
		want, err := s.Entries(t.Context(), 1, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		r := mustRead(t, still.alone())
		got, err := r.Entries(t.Context(), 1, 1, 0)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("after commit %d: %d entries, %v; want %d", i, len(got), err, len(want))
		}
		c, err := dialView(still.Path)
		if err != nil {
			t.Fatal(err)
		}
		if row, _, err := c.one("PRAGMA integrity_check"); err != nil || row.text(0) != "ok" {
			t.Fatalf("after commit %d: %v, %v", i, row, err)
		}
		if err := c.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A kernel that starts while somebody reads the files as they are ends that: the next read agrees with it.
func TestAKernelStartsUnderAReader(t *testing.T) {
	_, after := written(t, 6)
	cfg := after.put(t, nil)
	idle := true
	reading := cfg
	reading.Idle = func() bool { return idle }
	r := mustRead(t, reading)
	checkLength(t, r, 1, 6)
	s := mustOpen(t, cfg)
	idle = false
	for n := int64(7); n < 10; n++ {
		if err := appendFlush(s, note(1, n, 5000)); err != nil {
			t.Fatal(err)
		}
		checkLength(t, r, 1, int(n))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	idle = true
	checkLength(t, r, 1, 9)
}

// The tables of a database that was never closed are in its log: without it there are none, and that is no unfinished beginning.
func TestTheTablesWereInTheLog(t *testing.T) {
	cfg := testConfig(t.TempDir())
	mustOpen(t, cfg)
	left := takePicture(t, cfg.Path)
	for _, c := range []struct {
		name   string
		change picture
		words  string
	}{
		{"missing", picture{"-wal": nil}, "is missing"},
		{"missing with the index", picture{"-wal": nil, "-shm": nil}, "the log is missing, and its tables were durable"},
		{"empty, without the index", picture{"-wal": {}, "-shm": nil}, "the log is empty, and its tables were durable"},
		{"nothing but the database", picture{"-wal": nil, "-shm": nil, "-mark": nil}, "the log is missing, and the tables were in it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := left.put(t, c.change)
			for _, err := range []error{CheckLog(t.Context(), cfg), second(Open(t.Context(), cfg))} {
				checkError(t, err, agentkernel.CodeCorrupt, c.words, "recover --accept-loss")
				if !IsDamaged(err) {
					t.Error("it is not known as damage")
				}
			}
		})
	}
	// What a kernel leaves that died before its tables were durable is whole.
	early := left.put(t, picture{"-wal": {}, "-shm": nil, "-mark": place{}.encode(nil)})
	if err := CheckLog(t.Context(), early); err != nil {
		t.Error(err)
	}
	checkError(t, second(OpenReader(t.Context(), early.alone())), agentkernel.CodeVersion, "has no tables", "agentkernel recover")
	mustOpen(t, early)
	if d, err := wal.Check(left.put(t, nil).Path); d != nil || err != nil {
		t.Error(d, err)
	}
}

func second[T any](_ T, err error) error { return err }
