package search_test

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"agentkernel/internal/tool/search"
)

// TestTune looks for weights: AGENTKERNEL_TUNE is how many are tried. It says how good the best are on tasks
// that they were not chosen by (5 folds, 20 times), and the mean of the best twenty, from which Default was
// rounded. It chooses by all tasks, never by one.
func TestTune(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("AGENTKERNEL_TUNE"))
	dir := realData(t)
	if n == 0 || dir == "" {
		t.Skip("tuning is asked for with AGENTKERNEL_TUNE=500")
	}
	tools, tasks := readData(t, dir)
	r := rand.New(rand.NewPCG(3, 4))
	type candidate struct {
		w    search.Weights
		list []outcome
	}
	all := make([]candidate, n)
	for i := range all {
		w := randomWeights(r)
		all[i] = candidate{w, evaluate(tools, tasks, w)}
	}
	good := func(c candidate, ids []int) float64 {
		var sum float64
		for _, i := range ids {
			o := &c.list[i]
			sum += o.steps.At5 + o.steps.At10 + (o.step.At5+o.step.At10)/2 + (o.whole.At5+o.whole.At10)/4
		}
		return sum
	}
	var unseen []recall
	for range 20 {
		perm := r.Perm(len(tasks))
		for k := range 5 {
			var train, test []int
			for i, id := range perm {
				if i%5 == k {
					test = append(test, id)
				} else {
					train = append(train, id)
				}
			}
			best := slices.MaxFunc(all, func(a, b candidate) int { return cmpFloat(good(a, train), good(b, train)) })
			var m recall
			for _, id := range test {
				m.add(best.list[id].steps, 1/float64(len(test)))
			}
			unseen = append(unseen, m)
		}
	}
	var m, sd recall
	for _, u := range unseen {
		m.add(u, 1/float64(len(unseen)))
	}
	for _, u := range unseen {
		sd.At5 += (u.At5 - m.At5) * (u.At5 - m.At5) / float64(len(unseen))
		sd.At10 += (u.At10 - m.At10) * (u.At10 - m.At10) / float64(len(unseen))
	}
	t.Logf("chosen on four folds, measured on the fifth: recall@5 %.3f ± %.3f, @10 %.3f ± %.3f", m.At5, math.Sqrt(sd.At5), m.At10, math.Sqrt(sd.At10))
	every := make([]int, len(tasks))
	for i := range every {
		every[i] = i
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmpFloat(good(b, every), good(a, every)) })
	var w search.Weights
	const best = 20
	for _, c := range all[:min(best, n)] {
		for f := range w.Field {
			w.Field[f] += c.w.Field[f] / best
			w.Norm[f] += c.w.Norm[f] / best
		}
		w.K1, w.Synonym, w.Join, w.Vague = w.K1+c.w.K1/best, w.Synonym+c.w.Synonym/best, w.Join+c.w.Join/best, w.Vague+c.w.Vague/best
	}
	t.Logf("mean of the best %d: %+v", best, w)
	t.Logf("which finds by steps %+v", mean(evaluate(tools, tasks, w)).steps)
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func randomWeights(r *rand.Rand) search.Weights {
	between := func(lo, hi float64) float64 { return lo * math.Exp(r.Float64()*math.Log(hi/lo)) }
	w := search.Weights{K1: between(.8, 2.5), Synonym: .3 + r.Float64()*.5, Join: r.Float64() * .4, Vague: .3 + r.Float64()*.6}
	for f, b := range [][4]float64{{1, 3.5, .2, .8}, {.7, 3, .2, .8}, {1, 1, 0, .4}, {.15, .7, .2, .8}, {.1, .8, .2, .8}, {.1, .7, .3, .9}} {
		w.Field[f] = between(b[0], b[1])
		w.Norm[f] = b[2] + r.Float64()*(b[3]-b[2])
	}
	return w
}
