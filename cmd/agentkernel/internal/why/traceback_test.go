package why

import "testing"

func TestFrames(t *testing.T) {
	for text, want := range map[string]*Line{
		`  File "f.py", line 3, in work`:       {File: "f.py", Line: 3, Function: "work"},
		`  File "f.py", line 3`:                {File: "f.py", Line: 3},
		`  File "f.py", lines 3-5, in work`:    {File: "f.py", Line: 3, Until: 5, Function: "work"},
		`  File "f.py", lines 3-x, in work`:    nil,
		`  File "f.py", lines 3, in work`:      nil,
		`  File "f.py", line 3-5, in work`:     nil,
		`  File "a", line 1", lines 2-4, in f`: {File: `a", line 1`, Line: 2, Until: 4, Function: "f"},
	} {
		got := frame(text)
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	if got := (&inquiry{cause: Cause{Line: frame(`  File "f.py", lines 3-5, in work`)}}).where(); got != " (f.py lines 3-5, in work)" {
		t.Errorf("%q", got)
	}
}
