package models

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/nearest"
	"agentkernel/internal/strictjson"
)

// Table is what models cost, as somebody has said it at a time.
type Table struct {
	Date   string            `json:"date"` // YYYY-MM-DD
	Source string            `json:"source"`
	Unit   string            `json:"unit"`   // Unit
	Models map[string]*Price `json:"models"` // by "provider/model"

	File string `json:"-"` // where it was read; "": it comes with this version
	data []byte
}

// Unit is the one unit of tables.
const Unit = "USD per 1,000,000 tokens"

//go:embed prices.json
var shipped []byte

// Shipped is the table that comes with this version.
var Shipped = sync.OnceValue(func() *Table {
	t, err := ReadTable("the table of this version", bytes.NewReader(shipped))
	if err != nil {
		return &Table{} // a test reads it
	}
	t.File = ""
	return t
})

// maxTable bounds a table, in bytes.
const maxTable = 8 << 20

// ReadTable reads a table; name is for errors, which say the line.
func ReadTable(name string, r io.Reader) (*Table, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxTable+1))
	if err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "prices", "%s: %w", name, err)
	}
	if len(data) > maxTable {
		return nil, tableError(name, 0, "it is larger than 8 MiB")
	}
	t := Table{File: name, data: data}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		return nil, t.unread(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, tableError(name, lineAt(data, dec.InputOffset()), "something follows the table")
	}
	if name, line := t.twice(); line > 0 {
		return nil, tableError(t.File, line, "%q is there twice", clip.Short(name))
	}
	if t.Unit != Unit {
		return nil, t.otherUnit()
	}
	if _, err := time.Parse(time.DateOnly, t.Date); err != nil {
		return nil, tableError(name, t.line("date"), "its date is %q, and not of the form 2026-07-02", clip.Short(t.Date))
	}
	for _, model := range slices.Sorted(maps.Keys(t.Models)) {
		if field, err := t.Models[model].check(); err != nil {
			return nil, tableError(name, t.line("models", model, field), "%s: %v", clip.Short(model), err)
		}
	}
	return &t, nil
}

// form is how a table is written.
const form = `a table is JSON: {"date": "2026-07-02", "source": "...", "unit": "` + Unit + `", "models": {"openai/gpt-5": {"input": 1.25, "cache_read": 0.125, "output": 10}}}`

// tableError is what is wrong with a table; line 0: all of it is.
func tableError(name string, line int, format string, args ...any) *agentkernel.Error {
	if line > 0 {
		name = fmt.Sprintf("%s, line %d", name, line)
	}
	return agentkernel.Errorf(agentkernel.CodeInvalid, "prices", "%s: %s", name, fmt.Sprintf(format, args...)).WithHint("%s", form)
}

// otherUnit refuses another unit, and says how to come from it to ours.
func (t *Table) otherUnit() *agentkernel.Error {
	e := tableError(t.File, t.line("unit"), "its unit is %q, and prices are in %q", clip.Short(t.Unit), Unit)
	text := strings.ToLower(strings.ReplaceAll(t.Unit, ",", ""))
	switch {
	case t.Unit == "":
		return tableError(t.File, 0, "it says no unit: prices are in %q", Unit)
	case strings.Contains(text, "1000000") || strings.Contains(text, "million") || strings.Contains(text, "1m"):
		return e
	case strings.Contains(text, "1000") || strings.Contains(text, "1k") || strings.Contains(text, "thousand"):
		return e.WithHint("multiply all prices by 1,000, and write the unit %q", Unit)
	case strings.Contains(text, "token"):
		return e.WithHint("multiply all prices by 1,000,000, and write the unit %q", Unit)
	}
	return e
}

// unread says why a table cannot be decoded.
func (t *Table) unread(err error) *agentkernel.Error {
	if at, ok := strictjson.Offset(err); ok {
		return tableError(t.File, lineAt(t.data, at), "it is no JSON: %s", strictjson.Reason(err, t.data))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return tableError(t.File, lineAt(t.data, int64(len(t.data))), "it is no JSON: %s", strictjson.Reason(err, t.data))
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return tableError(t.File, lineAt(t.data, e.Offset), "%s cannot be a %s", clip.Short(strictjson.Place(e, t.data)), e.Value)
	}
	if e, ok := errors.AsType[*agentkernel.Error](err); ok { // a price
		return tableError(t.File, t.badPrice(), "%s", e.Message())
	}
	_, name, unknown := strings.Cut(err.Error(), "unknown field ")
	if !unknown { // encoding/json has no type for it
		return tableError(t.File, 0, "%v", err)
	}
	name = strings.Trim(name, `"`)
	e := tableError(t.File, t.unknownAt(name), "nothing is known of %q", clip.Short(name))
	if q := nearest.Question(name, append(fields(reflect.TypeFor[Price]()), fields(reflect.TypeFor[Table]())...)); q != "" {
		return e.WithHint("%s", q)
	}
	return e.WithHint("the classes of a price are input, cache_read, cache_write, cache_write_1h, output and reasoning")
}

// fields are the names of a struct in JSON.
func fields(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// lineAt is the line of an offset, from 1 on.
func lineAt(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(max(offset, 0), int64(len(data)))], []byte("\n"))
}

// line is that of a member of the table; of one that is not there that of what it would be in.
func (t *Table) line(path ...string) int {
	line := 1
	t.walk(func(at []string, offset int64) bool {
		if len(at) <= len(path) && slices.Equal(at, path[:len(at)]) {
			line = lineAt(t.data, offset)
		}
		return true
	})
	return line
}

// unknownAt is the line of a member that no table has.
func (t *Table) unknownAt(name string) (line int) {
	t.walk(func(at []string, offset int64) bool {
		if n := len(at); at[n-1] == name && (n != 2 || at[0] != "models") && line == 0 {
			line = lineAt(t.data, offset)
		}
		return line == 0
	})
	return line
}

// twice finds a member that is there a second time; line 0: none is.
func (t *Table) twice() (name string, line int) {
	seen := map[string]bool{}
	t.walk(func(at []string, offset int64) bool {
		path := strings.Join(at, "\x00")
		if seen[path] {
			name, line = at[len(at)-1], lineAt(t.data, offset)
		}
		seen[path] = true
		return line == 0
	})
	return name, line
}

// badPrice is the line of the first price that is none.
func (t *Table) badPrice() (line int) {
	numbers := append(fields(reflect.TypeFor[Price]()), fields(reflect.TypeFor[Above]())...)
	t.values(func(at []string, offset int64, value json.RawMessage) bool {
		var n agentkernel.NanoUSD
		if len(at) > 2 && slices.Contains(numbers, at[len(at)-1]) && value[0] != '{' && json.Unmarshal(value, &n) != nil {
			line = lineAt(t.data, offset)
		}
		return line == 0
	})
	return line
}

// walk calls fn for each member of the table, with the names that lead to it, until it returns false.
func (t *Table) walk(fn func(at []string, offset int64) bool) {
	t.values(func(at []string, offset int64, _ json.RawMessage) bool { return fn(at, offset) })
}

// values is walk with what the members are.
func (t *Table) values(fn func(at []string, offset int64, value json.RawMessage) bool) {
	walkObject(nil, t.data, 0, fn)
}

func walkObject(at []string, data []byte, base int64, fn func(at []string, offset int64, value json.RawMessage) bool) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return true
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return false
		}
		here := append(slices.Clone(at), fmt.Sprint(name))
		offset := base + dec.InputOffset()
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return false
		}
		if !fn(here, offset, value) {
			return false
		}
		if value[0] == '{' && !walkObject(here, value, base+dec.InputOffset()-int64(len(value)), fn) {
			return false
		}
	}
	return true
}

// dearest is more than a million tokens of any model cost: what is above it is in another unit.
const dearest = 100_000 * agentkernel.USD

// Classes are the prices of a price by name; what is nil is left out.
func (p *Price) Classes() map[string]agentkernel.NanoUSD {
	all := map[string]agentkernel.NanoUSD{"input": p.Input, "output": p.Output}
	for name, n := range map[string]*agentkernel.NanoUSD{"cache_read": p.CacheRead, "cache_write": p.CacheWrite, "cache_write_1h": p.CacheWrite1h, "reasoning": p.Reasoning} {
		if n != nil {
			all[name] = *n
		}
	}
	return all
}

// check says what is wrong with a price, and in which member.
func (p *Price) check() (field string, err error) {
	if p == nil {
		return "", fmt.Errorf("it is null")
	}
	all := p.Classes()
	if a := p.Above; a != nil {
		if a.InputTokens < 1 {
			return "above", fmt.Errorf("above needs input_tokens")
		}
		above := Price{Input: a.Input, Output: a.Output, CacheRead: a.CacheRead, CacheWrite: a.CacheWrite}
		for _, n := range above.Classes() {
			if n < 0 || n > dearest {
				return "above", fmt.Errorf("a price of %s dollars for a million tokens is none", n)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch n := all[name]; {
		case n < 0:
			return name, fmt.Errorf("%s is negative: %s", name, n)
		case n > dearest:
			return name, fmt.Errorf("%s is %s dollars for a million tokens, which no model costs: it is in another unit", name, n)
		}
	}
	return "", nil
}

// pathless is an error of a file that is named already.
func pathless(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// OpenTable reads the table of a file.
func OpenTable(path string) (*Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "prices", "the table of prices %s cannot be read: %w", path, pathless(err))
	}
	defer f.Close()
	return ReadTable(path, f)
}

// Load reads declarations, and the tables of files with prices; installed is one that need not be there ("": there is none), and comes
// after the others.
func Load(declared, prices []string, installed string) (all []Model, tables []*Table, err error) {
	if all, err = ParseAll(declared); err != nil {
		return nil, nil, err
	}
	if installed != "" {
		if _, err := os.Stat(installed); !errors.Is(err, fs.ErrNotExist) {
			prices = append(slices.Clone(prices), installed)
		}
	}
	for _, path := range prices {
		t, err := OpenTable(path)
		if err != nil {
			return nil, nil, err
		}
		tables = append(tables, t)
	}
	return all, tables, nil
}

// Installed is where the table is that Install puts into a directory.
func Installed(dir string) string { return filepath.Join(dir, "current.json") }

// Before is where the table is that the last Install has replaced.
func Before(dir string) string { return filepath.Join(dir, "previous.json") }
