package intrinsic

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"agentkernel/internal/journal"
)

// dialect is how CSV is written; the fields are those of Python's csv.
type dialect struct {
	delimiter, quote, escape rune // quote and escape 0: none
	doubleQuote, skipSpace   bool
	strict                   bool
	quoting                  int64
	terminator               string
}

const (
	quoteMinimal = iota
	quoteAll
	quoteNonNumeric
	quoteNone
)

// dialect reads (delimiter, quotechar, escapechar, doublequote, skipinitialspace, strict, quoting,
// lineterminator) from argument i on.
func (a arguments) dialect(i int) (d dialect, err error) {
	chars := [3]rune{}
	for n, name := range []string{"delimiter", "quotechar", "escapechar"} {
		s, err := a.optionalText(i + n)
		if err != nil || utf8.RuneCountInString(s) > 1 || n == 0 && s == "" {
			return d, typeError(`"%s" must be a 1-character string`, name)
		}
		for _, r := range s {
			chars[n] = r
		}
	}
	d = dialect{delimiter: chars[0], quote: chars[1], escape: chars[2], doubleQuote: a.flag(i + 3),
		skipSpace: a.flag(i + 4), strict: a.flag(i + 5)}
	if d.quoting, err = a.integer(i+6, quoteMinimal, quoteNone); err != nil {
		return d, typeError(`bad "quoting" value`)
	}
	if d.quoting == quoteNone {
		d.quote = 0
	}
	const longest = 16 // it is written once for each row, and compared with each character
	if d.terminator, err = a.optionalText(i + 7); err == nil && len(d.terminator) > longest {
		err = valueError("a lineterminator of %d bytes is too long; at most %d", len(d.terminator), longest)
	}
	return d, err
}

// csvReader is the state machine of CPython's _csv.c over the whole text.
type csvReader struct {
	dialect
	rows    rowSink
	field   []byte
	numeric bool
}

// rowSink takes what a reader finds.
type rowSink interface {
	field(text []byte) // a text field of the row under way
	number(v float64)
	end() // of the row, which may have no field
}

// The engine takes one large text apart faster than it receives many small ones. Its marks are control characters that JSON does not
// escape: those of ASCII become six times as long, and a text may be nothing but rows.
const (
	fieldMark = "\u007f" // between the fields of a row
	rowMark   = "\u0080" // between rows
	emptyMark = "\u0081" // stands for a row without fields
)

// marked writes rows as one text.
type marked struct {
	out    []byte
	fields int
	rows   int
}

func (m *marked) field(text []byte) {
	m.begin()
	m.out = append(m.out, text...)
}

func (m *marked) begin() {
	if m.fields > 0 {
		m.out = append(m.out, fieldMark...)
	} else if m.rows > 0 {
		m.out = append(m.out, rowMark...)
	}
	m.fields++
}

func (m *marked) number(float64) {}

func (m *marked) end() {
	if m.fields == 0 {
		m.begin()
		m.out = append(m.out, emptyMark...)
	}
	m.fields = 0
	m.rows++
}

// listed writes rows as a JSON list of lists.
type listed struct {
	out    []byte
	fields int
}

func (l *listed) begin() {
	switch {
	case l.fields > 0:
		l.out = append(l.out, ',')
	case len(l.out) > 1:
		l.out = append(l.out, ",["...)
	default:
		l.out = append(l.out, '[')
	}
	l.fields++
}

func (l *listed) field(text []byte) {
	l.begin()
	l.out = journal.AppendString(l.out, string(text))
}

func (l *listed) number(v float64) {
	l.begin()
	l.out = appendFloat(l.out, v)
}

func (l *listed) end() {
	if l.fields == 0 {
		l.begin()
	}
	l.out = append(l.out, ']')
	l.fields = 0
}

// keyed writes rows as JSON objects under the names of a header. bad is set by a row of another length.
type keyed struct {
	names  []string // as JSON text with the colon
	header bool     // the first row gives the names
	out    []byte
	most   int // bytes of out: long names over many short rows must not add up
	fields int
	bad    bool
}

func (k *keyed) field(text []byte) {
	switch {
	case len(k.out) > k.most:
		k.bad = true
		return
	case k.header:
		k.names = append(k.names, string(append(journal.AppendString(nil, string(text)), ':')))
		return
	case k.fields >= len(k.names):
		k.bad = true
		return
	case k.fields > 0:
		k.out = append(k.out, ',')
	case len(k.out) > 1:
		k.out = append(k.out, ",{"...)
	default:
		k.out = append(k.out, '{')
	}
	k.out = append(k.out, k.names[k.fields]...)
	k.out = journal.AppendString(k.out, string(text))
	k.fields++
}

func (k *keyed) number(float64) { k.bad = true }

func (k *keyed) end() {
	switch {
	case k.header:
		k.header = false
	case k.fields == 0 && !k.bad: // DictReader passes over empty rows
	case k.fields != len(k.names):
		k.bad = true
	default:
		k.out = append(k.out, '}')
	}
	k.fields = 0
}

// csvRows(text, dialect...) -> the rows as one text with marks, or, where the text holds marks itself or
// numbers are wanted, as a list.
func csvRows(a arguments) (json.RawMessage, error) {
	text, err := a.text(0)
	if err != nil {
		return nil, err
	}
	d, err := a.dialect(1)
	if err != nil {
		return nil, err
	}
	if d.quoting == quoteNonNumeric || strings.ContainsAny(text, fieldMark+rowMark+emptyMark) {
		rows := &listed{out: append(make([]byte, 0, len(text)*2+2), '[')}
		err := (&csvReader{dialect: d, rows: rows}).read(text)
		return append(rows.out, ']'), err
	}
	rows := &marked{out: make([]byte, 0, len(text)+16)}
	if err := (&csvReader{dialect: d, rows: rows}).read(text); err != nil {
		return nil, err
	}
	if rows.rows == 0 {
		return json.RawMessage("[]"), nil
	}
	return textResult(string(rows.out))
}

// csvDicts(text, names or None, dialect...) -> JSON text of a list of objects, or None if a row does not
// have as many fields as there are names, or two names are the same.
func csvDicts(a arguments) (json.RawMessage, error) {
	text, err := a.text(0)
	if err != nil {
		return nil, err
	}
	d, err := a.dialect(2)
	if err != nil {
		return nil, err
	}
	const growth, least = 8, 64 << 10
	rows := &keyed{header: string(a.raw(1)) == "null", out: append(make([]byte, 0, len(text)*3), '['), most: growth*len(text) + least}
	if !rows.header {
		names, err := a.items(1)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if len(n) == 0 || n[0] != '"' {
				return json.RawMessage("null"), nil // a name that is not text
			}
			s, err := arguments{a.name, []json.RawMessage{n}}.text(0)
			if err != nil {
				return nil, err
			}
			rows.names = append(rows.names, string(append(journal.AppendString(nil, s), ':')))
		}
	}
	const columns = 256 // names are looked for among those before; more are read in the slow way
	if err := (&csvReader{dialect: d, rows: rows}).read(text); err != nil {
		return nil, err
	}
	if rows.bad || rows.header || len(rows.names) == 0 || len(rows.names) > columns || repeated(rows.names) ||
		len(rows.out) > maxInput {
		return json.RawMessage("null"), nil
	}
	return textResult(string(append(rows.out, ']')))
}

func repeated(names []string) bool {
	for i, n := range names {
		if slices.Contains(names[:i], n) {
			return true
		}
	}
	return false
}

type csvState int

const (
	startRecord csvState = iota
	startField
	escaped
	inField
	inQuoted
	escapedInQuoted
	quoteInQuoted
	eatLineEnd
)

func (r *csvReader) read(text string) error {
	state := startRecord
	for i, c := range text {
		if c == '\r' && i+1 < len(text) && text[i+1] == '\n' && state != inQuoted && state != escapedInQuoted && state != escaped {
			continue // the line feed ends the row
		}
		if c == '\r' && state != inQuoted && state != escapedInQuoted && state != escaped {
			c = '\n'
		}
		var err error
		if state, err = r.step(state, c); err != nil {
			return err
		}
	}
	switch state {
	case startRecord:
		return nil
	case inQuoted, escapedInQuoted:
		if r.strict {
			return csvError("unexpected end of data")
		}
	case escaped:
		r.field = append(r.field, '\n')
	}
	return r.endRow()
}

func csvError(text string) error { return &pyError{"ValueError", text} }

// step is one character of the state machine.
func (r *csvReader) step(state csvState, c rune) (csvState, error) {
	switch state {
	case startRecord:
		if c == '\n' {
			return startRecord, r.emptyRow()
		}
		return r.step(startField, c)
	case startField:
		switch {
		case c == '\n':
			return startRecord, r.endRow()
		case c == r.quote && r.quote != 0:
			return inQuoted, nil
		case c == r.escape && r.escape != 0:
			return escaped, nil
		case c == ' ' && r.skipSpace:
			return startField, nil
		case c == r.delimiter:
			return startField, r.endField()
		}
		r.numeric = r.quoting == quoteNonNumeric
		r.add(c)
		return inField, nil
	case escaped:
		r.add(c)
		return inField, nil
	case inField:
		switch {
		case c == '\n':
			return startRecord, r.endRow()
		case c == r.escape && r.escape != 0:
			return escaped, nil
		case c == r.delimiter:
			return startField, r.endField()
		}
		r.add(c)
		return inField, nil
	case inQuoted:
		switch {
		case c == r.escape && r.escape != 0:
			return escapedInQuoted, nil
		case c == r.quote && r.doubleQuote:
			return quoteInQuoted, nil
		case c == r.quote:
			return inField, nil
		}
		r.add(c)
		return inQuoted, nil
	case escapedInQuoted:
		r.add(c)
		return inQuoted, nil
	}
	// quoteInQuoted
	switch {
	case c == r.quote:
		r.add(c)
		return inQuoted, nil
	case c == r.delimiter:
		return startField, r.endField()
	case c == '\n':
		return startRecord, r.endRow()
	case r.strict:
		return state, csvError("'" + string(r.delimiter) + "' expected after '" + string(r.quote) + "'")
	}
	r.add(c)
	return inField, nil
}

func (r *csvReader) add(c rune) { r.field = utf8.AppendRune(r.field, c) }

func (r *csvReader) endField() error {
	if r.numeric {
		v, err := floatText(string(r.field))
		if err != nil {
			return err
		}
		r.rows.number(v)
	} else {
		r.rows.field(r.field)
	}
	r.field, r.numeric = r.field[:0], false
	return nil
}

func (r *csvReader) endRow() error {
	if err := r.endField(); err != nil {
		return err
	}
	r.rows.end()
	return nil
}

func (r *csvReader) emptyRow() error {
	r.rows.end()
	return nil
}

// csvText(rows, dialect...) -> text. A row is a list of fields: str, int, float, bool or None.
func csvText(a arguments) (json.RawMessage, error) {
	d, err := a.dialect(1)
	if err != nil {
		return nil, err
	}
	var out []byte
	err = a.each(0, func(raw json.RawMessage) error {
		fields, err := arguments{a.name, []json.RawMessage{raw}}.items(0)
		if err != nil {
			return typeError("iterable expected, not a single value")
		}
		out, err = d.appendRow(out, fields)
		return err
	})
	if err != nil {
		return nil, err
	}
	return textResult(string(out))
}

func (d *dialect) appendRow(out []byte, fields []json.RawMessage) ([]byte, error) {
	for i, raw := range fields {
		if i > 0 {
			out = utf8.AppendRune(out, d.delimiter)
		}
		text, numeric, err := fieldText(raw)
		if err != nil {
			return nil, err
		}
		quoted := d.quoting == quoteAll || d.quoting == quoteNonNumeric && !numeric || text == "" && len(fields) == 1
		if d.quoting == quoteNone && text == "" && len(fields) == 1 {
			return nil, csvError("single empty field record must be quoted")
		}
		if out, err = d.appendField(out, text, quoted && d.quoting != quoteNone); err != nil {
			return nil, err
		}
	}
	return append(out, d.terminator...), nil
}

func (d *dialect) appendField(out []byte, text string, quoted bool) ([]byte, error) {
	if !quoted && d.quoting != quoteNone {
		for _, c := range text {
			if c == d.delimiter || c == d.quote && d.quote != 0 || c == d.escape && d.escape != 0 || c == '\n' || c == '\r' ||
				strings.ContainsRune(d.terminator, c) {
				quoted = true
				if c == d.quote && !d.doubleQuote || c == d.escape && d.escape != 0 {
					quoted = c != d.quote || d.escape == 0
				}
				break
			}
		}
	}
	if quoted {
		out = utf8.AppendRune(out, d.quote)
	}
	for _, c := range text {
		switch {
		case c == d.quote && d.quote != 0 && d.doubleQuote && d.quoting != quoteNone:
			out = utf8.AppendRune(out, c) // doubled
		case c == d.escape && d.escape != 0,
			c == d.quote && d.quote != 0,
			!quoted && (c == d.delimiter || c == '\n' || c == '\r' || strings.ContainsRune(d.terminator, c)):
			if d.escape == 0 {
				return nil, csvError("need to escape, but no escapechar set")
			}
			out = utf8.AppendRune(out, d.escape)
		}
		out = utf8.AppendRune(out, c)
	}
	if quoted {
		out = utf8.AppendRune(out, d.quote)
	}
	return out, nil
}

// fieldText is str(value) of a field, as far as JSON says it; the shim makes text of all other values.
func fieldText(raw json.RawMessage) (text string, numeric bool, err error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", false, nil
	case raw[0] == '"':
		err = json.Unmarshal(raw, &text)
		return text, false, err
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		v, err := parseNumber(raw)
		if err == nil && v.isFloat {
			return pythonFloat(v.float), true, nil
		}
		return string(raw), true, err
	}
	return "", false, typeError("a field must be a text or a number")
}
