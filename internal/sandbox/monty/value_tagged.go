package monty

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// errNoTag says that an object only looks like a $-object: it is a dict after all.
var errNoTag = errors.New("not a $-object")

// maxTimeDeltaDays is Python's own bound.
const maxTimeDeltaDays = 999_999_999

// tag reads `{"$name":` and leaves the encoder behind the colon. It says no, and may be anywhere, if the
// object does not begin so or has further members.
func (e *encoder) tag() (string, bool) {
	if !e.take('{') || e.peek() != '"' || e.at+1 >= len(e.in) || e.in[e.at+1] != '$' {
		return "", false
	}
	raw, escaped, err := e.rawString()
	if err != nil || escaped || !e.take(':') {
		return "", false
	}
	value := e.at
	if !e.skip() || e.peek() != '}' {
		return "", false
	}
	e.at = value
	return string(raw), true
}

// skip passes over one value without looking into it: brackets are counted, strings are stepped over.
func (e *encoder) skip() bool {
	depth := 0
	for e.peek() != 0 {
		switch c := e.in[e.at]; c {
		case '"':
			if _, _, err := e.rawString(); err != nil {
				return false
			}
		case '[', '{':
			depth++
			e.at++
		case ']', '}', ',', ':':
			if depth == 0 {
				return false
			}
			if c == ']' || c == '}' {
				depth--
			}
			e.at++
		default:
			for e.at < len(e.in) && isScalarByte(e.in[e.at]) {
				e.at++
			}
			if e.at < len(e.in) && e.peek() == c && !isScalarByte(c) {
				return false
			}
		}
		if depth == 0 {
			return true
		}
	}
	return false
}

func isScalarByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.'
}

// tagged appends what the $-object stands for; errNoTag if the tag is unknown or its content has another shape.
func (e *encoder) tagged(dst []byte, tag string, depth int) (out []byte, hashable bool, err error) {
	switch tag {
	case "$tuple":
		if e.peek() != '[' {
			return nil, false, errNoTag
		}
		out, err = nested(dst, fieldTuple, func(dst []byte) ([]byte, error) {
			dst, h, err := e.itemsHash(dst, 1, depth)
			hashable = h
			return dst, err
		})
		return out, hashable, err
	case "$set", "$frozenset":
		if e.peek() != '[' {
			return nil, false, errNoTag
		}
		field := protowire.Number(fieldSet)
		if tag == "$frozenset" {
			field = fieldFrozenset
		}
		out, err = nested(dst, field, func(dst []byte) ([]byte, error) { return e.items(dst, 1, depth, true) })
		return out, field == fieldFrozenset, err
	case "$dict":
		if e.peek() != '[' {
			return nil, false, errNoTag
		}
		out, err = nested(dst, fieldDict, func(dst []byte) ([]byte, error) { return e.dictPairs(dst, depth) })
		return out, false, err
	case "$namedtuple":
		if e.peek() != '{' {
			return nil, false, errNoTag
		}
		return e.namedTuple(dst, depth)
	case "$exception":
		if e.peek() != '{' {
			return nil, false, errNoTag
		}
		out, err = e.exception(dst)
		return out, true, err
	case "$object":
		if e.peek() != '{' {
			return nil, false, errNoTag
		}
		return e.instance(dst, depth)
	case "$timedelta", "$timezone":
		if e.peek() != '[' {
			return nil, false, errNoTag
		}
		out, err = e.numbers(dst, tag)
		return out, true, err
	}
	if e.peek() != '"' {
		return nil, false, errNoTag
	}
	return e.taggedText(dst, tag)
}

// taggedText handles the $-objects whose content is a string.
func (e *encoder) taggedText(dst []byte, tag string) ([]byte, bool, error) {
	switch tag {
	case "$repr":
		out, err := e.str(protowire.AppendTag(dst, fieldStr, protowire.BytesType))
		return out, true, err
	case "$path":
		out, err := e.str(protowire.AppendTag(dst, fieldPath, protowire.BytesType))
		return out, true, err
	case "$bytes":
		raw, escaped, err := e.rawString()
		if err != nil || escaped {
			return nil, false, errors.Join(err, errNotJSON)
		}
		out, err := nested(dst, fieldBytes, func(dst []byte) ([]byte, error) { return appendBase64(dst, raw) })
		return out, true, err
	case "$float", "$date", "$time", "$datetime":
	default:
		return nil, false, errNoTag
	}
	text, err := e.text()
	if err != nil {
		return nil, false, err
	}
	if tag == "$float" {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !math.IsNaN(f) && !math.IsInf(f, 0) {
			return nil, false, fmt.Errorf("%.40q is not a $float: nan, inf or -inf", text)
		}
		return appendFloat(dst, f), true, nil
	}
	field := map[string]protowire.Number{"$date": fieldDate, "$time": fieldTime, "$datetime": fieldDateTime}[tag]
	c, ok := parseISO(text, field != fieldTime, field != fieldDate)
	if !ok {
		return nil, false, fmt.Errorf("%.40q is not a %s", text, tag)
	}
	return appendClockValue(dst, field, c), true, nil
}

func (e *encoder) dictPairs(dst []byte, depth int) ([]byte, error) {
	if err := e.expect('['); err != nil {
		return nil, err
	}
	if e.take(']') {
		return dst, nil
	}
	for {
		if err := e.expect('['); err != nil {
			return nil, err
		}
		var err error
		dst, err = nested(dst, 1, func(dst []byte) ([]byte, error) {
			dst, err := nested(dst, 1, func(dst []byte) ([]byte, error) {
				dst, hashable, err := e.value(dst, depth+3)
				if err == nil && !hashable {
					err = errUnhashable
				}
				return dst, err
			})
			if err != nil {
				return nil, err
			}
			if err := e.expect(','); err != nil {
				return nil, err
			}
			return e.pairValue(dst, depth)
		})
		if err != nil {
			return nil, err
		}
		if err := e.expect(']'); err != nil {
			return nil, err
		}
		if !e.take(',') {
			return dst, e.expect(']')
		}
	}
}

// fields reads a JSON object whose keys are known, in any order.
func (e *encoder) fields(fn func(key string) error) error {
	if err := e.expect('{'); err != nil {
		return err
	}
	for !e.take('}') {
		key, err := e.text()
		if err != nil {
			return err
		}
		if err := e.expect(':'); err != nil {
			return err
		}
		if err := fn(key); err != nil {
			return err
		}
		if !e.take(',') {
			return e.expect('}')
		}
	}
	return nil
}

func (e *encoder) namedTuple(dst []byte, depth int) (out []byte, hashable bool, err error) {
	var names, values int
	out, err = nested(dst, fieldNamedTuple, func(dst []byte) ([]byte, error) {
		err := e.fields(func(key string) (err error) {
			switch key {
			case "type":
				if e.peek() != '"' {
					return errNotJSON
				}
				dst, err = e.str(protowire.AppendTag(dst, 1, protowire.BytesType))
			case "fields":
				dst, names, err = e.fieldNames(dst)
			case "values":
				values = e.countItems()
				dst, hashable, err = e.itemsHash(dst, 3, depth)
			default:
				err = fmt.Errorf("%.40q does not belong into a $namedtuple", key)
			}
			return err
		})
		if err == nil && names != values {
			err = fmt.Errorf("a $namedtuple has %d fields and %d values", names, values)
		}
		return dst, err
	})
	return out, hashable, err
}

func (e *encoder) fieldNames(dst []byte) ([]byte, int, error) {
	if err := e.expect('['); err != nil {
		return nil, 0, err
	}
	if e.take(']') {
		return dst, 0, nil
	}
	for n := 1; ; n++ {
		name, err := e.text()
		if err != nil {
			return nil, 0, err
		}
		dst = appendStr(dst, 2, name)
		if !e.take(',') {
			return dst, n, e.expect(']')
		}
	}
}

// countItems counts the items of the array that comes next, without moving on.
func (e *encoder) countItems() (n int) {
	at := e.at
	defer func() { e.at = at }()
	if !e.take('[') || e.take(']') {
		return 0
	}
	for e.skip() {
		n++
		if !e.take(',') {
			break
		}
	}
	return n
}

func (e *encoder) exception(dst []byte) ([]byte, error) {
	var typ string
	var arg *string
	err := e.fields(func(key string) (err error) {
		switch {
		case key == "type":
			typ, err = e.text()
		case key == "arg" && e.peek() == '"':
			s, err2 := e.text()
			arg, err = &s, err2
		case key == "arg":
			_, _, err = e.value(nil, envelopeDepth) // null
		default:
			err = fmt.Errorf("%.40q does not belong into an $exception", key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if !raisable(typ) {
		return nil, fmt.Errorf("%.40q is not an exception that the engine knows", typ)
	}
	return nested(dst, fieldException, func(dst []byte) ([]byte, error) {
		dst = appendStr(dst, 1, typ)
		if arg != nil {
			dst = appendStr(dst, 2, *arg)
		}
		return dst, nil
	})
}

// instance gives a dict of the fields: objects of a program's own classes do not come back as such.
func (e *encoder) instance(dst []byte, depth int) (out []byte, hashable bool, err error) {
	out = appendEmpty(dst, fieldDict)
	err = e.fields(func(key string) (err error) {
		if key == "type" {
			_, err = e.text()
			return err
		}
		if key != "fields" || e.peek() != '{' {
			return fmt.Errorf("%.40q does not belong into an $object", key)
		}
		out, _, err = e.value(dst, depth)
		return err
	})
	return out, false, err
}

// numbers handles $timedelta and $timezone.
func (e *encoder) numbers(dst []byte, tag string) ([]byte, error) {
	if err := e.expect('['); err != nil {
		return nil, err
	}
	var v [3]int64
	if tag == "$timedelta" {
		for i := range v {
			if i > 0 && !e.take(',') {
				return nil, errNotJSON
			}
			var err error
			if v[i], err = e.integer(); err != nil {
				return nil, err
			}
		}
		if v[0] < -maxTimeDeltaDays || v[0] > maxTimeDeltaDays || v[1] < 0 || v[1] >= 86400 || v[2] < 0 || v[2] >= 1e6 {
			return nil, errors.New("a $timedelta is out of range: days, seconds 0 to 86399, microseconds 0 to 999999")
		}
		out, err := nested(dst, fieldTimeDelta, func(dst []byte) ([]byte, error) {
			for i, n := range v {
				dst = protowire.AppendTag(dst, protowire.Number(i+1), protowire.VarintType)
				dst = protowire.AppendVarint(dst, uint64(n))
			}
			return dst, nil
		})
		return out, errors.Join(err, e.expect(']'))
	}
	offset, err := e.integer()
	if err != nil || offset <= -86400 || offset >= 86400 || !e.take(',') {
		return nil, errors.New("a $timezone is [seconds within a day, name or null]")
	}
	out, err := nested(dst, fieldTimeZone, func(dst []byte) ([]byte, error) {
		dst = protowire.AppendTag(dst, 1, protowire.VarintType)
		dst = protowire.AppendVarint(dst, uint64(offset))
		if e.peek() == '"' {
			return e.str(protowire.AppendTag(dst, 2, protowire.BytesType))
		}
		_, _, err := e.value(nil, envelopeDepth) // null
		return dst, err
	})
	if err != nil {
		return nil, err
	}
	return out, e.expect(']')
}

func (e *encoder) integer() (int64, error) {
	e.space()
	start := e.at
	for e.at < len(e.in) && (e.in[e.at] == '-' || e.in[e.at] >= '0' && e.in[e.at] <= '9') {
		e.at++
	}
	n, err := strconv.ParseInt(string(e.in[start:e.at]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: a whole number is missing", errNotJSON)
	}
	return n, nil
}
