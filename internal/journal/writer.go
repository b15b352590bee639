package journal

import "bytes"

// writer goes through a surveyed value and writes it in another form. Between two of its methods it stands
// at the first byte of something, spaces behind it.
type writer struct {
	*survey
	at     int
	begun  int // objects that have begun
	passed int // long strings
	out    []byte

	notFinite      bool   // plain has written null for a number
	sameKey        string // a name that plain has written twice in one object
	scratch        []byte
	moved, mayMove int // bytes, see writer.sort
}

func (w *writer) space() {
	for w.at < len(w.raw) {
		switch w.raw[w.at] {
		case ' ', '\t', '\n', '\r':
			w.at++
		default:
			return
		}
	}
}

// object notes that an object begins here, and gives its kind.
func (w *writer) object() objectKind {
	w.begun++
	return w.objects[w.begun-1]
}

// begin passes the opening bracket.
func (w *writer) begin() {
	w.at++
	w.space()
}

// more says whether a further item or member stands here; if not, the closing bracket is passed.
func (w *writer) more(end byte) bool {
	if w.raw[w.at] != end {
		return true
	}
	w.at++
	w.space()
	return false
}

// comma passes the comma behind an item, if one is there.
func (w *writer) comma() bool {
	if w.at >= len(w.raw) || w.raw[w.at] != ',' {
		return false
	}
	w.at++
	w.space()
	return true
}

// separate is comma, and writes it.
func (w *writer) separate() {
	if w.comma() {
		w.out = append(w.out, ',')
	}
}

// longHere passes a long string that begins here, if one does.
func (w *writer) longHere() *longString {
	for w.passed < len(w.long) && w.long[w.passed].from < w.at {
		w.passed++
	}
	if w.passed == len(w.long) || w.long[w.passed].from != w.at {
		return nil
	}
	w.at = w.long[w.passed].to
	return &w.long[w.passed]
}

// str passes a string and gives it as it stands, quotes included.
func (w *writer) str() []byte {
	start := w.at
	if w.longHere() != nil {
		return w.raw[start:w.at]
	}
	for w.at++; ; {
		w.at += bytes.IndexByte(w.raw[w.at:], '"')
		slashes := 0
		for w.raw[w.at-1-slashes] == '\\' {
			slashes++
		}
		w.at++
		if slashes%2 == 0 {
			return w.raw[start:w.at]
		}
	}
}

// name passes the name of a member and the colon, and gives what stands between its quotes.
func (w *writer) name() []byte {
	s := w.str()
	w.space()
	w.at++ // the colon
	w.space()
	return s[1 : len(s)-1]
}

// scalar passes a number, true, false or null, and gives it.
func (w *writer) scalar() []byte {
	start := w.at
	for w.at < len(w.raw) {
		switch w.raw[w.at] {
		case ',', ']', '}', ' ', '\t', '\n', '\r':
			out := w.raw[start:w.at]
			w.space()
			return out
		}
		w.at++
	}
	return w.raw[start:]
}

// text writes the string that comes next with the shortest escapes.
func (w *writer) text() {
	start := w.at
	long := w.longHere()
	s := w.raw[start:w.at]
	if long == nil {
		s = w.str()
	}
	w.space()
	if long != nil && long.shortest || long == nil && shortest(s[1:len(s)-1]) {
		w.out = append(w.out, s...)
		return
	}
	w.out = AppendString(w.out, unescaped(s[1:len(s)-1]))
}

// verbatim writes the string, number or literal that comes next as it stands.
func (w *writer) verbatim() {
	if w.raw[w.at] == '"' {
		w.out = append(w.out, w.str()...)
		w.space()
		return
	}
	w.out = append(w.out, w.scalar()...)
}

// skip passes one value.
func (w *writer) skip() {
	for depth := 0; ; {
		switch w.raw[w.at] {
		case '{':
			w.begun++
			depth++
			w.at++
		case '[':
			depth++
			w.at++
		case '}', ']':
			depth--
			w.at++
		case ',', ':', ' ', '\t', '\n', '\r':
			w.at++
		case '"':
			w.str()
		default:
			w.scalar()
		}
		if depth == 0 {
			w.space()
			return
		}
	}
}
