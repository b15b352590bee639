package tool

import (
	"encoding/json"
	"strings"
	"testing"

	"agentkernel"
)

// What is sent of arguments, and which are refused before.
func TestArguments(t *testing.T) {
	const listed = `"properties":{"a":{"type":"string"},"b":{"type":["integer","null"]},"c":{"type":"integer"},"f":{"type":"number"}},"required":["a"]`
	for name, c := range map[string]struct{ schema, args, sent, refused string }{
		"None where null is a value":     {`{` + listed + `}`, `{"a":"x","b":null}`, `{"a":"x","b":null}`, ""},
		"None where it is none":          {`{` + listed + `}`, `{"a":"x","c":null}`, `{"a":"x"}`, ""},
		"None for a required one":        {`{` + listed + `}`, `{"a":null}`, "", `argument "a" must be str, not None`},
		"an int for a float":             {`{` + listed + `}`, `{"a":"x","f":1}`, `{"a":"x","f":1}`, ""},
		"a name that is not listed":      {`{` + listed + `}`, `{"a":"x","d":1}`, "", `there is no argument "d"`},
		"names that may be added":        {`{` + listed + `,"additionalProperties":true}`, `{"a":"x","d":1}`, `{"a":"x","d":1}`, ""},
		"names of a type":                {`{` + listed + `,"additionalProperties":{"type":"integer"}}`, `{"a":"x","d":"y"}`, "", "do not fit"},
		"no further names":               {`{` + listed + `,"additionalProperties":false}`, `{"a":"x","d":1}`, "", `there is no argument "d"`},
		"no properties at all":           {`{"type":"object"}`, `{"d":1}`, `{"d":1}`, ""},
		"alternatives":                   {`{` + listed + `,"anyOf":[{"properties":{"a":{"const":"x"}}},{"required":["d"]}]}`, `{"a":"y","d":1}`, `{"a":"y","d":1}`, ""},
		"a pattern is the server's":      {`{"properties":{"a":{"type":"string","pattern":"^(?=z)z+$"}}}`, `{"a":"x"}`, `{"a":"x"}`, ""},
		"and the type is checked":        {`{"properties":{"a":{"type":"string","pattern":"^(?=z)z+$"}}}`, `{"a":1}`, "", `argument "a" must be str | None, not int`},
		"an older dialect":               {`{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"a":{"type":"string"}}}`, `{"a":1}`, "", `argument "a" must be str | None, not int`},
		"what no later dialect has":      {`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}`, `{"a":1}`, `{"a":1}`, ""},
		"more parts than can be checked": {`{"properties":{"a":{"items":{"type":"string"}}}}`, `{"a":[1` + strings.Repeat(",1", 20_000) + `]}`, `{"a":[1` + strings.Repeat(",1", 20_000) + `]}`, ""},
		"null below":                     {`{"properties":{"a":{"items":{"type":"string"}}}}`, `{"a":["x",null]}`, "", `None has type "null", want "string"`},
		"as many as can":                 {`{"properties":{"a":{"items":{"type":"string"}}}}`, `{"a":[1` + strings.Repeat(",1", 10_000) + `]}`, "", `argument "a" does not fit`},
	} {
		b := bindTool(&entry{name: "s"}, "s", "f", wireTool{Name: "f", InputSchema: json.RawMessage(c.schema)})
		got, err := b.arguments(json.RawMessage(c.args))
		switch {
		case c.refused != "":
			if agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %.100s, %v; want %q", name, got, err, c.refused)
			}
		case err != nil || string(got) != c.sent:
			t.Errorf("%s: %.100s, %v; want %.100s", name, got, err, c.sent)
		}
	}
}

// What becomes of a result, by what the tool declares.
// The words of a tool that failed have half of a character as an escape, as Python prints it.
func TestHalfACharacterInAFailure(t *testing.T) {
	b := bindTool(&entry{name: "s"}, "s", "f", wireTool{Name: "f"})
	_, err := b.result(json.RawMessage(`{"isError":true,"content":[{"type":"text","text":"\ud800 \\ud800 \ud83d\ude00 \udc00\ud800"}]}`), &redactor{})
	if want := `\ud800 \ud800 😀 \udc00\ud800`; err == nil || agentkernel.AsError(err, "", "").Message() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestResultOfParts(t *testing.T) {
	const text = `{"type":"text","text":"[1]"}`
	for name, c := range map[string]struct {
		output, result, want string
		code                 agentkernel.Code
	}{
		"structured content comes first": {``, `{"content":[` + text + `],"structuredContent":{"b":1.0,"a":2}}`, `{"b":1.0,"a":2}`, ""},
		"the only property result":       {`{"type":"object","properties":{"result":{}}}`, `{"structuredContent":{"result":[7]}}`, `[7]`, ""},
		"the only property content":      {`{"type":"object","properties":{"content":{"type":"string"}}}`, `{"structuredContent":{"content":"x"}}`, `"x"`, ""},
		"content that is no text":        {`{"type":"object","properties":{"content":{"type":"array"}}}`, `{"structuredContent":{"content":[]}}`, `{"content":[]}`, ""},
		"result, and another one":        {`{"type":"object","properties":{"result":{},"more":{}}}`, `{"structuredContent":{"result":7}}`, `{"result":7}`, ""},
		"result that no schema declares": {``, `{"structuredContent":{"result":7}}`, `{"result":7}`, ""},
		"parts of text":                  {``, `{"content":[` + text + `,{"type":"text","text":"b"}]}`, `"[1]\nb"`, ""},
		"JSON that no schema declares":   {``, `{"content":[` + text + `]}`, `"[1]"`, ""},
		"JSON of a schema":               {`{"type":"object"}`, `{"content":[` + text + `]}`, `[1]`, ""},
		"no JSON":                        {`{"type":"object"}`, `{"content":[{"type":"text","text":"oops"}]}`, `"oops"`, ""},
		"parts of several kinds": {``, `{"content":[` + text + `,{"type":"audio","mimeType":"audio/wav","data":"aGk="},{"type":"resource","resource":{"uri":"x:y","blob":"aGk="}}]}`,
			`[{"type":"text","text":"[1]"},{"type":"audio","mimeType":"audio/wav","data":{"$bytes":"aGk="}},{"type":"resource","resource":{"uri":"x:y","blob":{"$bytes":"aGk="}}}]`, ""},
		"data that is not base64": {``, `{"content":[{"type":"image","data":"!"}]}`, "", agentkernel.CodeAnswerLost},
		"no tool result":          {``, `[1]`, "", agentkernel.CodeAnswerLost},
		"no result at all":        {``, `null`, "", agentkernel.CodeAnswerLost},
		"no content":              {``, `{"foo":1}`, "", agentkernel.CodeAnswerLost},
		"none, not structured":    {`{"type":"object"}`, `{"structuredContent":null,"isError":false}`, "", agentkernel.CodeAnswerLost},
		"content that is empty":   {``, `{"content":[]}`, `""`, ""},
		"a nil list, as Go's":     {``, `{"content":null}`, `""`, ""},
		"a failure without words": {``, `{"isError":true}`, "", agentkernel.CodeTool},
		"half of a character":     {``, `{"content":[{"type":"text","text":"a\ud83d"},{"type":"text","text":"\"é"}]}`, `"a\ud83d\n\"é"`, ""},
		"half of one in a name":   {``, `{"structuredContent": {"k\udfff": "\ud800"}}`, `{"k\udfff":"\ud800"}`, ""},
		"half of one in JSON":     {`{"type":"object"}`, `{"content":[{"type":"text","text":"[\"\ud800\"]"}]}`, "", agentkernel.CodeAnswerLost},
		"a failure":               {``, `{"isError":true,"content":[{"type":"text","text":"no such order"}]}`, "", agentkernel.CodeTool},
	} {
		b := bindTool(&entry{name: "s"}, "s", "f", wireTool{Name: "f", OutputSchema: json.RawMessage(c.output)})
		got, err := b.result(json.RawMessage(c.result), &redactor{})
		if agentkernel.CodeOf(err) != c.code || string(got) != c.want {
			t.Errorf("%s: %s, %v; want %s %s", name, got, err, c.want, c.code)
		}
	}
}
