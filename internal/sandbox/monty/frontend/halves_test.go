package frontend

import "testing"

func TestHalfPair(t *testing.T) {
	for text, want := range map[string]bool{
		`"a"`: false, `"\ud800"`: true, `"\\ud800"`: false, `"\\\ud800"`: true, `"\\\\ud800"`: false, `"\U0000dfff"`: true, `"\U0001f600"`: false,
		`"\ue000\ud7ff"`: false, `"\ud80"`: false, `"\`: false, `"\n\ud83d\ude00"`: true, `"\x00\uDC00"`: true,
	} {
		if got := halfPair(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	for source, want := range map[string]int{
		`x = [r'\ud800', b'\ud800', rb'\ud800', fr'{1}\ud800', Rf"{f'\n'}\ud800"]`: 0,
		`x = [u'\ud800', f'{1}\udfff', f'{rf"\ud800"}', fr"{'\ud800'}"]`:           3,
	} {
		p := ParsePlaces(source)
		f, refused := &file{source: p.src}, 0
		f.checkExpressions(&f.stmts[0], func(int32, string) { refused++ })
		if refused != want {
			t.Errorf("%s: %d are refused", source, refused)
		}
	}
}
