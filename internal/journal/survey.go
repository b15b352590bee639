package journal

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"agentkernel/internal/quickjson"
)

// A value is read twice. The survey goes through it once, checks everything, and notes of each object what
// the writer has to know when it meets the object's first byte. The writer then goes through it again and
// need not doubt anything. So neither builds a tree, which for hostile values ("[[],[],[],...") is thirty
// times as large as the text.

// objectKind is what an object stands for.
type objectKind uint8

const (
	plainObject  objectKind = iota
	dollarObject            // one of its names begins with "$", but it is none of the following
	listTag                 // {"$tuple": [...]}, also timedelta and timezone
	setTag                  // {"$set": [...]}, {"$frozenset": [...]}
	dictTag                 // {"$dict": [[key, value], ...]}
	namedDictTag            // the same, and every key is a text, a number, a bool or null
	textTag                 // {"$bytes": "..."}, date, time, datetime, path, repr
	floatTag                // {"$float": "..."}
	timedeltaTag            // {"$timedelta": [...]}
	recordTag               // {"$namedtuple": {...}}
	objectTag               // {"$object": {...}}
	exceptionTag            // {"$exception": {...}}
)

// maxDepth bounds nesting: values come from hostile guests and servers.
const maxDepth = 512

// survey is a value that was found to be sound.
type survey struct {
	raw     []byte
	objects []objectKind // in the order in which they begin
	spaced  bool         // there is space between its parts
	dollar  bool         // some object is not plain
	huge    bool         // some number has an exponent of three digits or more
	long    []longString // in their order
}

// longString is where a long string stands, quotes included: the writer need not look for its end again.
type longString struct {
	from, to int
	shortest bool // its escapes are those that AppendString writes
}

// minLong is the least length of a long string, in bytes.
const minLong = 128

type surveyor struct {
	survey
	at  int
	odd bool // an escape of this string is one that AppendString does not write
}

// shape is what surveying a value tells of it.
type shape struct {
	open   byte // '[', '{', '"', or 0 for a number, true, false, null
	pairs  bool // an array of arrays of two items
	scalar bool // with pairs: the first item of each is no array or object
	length int  // of an array
	first  byte // open of an array's first item
}

func look(raw []byte) (*survey, error) {
	s := surveyor{survey: survey{raw: raw}}
	if _, err := s.value(0); err != nil {
		return nil, fmt.Errorf("not JSON at byte %d: %w", s.at, err)
	}
	s.space()
	if s.at != len(raw) {
		return nil, fmt.Errorf("not JSON: text after the value at byte %d", s.at)
	}
	return &s.survey, nil
}

func (s *surveyor) space() {
	for s.at < len(s.raw) {
		switch s.raw[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
			s.spaced = true
		default:
			return
		}
	}
}

var errEnd = errors.New("it ends too early")

func (s *surveyor) value(depth int) (shape, error) {
	if depth > maxDepth {
		return shape{}, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	s.space()
	if s.at >= len(s.raw) {
		return shape{}, errEnd
	}
	switch c := s.raw[s.at]; {
	case c == '{':
		return shape{open: '{'}, s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '"':
		_, err := s.str()
		return shape{open: '"'}, err
	case c == '-' || c >= '0' && c <= '9':
		return shape{}, s.number()
	}
	for _, lit := range [...]string{"null", "true", "false"} {
		if len(s.raw)-s.at >= len(lit) && string(s.raw[s.at:s.at+len(lit)]) == lit {
			s.at += len(lit)
			return shape{}, nil
		}
	}
	return shape{}, fmt.Errorf("unexpected %q", s.raw[s.at])
}

func (s *surveyor) array(depth int) (shape, error) {
	out := shape{open: '[', pairs: true, scalar: true}
	s.at++
	if s.space(); s.at < len(s.raw) && s.raw[s.at] == ']' {
		s.at++
		return out, nil
	}
	for {
		item, err := s.value(depth + 1)
		if err != nil {
			return out, err
		}
		if out.length == 0 {
			out.first = item.open
		}
		out.length++
		out.pairs = out.pairs && item.open == '[' && item.length == 2
		out.scalar = out.scalar && item.first != '[' && item.first != '{'
		s.space()
		if s.at < len(s.raw) && s.raw[s.at] == ']' {
			s.at++
			return out, nil
		}
		if err := s.expect(','); err != nil {
			return out, err
		}
	}
}

func (s *surveyor) object(depth int) error {
	index := len(s.objects)
	s.objects = append(s.objects, plainObject)
	s.at++
	if s.space(); s.at < len(s.raw) && s.raw[s.at] == '}' {
		s.at++
		return nil
	}
	for members := 1; ; members++ {
		s.space()
		if s.at >= len(s.raw) || s.raw[s.at] != '"' {
			return errors.New("an object key is missing")
		}
		key, err := s.str()
		if err != nil {
			return err
		}
		s.space()
		if err := s.expect(':'); err != nil {
			return err
		}
		value, err := s.value(depth + 1)
		if err != nil {
			return err
		}
		switch {
		case !beginsWithDollar(key):
			if members > 1 && s.objects[index] != plainObject {
				s.objects[index] = dollarObject
			}
		case members == 1:
			s.objects[index], s.dollar = kindOf(string(unescaped(key)), value), true
		default:
			s.objects[index], s.dollar = dollarObject, true
		}
		s.space()
		if s.at < len(s.raw) && s.raw[s.at] == '}' {
			s.at++
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// beginsWithDollar looks at a name as it stands between its quotes.
func beginsWithDollar(key []byte) bool {
	return len(key) > 0 && (key[0] == '$' || len(key) >= 6 && string(key[:6]) == `\u0024`)
}

// kindOf is what an object with this one member stands for; a tag around something else is no tag.
func kindOf(key string, value shape) objectKind {
	switch {
	case value.open == '[':
		switch key {
		case "$tuple", "$timezone":
			return listTag
		case "$set", "$frozenset":
			return setTag
		case "$timedelta":
			return timedeltaTag
		case "$dict":
			switch {
			case !value.pairs:
			case value.scalar:
				return namedDictTag
			default:
				return dictTag
			}
		}
	case value.open == '{':
		switch key {
		case "$namedtuple":
			return recordTag
		case "$object":
			return objectTag
		case "$exception":
			return exceptionTag
		}
	case value.open == '"':
		switch key {
		case "$bytes", "$date", "$time", "$datetime", "$path", "$repr":
			return textTag
		case "$float":
			return floatTag
		}
	}
	return dollarObject
}

func (s *surveyor) expect(c byte) error {
	if s.at >= len(s.raw) {
		return errEnd
	}
	if s.raw[s.at] != c {
		return fmt.Errorf("%q where %q belongs", s.raw[s.at], c)
	}
	s.at++
	return nil
}

var errNumber = errors.New("a number is malformed")

func (s *surveyor) number() error {
	if s.raw[s.at] == '-' {
		s.at++
	}
	first := s.at
	if n := s.digits(); n == 0 || n > 1 && s.raw[first] == '0' {
		return errNumber
	}
	if s.at < len(s.raw) && s.raw[s.at] == '.' {
		s.at++
		if s.digits() == 0 {
			return errNumber
		}
	}
	if s.at < len(s.raw) && s.raw[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.raw) && (s.raw[s.at] == '+' || s.raw[s.at] == '-') {
			s.at++
		}
		n := s.digits()
		if n == 0 {
			return errNumber
		}
		s.huge = s.huge || n >= 3
	}
	return nil
}

func (s *surveyor) digits() int {
	from := s.at
	for s.at < len(s.raw) && s.raw[s.at] >= '0' && s.raw[s.at] <= '9' {
		s.at++
	}
	return s.at - from
}

// str passes over a string and gives what stands between its quotes.
func (s *surveyor) str() ([]byte, error) {
	s.at++
	start := s.at
	s.odd = false
	for s.at < len(s.raw) {
		switch c := s.raw[s.at]; {
		case c == '"':
			inner := s.raw[start:s.at]
			s.at++
			if len(inner) >= minLong {
				s.long = append(s.long, longString{start - 1, s.at, !s.odd})
			}
			if !utf8.Valid(inner) {
				return nil, errors.New("a string is not UTF-8")
			}
			return inner, nil
		case c < 0x20:
			return nil, errors.New("a control character stands in a string")
		case c == '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		default:
			s.at = quickjson.Ordinary(s.raw, s.at+1)
		}
	}
	return nil, errEnd
}

func (s *surveyor) escape() error {
	s.at++
	if s.at >= len(s.raw) {
		return errEnd
	}
	switch c := s.raw[s.at]; c {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		s.at++
		return nil
	case '/':
		s.at++
		s.odd = true
		return nil
	case 'u':
		s.odd = true
		if s.at+5 > len(s.raw) {
			return errEnd
		}
		if _, ok := hex4(s.raw[s.at+1:]); !ok {
			return errors.New("a \\u escape is malformed")
		}
		s.at += 5
		return nil
	default:
		return fmt.Errorf("unknown escape \\%c", c)
	}
}
