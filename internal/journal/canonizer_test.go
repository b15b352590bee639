package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// spoken is a conversation of so many messages behind others, as programs write one.
func spoken(from, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `{"role": "user", "content": "%d: %s\n\u00e9 \"so\"", "x": {"$set": [3, 1, {"b": 1, "a": 2.50}]}}`, from+i, strings.Repeat("said ", 60))
	}
	return b.String()
}

// same fails if the canonizer does not do as Canonical does.
func same(t *testing.T, c *Canonizer, owner int64, raw []byte) {
	t.Helper()
	want, wrong := Canonical(raw)
	given := bytes.Clone(raw)
	got, names, err := c.Canonical(owner, given)
	if !bytes.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wrong) {
		t.Fatalf("%.300q became\n%.300q (%v), want\n%.300q (%v)", raw, got, err, want, wrong)
	}
	if have, _ := Names(want); names != nil && !slices.Equal(names, have) {
		t.Fatalf("the names %q, want %q", names, have)
	}
	clear(given) // whoever gave it may write over it
}

func TestCanonizer(t *testing.T) {
	c := NewCanonizer(1 << 20)
	long := spoken(0, 60)
	if len(long) < LongText {
		t.Fatal("it is too short")
	}
	for _, raw := range []string{
		`{"model": "m", "messages": [` + long + `], "b": 1.50}`,
		`{"model": "m", "messages": [` + long + `, ` + spoken(60, 2) + `], "b": 1.50, "a": [1, 2]}`,
		`{"model": "m", "messages": [` + long + `, ` + spoken(60, 2) + `], "b": 1.50, "a": [1, 23]}`,
		`{"model": "m", "messages": [` + long + `, ` + spoken(60, 2) + `], "b": 1.50, "a": []}`,
		`{"model": "m", "messages": [` + long + `, ` + spoken(61, 1) + `, 5]}`,
		`{"model": "m", "messages": [` + long + `, ` + spoken(61, 1) + `, 56] }`,
		`{"model": "m", "messages": [` + long + `, ` + spoken(61, 1) + `, 56,] }`,
		`{"model": "m", "messages": [` + long + `, ` + spoken(61, 1) + `, 56`,
		`{"model": "m", "messages": [` + long + `]`,
		`{"model": "m", "messages": [` + long + `]} x`,
		`{"model": "m", "messages": [` + long + `], "model": "n"}`,
		`{"model": "m", "messages": [` + long + `], "$x": 1}`,
		`{"model": "m", "messages": [` + long + `], "\u0061": 1}`,
		`{"$set": [` + long + `]}`,
		`[` + long + `]`,
		`{"messages": [` + long + `], "messages": [1]}`,
		` { "z" : [` + long + `] , "messages" : [ ` + long + ` ] } `,
		` { "z" : [` + long + `] , "messages" : [ ` + long + `, {"a":1,"a":2} ] } `,
		` { "z" : [` + long + `] , "messages" : [ ` + long + `, ` + spoken(0, 1) + ` ] } `,
		`{"messages": [` + long + `], "deep": ` + strings.Repeat("[", 511) + strings.Repeat("]", 511) + `}`,
		`{"messages": [` + long + `, ` + strings.Repeat("[", 510) + strings.Repeat("]", 510) + `]}`,
		`{"messages": [` + long + `, ` + strings.Repeat("[", 511) + strings.Repeat("]", 511) + `]}`,
		`{"messages": [` + long + `], "inf": 1e999}`,
		`{"messages": [` + long + "], \"bad\": \"\xff\"}",
		`{"messages": [` + long + `], "many": [` + strings.Repeat("1,", 20_000) + `1]}`,
	} {
		for range 2 {
			same(t, c, 1, []byte(raw))
		}
		same(t, c, 2, []byte(raw))
	}
}

// TestCanonizerGoesOn: conversations of a process go on side by side, are edited, and forgotten when there are too many.
func TestCanonizerGoesOn(t *testing.T) {
	c := NewCanonizer(300 << 10)
	chance := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a seed has to give the same numbers again
	var talks [6]string
	for i := range talks {
		talks[i] = spoken(i*1000, 50)
	}
	for turn := range 300 {
		i := chance.IntN(len(talks))
		same(t, c, int64(i%2), []byte(fmt.Sprintf(`{"top": %d, "messages": [%s], "tail": [%s, %d]}`, turn%7, talks[i], spoken(turn, 2), turn)))
		same(t, c, int64(i%2), []byte(fmt.Sprintf(`{"messages": [%s], "tail": [%s, %d]}`, talks[i], spoken(turn, 2), turn)))
		switch chance.IntN(4) {
		case 0:
			talks[i] = talks[i][:strings.LastIndex(talks[i], `, {"role"`)]
		case 1:
			talks[i] = spoken(turn, 3) + ", " + talks[i]
		default:
			talks[i] += ", " + spoken(turn*100, 1+chance.IntN(2))
		}
	}
	if c.known.size > c.known.most || c.known.size == 0 {
		t.Errorf("%d bytes are known, of at most %d", c.known.size, c.known.most)
	}
}

// TestCanonizerAtOnce: calls of a process come at one moment, while texts of others are forgotten.
func TestCanonizerAtOnce(t *testing.T) {
	c := NewCanonizer(200 << 10)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			said := spoken(i*1000, 50)
			for turn := range 30 {
				said += ", " + spoken(turn, 1)
				raw := []byte(fmt.Sprintf(`{"messages": [%s], "tail": %d}`, said, turn))
				want, err := Canonical(raw)
				if got, _, wrong := c.Canonical(int64(i%3), raw); err != nil || wrong != nil || !bytes.Equal(got, want) {
					t.Errorf("turn %d of %d: %.100q, want %.100q (%v, %v)", turn, i, got, want, wrong, err)
				}
			}
		})
	}
	all.Wait()
}

// FuzzCanonizer: whatever a text has become, it is what it is without the memory.
func FuzzCanonizer(f *testing.F) {
	head := `{"m": [` + spoken(0, 45)
	f.Add([]byte(`, 1], "a": 2}`), []byte(`, 12], "a": 2}`), uint16(0))
	f.Add([]byte(`], "b": [1,2]}`), []byte(`, {"a": -0}], "b": [1,23], "a":1.0}`), uint16(7))
	f.Fuzz(func(t *testing.T, first, second []byte, cut uint16) {
		c := NewCanonizer(1 << 20)
		for _, tail := range [][]byte{first, second, first} {
			same(t, c, 1, append([]byte(head), tail...))
			same(t, c, 1, append([]byte(head[:len(head)-int(cut)%len(head)/8]), tail...))
		}
	})
}

func BenchmarkCanonizer(b *testing.B) {
	for _, kB := range []int{64, 512} {
		var raw []json.RawMessage
		said := spoken(0, kB<<10/400)
		for i := range 16 {
			raw = append(raw, json.RawMessage(fmt.Sprintf(`{"messages": [%s, {"role": "user", "content": "question %d"}], "max_tokens": 100}`, said, i)))
		}
		b.Run(fmt.Sprintf("known/%dkB", kB), func(b *testing.B) {
			c := NewCanonizer(32 << 20)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, _, err := c.Canonical(1, raw[i%len(raw)]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("new/%dkB", kB), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				canonical, err := Canonical(raw[i%len(raw)])
				if err != nil {
					b.Fatal(err)
				}
				Names(canonical)
			}
		})
	}
}
