package room

import (
	"strings"
	"testing"
)

// TestCopies: a list of short items counts as what it takes when it is read, and a text as its length, whatever is in it.
func TestCopies(t *testing.T) {
	for text, want := range map[string][2]int{
		`["x"]`: {ArgsCopies, ArgsCopies}, "[" + strings.Repeat("1,", BigPayload) + "1]": {28, 29}, `["` + strings.Repeat(",", BigPayload) + `"]`: {ArgsCopies, ArgsCopies + 1},
		`["` + strings.Repeat(`\",`, BigPayload) + `"]`: {ArgsCopies, ArgsCopies + 1}, "[" + strings.Repeat(`"",`, BigPayload) + `""]`: {20, 21},
		`{"a":"` + strings.Repeat("word, ", BigPayload) + `","b":[1,2,3]}`: {ArgsCopies, ArgsCopies + 1},
	} {
		if got := Copies([]byte(text)); got < want[0] || got > want[1] {
			t.Errorf("%.20s: %d copies, want %d to %d", text, got, want[0], want[1])
		}
	}
}
