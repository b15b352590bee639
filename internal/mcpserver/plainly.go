package mcpserver

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"

	"agentkernel"
)

// plainly rewrites arguments whose type is wrong and whose meaning is plain, as models write them: a number as text, text as
// a number, one text where a list of texts is wanted. Whatever is not plain stays as it is, to be refused.
func plainly(raw json.RawMessage, t reflect.Type) json.RawMessage {
	var given map[string]json.RawMessage
	if json.Unmarshal(raw, &given) != nil {
		return raw
	}
	changed := false
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		value, ok := given[name]
		if !ok {
			continue
		}
		if meant := meaning(value, t.Field(i).Type); meant != nil {
			given[name], changed = meant, true
		}
	}
	if !changed {
		return raw
	}
	out, err := json.Marshal(given)
	if err != nil {
		return raw
	}
	return out
}

// meaning is a value as a type wants it; nil: it is so already, or cannot be made so.
func meaning(value json.RawMessage, t reflect.Type) json.RawMessage {
	text, isText := unquoted(value)
	trimmed := strings.TrimSpace(text)
	switch t.Kind() {
	case reflect.Pointer:
		return meaning(value, t.Elem())
	case reflect.String:
		if isScalar(value) {
			return json.RawMessage(quoted(string(value)))
		}
	case reflect.Bool:
		if low := strings.ToLower(trimmed); isText && (low == "true" || low == "false") {
			return json.RawMessage(low)
		}
	case reflect.Float64:
		if isText && isNumber(trimmed) {
			return json.RawMessage(trimmed)
		}
	case reflect.Int, reflect.Int64:
		number := string(value)
		if isText {
			number = trimmed
		}
		return integer(number, isText)
	case reflect.Slice:
		switch {
		case t.Elem().Kind() != reflect.String || !isText:
		case strings.HasPrefix(trimmed, "[") && json.Valid([]byte(trimmed)):
			return json.RawMessage(trimmed)
		default:
			return json.RawMessage("[" + quoted(text) + "]")
		}
	}
	return nil
}

// integer is a number without a fraction as integers are written; nil: it is none, or is written so already.
func integer(number string, isText bool) json.RawMessage {
	if !isNumber(number) {
		return nil
	}
	if _, err := strconv.ParseInt(number, 10, 64); err == nil {
		if isText {
			return json.RawMessage(number)
		}
		return nil
	}
	const exact = 1 << 53 // beyond it a float does not say which integer it is
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= exact {
		return nil
	}
	return json.RawMessage(strconv.FormatInt(int64(f), 10))
}

func unquoted(value json.RawMessage) (text string, isText bool) {
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &text) != nil {
		return "", false
	}
	return text, true
}

// isNumber says whether a text is a number of JSON, which has no NaN.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}

// isScalar says whether a value is a number, true or false.
func isScalar(value json.RawMessage) bool {
	return isNumber(string(value)) || string(value) == "true" || string(value) == "false"
}

// speakPlainly has the language that is meant in place of a word for it.
func (in *executeInput) speakPlainly() {
	p := agentkernel.Program{Language: agentkernel.Language(in.Language), Source: in.Code}
	p.NormalizeLanguage()
	in.Language, in.Code = string(p.Language), p.Source
}
