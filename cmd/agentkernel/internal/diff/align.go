package diff

import "slices"

// match says that element a of one list goes with element b of the other.
type match struct{ a, b int }

// aligner finds a longest common subsequence of two lists of numbers with a bounded amount of work: beyond the
// budget it takes elements that are unique in both lists as fixed points, and beyond those the next that fits.
type aligner struct {
	budget      int // steps that are left
	maxEdits    int // of one exact comparison: it remembers that many rows
	approximate bool
	out         []match
}

// Bounds: about 100 ms of work at the worst, and 32 MB for the rows that the way back is found by.
const (
	maxSteps = 40_000_000
	maxEdits = 2_800
)

// align gives the matches in order. exact is false if the bounds cut it short; the matches are common then, too,
// but there may be a longer sequence.
func align(a, b []int32) (out []match, exact bool) {
	al := &aligner{budget: maxSteps, maxEdits: maxEdits}
	al.part(a, b, 0, 0, true)
	return al.out, !al.approximate
}

func (al *aligner) part(a, b []int32, atA, atB int, anchors bool) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		al.out = append(al.out, match{atA, atB})
		a, b, atA, atB = a[1:], b[1:], atA+1, atB+1
	}
	tail := 0
	for tail < len(a) && tail < len(b) && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	a, b = a[:len(a)-tail], b[:len(b)-tail]
	if len(a) > 0 && len(b) > 0 && !al.exact(a, b, atA, atB) {
		al.approximate = true
		if fixed := unique(a, b); anchors && len(fixed) > 0 {
			al.between(a, b, atA, atB, fixed)
		} else {
			al.greedy(a, b, atA, atB)
		}
	}
	for i := range tail {
		al.out = append(al.out, match{atA + len(a) + i, atB + len(b) + i})
	}
}

// between aligns the parts between fixed points.
func (al *aligner) between(a, b []int32, atA, atB int, fixed []match) {
	last := match{}
	for _, f := range append(fixed, match{len(a), len(b)}) {
		al.part(a[last.a:f.a], b[last.b:f.b], atA+last.a, atB+last.b, false)
		if f.a < len(a) {
			al.out = append(al.out, match{atA + f.a, atB + f.b})
		}
		last = match{f.a + 1, f.b + 1}
	}
}

// exact is the algorithm of Myers ("An O(ND) Difference Algorithm and Its Variations", 1986): it costs as much as
// the lists differ. False, and nothing done, if that is more than the bounds.
func (al *aligner) exact(a, b []int32, atA, atB int) bool {
	n, m := len(a), len(b)
	limit := min(n+m, al.maxEdits)
	v := make([]int32, 2*limit+3) // v[k+off]: how far on diagonal k
	off := limit + 1
	var rows [][]int32
	for d := 0; d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			x := int(v[off+k-1]) + 1
			if k == -d || k != d && v[off+k-1] < v[off+k+1] {
				x = int(v[off+k+1])
			}
			for y := x - k; x < n && y < m && a[x] == b[y]; y++ {
				x++
				al.budget--
			}
			v[off+k] = int32(x) //nolint:gosec // a journal has far fewer calls
			if x >= n && x-k >= m {
				al.back(rows, n, m, atA, atB)
				return true
			}
		}
		if al.budget -= d + 1; al.budget < 0 {
			return false
		}
		rows = append(rows, slices.Clone(v[off-d-1:off+d+2]))
	}
	return false
}

// back walks from the end to the beginning and notes the matches. rows[d] is v after d edits, from diagonal -d-1 on.
func (al *aligner) back(rows [][]int32, x, y, atA, atB int) {
	first := len(al.out)
	for d := len(rows); d > 0; d-- {
		row := rows[d-1]
		at := func(k int) int { return int(row[k+d]) }
		k := x - y
		from := k - 1
		if k == -d || k != d && at(k-1) < at(k+1) {
			from = k + 1
		}
		begin := at(from) // of the run of matches that ends at x, y
		if from < k {
			begin++
		}
		for x > begin {
			x, y = x-1, y-1
			al.out = append(al.out, match{atA + x, atB + y})
		}
		x = at(from)
		y = x - from
	}
	for x > 0 && y > 0 {
		x, y = x-1, y-1
		al.out = append(al.out, match{atA + x, atB + y})
	}
	slices.Reverse(al.out[first:])
}

// unique gives the elements that both lists have exactly once, as many as stand in the same order in both.
func unique(a, b []int32) []match {
	type seen struct{ countA, countB, a, b int }
	all := map[int32]*seen{}
	for i, x := range a {
		if all[x] == nil {
			all[x] = &seen{}
		}
		all[x].countA++
		all[x].a = i
	}
	for i, x := range b {
		if s := all[x]; s != nil {
			s.countB++
			s.b = i
		}
	}
	var common []match
	for _, s := range all {
		if s.countA == 1 && s.countB == 1 {
			common = append(common, match{s.a, s.b})
		}
	}
	slices.SortFunc(common, func(x, y match) int { return x.a - y.a })
	return rising(common)
}

// rising is a longest subsequence of matches in which b rises, too (patience sorting).
func rising(list []match) []match {
	var tops []int // index into list of the last card of each pile
	prev := make([]int, len(list))
	for i, m := range list {
		p, _ := slices.BinarySearchFunc(tops, m.b, func(t, b int) int { return list[t].b - b })
		prev[i] = -1
		if p > 0 {
			prev[i] = tops[p-1]
		}
		if p == len(tops) {
			tops = append(tops, i)
		} else {
			tops[p] = i
		}
	}
	var out []match
	if len(tops) > 0 {
		for i := tops[len(tops)-1]; i >= 0; i = prev[i] {
			out = append(out, list[i])
		}
	}
	slices.Reverse(out)
	return out
}

// greedy takes for each element of a the next equal one of b, if it is not far away.
func (al *aligner) greedy(a, b []int32, atA, atB int) {
	const far = 16
	places := map[int32][]int{}
	for i, x := range b {
		places[x] = append(places[x], i)
	}
	next := 0
	for i, x := range a {
		p := places[x]
		for len(p) > 0 && p[0] < next {
			p = p[1:]
		}
		places[x] = p
		if len(p) > 0 && p[0]-next < far {
			al.out = append(al.out, match{atA + i, atB + p[0]})
			next = p[0] + 1
		}
	}
}
