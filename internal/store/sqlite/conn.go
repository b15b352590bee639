package sqlite

import (
	"database/sql/driver"
	"errors"
	"net/url"
	"path/filepath"

	"agentkernel/internal/store/sqlite/binding"
)

// conn is one connection with its prepared statements. Not safe for concurrent use.
type conn struct {
	db    *binding.DB
	stmts map[string]*binding.Stmt
}

// row is one result row: int64, float64, string, []byte or nil a column. It is valid until the next one.
type row []driver.Value

// dial opens a connection. params are SQLite's URI parameters (mode, immutable); pragmas run in order.
func dial(path string, params url.Values, pragmas ...string) (*conn, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(abs), RawQuery: params.Encode()}
	return dialURI(u.String(), pragmas...)
}

func dialURI(uri string, pragmas ...string) (*conn, error) {
	db, err := binding.Open(uri)
	if err != nil {
		return nil, err
	}
	c := &conn{db: db, stmts: map[string]*binding.Stmt{}}
	for _, p := range pragmas {
		if err := c.script("PRAGMA " + p); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

// script runs statements without arguments that are not worth keeping prepared.
func (c *conn) script(sql string) error { return c.db.Script(sql) }

// prepare gives the statement for a query text, prepared once per connection.
func (c *conn) prepare(query string) (*binding.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	s, err := c.db.Prepare(query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

// exec runs a statement that gives no rows.
func (c *conn) exec(query string, values ...driver.Value) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	return s.Exec(values)
}

// change is exec; it says how many rows were changed.
func (c *conn) change(query string, values ...driver.Value) (int64, error) {
	if err := c.exec(query, values...); err != nil {
		return 0, err
	}
	return c.db.Changes(), nil
}

// query runs a statement and hands each row to fn until fn returns an error.
func (c *conn) query(fn func(row) error, query string, values ...driver.Value) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	var dest row
	return s.Query(values, func() error {
		dest = s.Row(dest)
		return fn(dest)
	})
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
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, c.db.Close())
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
