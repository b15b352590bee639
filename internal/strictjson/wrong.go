package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Wrong says in plain words why encoding/json could not read raw, and where: "line 2, column 5: a comma or ] should follow the value, not 'x'".
// Columns are counted in characters.
func Wrong(err error, raw []byte) string {
	at, syntax := Offset(err)
	if !syntax || at >= int64(len(raw)) {
		return Reason(err, raw)
	}
	before := raw[:at]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return fmt.Sprintf("line %d, column %d: %s", line, column, Reason(err, raw))
}

// Offset is that of the byte at which a text stops to be JSON; false: the error is another.
func Offset(err error) (int64, bool) {
	e, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return 0, false
	}
	if e.Error() == endsEarly {
		return e.Offset, true
	}
	return max(e.Offset-1, 0), true
}

// endsEarly is what encoding/json says of a text of which the end is missing.
const endsEarly = "unexpected end of JSON input"

// Reason is Wrong without the place. raw may be nil: it only says what a character is of which encoding/json names the first byte.
func Reason(err error, raw []byte) string {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || err.Error() == endsEarly {
		return "the JSON ends too early"
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if strings.HasSuffix(text, "exceeded max depth") {
		return "it is nested more than 10,000 deep"
	}
	rest, ok := strings.CutPrefix(text, "invalid character ")
	end := strings.Index(rest, "' ") // behind the character, which may be a quote itself
	if !ok || end < 1 {
		return text
	}
	char, where := rest[:end+1], rest[end+2:]
	if at, ok := Offset(err); ok && at < int64(len(raw)) && raw[at] >= utf8.RuneSelf {
		r, _ := utf8.DecodeRune(raw[at:])
		char = strconv.QuoteRune(r)
	}
	for _, w := range wants {
		if strings.HasPrefix(where, w.where) {
			return fmt.Sprintf(w.say, char)
		}
	}
	return "not " + char + " here"
}

// wants says what JSON has where encoding/json found another character. The error has no more than this text.
var wants = []struct{ where, say string }{
	{"looking for beginning of value", `a value should begin here, not %s: a text in double quotes, a number, true, false, null, [...] or {...}`},
	{"looking for beginning of object key", `a name in double quotes should be here, not %s`},
	{"after object key:value pair", `a comma or } should follow the value, not %s`},
	{"after object key", `a colon should follow the name, not %s`},
	{"after array element", `a comma or ] should follow the value, not %s`},
	{"after top-level value", `nothing may follow the value, and %s does`},
	{"in string literal", `a text cannot have %s in it as it is: write it as an escape, such as \n or \u0000`},
	{"in string escape code", `a backslash and %s are no escape: \" \\ \/ \b \f \n \r \t and \u0041 are`},
	{`in \u hexadecimal`, `four hexadecimal digits should follow \u, not %s`},
	{"in literal", `this is no word of JSON because of %s: there are true, false and null; a text is in double quotes`},
	{"in numeric literal", `a number should have a digit here, not %s`},
	{"after decimal point", `a number should have a digit behind its point, not %s`},
	{"in exponent", `a number should have a digit in its exponent, not %s`},
}
