package monty

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/big"
	"sort"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"agentkernel/internal/journal"
)

// Fields of montypb.Value.
const (
	fieldEllipsis       = 1
	fieldNone           = 2
	fieldNotImplemented = 3
	fieldBool           = 4
	fieldInt            = 5
	fieldBigInt         = 6
	fieldFloat          = 7
	fieldStr            = 8
	fieldBytes          = 9
	fieldList           = 11
	fieldTuple          = 12
	fieldNamedTuple     = 13
	fieldDict           = 14
	fieldSet            = 15
	fieldFrozenset      = 16
	fieldDate           = 17
	fieldTime           = 18
	fieldDateTime       = 19
	fieldTimeDelta      = 20
	fieldTimeZone       = 21
	fieldException      = 22
	fieldType           = 23
	fieldInstance       = 24
	fieldFunction       = 25
	fieldBuiltin        = 26
	fieldPath           = 27
	fieldFileHandle     = 28
	fieldRepr           = 29
	fieldCycle          = 30
)

const (
	// maxValueDepth bounds how deep a worker may nest what it sends. The engine itself stops below 100.
	maxValueDepth = 200
	// setDepth is how many levels a set counts for: it is sorted, so what is in it is written twice.
	setDepth = 20
	// maxIntBytes bounds the magnitude of an int that crosses the border, because decimal text costs more
	// than linear time: 4 KiB is 9,800 digits.
	maxIntBytes = 4 << 10
)

var (
	errMalformed = errors.New("the worker sent a malformed value")
	errTooDeep   = fmt.Errorf("a value is nested deeper than %d levels, or %d sets", maxValueDepth, maxValueDepth/setDepth)
	errHugeInt   = fmt.Errorf("an int is larger than %d bytes", maxIntBytes)
)

// appendJSON appends one value of the worker as JSON in the form of docs/values.md. The bytes come from a
// process that may be hostile: any input gives JSON or an error, at a cost linear in its size.
func appendJSON(dst, val []byte) ([]byte, error) { return appendJSONAt(dst, val, 0) }

func appendJSONAt(dst, val []byte, depth int) ([]byte, error) {
	if depth > maxValueDepth {
		return nil, errTooDeep
	}
	num, typ, n := protowire.ConsumeTag(val)
	if n < 0 {
		return nil, errMalformed
	}
	val = val[n:]
	switch typ {
	case protowire.VarintType:
		v, n := protowire.ConsumeVarint(val)
		switch {
		case n < 0 || n != len(val):
			return nil, errMalformed
		case num == fieldBool:
			return strconv.AppendBool(dst, v != 0), nil
		case num == fieldInt:
			return strconv.AppendInt(dst, protowire.DecodeZigZag(v), 10), nil
		}
	case protowire.Fixed64Type:
		v, n := protowire.ConsumeFixed64(val)
		if n == len(val) && num == fieldFloat {
			return appendFloatJSON(dst, math.Float64frombits(v)), nil
		}
	case protowire.BytesType:
		body, n := protowire.ConsumeBytes(val)
		if n == len(val) {
			return appendMessageJSON(dst, num, body, depth)
		}
	}
	return nil, errMalformed
}

func appendMessageJSON(dst []byte, num protowire.Number, body []byte, depth int) ([]byte, error) {
	switch num {
	case fieldNone:
		return append(dst, "null"...), nil
	case fieldStr:
		return appendStringJSON(dst, body)
	case fieldBytes:
		return appendBytesJSON(dst, body), nil
	case fieldList:
		return appendItemsJSON(dst, body, 1, depth)
	case fieldDict:
		return appendDictJSON(dst, body, depth)
	case fieldTuple:
		return appendTagged(dst, "$tuple", func(dst []byte) ([]byte, error) { return appendItemsJSON(dst, body, 1, depth) })
	case fieldSet:
		return appendTagged(dst, "$set", func(dst []byte) ([]byte, error) { return appendSetJSON(dst, body, depth) })
	case fieldFrozenset:
		return appendTagged(dst, "$frozenset", func(dst []byte) ([]byte, error) { return appendSetJSON(dst, body, depth) })
	case fieldBigInt:
		return appendBigJSON(dst, body)
	case fieldPath:
		return appendTagged(dst, "$path", func(dst []byte) ([]byte, error) { return appendStringJSON(dst, body) })
	case fieldNamedTuple:
		return appendNamedTupleJSON(dst, body, depth)
	case fieldException:
		return appendExceptionJSON(dst, body)
	case fieldInstance:
		return appendInstanceJSON(dst, body, depth)
	case fieldDate, fieldTime, fieldDateTime, fieldTimeDelta, fieldTimeZone:
		return appendTimeJSON(dst, num, body)
	}
	return appendReprJSON(dst, num, body)
}

// appendReprJSON writes what has no JSON form as the text that the program would print for it.
func appendReprJSON(dst []byte, num protowire.Number, body []byte) ([]byte, error) {
	named := func(field protowire.Number) (string, error) {
		b, err := bytesField(body, field)
		return string(b), err
	}
	var text, name string
	var err error
	switch num {
	case fieldEllipsis:
		text = "Ellipsis"
	case fieldNotImplemented:
		text = "NotImplemented"
	case fieldRepr:
		text = string(body)
	case fieldBuiltin:
		text = "<built-in function " + string(body) + ">"
	case fieldType:
		name, err = named(1)
		text = "<class '" + name + "'>"
	case fieldFunction:
		name, err = named(1)
		text = "<function " + name + ">"
	case fieldFileHandle:
		name, err = named(1)
		text = "<file '" + name + "'>"
	case fieldCycle:
		text, err = named(2)
	default:
		return nil, errMalformed
	}
	if err != nil {
		return nil, err
	}
	return appendTagged(dst, "$repr", func(dst []byte) ([]byte, error) { return appendStringJSON(dst, []byte(text)) })
}

func appendTagged(dst []byte, tag string, value func([]byte) ([]byte, error)) ([]byte, error) {
	dst = append(dst, `{"`...)
	dst = append(dst, tag...)
	dst = append(dst, `":`...)
	dst, err := value(dst)
	if err != nil {
		return nil, err
	}
	return append(dst, '}'), nil
}

// appendItemsJSON writes the repeated values of field num as an array.
func appendItemsJSON(dst, body []byte, field protowire.Number, depth int) ([]byte, error) {
	dst = append(dst, '[')
	first := true
	err := eachBytes(body, func(num protowire.Number, b []byte) (err error) {
		if num != field {
			return nil
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst, err = appendJSONAt(dst, b, depth+1)
		return err
	})
	if err != nil {
		return nil, err
	}
	return append(dst, ']'), nil
}

// appendSetJSON writes items sorted by their text: a set has no order of its own, and the engine's order
// must not show. Items of a set are hashable, and for those the text written here is the canonical one.
func appendSetJSON(dst, body []byte, depth int) ([]byte, error) {
	var text []byte
	var cuts []int
	err := eachBytes(body, func(num protowire.Number, b []byte) (err error) {
		if num != 1 {
			return nil
		}
		cuts = append(cuts, len(text))
		text, err = appendJSONAt(text, b, depth+setDepth)
		return err
	})
	if err != nil {
		return nil, err
	}
	cuts = append(cuts, len(text))
	items := make([][]byte, len(cuts)-1)
	for i := range items {
		items[i] = text[cuts[i]:cuts[i+1]]
	}
	sort.Slice(items, func(i, j int) bool { return bytes.Compare(items[i], items[j]) < 0 })
	dst = append(dst, '[')
	for i, it := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, it...)
	}
	return append(dst, ']'), nil
}

func appendDictJSON(dst, body []byte, depth int) ([]byte, error) {
	plain, err := plainKeys(body)
	if err != nil {
		return nil, err
	}
	if plain {
		return appendPairsJSON(append(dst, '{'), body, depth, "", ":", "", '}')
	}
	return appendTagged(dst, "$dict", func(dst []byte) ([]byte, error) {
		return appendPairsJSON(append(dst, '['), body, depth, "[", ",", "]", ']')
	})
}

func appendPairsJSON(dst, body []byte, depth int, open, between, shut string, end byte) ([]byte, error) {
	first := true
	err := eachBytes(body, func(num protowire.Number, b []byte) error {
		if num != 1 {
			return nil
		}
		key, val, err := pairFields(b)
		if err != nil {
			return err
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, open...)
		if dst, err = appendJSONAt(dst, key, depth+1); err != nil {
			return err
		}
		dst = append(dst, between...)
		if dst, err = appendJSONAt(dst, val, depth+1); err != nil {
			return err
		}
		dst = append(dst, shut...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return append(dst, end), nil
}

// plainKeys says whether all keys of a dict are text that does not begin with "$".
func plainKeys(body []byte) (bool, error) {
	plain := true
	err := eachBytes(body, func(num protowire.Number, b []byte) error {
		if num != 1 || !plain {
			return nil
		}
		key, _, err := pairFields(b)
		if err != nil {
			return err
		}
		s, ok := strValue(key)
		plain = ok && (len(s) == 0 || s[0] != '$')
		return nil
	})
	return plain, err
}

// strValue gives the bytes of a value that is a str.
func strValue(val []byte) ([]byte, bool) {
	num, typ, n := protowire.ConsumeTag(val)
	if n < 0 || num != fieldStr || typ != protowire.BytesType {
		return nil, false
	}
	s, m := protowire.ConsumeBytes(val[n:])
	return s, m >= 0 && n+m == len(val)
}

func pairFields(pair []byte) (key, val []byte, err error) {
	err = eachBytes(pair, func(num protowire.Number, b []byte) error {
		switch num {
		case 1:
			key = b
		case 2:
			val = b
		}
		return nil
	})
	if err == nil && (key == nil || val == nil) {
		err = errMalformed
	}
	return key, val, err
}

func appendNamedTupleJSON(dst, body []byte, depth int) ([]byte, error) {
	typ, err := bytesField(body, 1)
	if err != nil {
		return nil, err
	}
	return appendTagged(dst, "$namedtuple", func(dst []byte) ([]byte, error) {
		dst = append(dst, `{"fields":[`...)
		first := true
		err := eachBytes(body, func(num protowire.Number, b []byte) (err error) {
			if num != 2 {
				return nil
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst, err = appendStringJSON(dst, b)
			return err
		})
		if err != nil {
			return nil, err
		}
		dst = append(dst, `],"type":`...)
		if dst, err = appendStringJSON(dst, typ); err != nil {
			return nil, err
		}
		dst = append(dst, `,"values":`...)
		if dst, err = appendItemsJSON(dst, body, 3, depth); err != nil {
			return nil, err
		}
		return append(dst, '}'), nil
	})
}

func appendExceptionJSON(dst, body []byte) ([]byte, error) {
	var typ, arg []byte
	err := eachBytes(body, func(num protowire.Number, b []byte) error {
		switch num {
		case 1:
			typ = b
		case 2:
			arg = append([]byte{}, b...) // not nil, also when empty
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return appendTagged(dst, "$exception", func(dst []byte) ([]byte, error) {
		dst = append(dst, `{"arg":`...)
		if arg == nil {
			dst = append(dst, "null"...)
		} else if dst, err = appendStringJSON(dst, arg); err != nil {
			return nil, err
		}
		dst = append(dst, `,"type":`...)
		if dst, err = appendStringJSON(dst, typ); err != nil {
			return nil, err
		}
		return append(dst, '}'), nil
	})
}

func appendInstanceJSON(dst, body []byte, depth int) ([]byte, error) {
	class, err := bytesField(body, 1)
	if err != nil {
		return nil, err
	}
	name, err := bytesField(class, 1)
	if err != nil {
		return nil, err
	}
	attrs, err := bytesField(body, 3)
	if err != nil {
		return nil, err
	}
	return appendTagged(dst, "$object", func(dst []byte) ([]byte, error) {
		dst = append(dst, `{"fields":`...)
		dst, err := appendDictJSON(dst, attrs, depth)
		if err != nil {
			return nil, err
		}
		dst = append(dst, `,"type":`...)
		if dst, err = appendStringJSON(dst, name); err != nil {
			return nil, err
		}
		return append(dst, '}'), nil
	})
}

func appendBigJSON(dst, body []byte) ([]byte, error) {
	var negative bool
	var magnitude []byte
	err := eachField(body, func(num protowire.Number, v uint64, b []byte) error {
		switch num {
		case 1:
			negative = v != 0
		case 2:
			magnitude = b
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(magnitude) > maxIntBytes:
		return nil, errHugeInt
	}
	n := new(big.Int).SetBytes(magnitude)
	if negative {
		n.Neg(n)
	}
	return n.Append(dst, 10), nil
}

func appendFloatJSON(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `{"$float":"nan"}`...)
	case math.IsInf(f, 1):
		return append(dst, `{"$float":"inf"}`...)
	case math.IsInf(f, -1):
		return append(dst, `{"$float":"-inf"}`...)
	}
	return journal.AppendFloat(dst, f)
}

func appendBytesJSON(dst, b []byte) []byte {
	dst = append(dst, `{"$bytes":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, `"}`...)
}

// appendStringJSON writes a string that came from a worker, which must be UTF-8.
func appendStringJSON(dst, s []byte) ([]byte, error) {
	if !utf8.Valid(s) {
		return nil, errMalformed
	}
	return journal.AppendString(dst, s), nil
}

// eachField walks the fields of a message: varints as v, length-delimited ones as b.
func eachField(body []byte, fn func(num protowire.Number, v uint64, b []byte) error) error {
	for len(body) > 0 {
		num, typ, n := protowire.ConsumeTag(body)
		if n < 0 {
			return errMalformed
		}
		body = body[n:]
		var v uint64
		var b []byte
		switch typ {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(body)
		case protowire.BytesType:
			b, n = protowire.ConsumeBytes(body)
			if b == nil {
				b = []byte{}
			}
		default:
			return errMalformed // no message of the engine has other kinds of fields here
		}
		if n < 0 {
			return errMalformed
		}
		if err := fn(num, v, b); err != nil {
			return err
		}
		body = body[n:]
	}
	return nil
}

// eachBytes walks the length-delimited fields of a message and skips the others.
func eachBytes(body []byte, fn func(num protowire.Number, b []byte) error) error {
	return eachField(body, func(num protowire.Number, _ uint64, b []byte) error {
		if b == nil {
			return nil
		}
		return fn(num, b)
	})
}

// bytesField gives a length-delimited field; the last one counts, as protobuf has it; nil if absent.
func bytesField(body []byte, field protowire.Number) (out []byte, err error) {
	err = eachBytes(body, func(num protowire.Number, b []byte) error {
		if num == field {
			out = b
		}
		return nil
	})
	return out, err
}
