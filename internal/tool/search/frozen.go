package search

import (
	"agentkernel"
)

// frozen is what queries read, without a lock: the tools of one moment, and for each term those in which it
// stands with what it counts there. It is made from all documents at once after a change, so that it does
// not depend on the order in which tools came and went. (50,000 tools: some 150 ms; 500: about one.)
type frozen struct {
	vocab    map[string]uint32
	docs     []*document // in slots; nil where there is no tool
	tools    int
	start    []uint32 // postings of term t: postings[start[t]:start[t+1]]
	postings []posting
	idf      []float32 // by term
	server   []int32   // by slot: the number of the tool's server
	servers  int
	stems    map[string][]uint32 // the terms that share a stem
}

// posting is one tool of a term.
type posting struct {
	slot   int32
	impact float32 // BM25's part without idf
}

func (f *frozen) of(term uint32) []posting { return f.postings[f.start[term]:f.start[term+1]] }

// snapshot gives the frozen index of this moment.
func (ix *Index) snapshot() *frozen {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.frozen == nil {
		ix.forget()
		ix.frozen = ix.freeze()
	}
	return ix.frozen
}

// forget numbers the terms anew once most of them are those of tools that are gone. Frozen indexes keep the
// old numbers; ix.mu is held.
func (ix *Index) forget() {
	used := make([]bool, len(ix.vocab))
	count := 0
	for _, d := range ix.docs {
		if d == nil {
			continue
		}
		for _, e := range d.terms {
			if t := e.term(); !used[t] {
				used[t] = true
				count++
			}
		}
	}
	if len(ix.vocab) < 4096 || count > len(ix.vocab)/2 {
		return
	}
	renumbered := make([]uint32, len(ix.vocab))
	vocab := make(map[string]uint32, count)
	for term, n := range ix.vocab {
		if used[n] {
			renumbered[n] = uint32(len(vocab))
			vocab[term] = renumbered[n]
		}
	}
	ix.vocab, ix.vocabShared = vocab, false
	for i, d := range ix.docs {
		if d != nil {
			ix.docs[i] = d.renumber(renumbered)
		}
	}
}

// freeze makes the frozen index; ix.mu is held.
func (ix *Index) freeze() *frozen {
	f := &frozen{vocab: ix.vocab, docs: append([]*document(nil), ix.docs...), tools: len(ix.slots)}
	ix.vocabShared = true
	var average [fields]float64
	counts := make([]uint32, len(f.vocab)+1)
	for _, d := range f.docs {
		if d == nil {
			continue
		}
		for field, n := range d.length {
			average[field] += float64(n) / float64(f.tools)
		}
		d.eachTerm(func(term uint32, _ []entry) { counts[term+1]++ })
	}
	f.numberServers()
	spread := f.serversOf()
	f.idf = make([]float32, len(f.vocab))
	for t := range f.idf {
		f.idf[t] = mix(idf(f.tools, int(counts[t+1])), idf(f.servers, int(spread[t])), ix.weights.Spread)
		counts[t+1] += counts[t]
	}
	f.stems = stemsOf(f.vocab)
	f.start = counts
	f.postings = make([]posting, counts[len(counts)-1])
	next := append([]uint32(nil), counts...)
	for slot, d := range f.docs {
		if d == nil {
			continue
		}
		weight := ix.weights.fieldWeights(d, average)
		d.eachTerm(func(term uint32, entries []entry) {
			var tf float64
			for _, e := range entries {
				tf += weight[e.field()] * float64(e.count())
			}
			f.postings[next[term]] = posting{int32(slot), float32(tf * (ix.weights.K1 + 1) / (tf + ix.weights.K1))}
			next[term]++
		})
	}
	return f
}

// numberServers gives each server a number.
func (f *frozen) numberServers() {
	numbers := map[string]int32{}
	f.server = make([]int32, len(f.docs))
	for slot, d := range f.docs {
		if d == nil {
			continue
		}
		n, ok := numbers[d.tool.Server]
		if !ok {
			n = int32(len(numbers))
			numbers[d.tool.Server] = n
		}
		f.server[slot] = n
	}
	f.servers = len(numbers)
}

// serversOf counts for each term the servers that have a tool with it.
func (f *frozen) serversOf() []int32 {
	slots := make([][]int32, f.servers)
	for slot, d := range f.docs {
		if d != nil {
			slots[f.server[slot]] = append(slots[f.server[slot]], int32(slot))
		}
	}
	count, last := make([]int32, len(f.vocab)), make([]int32, len(f.vocab))
	for server, list := range slots {
		for _, slot := range list {
			f.docs[slot].eachTerm(func(term uint32, _ []entry) {
				if last[term] != int32(server)+1 {
					last[term] = int32(server) + 1
					count[term]++
				}
			})
		}
	}
	return count
}

// mix is a, with the given share of b.
func mix(a, b float32, share float64) float32 { return a + float32(share)*(b-a) }

// fieldWeights is what one occurrence counts in each field of a document: less in a field that is long.
func (w *Weights) fieldWeights(d *document, average [fields]float64) (out [fields]float64) {
	for field := range out {
		norm := 1.0
		if average[field] > 0 {
			norm = 1 - w.Norm[field] + w.Norm[field]*float64(d.length[field])/average[field]
		}
		out[field] = w.Field[field] / norm
	}
	return out
}

// eachTerm calls fn for each term with its entries.
func (d *document) eachTerm(fn func(term uint32, entries []entry)) {
	for i := 0; i < len(d.terms); {
		end := i + 1
		for end < len(d.terms) && d.terms[end].term() == d.terms[i].term() {
			end++
		}
		fn(d.terms[i].term(), d.terms[i:end])
		i = end
	}
}

// tool gives the tool of a slot.
func (f *frozen) tool(slot int32) *agentkernel.Tool { return &f.docs[slot].tool }
