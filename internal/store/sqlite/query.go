package sqlite

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	sqlite3 "modernc.org/sqlite/lib"

	"agentkernel"
	"agentkernel/internal/store/sqlite/binding"
)

// Query answers SQL of a user from a database that it never changes, also while a kernel writes it. Besides
// the tables of docs/schema.md there are the views of Views.
type Query struct {
	reads   *reads
	closing sync.Once
	closed  error
}

// Table is the answer to a statement. Values are int64, float64, string or nil; bytes are written "blob:<hex>".
type Table struct {
	Columns []string
	Rows    [][]any
	More    bool // the limit cut it off
}

// OpenQuery opens a database for questions. It makes no file and changes none. Errors: as OpenReader.
func OpenQuery(ctx context.Context, cfg Config) (*Query, error) {
	cfg, err := cfg.withDefaults(false)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, explain(cfg.Path, err)
	}
	// Only a database of a version that is known has the tables that the views are made of.
	version := &Reader{reads: newReads(cfg, func() (*readConn, error) { return dialReader(cfg) })}
	version.reads.info.Path = abs
	if err := errors.Join(version.reads.do(ctx, version.identify), version.Close()); err != nil {
		return nil, err
	}
	q := &Query{reads: newReads(cfg, func() (*readConn, error) { return dialQuery(cfg) })}
	q.reads.info = version.reads.info
	return q, nil
}

// Close releases the files.
func (q *Query) Close() error {
	q.closing.Do(func() { q.closed = q.reads.close() })
	return q.closed
}

// dialQuery opens a connection with the views, on which nothing but reading is allowed from then on.
func dialQuery(cfg Config) (*readConn, error) {
	c, err := dialReader(cfg)
	if err != nil {
		return nil, err
	}
	if err := prepareQueries(c.conn, c.version); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func prepareQueries(c *conn, version int64) error {
	// The views stand in the connection's own temporary schema, in memory.
	script := "PRAGMA temp_store = MEMORY; PRAGMA query_only = 0;\nDROP VIEW IF EXISTS temp.processes;\n" // see asNewest
	for _, v := range views {
		sql := v.sql
		if version < 5 { // no journal is in a row yet
			sql, _, _ = strings.Cut(sql, "\nUNION ALL")
		}
		script += "CREATE TEMP VIEW " + v.name + " AS " + sql + ";\n"
	}
	if err := c.script(script + "PRAGMA query_only = 1"); err != nil {
		return err
	}
	c.db.Restrict(authorize)
	return nil
}

// readingPragmas are those that tell something and change nothing; pragma_table_info('calls') uses them.
var readingPragmas = map[string]bool{"table_info": true, "table_xinfo": true, "table_list": true, "index_list": true, "index_info": true,
	"index_xinfo": true, "function_list": true, "compile_options": true, "database_list": true}

// authorize is asked by SQLite for everything that a statement would do. Only reading is allowed: no ATTACH, which
// would open other files, no VACUUM INTO, which would write one, no PRAGMA that sets something.
func authorize(action binding.Action, arg1, arg2 string) bool {
	switch action {
	case binding.ActionSelect, binding.ActionRead, binding.ActionRecursive:
		return true
	case binding.ActionFunction:
		return arg2 != "load_extension"
	case binding.ActionPragma:
		return readingPragmas[strings.ToLower(arg1)]
	}
	return false
}

// Run runs one statement that only reads and gives at most limit rows (0: all). ctx ends it in whatever it does.
// Errors: CodeInvalid with the place in the statement, CodeDenied for what does not only read, CodeTimeout, CodeCorrupt and
// CodeStorage for what is not the fault of the statement.
func (q *Query) Run(ctx context.Context, text string, limit int) (*Table, error) {
	statement, err := single(text)
	if err != nil {
		return nil, err
	}
	var t *Table
	err = q.reads.do(ctx, func(c *conn) error {
		t = &Table{Rows: [][]any{}}
		if err := check(c, statement); err != nil {
			return err
		}
		return t.fill(ctx, c, bounded(statement, limit), limit)
	})
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, agentkernel.Errorf(agentkernel.CodeTimeout, "sql", "the statement took too long and was ended").
			WithHint("give it more time with --timeout, or ask for less: WHERE pid = 12")
	case ctx.Err() != nil:
		return nil, agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "sql")
	case err != nil:
		return nil, err
	}
	return t, nil
}

// check compiles a statement without running it, so that errors speak of the text that the user wrote.
func check(c *conn, statement string) error {
	err := c.compile(statement)
	if err == nil {
		return nil
	}
	message := sqliteMessage(err)
	if strings.Contains(message, "not authorized") || strings.Contains(message, "prohibited") {
		return agentkernel.Errorf(agentkernel.CodeDenied, "sql", "sql only reads: %s", message).
			WithHint("SELECT, WITH, VALUES and EXPLAIN are allowed, on one database")
	}
	if !ofStatement(err) {
		return err
	}
	return c.pointAt(statement, message)
}

// ofStatement says whether an error is the fault of the statement, and not of the database, of its disk or of who else uses it.
func ofStatement(err error) bool {
	switch resultCode(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL,
		sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return false
	}
	_, known := errors.AsType[*agentkernel.Error](err)
	return !known
}

// refused is the error of a statement that was compiled before.
func refused(err error) error {
	if !ofStatement(err) {
		return err
	}
	return agentkernel.Errorf(agentkernel.CodeInvalid, "sql", "%s", sqliteMessage(err))
}

// compile makes SQLite read a statement.
func (c *conn) compile(statement string) error {
	if firstWord(statement) != "explain" {
		statement = "EXPLAIN " + statement
	}
	s, err := c.db.Prepare(statement)
	if err != nil {
		return err
	}
	if s.Parameters() > 0 {
		err = errors.New("a parameter (? or :name) has no value here: write the value itself")
	}
	return errors.Join(err, s.Close())
}

// bounded puts a statement into one that gives no more than a row above the limit.
func bounded(statement string, limit int) string {
	if firstWord(statement) == "explain" {
		return statement
	}
	n := -1
	if limit > 0 {
		n = limit + 1
	}
	return fmt.Sprintf("SELECT * FROM (%s\n) LIMIT %d", statement, n)
}

func (t *Table) fill(ctx context.Context, c *conn, statement string, limit int) (err error) {
	s, err := c.db.Prepare(statement)
	if err != nil {
		return refused(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	defer c.db.Until(ctx)()
	t.Columns = s.Columns()
	var dest row
	err = s.Query(nil, func() error {
		if len(t.Rows) == 0 {
			t.Columns = s.Columns()
		}
		if t.More = limit > 0 && len(t.Rows) == limit; t.More {
			return errEnough
		}
		dest = s.Row(dest)
		row := make([]any, len(dest))
		for i, v := range dest {
			if b, ok := v.([]byte); ok {
				v = "blob:" + hex.EncodeToString(b)
			}
			row[i] = v
		}
		t.Rows = append(t.Rows, row)
		return ctx.Err()
	})
	switch {
	case err == nil, errors.Is(err, errEnough):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return refused(err)
}
