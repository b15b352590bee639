package search

import (
	"maps"
	"math"
	"slices"
	"sync"

	"agentkernel"
)

// The fields of a tool, and how much a word counts in each.
const (
	fieldName = iota
	fieldServer
	fieldFirst // first sentence of the description
	fieldRest
	fieldParams    // names of the parameters, nested ones included
	fieldParamDocs // their descriptions and choices
	fields
)

// Weights are the constants of the ranking. They were chosen by cross-validation over servers (tune_test.go says
// how); Default is the rounded mean of the best.
type Weights struct {
	Field [fields]float64 // what one occurrence counts
	Norm  [fields]float64 // BM25's b: how much a long field is held against a tool
	K1    float64         // how soon further occurrences stop counting
	// Synonym is what a word of the thesaurus counts beside the query's own; Join what two neighbours
	// written as one count; Vague what words like "get" count; Stem what a word counts that differs in its
	// ending alone.
	Synonym, Join, Vague, Stem float64
	// Server is what the best tools of a server lend to its others: who draws charts best also saves them.
	Server float64
	// Spread is how far idf counts servers instead of tools: a word of all tools of one server says a lot.
	Spread float64
}

// Default are the weights in use.
func Default() Weights {
	return Weights{
		Field: [fields]float64{1.5, 1.9, 1, .37, .33, .4},
		Norm:  [fields]float64{.4, .5, .2, .43, .5, .6},
		K1:    1.1, Synonym: .6, Join: .2, Vague: .78, Stem: .53, Server: .25, Spread: .25,
	}
}

// Index ranks tools. It is safe for concurrent use.
type Index struct {
	weights Weights

	mu    sync.Mutex
	docs  []*document // in slots; nil: free. A document is never changed
	free  []int32
	slots map[toolKey]int32
	vocab map[string]uint32
	// vocabShared says that a frozen index reads vocab: it is copied before a term is added.
	vocabShared bool
	frozen      *frozen // nil after a change, until the next query
}

// toolKey names a tool for good.
type toolKey struct{ server, name string }

// document is a tool with its terms.
type document struct {
	tool   agentkernel.Tool
	terms  []entry // sorted
	length [fields]float32
}

// entry is a term in a field of a tool: the term's number, the field, and how often it stands there.
type entry uint64

const maxCount = 255

func newEntry(term uint32, field int) entry { return entry(term)<<16 | entry(field)<<8 }
func (e entry) term() uint32                { return uint32(e >> 16) }
func (e entry) field() int                  { return int(e >> 8 & 0xff) }
func (e entry) count() int                  { return int(e & 0xff) }

// New makes an empty index.
func New(w Weights) *Index {
	return &Index{weights: w, slots: map[toolKey]int32{}, vocab: map[string]uint32{}}
}

// Add adds tools; one that is there already is replaced. The schemas must not be changed afterwards.
func (ix *Index) Add(tools ...agentkernel.Tool) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for i := range tools {
		ix.add(tools[i])
	}
	ix.frozen = nil
}

// Remove takes tools of a server away: the named ones, or all of it.
func (ix *Index) Remove(server string, names ...string) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for key, slot := range ix.slots {
		if key.server == server && (len(names) == 0 || slices.Contains(names, key.name)) {
			ix.drop(key, slot)
		}
	}
	ix.frozen = nil
}

// Replace makes tools the ones that a server has.
func (ix *Index) Replace(server string, tools []agentkernel.Tool) {
	ix.Remove(server)
	ix.Add(tools...)
}

// Len is how many tools there are.
func (ix *Index) Len() int {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return len(ix.slots)
}

func (ix *Index) drop(key toolKey, slot int32) {
	delete(ix.slots, key)
	ix.docs[slot] = nil
	ix.free = append(ix.free, slot)
}

// add indexes one tool; ix.mu is held.
func (ix *Index) add(t agentkernel.Tool) {
	key := toolKey{t.Server, t.Name}
	slot, known := ix.slots[key]
	if !known {
		if n := len(ix.free); n > 0 {
			slot, ix.free = ix.free[n-1], ix.free[:n-1]
		} else {
			slot = int32(len(ix.docs))
			ix.docs = append(ix.docs, nil)
		}
		ix.slots[key] = slot
	}
	ix.docs[slot] = ix.document(t)
}

// document reads the terms of a tool.
func (ix *Index) document(t agentkernel.Tool) *document {
	d := &document{tool: t}
	first, rest := firstSentence(t.Description)
	if first == "" {
		first = t.Title
	}
	params, docs := parameterText(&t)
	all := make([]entry, 0, 64)
	for field, text := range [fields]string{t.Name, t.Server, first, rest, params, docs} {
		words, joins := terms(text, field == fieldName || field == fieldServer)
		d.length[field] = float32(len(words))
		for _, w := range words {
			all = append(all, newEntry(ix.number(w), field))
		}
		for _, j := range distinct(joins) {
			all = append(all, newEntry(ix.number(j), field))
		}
	}
	slices.Sort(all)
	for _, e := range all {
		if n := len(d.terms); n > 0 && d.terms[n-1]&^0xff == e {
			if d.terms[n-1].count() < maxCount {
				d.terms[n-1]++
			}
			continue
		}
		d.terms = append(d.terms, e+1)
	}
	d.terms = slices.Clip(d.terms)
	return d
}

// number gives a term its number; ix.mu is held.
func (ix *Index) number(term string) uint32 {
	n, ok := ix.vocab[term]
	if !ok {
		if ix.vocabShared {
			ix.vocab, ix.vocabShared = maps.Clone(ix.vocab), false
		}
		n = uint32(len(ix.vocab))
		ix.vocab[term] = n
	}
	return n
}

// renumber is a copy of a document with other numbers for its terms.
func (d *document) renumber(to []uint32) *document {
	c := *d
	c.terms = make([]entry, len(d.terms))
	for i, e := range d.terms {
		c.terms[i] = newEntry(to[e.term()], e.field()) + entry(e.count())
	}
	slices.Sort(c.terms)
	return &c
}

// idf is how much a term says that stands in n of all tools.
func idf(all, n int) float32 {
	return float32(math.Log(1 + (float64(all)-float64(n)+.5)/(float64(n)+.5)))
}
