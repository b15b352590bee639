package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sqlite3 "modernc.org/sqlite/lib"

	"agentkernel"
	"agentkernel/internal/store/sqlite/binding"
)

// asked is a store with one run in it: an instant call, a tool call, one that failed, one without a result, output.
func asked(t *testing.T) (Config, *Store) {
	t.Helper()
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	at := time.UnixMicro(1_700_000_000_000_000)
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	call := func(n int64, op, args string) agentkernel.Entry {
		return agentkernel.Entry{Kind: agentkernel.EntryCall, Call: n, Op: op, Effect: agentkernel.EffectRead, Args: raw(args)}
	}
	done := call(1, "state.set", `{"key":"a","value":1}`)
	done.Done, done.Data, done.Effect = true, raw(`null`), agentkernel.EffectPure
	async := call(2, "tool.call", `{"arguments":{},"server":"files","tool":"read"}`)
	async.Async = true
	entries := []agentkernel.Entry{
		{Kind: agentkernel.EntryCreated, Data: raw(`{}`)}, done, async, call(3, "tool.call", `{"server":"files","tool":"list"}`),
		{Kind: agentkernel.EntryResult, Call: 3, Err: &agentkernel.Error{Code: agentkernel.CodeTool, Err: errors.New("no such folder")}},
		{Kind: agentkernel.EntryOutput, Stream: "stderr", Data: raw(`"a\nb"`)},
		{Kind: agentkernel.EntryResult, Call: 2, Data: raw(`"` + strings.Repeat("x", BlobThreshold) + `"`), Note: "i1"},
		call(4, "time.sleep", `{"seconds":1.0}`),
	}
	pid := newPID(s)
	for i := range entries {
		entries[i].PID, entries[i].Seq, entries[i].At = pid, int64(i+1), at.Add(time.Duration(i)*time.Millisecond)
	}
	row := exampleRow(pid)
	row.State, row.Created, row.Ended = agentkernel.StateFailed, at, at.Add(1500*time.Millisecond)
	row.Error = &agentkernel.Error{Code: agentkernel.CodeProgram, Err: errors.New("ValueError: no")}
	pos, err := s.Append(agentkernel.Batch{Entries: entries, Process: row})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context(), pos); err != nil {
		t.Fatal(err)
	}
	return cfg, s
}

func mustQuery(t *testing.T, cfg Config) *Query {
	t.Helper()
	q, err := OpenQuery(t.Context(), Config{Path: cfg.Path, Blobs: cfg.Blobs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

// text is an answer as lines of values.
func text(t *testing.T, q *Query, sql string) string {
	t.Helper()
	table, err := q.Run(t.Context(), sql, 0)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var b strings.Builder
	for _, row := range append([][]any{nil}, table.Rows...) {
		if row == nil {
			b.WriteString(strings.Join(table.Columns, " | ") + "\n")
			continue
		}
		b.WriteString(strings.Trim(strings.Join(strings.Fields(fmt.Sprintln(row...)), " | "), "|") + "\n")
	}
	return b.String()
}

func TestViews(t *testing.T) {
	cfg, s := asked(t)
	for _, running := range []bool{true, false} {
		if !running { // the database as a kernel leaves it: no log beside it
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		q := mustQuery(t, cfg)
		cases := map[string]string{
			"select pid, call, name, server, tool, effect, async, ms, outcome, error_code, note from calls; -- all": "pid | call | name | server | tool | effect | async | ms | outcome | error_code | note\n" +
				"1 | 1 | state.set | <nil> | <nil> | pure | 0 | 0 | ok | <nil> | <nil>\n" +
				"1 | 2 | files.read | files | read | read | 1 | 4 | ok | <nil> | i1\n" +
				"1 | 3 | files.list | files | list | read | 0 | 1 | error | tool_error | <nil>\n" +
				"1 | 4 | time.sleep | <nil> | <nil> | read | 0 | <nil> | open | <nil> | <nil>\n",
			"select substr(result, 1, 5) as r, length(result) as n, error from calls where call in (2, 3)": "r | n | error\nblob: | 69 | <nil>\n<nil> | <nil> | no | such | folder\n",
			"select stream, length(text) n, at from output":                                                "stream | n | at\nstderr | 3 | 2023-11-14 | 22:13:20.005\n",
			"select name, state, ms, error_code, error, created from processes":                            "name | state | ms | error_code | error | created\na.py | failed | 1500 | program_error | ValueError: | no | 2023-11-14 | 22:13:20.000\n",
			"select count(*) from main.entries":                                                            "count(*)\n8\n",
			"with t(x) as (values (1), (2)) select x'00ff' as b, x from t order by x desc":                 "b | x\nblob:00ff | 2\nblob:00ff | 1\n",
			"select name from pragma_table_info('output') where cid = 0":                                   "name\npid\n",
		}
		for sql, want := range cases {
			if diff := cmp.Diff(want, text(t, q, sql)); diff != "" {
				t.Errorf("running %v: %s\n-want +got:\n%s", running, sql, diff)
			}
		}
		if plan := text(t, q, "explain query plan select result from calls where pid = 1 and call = 3"); strings.Contains(plan, "SCAN") {
			t.Errorf("the calls of one process are not found by the primary key:\n%s", plan)
		}
	}
}

// The views list the columns that they have, and docs/schema.md has them all.
func TestViewsAreDocumented(t *testing.T) {
	cfg, _ := asked(t)
	list, err := mustQuery(t, cfg).Views(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "schema.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		if want := "| `" + v.Name + "` | " + v.Doc + ": `" + strings.Join(v.Columns, "`, `") + "` |"; !strings.Contains(string(doc), want) {
			t.Errorf("docs/schema.md does not have\n%s", want)
		}
	}
}

func TestLimit(t *testing.T) {
	cfg, _ := asked(t)
	q := mustQuery(t, cfg)
	for limit, want := range map[int]int{0: 8, 3: 3, 8: 8, 9: 8} {
		table, err := q.Run(t.Context(), "select seq from main.entries order by seq desc", limit)
		if err != nil || len(table.Rows) != want || table.More != (limit == 3) || table.Rows[0][0] != int64(8) {
			t.Errorf("limit %d: %d rows, more %v, error %v", limit, len(table.Rows), table.More, err)
		}
	}
	endless := "with recursive c(x) as (select 1 union all select x + 1 from c) select x from c"
	table, err := q.Run(t.Context(), endless, 10)
	if err != nil || len(table.Rows) != 10 || !table.More {
		t.Errorf("endless: %v, %v", table, err)
	}
}

// A statement ends with its time, in the first row or long after it.
func TestTimeLimit(t *testing.T) {
	cfg, _ := asked(t)
	q := mustQuery(t, cfg)
	for _, sql := range []string{
		"with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c",
		"with recursive c(x) as (select 1 union all select x + 1 from c) select x from c where x < 3 or x % 1000000000000 = 0",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		begin := time.Now()
		_, err := q.Run(ctx, sql, 1000)
		cancel()
		checkError(t, err, agentkernel.CodeTimeout, "took too long", "--timeout")
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("it took %v to end it", took)
		}
	}
	if got := text(t, q, "select 1 as one"); got != "one\n1\n" {
		t.Errorf("after a statement that was ended: %q", got)
	}
}

// Nothing but reading, whatever the statement.
func TestQueriesOnlyRead(t *testing.T) {
	cfg, _ := asked(t)
	dir := t.TempDir()
	q := mustQuery(t, cfg)
	before := files(t, filepath.Dir(cfg.Path))
	for _, sql := range []string{
		"insert into main.processes select * from main.processes", "delete from main.entries", "update main.entries set note = 1",
		"drop table main.entries", "create table x(a)", "create temp table x(a)", "begin immediate", "vacuum", "reindex",
		"attach '" + dir + "/a.db' as a", "vacuum into '" + dir + "/b.db'", "pragma query_only = 0", "pragma journal_mode = delete",
		"pragma writable_schema = 1", "with x as (select 1) delete from main.entries", "with x as (select 1) insert into main.state select 1, 2, 3",
		"select load_extension('/tmp/x')", "select * from pragma_journal_mode", "select * from pragma_wal_checkpoint", "explain pragma query_only = 0",
		"explain delete from main.entries", "select 1) x), y as (delete from main.entries) select * from (select 1",
	} {
		table, err := q.Run(t.Context(), sql, 10)
		if code := agentkernel.CodeOf(err); code != agentkernel.CodeDenied && code != agentkernel.CodeInvalid {
			t.Errorf("%s: %v %v", sql, table, err)
		}
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
		t.Errorf("files were made: %v %v", made, err)
	}
	if got := text(t, q, "select count(*) n from main.entries"); got != "n\n8\n" {
		t.Error(got)
	}
	after := files(t, filepath.Dir(cfg.Path))
	for path, content := range before {
		if !strings.HasSuffix(path, "-shm") && after[path] != content {
			t.Errorf("%s was changed", path)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files before, %d after", len(before), len(after))
	}
}

func TestWrongSQL(t *testing.T) {
	cfg, _ := asked(t)
	q := mustQuery(t, cfg)
	cases := []struct {
		sql   string
		words []string
	}{
		{"select from calls", []string{`near "from": syntax error`, "  select from calls\n         ^^^^", "views\n  processes(pid, ", "calls(", "output("}},
		{"select name,\n\tcount(*) frm calls\ngroup by name", []string{"  \tcount(*) frm calls\n  \t             ^^^^^"}},
		{"select opp, name from calls", []string{"no such column: opp", "  select opp, name from calls\n         ^^^", "did you mean op"}},
		{"select c.opp from calls c", []string{"select c.opp from calls c\n           ^^^"}},
		{"select 1 from cals", []string{"no such table: cals", "^^^^"}},
		{"select coun(*) from calls", []string{"no such function: coun", "^^^^"}},
		{"select 'from', from from calls", []string{"select 'from', from from calls\n                 ^^^^"}},
		{"select (1", []string{"incomplete input", "  select (1\n           ^"}},
		{"select 1; select 2", []string{"one statement at a time", `"select"`}},
		{"  ; -- nothing", []string{"the statement is empty"}},
		{"select 1 \x00", []string{"not text"}},
		{"select json('{') as x", []string{"malformed JSON"}},
		{"select max(1, 2, ) from calls", []string{`near ")"`}},
		{"select " + strings.Repeat("x", 300) + ", y, from calls", []string{"near", "^"}},
	}
	for _, tc := range cases {
		_, err := q.Run(t.Context(), tc.sql, 10)
		if err == nil {
			t.Errorf("%q was answered", tc.sql)
			continue
		}
		checkError(t, err, agentkernel.CodeInvalid, tc.words...)
	}
	for _, sql := range []string{"select ';' as a, \"name\" from calls where call = 1 /* ; */ ;", "select 'it''s' -- ;\n;", "values (1);;"} {
		if _, err := q.Run(t.Context(), sql, 10); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestQueriesOfOtherDatabases(t *testing.T) {
	_, err := OpenQuery(t.Context(), testConfig(t.TempDir()))
	checkError(t, err, agentkernel.CodeNotFound, "no database")
	cfg, s := asked(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rawSQL(t, cfg.Path, "PRAGMA user_version = 99")
	_, err = OpenQuery(t.Context(), cfg)
	checkError(t, err, agentkernel.CodeVersion, "version 99")
}

func FuzzStatement(f *testing.F) {
	for _, s := range []string{"select 1;", "select ';' -- x", "/* a", "\"", "[", "select '''", "select 1 ; ; select"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tokens := scan(s)
		at := 0
		for _, tok := range tokens {
			if tok.from != at || tok.to <= tok.from {
				t.Fatalf("%q: %+v after %d", s, tok, at)
			}
			at = tok.to
			mark(s, tok.from, tok.to-tok.from)
		}
		if at != len(s) {
			t.Fatalf("%q: ends at %d", s, at)
		}
		if _, err := single(s); err != nil && agentkernel.CodeOf(err) != agentkernel.CodeInvalid && agentkernel.CodeOf(err) != agentkernel.CodeDenied {
			t.Fatal(err)
		}
	})
}

// A word that is near to one that reads is misspelt; one that writes is refused as that.
func TestMisspeltStatements(t *testing.T) {
	for word, want := range map[string]agentkernel.Code{
		"selec": agentkernel.CodeInvalid, "SELCET": agentkernel.CodeInvalid, "slect": agentkernel.CodeInvalid, "wiht": agentkernel.CodeInvalid,
		"expalin": agentkernel.CodeInvalid, "value": agentkernel.CodeInvalid,
		"alter": agentkernel.CodeDenied, "analyze": agentkernel.CodeDenied, "attach": agentkernel.CodeDenied, "begin": agentkernel.CodeDenied,
		"commit": agentkernel.CodeDenied, "create": agentkernel.CodeDenied, "delete": agentkernel.CodeDenied, "detach": agentkernel.CodeDenied,
		"drop": agentkernel.CodeDenied, "end": agentkernel.CodeDenied, "insert": agentkernel.CodeDenied, "reindex": agentkernel.CodeDenied,
		"release": agentkernel.CodeDenied, "replace": agentkernel.CodeDenied, "rollback": agentkernel.CodeDenied, "savepoint": agentkernel.CodeDenied,
		"update": agentkernel.CodeDenied, "vacuum": agentkernel.CodeDenied, "pragma": agentkernel.CodeDenied,
	} {
		if _, err := single(word + " x"); agentkernel.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", word, err, want)
		}
	}
}

// The statements of the guide are those that work.
func TestExamplesOfTheGuide(t *testing.T) {
	cfg, _ := asked(t)
	q := mustQuery(t, cfg)
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "questions.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(doc), "```sql\n")
	block, _, closed := strings.Cut(block, "\n```")
	statements := strings.Split(block, ";\n")
	if !found || !closed || len(statements) < 5 {
		t.Fatalf("docs/questions.md has no block of statements: %q", block)
	}
	for _, sql := range statements {
		if _, err := q.Run(t.Context(), sql, 0); err != nil {
			t.Errorf("%s\n%v", sql, err)
		}
	}
}

// TestColumnsAddedMeanwhile: a statement that was prepared before another connection added a column has as many names as values.
func TestColumnsAddedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	c, err := dial(path, url.Values{}, "journal_mode = WAL")
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.script("CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 2)"); err != nil {
		t.Fatal(err)
	}
	d, err := dial(path, url.Values{"mode": {"ro"}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for _, want := range []int{2, 3} {
		var table Table
		if err := table.fill(t.Context(), d, bounded("SELECT * FROM t", 5), 5); err != nil || len(table.Columns) != want || len(table.Rows[0]) != want {
			t.Errorf("%+v, %v; want %d columns", table, err, want)
		}
		if err := c.script("ALTER TABLE t ADD COLUMN c"); want == 2 && err != nil {
			t.Fatal(err)
		}
	}
	err = check(c, "SELECT a FROM t WHERE b = ?")
	checkError(t, err, agentkernel.CodeInvalid, "a parameter (? or :name) has no value here")
}

// TestErrorOfStatement: what is wrong with the database, its disk or its lock is not said to be wrong in the statement.
func TestErrorOfStatement(t *testing.T) {
	for code, want := range map[int]agentkernel.Code{
		sqlite3.SQLITE_ERROR: agentkernel.CodeInvalid, sqlite3.SQLITE_MISMATCH: agentkernel.CodeInvalid,
		sqlite3.SQLITE_TOOBIG: agentkernel.CodeInvalid, sqlite3.SQLITE_MISUSE: agentkernel.CodeInvalid,
		sqlite3.SQLITE_CORRUPT: agentkernel.CodeCorrupt, sqlite3.SQLITE_CORRUPT_INDEX: agentkernel.CodeCorrupt,
		sqlite3.SQLITE_NOTADB: agentkernel.CodeCorrupt,
		sqlite3.SQLITE_IOERR:  agentkernel.CodeStorage, sqlite3.SQLITE_IOERR_READ: agentkernel.CodeStorage,
		sqlite3.SQLITE_CANTOPEN: agentkernel.CodeStorage, sqlite3.SQLITE_FULL: agentkernel.CodeStorage,
		sqlite3.SQLITE_NOMEM: agentkernel.CodeStorage, sqlite3.SQLITE_BUSY: agentkernel.CodeStorage,
		sqlite3.SQLITE_BUSY_SNAPSHOT: agentkernel.CodeStorage, sqlite3.SQLITE_LOCKED: agentkernel.CodeStorage,
	} {
		err := explain("/data/journal.db", refused(&binding.Error{Code: code, Message: "what SQLite says"}))
		if got := agentkernel.CodeOf(err); got != want {
			t.Errorf("%d: %v, want %s", code, err, want)
		}
	}

	path := filepath.Join(t.TempDir(), "a.db")
	c, err := dial(path, url.Values{}, "page_size = 4096")
	if err != nil {
		t.Fatal(err)
	}
	err = c.script("CREATE TABLE good(a); CREATE TABLE bad(a); INSERT INTO good VALUES (1); INSERT INTO bad VALUES (1)")
	root, rerr := c.int("SELECT rootpage FROM sqlite_schema WHERE name = 'bad'")
	if err := errors.Join(err, rerr, c.close()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 4096), (root-1)*4096)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	d, err := dial(path, url.Values{"mode": {"ro"}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	var table Table
	if err := table.fill(t.Context(), d, bounded("SELECT * FROM good", 5), 5); err != nil || len(table.Rows) != 1 {
		t.Errorf("a table that is whole: %+v, %v", table, err)
	}
	err = explain(path, table.fill(t.Context(), d, bounded("SELECT * FROM bad", 5), 5))
	checkError(t, err, agentkernel.CodeCorrupt, "is damaged", path)
}
