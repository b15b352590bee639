package monty

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"agentkernel/internal/journal"
	"agentkernel/internal/strictjson"
)

const (
	// maxWireDepth is how many messages deep the engine reads (its protobuf library stops at 100, and the
	// envelope around a value takes up to five). A list costs two, a dict three.
	maxWireDepth  = 100
	envelopeDepth = 5
	maxIntDigits  = maxIntBytes * 12 / 5 // decimal digits in maxIntBytes bytes, rounded down
)

// appendValue appends JSON in the form of docs/values.md as one value of the engine. It makes one pass and
// no tree, and refuses whatever the engine would refuse, because the engine ends the program for it.
func appendValue(dst []byte, raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return appendEmpty(dst, fieldNone), nil
	}
	e := encoder{in: raw}
	dst, _, err := e.value(dst, envelopeDepth)
	if err != nil {
		return nil, fmt.Errorf("at byte %d: %w", e.at, err)
	}
	e.space()
	if e.at != len(raw) {
		return nil, fmt.Errorf("at byte %d: text after the value", e.at)
	}
	return dst, nil
}

var (
	errNotJSON    = errors.New("not JSON")
	errWireDepth  = errors.New("nested too deeply for the engine: about 47 lists or 31 dicts are the most")
	errUnhashable = errors.New("a dict key or set item is not hashable")
)

// encoder reads JSON from in.
type encoder struct {
	in []byte
	at int
}

func (e *encoder) space() {
	for e.at < len(e.in) {
		switch e.in[e.at] {
		case ' ', '\t', '\n', '\r':
			e.at++
		default:
			return
		}
	}
}

// peek gives the next byte that is not space, 0 at the end.
func (e *encoder) peek() byte {
	e.space()
	if e.at < len(e.in) {
		return e.in[e.at]
	}
	return 0
}

func (e *encoder) take(c byte) bool {
	if e.peek() != c || e.at >= len(e.in) {
		return false
	}
	e.at++
	return true
}

func (e *encoder) expect(c byte) error {
	if !e.take(c) {
		return fmt.Errorf("%w: %q is missing", errNotJSON, c)
	}
	return nil
}

// value appends the next value and says whether Python could hash it. depth is how many messages the
// engine's decoder has open around it.
func (e *encoder) value(dst []byte, depth int) (out []byte, hashable bool, err error) {
	if depth > maxWireDepth {
		return nil, false, errWireDepth
	}
	switch c := e.peek(); {
	case c == '"':
		out, err = e.str(protowire.AppendTag(dst, fieldStr, protowire.BytesType))
		return out, true, err
	case c == '{':
		return e.object(dst, depth)
	case c == '[':
		out, err = nested(dst, fieldList, func(dst []byte) ([]byte, error) {
			return e.items(dst, 1, depth, false)
		})
		return out, false, err
	case c == '-' || c >= '0' && c <= '9':
		out, err = e.number(dst)
		return out, true, err
	}
	for _, lit := range [...]string{"null", "true", "false"} {
		if len(e.in)-e.at >= len(lit) && string(e.in[e.at:e.at+len(lit)]) == lit {
			e.at += len(lit)
			if lit == "null" {
				return appendEmpty(dst, fieldNone), true, nil
			}
			dst = protowire.AppendTag(dst, fieldBool, protowire.VarintType)
			return protowire.AppendVarint(dst, protowire.EncodeBool(lit == "true")), true, nil
		}
	}
	return nil, false, errNotJSON
}

// nested appends a message field whose length is known only afterwards: it leaves one byte for the length
// and moves the body when that was too few. Bodies are moved once a level, and levels are few.
func nested(dst []byte, num protowire.Number, body func([]byte) ([]byte, error)) ([]byte, error) {
	dst = append(protowire.AppendTag(dst, num, protowire.BytesType), 0)
	start := len(dst)
	dst, err := body(dst)
	if err != nil {
		return nil, err
	}
	return patchLength(dst, start), nil
}

// patchLength writes the length of dst[start:] into the byte before it, making room if it needs more.
func patchLength(dst []byte, start int) []byte {
	size := len(dst) - start
	width := protowire.SizeVarint(uint64(size))
	if width > 1 {
		dst = append(dst, make([]byte, width-1)...)
		copy(dst[start+width-1:], dst[start:start+size])
	}
	protowire.AppendVarint(dst[:start-1], uint64(size))
	return dst
}

func appendEmpty(dst []byte, num protowire.Number) []byte {
	return append(protowire.AppendTag(dst, num, protowire.BytesType), 0)
}

func appendStr(dst []byte, num protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, num, protowire.BytesType), s)
}

// items appends the values of a JSON array as repeated field num.
func (e *encoder) items(dst []byte, num protowire.Number, depth int, mustHash bool) ([]byte, error) {
	out, hashable, err := e.itemsHash(dst, num, depth)
	if err == nil && mustHash && !hashable {
		return nil, errUnhashable
	}
	return out, err
}

func (e *encoder) itemsHash(dst []byte, num protowire.Number, depth int) (out []byte, hashable bool, err error) {
	if err := e.expect('['); err != nil {
		return nil, false, err
	}
	hashable = true
	if e.take(']') {
		return dst, true, nil
	}
	for {
		dst, err = nested(dst, num, func(dst []byte) ([]byte, error) {
			dst, h, err := e.value(dst, depth+2)
			hashable = hashable && h
			return dst, err
		})
		if err != nil {
			return nil, false, err
		}
		if !e.take(',') {
			return dst, hashable, e.expect(']')
		}
	}
}

// object appends a dict, or what a $-object stands for.
func (e *encoder) object(dst []byte, depth int) ([]byte, bool, error) {
	start := e.at
	if tag, ok := e.tag(); ok {
		if out, hashable, err := e.tagged(dst, tag, depth); !errors.Is(err, errNoTag) {
			if err == nil {
				err = e.expect('}')
			}
			return out, hashable, err
		}
	}
	e.at = start
	out, err := nested(dst, fieldDict, func(dst []byte) ([]byte, error) { return e.members(dst, depth) })
	return out, false, err
}

func (e *encoder) members(dst []byte, depth int) ([]byte, error) {
	if err := e.expect('{'); err != nil {
		return nil, err
	}
	if e.take('}') {
		return dst, nil
	}
	for {
		var err error
		dst, err = nested(dst, 1, func(dst []byte) ([]byte, error) {
			if e.peek() != '"' {
				return nil, fmt.Errorf("%w: a key is missing", errNotJSON)
			}
			dst, err := nested(dst, 1, func(dst []byte) ([]byte, error) {
				return e.str(protowire.AppendTag(dst, fieldStr, protowire.BytesType))
			})
			if err != nil {
				return nil, err
			}
			if err := e.expect(':'); err != nil {
				return nil, err
			}
			return e.pairValue(dst, depth)
		})
		if err != nil {
			return nil, err
		}
		if !e.take(',') {
			return dst, e.expect('}')
		}
	}
}

func (e *encoder) pairValue(dst []byte, depth int) ([]byte, error) {
	return nested(dst, 2, func(dst []byte) ([]byte, error) {
		dst, _, err := e.value(dst, depth+3)
		return dst, err
	})
}

func (e *encoder) number(dst []byte) ([]byte, error) {
	start := e.at
	float := false
scan:
	for ; e.at < len(e.in); e.at++ {
		switch c := e.in[e.at]; {
		case c >= '0' && c <= '9', c == '-', c == '+':
		case c == '.', c == 'e', c == 'E':
			float = true
		default:
			break scan
		}
	}
	text := string(e.in[start:e.at])
	if float {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return nil, fmt.Errorf("%w: %.40q is not a number", errNotJSON, text)
		}
		return appendFloat(dst, f), nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && text[0] != '+' {
		dst = protowire.AppendTag(dst, fieldInt, protowire.VarintType)
		return protowire.AppendVarint(dst, protowire.EncodeZigZag(n)), nil
	}
	if len(text) > maxIntDigits {
		return nil, errHugeInt
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || text[0] == '+' {
		return nil, fmt.Errorf("%w: %.40q is not a number", errNotJSON, text)
	}
	return nested(dst, fieldBigInt, func(dst []byte) ([]byte, error) {
		if n.Sign() < 0 {
			dst = protowire.AppendTag(dst, 1, protowire.VarintType)
			dst = protowire.AppendVarint(dst, 1)
		}
		dst = protowire.AppendTag(dst, 2, protowire.BytesType)
		return protowire.AppendBytes(dst, n.Bytes()), nil
	})
}

func appendFloat(dst []byte, f float64) []byte {
	dst = protowire.AppendTag(dst, fieldFloat, protowire.Fixed64Type)
	return protowire.AppendFixed64(dst, math.Float64bits(f))
}

// str appends length and bytes of the JSON string that comes next.
func (e *encoder) str(dst []byte) ([]byte, error) {
	raw, escaped, err := e.rawString()
	if err != nil {
		return nil, err
	}
	if !escaped {
		return protowire.AppendBytes(dst, raw), nil
	}
	dst = append(dst, 0)
	start := len(dst)
	if dst, err = appendUnescaped(dst, raw); err != nil {
		return nil, err
	}
	return patchLength(dst, start), nil
}

// text gives the next JSON string decoded.
func (e *encoder) text() (string, error) {
	raw, escaped, err := e.rawString()
	if err != nil || !escaped {
		return string(raw), err
	}
	b, err := appendUnescaped(nil, raw)
	return string(b), err
}

// rawString gives what stands between the quotes of the next string.
func (e *encoder) rawString() (raw []byte, escaped bool, err error) {
	if err := e.expect('"'); err != nil {
		return nil, false, err
	}
	start := e.at
	for i := start; i < len(e.in); i++ {
		switch c := e.in[i]; {
		case c == '"':
			e.at = i + 1
			raw = e.in[start:i]
			if !utf8.Valid(raw) {
				return nil, false, fmt.Errorf("%w: a string is not UTF-8", errNotJSON)
			}
			return raw, escaped, nil
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			return nil, false, fmt.Errorf("%w: a control character in a string", errNotJSON)
		}
	}
	return nil, false, fmt.Errorf("%w: a string does not end", errNotJSON)
}

// errHalf is of a text that Python can have and the engine cannot.
var errHalf = errors.New("a text holds half of a surrogate pair")

func appendUnescaped(dst, raw []byte) ([]byte, error) {
	if strictjson.LoneSurrogate(raw) >= 0 {
		return nil, errHalf
	}
	dst, err := journal.AppendUnescaped(dst, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotJSON, err)
	}
	return dst, nil
}

func appendBase64(dst []byte, text []byte) ([]byte, error) {
	dst, err := base64.StdEncoding.AppendDecode(dst, text)
	if err != nil {
		return nil, fmt.Errorf("$bytes is not base64: %w", err)
	}
	return dst, nil
}
