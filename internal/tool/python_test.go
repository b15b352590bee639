package tool

import (
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentkernel/internal/nearest"
)

func TestPythonName(t *testing.T) {
	for name, want := range map[string]string{
		"read_file": "read_file", "get-user.profile/v2": "get_user_profile_v2", "class": "class_", "None": "None_",
		"2fast": "_2fast", "": "_", "a b": "a_b", "match": "match", "日本": "u65e5u672c", "naïve": "nau" + "efve", "💥": "_", "_x": "_x",
		"__class__": "_class__", "__proto__": "_proto__", "__getattr__": "_getattr__", "__x": "_x", "__": "_", "--x": "_x", "_x__": "_x__",
	} {
		if got := PythonName(name); got != want {
			t.Errorf("PythonName(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestPythonNamesResolveCollisions(t *testing.T) {
	got := PythonNames([]string{"get.user", "get-user", "get_user", "get_user_2", "x"})
	want := map[string]string{"get_user": "get_user", "get_user_2": "get_user_2", "get-user": "get_user_3", "get.user": "get_user_4", "x": "x"}
	if d := cmp.Diff(got, want); d != "" {
		t.Error(d)
	}
}

func TestPythonNamesProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[a-c_\-. é2]{0,6}|class|if`), rapid.ID).Draw(t, "names")
		got := PythonNames(names)
		seen := map[string]bool{}
		for _, n := range names {
			id := got[n]
			if seen[id] || PythonName(id) != id {
				t.Fatalf("%q -> %q: taken or no identifier", n, id)
			}
			seen[id] = true
		}
		slices.Reverse(names)
		if !maps.Equal(got, PythonNames(names)) {
			t.Fatal("the order of the names matters")
		}
	})
}

func TestTypes(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{"type":"string"}`, "str"},
		{`{"type":"integer"}`, "int"},
		{`{"type":"number"}`, "float"},
		{`{"type":["string","null"]}`, "str | None"},
		{`{"type":"string","nullable":true}`, "str | None"},
		{`{"type":["integer","number"]}`, "float"},
		{`{"type":"array","items":{"type":"string"}}`, "list[str]"},
		{`{"type":"array"}`, "list[Any]"},
		{`{"type":"array","items":[{"type":"string"}]}`, "list[str]"},
		{`{"type":"array","prefixItems":[{"type":"number"},{"type":"string"}]}`, "list[float | str]"},
		{`{"type":"array","items":[{"type":"number"},{"type":"string"}],"additionalItems":{"type":"null"}}`, "list[float | str | None]"},
		{`{"prefixItems":[{"type":"string"},true],"items":false}`, "list[Any]"},
		{`{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`, "list[str | int]"},
		{`{"enum":["a",1.5]}`, "str | float"},
		{`{"enum":[1.5,"a",null,{}]}`, "float | str | dict[str, Any] | None"},
		{`{"enum":["a","a",1,1]}`, "Literal['a', 1]"},
		{`{"anyOf":[{"enum":["a","b"]},{"enum":["b","c, d"]}]}`, "Literal['a', 'b', 'c, d']"},
		{`{"anyOf":[{"enum":["a",1]},{"type":"string"}]}`, "Literal[1] | str"},
		{`{"anyOf":[{"const":true},{"type":"boolean"}]}`, "bool"},
		{`{"allOf":[{"type":"string"},{"enum":["a"]}]}`, "Literal['a']"},
		{`{"$ref":"#/$defs/A","nullable":true,"$defs":{"A":{"type":"integer"}}}`, "int | None"},
		{`{"type":"object","additionalProperties":{"$ref":"#/$defs/A"},"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"type":"array","items":{"type":"string"}}}}`, "dict[str, list[str]]"},
		{`{"type":"object","additionalProperties":{"$ref":"#"}}`, "dict[str, Any]"},
		{`{"oneOf":[{"type":"object"},{"type":"object","properties":{"a":{}}},{"type":"null"}]}`, "dict[str, Any] | None"},
		{`{"type":"object","properties":{"a":{}}}`, "dict[str, Any]"},
		{`{"type":"object","additionalProperties":{"type":"integer"}}`, "dict[str, int]"},
		{`{"enum":["a","it's","\"q\" and '"]}`, `Literal['a', "it's", '"q" and \'']`},
		{`{"enum":["a",null,3,true]}`, "Literal['a', 3, True] | None"},
		{`{"type":"string","enum":["1","2","3","4","5","6","7","8","9","10","11","12"]}`,
			"Literal['1', '2', '3', '4', '5', '6', '7', '8', '9', '10', '11', '12']"},
		{`{"type":"string","enum":["1","2","3","4","5","6","7","8","9","10","11","12","13"]}`, "str"},
		{`{"enum":[1.5,2]}`, "float"},
		{`{"const":"x\n"}`, `Literal['x\n']`},
		{`{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}},{"type":"null"}]}`, "str | list[str] | None"},
		{`{"oneOf":[{"const":"a"},{"const":"b"}]}`, "Literal['a', 'b']"},
		{`{"anyOf":[{"type":"string"},true]}`, "Any"},
		{`{"allOf":[{"$ref":"#/$defs/P"}],"$defs":{"P":{"type":"integer"}}}`, "int"},
		{`{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}`, "dict[str, Any]"},
		{`{"$ref":"#/$defs/N","$defs":{"N":{"type":"array","items":{"$ref":"#/$defs/N"}}}}`, "list[Any]"},
		{`{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/A"}}}`, "Any"},
		{`{"$ref":"https://example.com/schema"}`, "Any"},
		{`{"$ref":"#/$defs/none"}`, "Any"},
		{`true`, "Any"}, {`{}`, "Any"}, {`{"type":"decimal"}`, "Any"}, {`{"type":7,"items":{"type":"string"}}`, "list[str]"},
		{`{"type":"string","enum":"oops"}`, "str"}, {`"nonsense"`, "Any"},
	} {
		d := parseSchema(json.RawMessage(c.schema))
		if got := d.pythonType(d.root); got != c.want {
			t.Errorf("%s: %s, want %s", c.schema, got, c.want)
		}
	}
}

func TestSignature(t *testing.T) {
	var all []string
	for _, c := range []struct{ name, in, out, want string }{
		{"nothing", ``, ``, "f() -> Any"},
		{"required first, each in the order of the schema",
			`{"type":"object","properties":{"z":{"type":"integer","default":3},"b":{"type":"string"},"a":{"type":"string"},"y":{"type":"boolean"}},"required":["a","b"]}`,
			``, "f(b: str, a: str, z: int = 3, y: bool | None = None) -> Any"},
		{"names", `{"properties":{"user-id":{"type":"integer"},"from":{"type":"string"},"2":{}},"required":["from"]}`, ``,
			"f(from_: str, user_id: int | None = None, _2: Any = None) -> Any"},
		{"defaults", `{"properties":{"a":{"type":"object","default":{"k":[1,null,"'"]}},"b":{"type":"string","default":null},"c":{"default":"x\ny"}}}`, ``,
			`f(a: dict[str, Any] = {'k': [1, None, "'"]}, b: str | None = None, c: Any = 'x\ny') -> Any`},
		{"required without a property", `{"type":"object","required":["q"]}`, ``, "f(q: Any) -> Any"},
		{"merged", `{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]}],"oneOf":[{"properties":{"b":{"type":"integer"}},"required":["b"]}]}`, ``,
			"f(a: str, b: int | None = None) -> Any"},
		{"structured", `{}`, `{"type":"object","properties":{"sum":{"type":"integer"}}}`, "f() -> dict[str, Any]"},
		{"wrapped", `{}`, `{"type":"object","properties":{"result":{"type":"array","items":{"type":"integer"}}},"required":["result"]}`, "f() -> list[int]"},
		{"wrapped text", `{}`, `{"type":"object","properties":{"content":{"type":"string"}},"additionalProperties":false}`, "f() -> str"},
		{"content that is no text", `{}`, `{"type":"object","properties":{"content":{"type":"array"}}}`, "f() -> dict[str, Any]"},
		{"two members", `{}`, `{"type":"object","properties":{"result":{},"more":{}}}`, "f() -> dict[str, Any]"},
	} {
		b := bindTool(&entry{name: "s"}, "s", "f", wireTool{Name: "f", InputSchema: json.RawMessage(c.in), OutputSchema: json.RawMessage(c.out)})
		if b.Signature != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, b.Signature, c.want)
		}
		all = append(all, b.Signature)
	}
	checkPython(t, all)
}

// checkPython has python3 parse the signatures.
func checkPython(t *testing.T, signatures []string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Log("PYTHON3 IS MISSING: SIGNATURES ARE NOT PARSED")
		return
	}
	cmd := exec.Command(python, "-c", "import ast,sys\nfor l in sys.stdin.read().split('\\0'):\n compile('from typing import Any, Literal\\ndef '+l+': ...', 'stub', 'exec')")
	cmd.Stdin = strings.NewReader(strings.Join(signatures, "\x00"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("no Python: %v\n%s\n%s", err, strings.Join(signatures, "\n"), out)
	}
}

func TestDocstring(t *testing.T) {
	b := bindTool(&entry{name: "s"}, "s", "edit_file", wireTool{Name: "edit-file", Description: "Edits a file.\n\nTwice.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{
			"path":{"type":"string","description":"where\n it is","format":"uri"},
			"edits":{"type":"array","items":{"type":"object","properties":{"oldText":{"type":"string","description":"exact"},"n":{"type":"integer"}},"required":["oldText"]}},
			"dry-run":{"type":"boolean","default":false}},"required":["path","edits"]}`),
		OutputSchema: json.RawMessage(`{"type":"object","description":"what changed","properties":{"diff":{"type":"string"}},"required":["diff"]}`)})
	want := `Edits a file.

Twice.

Args:
    path: where it is (uri)
    edits: list[dict[str, Any]]
        'oldText': str - exact
        'n': int (optional)
    dry_run: bool [sent as "dry-run"]

Returns:
    dict[str, Any]: what changed
        'diff': str`
	if d := cmp.Diff(b.Doc, want); d != "" {
		t.Error(d)
	}
}

// A member that several alternatives have is there once, with all its types; an object in itself is written once.
func TestDocstringOfUnions(t *testing.T) {
	for name, c := range map[string]struct{ schema, want string }{
		"alternatives": {`{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"n":{"type":"integer"}},"required":["kind","n"]},
			{"type":"object","properties":{"kind":{"const":"b"},"n":{"type":"string"},"m":{}},"required":["kind"]}]}`,
			"'kind': Literal['a', 'b']\n'n': int | str (optional)\n'm': Any (optional)"},
		"all of": {`{"properties":{"a":{"type":"string"}},"allOf":[{"properties":{"a":{"description":"first"},"b":{"type":"integer"}},"required":["a"]}]}`,
			"'a': str - first\n'b': int (optional)"},
		"recursion": {`{"$ref":"#/$defs/T","$defs":{"T":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/T"}}}}}}`,
			"'name': str (optional)\n'children': list[dict[str, Any]] (optional)"},
		"a reference to what contains it": {`{"type":"object","properties":{"next":{"$ref":"#","description":"the one after"}}}`,
			"'next': dict[str, Any] (optional) - the one after"},
		"tuple": {`{"type":"object","properties":{"at":{"type":"array","prefixItems":[{"type":"number"},{"type":"string"}],"items":false}}}`,
			"'at': list[float | str] (optional) - ([float, str])"},
		"list or object": {`{"anyOf":[{"type":"array","items":{"type":"object","properties":{"a":{"type":"integer"}}}},{"type":"null"}]}`,
			"'a': int (optional)"},
	} {
		d := parseSchema(json.RawMessage(c.schema))
		var b strings.Builder
		d.nested(&b, d.root, "", 0)
		if got := strings.TrimPrefix(b.String(), "\n"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// Schemas as servers write them, at random: each signature is Python, and no union has a member twice.
func TestSignaturesOfPlausibleSchemas(t *testing.T) {
	var all []string
	rapid.Check(t, func(t *rapid.T) {
		defs := map[string]any{"A": plausible(2).Draw(t, "A"), "B": plausible(2).Draw(t, "B")}
		properties := rapid.MapOfN(rapid.SampledFrom([]string{"path", "from", "user-id", "it's", "limit"}), plausible(3), 0, 4).Draw(t, "properties")
		raw, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "$defs": defs, "required": []string{"path"}})
		if err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(map[string]any{"$defs": defs, "anyOf": []any{plausible(3).Draw(t, "out"), plausible(1).Draw(t, "or")}})
		if err != nil {
			t.Fatal(err)
		}
		b := bindTool(&entry{name: "s"}, "s", "f", wireTool{Name: "f", InputSchema: raw, OutputSchema: out})
		for _, p := range b.Params {
			members := splitUnion(p.Type)
			for i, m := range members {
				if slices.Contains(members[:i], m) {
					t.Fatalf("%s: %s is there twice", p.Type, m)
				}
			}
		}
		all = append(all, b.Signature)
	})
	checkPython(t, all)
}

func plausible(depth int) *rapid.Generator[any] {
	value := rapid.SampledFrom([]any{"a", "b", "it's \"q\"", 1, 2.5, true, nil, []any{1}, map[string]any{"k": 1}, -3, 1e300})
	leaf := rapid.OneOf(
		rapid.Map(rapid.SampledFrom([]string{"string", "integer", "number", "boolean", "null", "array", "object"}), func(s string) any { return map[string]any{"type": s} }),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"string", "integer", "null"}), 1, 3), func(s []string) any { return map[string]any{"type": s} }),
		rapid.Map(rapid.SliceOfN(value, 1, 4), func(v []any) any { return map[string]any{"enum": v} }),
		rapid.Map(value, func(v any) any { return map[string]any{"const": v} }),
		rapid.Map(value, func(v any) any { return map[string]any{"type": "string", "default": v, "nullable": true} }),
		rapid.Map(rapid.SampledFrom([]string{"#/$defs/A", "#/$defs/B", "#", "#/properties/path"}), func(r string) any { return map[string]any{"$ref": r, "description": "d"} }))
	if depth == 0 {
		return leaf
	}
	inner := rapid.Deferred(func() *rapid.Generator[any] { return plausible(depth - 1) })
	list := rapid.SliceOfN(inner, 1, 3)
	return rapid.OneOf(leaf,
		rapid.Map(list, func(v []any) any { return map[string]any{"anyOf": v} }),
		rapid.Map(list, func(v []any) any { return map[string]any{"oneOf": v} }),
		rapid.Map(list, func(v []any) any { return map[string]any{"allOf": v} }),
		rapid.Map(list, func(v []any) any { return map[string]any{"type": "array", "prefixItems": v, "items": false} }),
		rapid.Map(inner, func(v any) any { return map[string]any{"type": "array", "items": v} }),
		rapid.Map(inner, func(v any) any { return map[string]any{"type": "object", "additionalProperties": v} }),
		rapid.Map(inner, func(v any) any {
			return map[string]any{"type": "object", "properties": map[string]any{"x": v, "y": v}, "required": []string{"x"}}
		}))
}

// Any JSON can stand where a schema should; the result must be Python all the same.
func TestSignaturesOfStrangeSchemasParse(t *testing.T) {
	keys := []string{"type", "properties", "items", "anyOf", "enum", "const", "default", "$ref", "required", "allOf", "class", "a-b", "it's", "\u2028"}
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](1.5), rapid.Just[any]("string"),
			rapid.Just[any]("object"), rapid.Just[any]("array"), rapid.Just[any]("#/properties/a-b"), rapid.Just[any]("#"), rapid.StringN(0, 4, -1).AsAny())
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf, rapid.SliceOfN(value(depth-1), 0, 3).AsAny(),
			rapid.MapOfN(rapid.SampledFrom(keys), value(depth-1), 0, 4).AsAny())
	}
	var all []string
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(map[string]any{"type": "object", "properties": value(4).Draw(t, "properties"), "required": value(1).Draw(t, "required")})
		if err != nil {
			t.Skip()
		}
		b := bindTool(&entry{name: "s"}, "s", "f", wireTool{Name: "f", InputSchema: raw, OutputSchema: raw})
		all = append(all, b.Signature)
	})
	checkPython(t, all)
}

func TestNearest(t *testing.T) {
	names := []string{"read_text_file", "read_media_file", "write_file", "list_directory", "search_issues"}
	for wanted, want := range map[string]string{
		"read_txt_file": "read_text_file", "readTextFile": "read_text_file", "list-directory": "list_directory",
		"issues": "search_issues", "directory": "list_directory", "zzz": "",
	} {
		got := nearest.Names(wanted, names)
		if want == "" && len(got) > 0 || want != "" && (len(got) == 0 || got[0] != want) {
			t.Errorf("nearest(%q) = %v, want %q first", wanted, got, want)
		}
	}
}

func TestEffect(t *testing.T) {
	for _, c := range []struct {
		annotations string
		trusted     bool
		want        string
	}{
		{`{"readOnlyHint":true}`, true, "read"}, {`{"readOnlyHint":true}`, false, "write"},
		{`{"idempotentHint":true,"destructiveHint":true}`, true, "idempotent"}, {`{"idempotentHint":true}`, false, "write"},
		{`{"destructiveHint":false}`, true, "write"}, {`null`, true, "write"},
	} {
		var w wireTool
		if err := json.Unmarshal([]byte(`{"name":"x","annotations":`+c.annotations+`}`), &w); err != nil {
			t.Fatal(err)
		}
		if got := effect(&entry{trusted: c.trusted}, w); string(got) != c.want {
			t.Errorf("%s, trusted %v: %s, want %s", c.annotations, c.trusted, got, c.want)
		}
	}
}

func TestValuesEscapeDollarKeys(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": [1, 1.0, {"b": null}]}`:              `{"a":[1,1.0,{"b":null}]}`,
		`{"\u0024x":1}`:                             `{"$dict":[["$x",1]]}`,
		`[{"b":{},"a":{"$x":{"$y":[]}}},{"c":"$"}]`: `[{"b":{},"a":{"$dict":[["$x",{"$dict":[["$y",[]]]}]]}},{"c":"$"}]`,
		`"$x"`: `"$x"`,
		`[1e999, -1E+999, 1e-999, 1e30, "1e999"]`: `[{"$float":"inf"},{"$float":"-inf"},1e-999,1e30,"1e999"]`,
		"\"\xff\"": "\"\ufffd\"",
	} {
		got, err := values(json.RawMessage(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
}
