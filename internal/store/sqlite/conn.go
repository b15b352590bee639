package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net/url"
	"path/filepath"

	driversqlite "modernc.org/sqlite"
)

// conn is one connection with its prepared statements. It talks to the driver directly: database/sql
// would add locks, reflection and a pool to a connection that one goroutine owns. Not safe for
// concurrent use.
type conn struct {
	raw   driver.Conn
	stmts map[string]*stmt
}

// stmt is a prepared statement with its argument list, reused from call to call.
type stmt struct {
	raw  driver.Stmt
	args []driver.NamedValue
}

// row is one result row: int64, float64, string, []byte or nil a column. It is valid until the next one.
type row []driver.Value

// dial opens a connection. params are SQLite's URI parameters (mode, immutable); pragmas run in order.
func dial(path string, params url.Values, pragmas ...string) (*conn, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	params.Set("_error_rc", "1")
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(abs), RawQuery: params.Encode()}
	raw, err := new(driversqlite.Driver).Open(u.String())
	if err != nil {
		return nil, err
	}
	c := &conn{raw: raw, stmts: map[string]*stmt{}}
	for _, p := range pragmas {
		if err := c.script("PRAGMA " + p); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

// script runs statements without arguments that are not worth keeping prepared.
func (c *conn) script(sql string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(context.Background(), sql, nil)
	return err
}

// prepare gives the statement for a query text, prepared once per connection.
func (c *conn) prepare(query string) (*stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	raw, err := c.raw.(driver.ConnPrepareContext).PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	s := &stmt{raw: raw}
	c.stmts[query] = s
	return s, nil
}

func (s *stmt) bind(values []driver.Value) []driver.NamedValue {
	s.args = s.args[:0]
	for i, v := range values {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return s.args
}

// exec runs a statement that gives no rows.
func (c *conn) exec(query string, values ...driver.Value) error {
	_, err := c.result(query, values)
	return err
}

// change is exec; it says how many rows were changed.
func (c *conn) change(query string, values ...driver.Value) (int64, error) {
	r, err := c.result(query, values)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (c *conn) result(query string, values []driver.Value) (driver.Result, error) {
	s, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	return s.raw.(driver.StmtExecContext).ExecContext(context.Background(), s.bind(values))
}

// query runs a statement and hands each row to fn until fn returns an error.
func (c *conn) query(fn func(row) error, query string, values ...driver.Value) (err error) {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	rows, err := s.raw.(driver.StmtQueryContext).QueryContext(context.Background(), s.bind(values))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	dest := make(row, len(rows.Columns()))
	for {
		switch err := rows.Next(dest); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := fn(dest); err != nil {
			return err
		}
	}
}

// one runs a statement that gives at most one row; found says whether it did.
func (c *conn) one(query string, values ...driver.Value) (r row, found bool, err error) {
	err = c.query(func(got row) error {
		r, found = got, true
		return nil
	}, query, values...)
	return r, found, err
}

// int reads a single number, 0 if there is none.
func (c *conn) int(query string, values ...driver.Value) (int64, error) {
	r, found, err := c.one(query, values...)
	if err != nil || !found {
		return 0, err
	}
	return r.int(0), nil
}

func (c *conn) close() error {
	var err error
	for _, s := range c.stmts {
		err = errors.Join(err, s.raw.Close())
	}
	return errors.Join(err, c.raw.Close())
}

func (r row) int(i int) int64   { v, _ := r[i].(int64); return v }
func (r row) text(i int) string { v, _ := r[i].(string); return v }
func (r row) blob(i int) []byte { v, _ := r[i].([]byte); return v }
func (r row) bool(i int) bool   { return r.int(i) != 0 }
func (r row) isNull(i int) bool { return r[i] == nil }

// Values for columns in which the zero value is NULL, which costs no space.

func nullText(s string) driver.Value {
	if s == "" {
		return nil
	}
	return s
}

func nullInt(n int64) driver.Value {
	if n == 0 {
		return nil
	}
	return n
}

func nullBool(b bool) driver.Value {
	if !b {
		return nil
	}
	return int64(1)
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
