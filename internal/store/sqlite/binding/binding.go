// Package binding calls SQLite. The driver for database/sql that comes with it asks for the names and types of the columns of each
// query, copies each argument into memory of its own, and takes SQLite's locks again at each call, as it does not know who calls:
// that costs more than to read a row. Source of the calls: https://sqlite.org/c3ref/intro.html.
package binding

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// DB is a connection. It and its statements are for one goroutine at a time.
type DB struct {
	tls    *libc.TLS
	handle uintptr
	out    uintptr // two pointers, for calls that answer through one, and the flag of Until
}

const pointerSize = unsafe.Sizeof(uintptr(0))

// prepareLibrary is what its driver does before anything else; see hooks_linux_arm64.go there.
var prepareLibrary = sync.OnceFunc(sqlite3.PatchIssue199)

// Open opens a database by its URI, see https://sqlite.org/uri.html, and makes it unless the URI says mode=ro or mode=rw.
func Open(uri string) (*DB, error) {
	prepareLibrary()
	d := &DB{tls: libc.NewTLS()}
	d.out = libc.Xmalloc(d.tls, types.Size_t(3*pointerSize))
	name, err := libc.CString(uri)
	if err != nil || d.out == 0 {
		return nil, errors.Join(errNoMemory, d.Close())
	}
	defer libc.Xfree(d.tls, name)
	const flags = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE | sqlite3.SQLITE_OPEN_URI |
		sqlite3.SQLITE_OPEN_NOMUTEX | sqlite3.SQLITE_OPEN_EXRESCODE
	code := sqlite3.Xsqlite3_open_v2(d.tls, name, d.out, flags, 0)
	d.handle = d.pointer(0) // also where it could not be opened: it has the reason
	if code != sqlite3.SQLITE_OK {
		return nil, errors.Join(d.failure(code), d.Close())
	}
	return d, nil
}

// Close closes the connection. Its statements have to be closed before.
func (d *DB) Close() (err error) {
	if d.handle != 0 {
		d.Restrict(nil)
		if code := sqlite3.Xsqlite3_close_v2(d.tls, d.handle); code != sqlite3.SQLITE_OK {
			err = d.failure(code)
		}
		d.handle = 0
	}
	if d.tls != nil {
		libc.Xfree(d.tls, d.out)
		d.tls.Close()
		d.tls = nil
	}
	return err
}

// Script runs statements without arguments, and forgets what they answer.
func (d *DB) Script(text string) error {
	sql, err := libc.CString(text)
	if err != nil {
		return errNoMemory
	}
	defer libc.Xfree(d.tls, sql)
	for at := sql; ; {
		s, rest, err := d.prepare(at)
		if err != nil {
			return err
		}
		if at = rest; s == nil && libc.GoString(at) == "" {
			return nil
		}
		if s != nil {
			if err := errors.Join(s.Exec(nil), s.Close()); err != nil {
				return err
			}
		}
	}
}

// Prepare reads one statement.
func (d *DB) Prepare(text string) (*Stmt, error) {
	sql, err := libc.CString(text)
	if err != nil {
		return nil, errNoMemory
	}
	defer libc.Xfree(d.tls, sql)
	s, rest, err := d.prepare(sql)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, &Error{Code: sqlite3.SQLITE_MISUSE, Message: "there is no statement"}
	}
	for err == nil && libc.GoString(rest) != "" {
		var more *Stmt
		if more, rest, err = d.prepare(rest); more != nil {
			err = errors.Join(&Error{Code: sqlite3.SQLITE_MISUSE, Message: "there is more than one statement"}, more.Close())
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// prepare reads the statement at sql, nil if none is there, and says where the next one is.
func (d *DB) prepare(sql uintptr) (s *Stmt, rest uintptr, err error) {
	code := sqlite3.Xsqlite3_prepare_v2(d.tls, d.handle, sql, -1, d.out, d.out+pointerSize)
	if code != sqlite3.SQLITE_OK {
		return nil, 0, d.failure(code)
	}
	if handle := d.pointer(0); handle != 0 {
		s = &Stmt{db: d, handle: handle, parameters: int(sqlite3.Xsqlite3_bind_parameter_count(d.tls, handle))}
	}
	return s, d.pointer(1), nil
}

// Changes is how many rows the last statement has changed.
func (d *DB) Changes() int64 { return int64(sqlite3.Xsqlite3_changes(d.tls, d.handle)) }

// stepsBetween is after how many of SQLite's instructions a statement looks whether it has to end.
const stepsBetween = 1000

// Until ends whatever the connection computes when ctx ends, until release is called. A statement that was ended fails. A wait for a
// lock goes on, as busy_timeout has it.
func (d *DB) Until(ctx context.Context) (release func()) {
	flag := (*int32)(foreign(d.out + 2*pointerSize))
	atomic.StoreInt32(flag, 0)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		atomic.StoreInt32(flag, 1)                // an interrupt is lost between two statements
		sqlite3.Xsqlite3_interrupt(nil, d.handle) // and a long instruction looks for nothing else
	})
	call := struct {
		f func(*libc.TLS, uintptr) int32
	}{mustEnd}
	sqlite3.Xsqlite3_progress_handler(d.tls, d.handle, stepsBetween, *(*uintptr)(unsafe.Pointer(&call)), d.out+2*pointerSize)
	return func() {
		if !stop() {
			<-ended
		}
		sqlite3.Xsqlite3_progress_handler(d.tls, d.handle, 0, 0, 0)
	}
}

func mustEnd(_ *libc.TLS, flag uintptr) int32 { return atomic.LoadInt32((*int32)(foreign(flag))) }

// Action is something that a statement would do; see https://sqlite.org/c3ref/c_alter_table.html.
type Action int32

// Those actions that are not allowed to nobody.
const (
	ActionSelect    Action = sqlite3.SQLITE_SELECT
	ActionRead      Action = sqlite3.SQLITE_READ
	ActionRecursive Action = sqlite3.SQLITE_RECURSIVE
	ActionFunction  Action = sqlite3.SQLITE_FUNCTION
	ActionPragma    Action = sqlite3.SQLITE_PRAGMA
)

// Allow says whether a statement may do something; what the two arguments are depends on the action.
type Allow func(action Action, arg1, arg2 string) bool

// restrictions has them by connection: SQLite calls back with a number.
var restrictions sync.Map // uintptr -> Allow

// Restrict has allow decide what statements may do; nil: everything.
func (d *DB) Restrict(allow Allow) {
	if allow == nil {
		if _, restricted := restrictions.LoadAndDelete(d.handle); restricted {
			sqlite3.Xsqlite3_set_authorizer(d.tls, d.handle, 0, 0)
		}
		return
	}
	restrictions.Store(d.handle, allow)
	call := struct {
		f func(*libc.TLS, uintptr, int32, uintptr, uintptr, uintptr, uintptr) int32
	}{restricted}
	sqlite3.Xsqlite3_set_authorizer(d.tls, d.handle, *(*uintptr)(unsafe.Pointer(&call)), d.handle)
}

func restricted(_ *libc.TLS, handle uintptr, action int32, arg1, arg2, _, _ uintptr) int32 {
	allow, ok := restrictions.Load(handle)
	if ok && allow.(Allow)(Action(action), text(arg1), text(arg2)) {
		return sqlite3.SQLITE_OK
	}
	return sqlite3.SQLITE_DENY
}

// text is a string of SQLite that ends with a zero; "" also if there is none.
func text(p uintptr) string {
	if p == 0 {
		return ""
	}
	return libc.GoString(p)
}

func (d *DB) pointer(i uintptr) uintptr { return *(*uintptr)(foreign(d.out + i*pointerSize)) }

// foreign makes an address of SQLite's memory one that can be read and written. The collector knows nothing of what lies there.
func foreign(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// Error is what SQLite says. Code is its extended result code, see https://sqlite.org/rescode.html.
type Error struct {
	Code    int
	Message string
	kind    string // what SQLite says of the code, if Message says more
}

func (e *Error) Error() string {
	if e.kind != "" {
		return fmt.Sprintf("%s: %s (%d)", e.kind, e.Message, e.Code)
	}
	return fmt.Sprintf("%s (%d)", e.Message, e.Code)
}

var errNoMemory = &Error{Code: sqlite3.SQLITE_NOMEM, Message: "out of memory"}

// failure makes the error for a result code. The connection knows more about it, unless what it knows is of another call.
func (d *DB) failure(code int32) error {
	e := &Error{Code: int(code), Message: libc.GoString(sqlite3.Xsqlite3_errstr(d.tls, code))}
	if d.handle == 0 || sqlite3.Xsqlite3_extended_errcode(d.tls, d.handle)&0xff != code&0xff {
		return e
	}
	if more := libc.GoString(sqlite3.Xsqlite3_errmsg(d.tls, d.handle)); more != e.Message {
		e.kind, e.Message = e.Message, more
	}
	return e
}

// Stmt is a prepared statement.
type Stmt struct {
	db         *DB
	handle     uintptr
	parameters int
	buffer     uintptr // holds texts and bytes of the arguments
	size       int
	active     bool
}

// Close forgets the statement.
func (s *Stmt) Close() error {
	sqlite3.Xsqlite3_finalize(s.db.tls, s.handle) // what it gives is the error of the last run, which was told
	libc.Xfree(s.db.tls, s.buffer)
	s.handle, s.buffer, s.size = 0, 0, 0
	return nil
}

// Exec runs the statement to its end.
func (s *Stmt) Exec(values []driver.Value) error {
	return s.Query(values, func() error { return nil })
}

// Query runs the statement and calls fn at each row, which Column reads, until fn returns an error.
func (s *Stmt) Query(values []driver.Value, fn func() error) error {
	if s.active {
		return &Error{Code: sqlite3.SQLITE_MISUSE, Message: "the statement runs already"}
	}
	if err := s.bind(values); err != nil {
		return err
	}
	s.active = true
	defer s.reset()
	for {
		switch code := sqlite3.Xsqlite3_step(s.db.tls, s.handle); code {
		case sqlite3.SQLITE_ROW:
			if err := fn(); err != nil {
				if code := sqlite3.Xsqlite3_reset(s.db.tls, s.handle); code != sqlite3.SQLITE_OK { // it commits what the statement has changed
					err = errors.Join(err, s.db.failure(code))
				}
				return err
			}
		case sqlite3.SQLITE_DONE:
			return nil
		default:
			return s.db.failure(code)
		}
	}
}

// mostKept is how much memory a statement keeps for its arguments, in bytes.
const mostKept = 64 << 10

// reset ends a run.
func (s *Stmt) reset() {
	sqlite3.Xsqlite3_reset(s.db.tls, s.handle) // what it gives is the error of the last step, which was told
	s.active = false
	if s.size > mostKept {
		sqlite3.Xsqlite3_clear_bindings(s.db.tls, s.handle)
		libc.Xfree(s.db.tls, s.buffer)
		s.buffer, s.size = 0, 0
	}
}

// bind gives the statement its arguments: int64, float64, bool, string, []byte or nil. Texts and bytes stand in the statement's buffer
// as long as it runs.
func (s *Stmt) bind(values []driver.Value) error {
	if len(values) != s.parameters {
		return &Error{Code: sqlite3.SQLITE_RANGE, Message: fmt.Sprintf("%d arguments where there are %d parameters", len(values), s.parameters)}
	}
	if err := s.reserve(values); err != nil {
		return err
	}
	free := s.buffer
	for i, v := range values {
		var code int32
		at := int32(i + 1)
		switch v := v.(type) {
		case nil:
			code = sqlite3.Xsqlite3_bind_null(s.db.tls, s.handle, at)
		case int64:
			code = sqlite3.Xsqlite3_bind_int64(s.db.tls, s.handle, at, v)
		case float64:
			code = sqlite3.Xsqlite3_bind_double(s.db.tls, s.handle, at, v)
		case bool:
			n := int64(0)
			if v {
				n = 1
			}
			code = sqlite3.Xsqlite3_bind_int64(s.db.tls, s.handle, at, n)
		case string:
			copy(unsafe.Slice((*byte)(foreign(free)), len(v)), v)
			code = sqlite3.Xsqlite3_bind_text(s.db.tls, s.handle, at, free, int32(len(v)), sqlite3.SQLITE_STATIC)
			free += uintptr(len(v))
		case []byte:
			if v == nil {
				code = sqlite3.Xsqlite3_bind_null(s.db.tls, s.handle, at)
				break
			}
			copy(unsafe.Slice((*byte)(foreign(free)), len(v)), v)
			code = sqlite3.Xsqlite3_bind_blob(s.db.tls, s.handle, at, free, int32(len(v)), sqlite3.SQLITE_STATIC)
			free += uintptr(len(v))
		default:
			return &Error{Code: sqlite3.SQLITE_MISUSE, Message: fmt.Sprintf("argument %d is a %T", at, v)}
		}
		if code != sqlite3.SQLITE_OK {
			return s.db.failure(code)
		}
	}
	return nil
}

// maxValue bounds the arguments of a statement together, in bytes: SQLite takes no text or bytes of more.
const maxValue = 1_000_000_000

// reserve makes the buffer large enough for the texts and bytes of values. There is always one: to SQLite, no address is NULL.
func (s *Stmt) reserve(values []driver.Value) error {
	need := 1
	for _, v := range values {
		switch v := v.(type) {
		case string:
			need += len(v)
		case []byte:
			need += len(v)
		}
	}
	if need <= s.size {
		return nil
	}
	if need > maxValue {
		return &Error{Code: sqlite3.SQLITE_TOOBIG, Message: "string or blob too big"}
	}
	sqlite3.Xsqlite3_clear_bindings(s.db.tls, s.handle)
	libc.Xfree(s.db.tls, s.buffer)
	s.size = max(need, 256)
	if s.buffer = libc.Xmalloc(s.db.tls, types.Size_t(s.size)); s.buffer == 0 {
		s.size = 0
		return errNoMemory
	}
	return nil
}

// Parameters is how many arguments the statement takes.
func (s *Stmt) Parameters() int { return s.parameters }

// Columns are the names of the columns, at a row those of the row: tables may have changed since the statement was prepared.
func (s *Stmt) Columns() []string {
	names := make([]string, sqlite3.Xsqlite3_column_count(s.db.tls, s.handle))
	for i := range names {
		names[i] = text(sqlite3.Xsqlite3_column_name(s.db.tls, s.handle, int32(i)))
	}
	return names
}

// Row copies the columns of the row at which the statement stands: int64, float64, string, []byte or nil.
func (s *Stmt) Row(into []driver.Value) []driver.Value {
	n := sqlite3.Xsqlite3_data_count(s.db.tls, s.handle)
	if into = into[:0]; cap(into) < int(n) {
		into = make([]driver.Value, 0, n)
	}
	for i := range n {
		into = append(into, s.column(i))
	}
	return into
}

func (s *Stmt) column(i int32) driver.Value {
	tls := s.db.tls
	switch sqlite3.Xsqlite3_column_type(tls, s.handle, i) {
	case sqlite3.SQLITE_INTEGER:
		return sqlite3.Xsqlite3_column_int64(tls, s.handle, i)
	case sqlite3.SQLITE_FLOAT:
		return sqlite3.Xsqlite3_column_double(tls, s.handle, i)
	case sqlite3.SQLITE_TEXT:
		p := sqlite3.Xsqlite3_column_text(tls, s.handle, i)
		return string(s.bytes(p, i))
	case sqlite3.SQLITE_BLOB:
		p := sqlite3.Xsqlite3_column_blob(tls, s.handle, i)
		return append([]byte(nil), s.bytes(p, i)...)
	}
	return nil
}

// bytes are those of a column at p, as long as the statement stands at its row.
func (s *Stmt) bytes(p uintptr, i int32) []byte {
	if p == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(foreign(p)), sqlite3.Xsqlite3_column_bytes(s.db.tls, s.handle, i))
}
