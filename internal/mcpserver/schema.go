package mcpserver

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// The schemas are made from structs, without anything that a model does not need: every client pays for them
// in every conversation. A field's tag `say` is its description; without omitempty it is required. With the tag `where`
// it is told only to the clients of a server that was started so: any other refuses it, with the reason.

// wherePackages marks what a server takes that may install packages, whereHosts what programs send and no model is told of.
const (
	wherePackages = "packages"
	whereHosts    = "hosts"
)

// told are the fields of a struct of arguments that clients hear of.
func told(t reflect.Type, packages bool) []reflect.StructField {
	var out []reflect.StructField
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("where") == "" || packages && f.Tag.Get("where") == wherePackages {
			out = append(out, f)
		}
	}
	return out
}

// schemaOf is the JSON Schema of a struct of arguments.
func schemaOf(t reflect.Type, packages bool) json.RawMessage {
	var b bytes.Buffer
	b.WriteString(`{"type":"object"`)
	var required []string
	fields := told(t, packages)
	for i, f := range fields {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if i == 0 {
			b.WriteString(`,"properties":{`)
		} else {
			b.WriteByte(',')
		}
		b.WriteString(quoted(name) + `:{` + typeOf(f.Type))
		if say := f.Tag.Get("say"); say != "" {
			if b.Bytes()[b.Len()-1] != '{' {
				b.WriteByte(',')
			}
			b.WriteString(`"description":` + quoted(say))
		}
		if choices := f.Tag.Get("choices"); choices != "" {
			b.WriteString(`,"enum":` + list(strings.Split(choices, ",")))
		}
		b.WriteByte('}')
		if options != "omitempty" {
			required = append(required, name)
		}
	}
	if len(fields) > 0 {
		b.WriteByte('}')
	}
	if len(required) > 0 {
		b.WriteString(`,"required":` + list(required))
	}
	b.WriteByte('}')
	return b.Bytes()
}

// typeOf is the type of a field; one that may be anything has none.
func typeOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return `"type":"string"`
	case reflect.Bool:
		return `"type":"boolean"`
	case reflect.Int, reflect.Int64:
		return `"type":"integer"`
	case reflect.Float64:
		return `"type":"number"`
	case reflect.Struct:
		return `"type":"object"`
	case reflect.Pointer:
		return typeOf(t.Elem())
	case reflect.Slice:
		if t == reflect.TypeFor[json.RawMessage]() {
			return ""
		}
		if item := typeOf(t.Elem()); item != "" {
			return `"type":"array","items":{` + item + `}`
		}
		return `"type":"array"`
	case reflect.Map:
		return `"type":"object"`
	}
	return ""
}

// outputOf is the schema of a struct of results: names and types.
func outputOf(t reflect.Type) json.RawMessage {
	var b bytes.Buffer
	b.WriteString(`{"type":"object","properties":{`)
	for i, f := range visible(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quoted(name) + `:{` + typeOf(f.Type) + `}`)
	}
	b.WriteString(`}}`)
	return b.Bytes()
}

// visible are the fields of a struct that JSON shows, those of embedded ones included.
func visible(t reflect.Type) []reflect.StructField {
	var out []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous {
			out = append(out, f)
		}
	}
	return out
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // strings always marshal
		return `""`
	}
	return string(b)
}

func list(items []string) string {
	out := make([]string, len(items))
	for i, s := range items {
		out[i] = quoted(s)
	}
	return "[" + strings.Join(out, ",") + "]"
}

// argumentNames lists the arguments of a tool, for those who misspell one.
func argumentNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
