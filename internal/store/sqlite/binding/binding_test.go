package binding_test

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"

	"agentkernel/internal/store/sqlite/binding"
)

func open(t *testing.T, uri string) *binding.DB {
	t.Helper()
	db, err := binding.Open(uri)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func prepare(t *testing.T, db *binding.DB, sql string) *binding.Stmt {
	t.Helper()
	s, err := db.Prepare(sql)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // before its connection
	return s
}

// rows are copies of what a statement gives.
func rows(t *testing.T, s *binding.Stmt, values ...driver.Value) (all [][]driver.Value) {
	t.Helper()
	var dest []driver.Value
	if err := s.Query(values, func() error {
		dest = s.Row(dest)
		all = append(all, append([]driver.Value(nil), dest...))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// checkError says whether SQLite refused with a code, in words that have part.
func checkError(t *testing.T, err error, code int, part string) {
	t.Helper()
	e, ok := errors.AsType[*binding.Error](err)
	if !ok || e.Code&0xff != code || !strings.Contains(e.Error(), part) {
		t.Errorf("%v; want code %d and %q", err, code, part)
	}
}

// TestValues: what is bound comes back as it was, whatever its kind and size, and however often.
func TestValues(t *testing.T) {
	db := open(t, "file:"+filepath.Join(t.TempDir(), "a.db"))
	s := prepare(t, db, "SELECT ?, ?, ?")
	large := bytes.Repeat([]byte{0, 1, 255}, 100_000)
	for _, v := range []driver.Value{nil, int64(0), int64(-1) << 63, 1.5, "", "a\x00b", "größer", []byte{}, []byte{0}, large, string(large[1:3]), strings.Repeat("x", 70_000)} {
		for _, next := range []driver.Value{int64(7), "next", []byte("next")} {
			got := rows(t, s, v, next, nil)
			if b, ok := v.([]byte); ok && len(b) == 0 {
				if v = []byte(nil); got[0][0] == nil {
					t.Error("no bytes became NULL")
				}
			}
			if want := [][]driver.Value{{v, next, nil}}; !reflect.DeepEqual(got, want) {
				t.Errorf("%.40v came back as %.80v", want, got)
			}
			if v == nil {
				continue
			}
			if b, ok := v.([]byte); ok && b == nil {
				v = []byte{}
			}
		}
	}
	if got := rows(t, s, []byte(nil), true, false); !reflect.DeepEqual(got, [][]driver.Value{{nil, int64(1), int64(0)}}) {
		t.Errorf("NULL, true and false came back as %v", got)
	}
	if err := s.Exec([]driver.Value{int64(1)}); err == nil || !strings.Contains(err.Error(), "1 arguments where there are 3 parameters") {
		t.Error(err)
	}
	if err := s.Exec([]driver.Value{1, nil, nil}); err == nil || !strings.Contains(err.Error(), "argument 1 is a int") {
		t.Error(err)
	}
}

// TestStatements: several in a script, one in another's rows, one that is stopped, and what a change of tables does to them.
func TestStatements(t *testing.T) {
	db := open(t, "file:memory?mode=memory")
	if err := db.Script("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT) STRICT; -- and\n INSERT INTO t VALUES (1, 'one'), (2, 'two');\n/* no more */ ;"); err != nil {
		t.Fatal(err)
	}
	if n := db.Changes(); n != 2 {
		t.Errorf("%d rows were changed", n)
	}
	all, one := prepare(t, db, "SELECT * FROM t ORDER BY a"), prepare(t, db, "SELECT b FROM t WHERE a = ?")
	var seen []driver.Value
	if err := all.Query(nil, func() error {
		a := all.Row(nil)[0]
		seen = append(seen, rows(t, one, a)[0][0])
		checkError(t, all.Exec(nil), sqlite3.SQLITE_MISUSE, "runs already")
		return nil
	}); err != nil || !reflect.DeepEqual(seen, []driver.Value{"one", "two"}) {
		t.Errorf("%v, %v", seen, err)
	}
	stop := errors.New("stop")
	if err := all.Query(nil, func() error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	if err := db.Script("ALTER TABLE t ADD COLUMN c TEXT; DROP TABLE IF EXISTS u"); err != nil { // it could not, if a statement still ran
		t.Fatal(err)
	}
	if got := rows(t, all); len(got) != 2 || len(got[0]) != 3 {
		t.Errorf("a statement of before the change gives %v", got)
	}
	if names := all.Columns(); !reflect.DeepEqual(names, []string{"a", "b", "c"}) {
		t.Errorf("columns %v", names)
	}
	if _, err := db.Prepare(" -- nothing"); err == nil {
		t.Error("nothing was prepared")
	}
	_, err := db.Prepare("SELECT 1; SELECT 2")
	checkError(t, err, sqlite3.SQLITE_MISUSE, "more than one statement")
	if got := rows(t, prepare(t, db, "SELECT 1; -- and\n ; ")); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// TestErrors: SQLite's codes and words, of the call that failed.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := binding.Open("file:" + filepath.Join(dir, "no", "a.db"))
	checkError(t, err, sqlite3.SQLITE_CANTOPEN, "unable to open database file (14)")
	db := open(t, "file:"+filepath.Join(dir, "a.db"))
	checkError(t, db.Script("CREATE TABLE t(a INTEGER PRIMARY KEY) STRICT; INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)"),
		sqlite3.SQLITE_CONSTRAINT, "UNIQUE constraint failed: t.a (1555)")
	_, err = db.Prepare("SELECT missing FROM t")
	checkError(t, err, sqlite3.SQLITE_ERROR, "no such column: missing")
	insert := prepare(t, db, "INSERT INTO t VALUES (?)")
	checkError(t, insert.Exec([]driver.Value{int64(1)}), sqlite3.SQLITE_CONSTRAINT, "UNIQUE")
	if err := insert.Exec([]driver.Value{int64(2)}); err != nil {
		t.Errorf("after a failure: %v", err)
	}
	other := open(t, "file:"+filepath.Join(dir, "a.db"))
	if err := db.Script("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	checkError(t, other.Script("INSERT INTO t VALUES (3)"), sqlite3.SQLITE_BUSY, "database is locked")
	if err := db.Script("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := other.Script("INSERT INTO t VALUES (3)"); err != nil {
		t.Error(err)
	}
	readOnly := open(t, "file:"+filepath.Join(dir, "a.db")+"?mode=ro")
	checkError(t, readOnly.Script("DELETE FROM t"), sqlite3.SQLITE_READONLY, "readonly")
}

// TestRestrict: what is not allowed is not compiled, and on this connection alone.
func TestRestrict(t *testing.T) {
	db, free := open(t, "file:a?mode=memory"), open(t, "file:b?mode=memory")
	db.Restrict(func(action binding.Action, _, arg2 string) bool {
		return action == binding.ActionSelect || action == binding.ActionFunction && arg2 == "abs"
	})
	if got := rows(t, prepare(t, db, "SELECT abs(-1)")); got[0][0] != int64(1) {
		t.Errorf("%v", got)
	}
	_, err := db.Prepare("SELECT upper('a')")
	checkError(t, err, sqlite3.SQLITE_ERROR, "not authorized to use function: upper")
	checkError(t, db.Script("CREATE TABLE t(a)"), sqlite3.SQLITE_AUTH, "not authorized")
	if err := free.Script("CREATE TABLE t(a)"); err != nil {
		t.Error(err)
	}
	if db.Restrict(nil); db.Script("CREATE TABLE t(a)") != nil {
		t.Error("the restriction was not taken away")
	}
}

// TestUntil: a statement without end ends with the context, in the middle of a step and between two, and the next one runs.
func TestUntil(t *testing.T) {
	const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT %s FROM n"
	db := open(t, "file:a?mode=memory")
	for _, what := range []string{"count(*)", "i"} {
		ctx, cancel := context.WithCancel(t.Context())
		release := db.Until(ctx)
		s := prepare(t, db, fmt.Sprintf(endless, what))
		if what == "count(*)" {
			go cancel() // while it computes its only row, or before
		}
		n := 0
		err := s.Query(nil, func() error {
			if n++; n == 3 {
				cancel()
			}
			return nil
		})
		release()
		checkError(t, err, sqlite3.SQLITE_INTERRUPT, "interrupted")
		cancel()
	}
	if got := rows(t, prepare(t, db, "SELECT 1")); got[0][0] != int64(1) {
		t.Errorf("%v", got)
	}
}

// TestUntilInOneInstruction: to count a table is one instruction, in which SQLite looks whether it was interrupted, and for nothing else.
func TestUntilInOneInstruction(t *testing.T) {
	db := open(t, "file:"+filepath.Join(t.TempDir(), "a.db"))
	if err := db.Script("PRAGMA page_size = 512; PRAGMA synchronous = OFF; CREATE TABLE t(a); " +
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) INSERT INTO t SELECT i FROM n"); err != nil {
		t.Fatal(err)
	}
	count := prepare(t, db, "SELECT count(*) FROM t")
	for range 1000 { // it may be over sooner
		ctx, cancel := context.WithCancel(t.Context())
		release := db.Until(ctx)
		go cancel()
		err := count.Exec(nil)
		release()
		if cancel(); err != nil {
			checkError(t, err, sqlite3.SQLITE_INTERRUPT, "interrupted")
			return
		}
	}
	t.Error("none of a thousand was ended")
}
