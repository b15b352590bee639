package numbered_test

import (
	"slices"
	"testing"

	"agentkernel/internal/kernel/numbered"

	"pgregory.net/rapid"
)

type item struct{ n, tag int64 }

func (i *item) Number() int64 { return i.n }

// TestList compares a list with a map.
func TestList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l numbered.List[*item]
		want := map[int64]*item{}
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			n := rapid.Int64Range(0, 9).Draw(t, "number")
			if rapid.Bool().Draw(t, "add") {
				it := &item{n, rapid.Int64().Draw(t, "tag")}
				l.Add(it)
				want[n] = it
			} else {
				l.Remove(n)
				delete(want, n)
			}
			for n := range int64(10) {
				if l.Find(n) != want[n] || l.Has(n) != (want[n] != nil) {
					t.Fatalf("%d: %v, want %v", n, l.Find(n), want[n])
				}
			}
			if len(l) != len(want) || !slices.IsSortedFunc(l, func(a, b *item) int { return int(a.n - b.n) }) {
				t.Fatalf("%v", l)
			}
		}
	})
}
