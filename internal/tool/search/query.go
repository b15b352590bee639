package search

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"agentkernel"
)

// What a query may cost: words beyond the first are not read.
const (
	maxQuery = 4 << 10 // bytes
	maxWords = 64
	maxHits  = 1000
	maxParts = 16 // sentences
)

// Hit is one tool that was found.
type Hit struct {
	Tool  agentkernel.Tool
	Score float64 // comparable within one answer only
}

// Search gives the best tools for a query, best first, at most limit; none that has no word of it. A query
// without words finds nothing.
func (ix *Index) Search(query string, limit int) []Hit {
	return ix.search(query, limit, nil)
}

// SearchServer is Search among the tools of one server.
func (ix *Index) SearchServer(query, server string, limit int) []Hit {
	return ix.search(query, limit, func(t *agentkernel.Tool) bool { return t.Server == server || t.PythonServer == server })
}

func (ix *Index) search(query string, limit int, keep func(*agentkernel.Tool) bool) []Hit {
	f := ix.snapshot()
	if f.tools == 0 || limit <= 0 {
		return nil
	}
	scores := scorePool.Get().(*scores)
	defer scorePool.Put(scores)
	top := scores.ask(f, &ix.weights, query)
	if top == 0 {
		return nil
	}
	if parts := sentences(query); len(parts) > 1 {
		scores.askEach(f, &ix.weights, parts, top)
	}
	return f.best(scores.total, min(limit, maxHits), keep)
}

// ask scores the tools for a query and gives the best score, 0 if no tool has a word of it.
func (s *scores) ask(f *frozen, w *Weights, query string) float32 {
	words := w.read(f, query)
	s.reset(len(f.docs))
	for i := range words {
		s.add(f, &words[i])
	}
	s.lend(f, w.Server)
	return slices.Max(s.total)
}

// second is what the best tool for a sentence scores, as a share of the best for the whole query.
const second = .95

// askEach asks for each sentence of a query whose best score is top, and gives each tool its best place. A task of
// several steps needs a tool for each, and in the sum of all words the step with the most words wins.
func (s *scores) askEach(f *frozen, w *Weights, parts []string, top float32) {
	total := slices.Clone(s.total)
	for _, part := range parts {
		if best := s.ask(f, w, part); best > 0 {
			for slot, v := range s.total {
				total[slot] = max(total[slot], v*second*top/best)
			}
		}
	}
	copy(s.total, total)
}

// word is one word of a query with those that may stand for it.
type word struct {
	weight float32
	any    []alternative
}

type alternative struct {
	term   uint32
	weight float32 // with idf
}

// read cuts a query into words and looks them up. Words that stand twice count once.
func (w *Weights) read(f *frozen, query string) []word {
	if len(query) > maxQuery {
		query = strings.ToValidUTF8(query[:maxQuery], "")
	}
	plain, joins := terms(withoutArguments(query), true)
	var out []word
	for _, text := range distinct(plain) {
		weight := 1.0
		if vagueWords()[text] {
			weight = w.Vague
		}
		if alternatives := w.alternatives(f, text); len(alternatives) > 0 {
			out = append(out, word{float32(weight), alternatives})
		}
	}
	for _, text := range distinct(joins) {
		if term, ok := f.vocab[text]; ok {
			out = append(out, word{float32(w.Join), []alternative{{term, f.idf[term]}}})
		}
	}
	return out[:min(len(out), maxWords)]
}

// alternatives are a word, those with other endings, and its synonyms, as far as tools have them. Each says at
// most as much as the word itself: a rare word for a common thing is no find.
func (w *Weights) alternatives(f *frozen, text string) []alternative {
	var out []alternative
	own, known := f.vocab[text]
	if known {
		out = append(out, alternative{own, f.idf[own]})
	}
	add := func(term uint32, weight float64) {
		says := f.idf[term]
		if known {
			says = min(says, f.idf[own])
		}
		out = append(out, alternative{term, float32(weight) * says})
	}
	for _, term := range f.stems[stem(text)] {
		if !known || term != own {
			add(term, w.Stem)
		}
	}
	for _, s := range synonyms()[text] {
		if term, ok := f.vocab[s]; ok {
			add(term, w.Synonym)
		}
	}
	return out
}

// scores are the sums of a query, reused between queries.
type scores struct {
	total []float32
	// best is the best alternative of one word by slot, valid where seen is the word's round.
	best    []float32
	seen    []uint32
	round   uint32
	touched []int32
	servers [][lenders]float32 // the best scores of each server
}

// lenders is how many tools of a server stand for it.
const lenders = 3

var scorePool = sync.Pool{New: func() any { return new(scores) }}

func (s *scores) reset(n int) {
	if cap(s.total) < n {
		*s = scores{total: make([]float32, n), best: make([]float32, n), seen: make([]uint32, n)}
		return
	}
	s.total = s.total[:n]
	clear(s.total)
}

// add counts one word: for each tool the best of its alternatives.
func (s *scores) add(f *frozen, w *word) {
	if len(w.any) == 1 {
		weight := w.weight * w.any[0].weight
		for _, p := range f.of(w.any[0].term) {
			s.total[p.slot] += weight * p.impact
		}
		return
	}
	if s.round++; s.round == 0 { // wrapped around
		clear(s.seen)
		s.round = 1
	}
	s.touched = s.touched[:0]
	for _, a := range w.any {
		for _, p := range f.of(a.term) {
			v := a.weight * p.impact
			if s.seen[p.slot] != s.round {
				s.seen[p.slot] = s.round
				s.best[p.slot] = v
				s.touched = append(s.touched, p.slot)
			} else if v > s.best[p.slot] {
				s.best[p.slot] = v
			}
		}
	}
	for _, slot := range s.touched {
		s.total[slot] += w.weight * s.best[slot]
	}
}

// lend adds to each tool that was found a share of the mean of its server's best: a step names what it works on
// more often than each tool's description does.
func (s *scores) lend(f *frozen, share float64) {
	if share == 0 {
		return
	}
	s.servers = append(s.servers[:0], make([][lenders]float32, f.servers)...)
	for slot, v := range s.total {
		if v <= 0 {
			continue
		}
		best := &s.servers[f.server[slot]]
		for i := range best {
			if v > best[i] {
				v, best[i] = best[i], v
			}
		}
	}
	for slot, v := range s.total {
		if v <= 0 {
			continue
		}
		var sum float32
		for _, b := range s.servers[f.server[slot]] {
			sum += b
		}
		s.total[slot] = v + float32(share)*sum/lenders
	}
}

// best picks the highest scores: a short sorted list, as limit is small.
func (f *frozen) best(total []float32, limit int, keep func(*agentkernel.Tool) bool) []Hit {
	top := make([]int32, 0, min(limit, f.tools)+1)
	before := func(a, b int32) int {
		if c := cmp.Compare(total[b], total[a]); c != 0 {
			return c
		}
		return compareTools(f.tool(a), f.tool(b))
	}
	for slot, v := range total {
		if v <= 0 || len(top) == limit && v < total[top[limit-1]] || keep != nil && !keep(f.tool(int32(slot))) {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, int32(slot), before)
		top = slices.Insert(top, at, int32(slot))
		top = top[:min(len(top), limit)]
	}
	hits := make([]Hit, len(top))
	for i, slot := range top {
		hits[i] = Hit{*f.tool(slot), float64(total[slot])}
	}
	return hits
}

// compareTools is the order of tools that are equally good.
func compareTools(a, b *agentkernel.Tool) int {
	return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Name, b.Name))
}
