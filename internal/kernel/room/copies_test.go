package room

import (
	"math/rand/v2"
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

// TestTextEnd: it leaps to the same quote that a walk over each byte finds.
func TestTextEnd(t *testing.T) {
	walk := func(raw []byte, i int) int {
		for ; i < len(raw) && raw[i] != '"'; i++ {
			if raw[i] == '\\' {
				i++
			}
		}
		return min(i, len(raw))
	}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same texts each time
	for range 100_000 {
		raw := make([]byte, r.IntN(90))
		for i := range raw {
			raw[i] = `aaaaaaaaaaaaaaaaaaaa\\\\\""`[r.IntN(27)]
		}
		if got, want := textEnd(raw, 0), walk(raw, 0); got != want {
			t.Fatalf("%q: %d, want %d", raw, got, want)
		}
	}
}
