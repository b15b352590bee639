package diff

import (
	"math/rand/v2"
	"testing"
	"time"
)

// lcs is the length of the longest common subsequence by the textbook.
func lcs(a, b []int32) int {
	row := make([]int, len(b)+1)
	for i := range a {
		diag := 0
		for j := range b {
			up := row[j+1]
			if a[i] == b[j] {
				row[j+1] = diag + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			diag = up
		}
	}
	return row[len(b)]
}

func check(t *testing.T, a, b []int32, out []match) {
	t.Helper()
	last := match{-1, -1}
	for _, m := range out {
		if m.a <= last.a || m.b <= last.b || m.a >= len(a) || m.b >= len(b) || a[m.a] != b[m.b] {
			t.Fatalf("%v is no match after %v", m, last)
		}
		last = m
	}
}

func random(r *rand.Rand, n, values int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(r.IntN(values))
	}
	return out
}

func TestAlignIsALongestCommonSubsequence(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		values := 1 + r.IntN(8)
		a, b := random(r, r.IntN(30), values), random(r, r.IntN(30), values)
		out, exact := align(a, b)
		check(t, a, b, out)
		if !exact || len(out) != lcs(a, b) {
			t.Fatalf("%v and %v: %d matches, want %d (exact %v)", a, b, len(out), lcs(a, b), exact)
		}
	}
}

// With a budget that does not suffice the matches are still matches, and most of what is common is found.
func TestAlignBeyondItsBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		a := random(r, 200, 1000)
		b := append([]int32{}, a...)
		for range 40 {
			b[r.IntN(len(b))] = int32(5000 + r.IntN(10))
		}
		al := &aligner{budget: 50, maxEdits: 3}
		al.part(a, b, 0, 0, true)
		check(t, a, b, al.out)
		if best := lcs(a, b); !al.approximate || len(al.out) < best*8/10 {
			t.Fatalf("%d of %d matches found, approximate %v", len(al.out), best, al.approximate)
		}
	}
}

// Two long journals that have nothing to do with one another must not cost minutes.
func TestAlignIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	a, b := random(r, 100_000, 50), random(r, 100_000, 50)
	begin := time.Now()
	out, exact := align(a, b)
	check(t, a, b, out)
	if took := time.Since(begin); exact || took > 5*time.Second {
		t.Errorf("exact %v after %v", exact, took)
	}
	t.Logf("%d of 100,000 matched in %v", len(out), time.Since(begin))
}
