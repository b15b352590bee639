package search_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"agentkernel"
	"agentkernel/internal/tool/search"
)

// serverFolds and serverRounds: the servers are dealt into five parts at random, twenty times.
const (
	serverFolds  = 5
	serverRounds = 20
)

// TestTune looks for weights: AGENTKERNEL_TUNE is how many are tried. It leaves whole servers out: the weights for
// a part of the servers are chosen by the tasks that use none of them, and measured on the tasks that do. Then it
// prints the mean of the best twenty, from which Default was rounded.
func TestTune(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("AGENTKERNEL_TUNE"))
	dir := realData(t)
	if n == 0 || dir == "" {
		t.Skip("tuning is asked for with AGENTKERNEL_TUNE=500")
	}
	tools, tasks := readData(t, dir)
	tasks = append(tasks, readLines[task](t, filepath.Join("testdata", "more", "tasks.jsonl"))...)
	r := rand.New(rand.NewPCG(3, 4))
	all := make([]candidate, n)
	for i := range all {
		all[i].w = randomWeights(r)
		if i == 0 {
			all[i].w = search.Default()
		}
		all[i].list = evaluate(tools, tasks, all[i].w)
	}
	var chosen, fixed []recall
	for range serverRounds {
		for _, f := range leaveServersOut(tools, tasks, r) {
			best := slices.MaxFunc(all, func(a, b candidate) int { return cmp.Compare(a.good(f.train), b.good(f.train)) })
			chosen = append(chosen, best.steps(f.test))
			fixed = append(fixed, all[0].steps(f.test))
		}
	}
	m, sd := spreadOf(chosen)
	t.Logf("chosen without the servers of the tasks: recall@5 %.3f ± %.3f, @10 %.3f ± %.3f", m.At5, sd.At5, m.At10, sd.At10)
	m, sd = spreadOf(fixed)
	t.Logf("the weights in use, on the same parts:   recall@5 %.3f ± %.3f, @10 %.3f ± %.3f", m.At5, sd.At5, m.At10, sd.At10)
	w := meanOfBest(all, len(tasks))
	t.Logf("mean of the best: %+v", w)
	t.Logf("which finds by steps %+v", mean(evaluate(tools, tasks, w)).steps)
}

type candidate struct {
	w    search.Weights
	list []outcome
}

func (c *candidate) good(ids []int) float64 {
	var sum float64
	for _, i := range ids {
		o := &c.list[i]
		sum += o.steps.At5 + o.steps.At10 + (o.step.At5+o.step.At10)/2 + (o.whole.At5+o.whole.At10)/4
	}
	return sum
}

func (c *candidate) steps(ids []int) (m recall) {
	for _, id := range ids {
		m.add(c.list[id].steps, 1/float64(len(ids)))
	}
	return m
}

// fold is one part of the servers: the tasks that use one of them, and those that use none.
type fold struct{ train, test []int }

// leaveServersOut deals the servers into parts. A task is tested in each part that has one of its servers.
func leaveServersOut(tools []agentkernel.Tool, tasks []task, r *rand.Rand) []fold {
	var servers []string
	has := map[string][]string{}
	for i := range tools {
		if t := &tools[i]; !slices.Contains(has[t.Name], t.Server) {
			has[t.Name] = append(has[t.Name], t.Server)
			if !slices.Contains(servers, t.Server) {
				servers = append(servers, t.Server)
			}
		}
	}
	part := map[string]int{}
	for i, at := range r.Perm(len(servers)) {
		part[servers[at]] = i % serverFolds
	}
	folds := make([]fold, serverFolds)
	for k := range folds {
		for i, tk := range tasks {
			if slices.ContainsFunc(tk.Tools, func(name string) bool {
				return slices.ContainsFunc(has[name], func(s string) bool { return part[s] == k })
			}) {
				folds[k].test = append(folds[k].test, i)
			} else {
				folds[k].train = append(folds[k].train, i)
			}
		}
	}
	return slices.DeleteFunc(folds, func(f fold) bool { return len(f.test) == 0 || len(f.train) == 0 })
}

func spreadOf(list []recall) (m, sd recall) {
	part := 1 / float64(len(list))
	for _, u := range list {
		m.add(u, part)
	}
	for _, u := range list {
		sd.At5 += (u.At5 - m.At5) * (u.At5 - m.At5) * part
		sd.At10 += (u.At10 - m.At10) * (u.At10 - m.At10) * part
	}
	return m, recall{math.Sqrt(sd.At5), math.Sqrt(sd.At10)}
}

// meanOfBest is the mean of the twenty best by all tasks.
func meanOfBest(all []candidate, tasks int) (w search.Weights) {
	every := make([]int, tasks)
	for i := range every {
		every[i] = i
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(b.good(every), a.good(every)) })
	best := all[:min(20, len(all))]
	part := 1 / float64(len(best))
	for _, c := range best {
		for f := range w.Field {
			w.Field[f] += c.w.Field[f] * part
			w.Norm[f] += c.w.Norm[f] * part
		}
		w.K1, w.Synonym, w.Join, w.Vague = w.K1+c.w.K1*part, w.Synonym+c.w.Synonym*part, w.Join+c.w.Join*part, w.Vague+c.w.Vague*part
		w.Stem, w.Server, w.Spread = w.Stem+c.w.Stem*part, w.Server+c.w.Server*part, w.Spread+c.w.Spread*part
	}
	return w
}

func randomWeights(r *rand.Rand) search.Weights {
	between := func(lo, hi float64) float64 { return lo * math.Exp(r.Float64()*math.Log(hi/lo)) }
	w := search.Weights{K1: between(.8, 2.5), Synonym: .3 + r.Float64()*.5, Join: r.Float64() * .4, Vague: .4 + r.Float64()*.6,
		Stem: .2 + r.Float64()*.6, Server: r.Float64() * .4, Spread: r.Float64() * .6}
	for f, b := range [][4]float64{{1, 3.5, .2, .8}, {.7, 3, .2, .8}, {1, 1, 0, .4}, {.15, .7, .2, .8}, {.1, .8, .2, .8}, {.1, .7, .3, .9}} {
		w.Field[f] = between(b[0], b[1])
		w.Norm[f] = b[2] + r.Float64()*(b[3]-b[2])
	}
	return w
}
