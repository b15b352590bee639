package strictjson

import "testing"

func TestAreObjects(t *testing.T) {
	for text, want := range map[string]bool{
		`[]`: true, ` [ ] `: true, `[{}]`: true, `[{"a":[1,"]{,\\\"",{}]} , {"b":","}]`: true, `[{},{},{}]`: true, `[{},{},{},{}]`: false, `[1]`: false, `[{},1]`: false, `[[{}]]`: false,
		`{}`: false, `{"a":[{}]}`: false, `1`: false, `"[{}]"`: false, `[{},"x"]`: false, `null`: false,
	} {
		if got := AreObjects([]byte(text), 3); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
