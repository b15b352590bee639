package search

import (
	"cmp"
	"context"
	"crypto/sha256"
	"math"
	"slices"
	"sync"

	"agentkernel"
)

// rrfK is the constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009).
const rrfK = 60

// depth is how far down each ranking is read before they are made one.
const depth = 100

// batch is how many texts an embedder is handed at once.
const batch = 128

// Searcher is an Index, and an Embedder if there is one. It is safe for concurrent use.
type Searcher struct {
	*Index
	embedder Embedder

	mu      sync.Mutex
	vectors map[[sha256.Size]byte][]float32 // of unit length, by what was embedded
}

// NewSearcher makes a searcher without tools; e may be nil.
func NewSearcher(w Weights, e Embedder) *Searcher {
	return &Searcher{Index: New(w), embedder: e, vectors: map[[sha256.Size]byte][]float32{}}
}

// Find gives the best tools for a query. With an embedder both rankings are fused by reciprocal rank. Where
// the embedder fails the answer is that of the words, and the error says so.
func (s *Searcher) Find(ctx context.Context, query, server string, limit int) ([]Hit, error) {
	byWords := func(n int) []Hit {
		if server != "" {
			return s.SearchServer(query, server, n)
		}
		return s.Search(query, n)
	}
	if s.embedder == nil || query == "" {
		return byWords(limit), nil
	}
	near, err := s.nearest(ctx, query, server)
	if err != nil {
		return byWords(limit), err
	}
	return Fuse(limit, byWords(depth), near), nil
}

// Fuse makes one ranking of several: each tool scores 1/(60+rank) in each.
func Fuse(limit int, rankings ...[]Hit) []Hit {
	sums := map[toolKey]*Hit{}
	for _, ranking := range rankings {
		for rank, h := range ranking {
			key := toolKey{h.Tool.Server, h.Tool.Name}
			if sums[key] == nil {
				sums[key] = &Hit{Tool: h.Tool}
			}
			sums[key].Score += 1 / float64(rrfK+rank+1)
		}
	}
	out := make([]Hit, 0, len(sums))
	for _, h := range sums {
		out = append(out, *h)
	}
	slices.SortFunc(out, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), compareTools(&a.Tool, &b.Tool))
	})
	return out[:min(limit, len(out))]
}

// nearest ranks tools by the cosine between their vectors and the query's. Tools that have no vector yet
// are embedded first.
func (s *Searcher) nearest(ctx context.Context, query, server string) ([]Hit, error) {
	f := s.snapshot()
	if err := s.embedMissing(ctx, f); err != nil {
		return nil, err
	}
	vectors, err := s.embedder.Embed(ctx, []string{query})
	if err != nil {
		return nil, err
	}
	if len(vectors) != 1 {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "embed", "%d vectors for one text", len(vectors))
	}
	q := unit(vectors[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	var hits []Hit
	for _, d := range f.docs {
		if d == nil || server != "" && d.tool.Server != server && d.tool.PythonServer != server {
			continue
		}
		if v := s.vectors[d.digest()]; len(v) == len(q) {
			hits = append(hits, Hit{d.tool, dot(q, v)})
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), compareTools(&a.Tool, &b.Tool))
	})
	return hits[:min(depth, len(hits))], nil
}

// embedMissing gets the vectors of tools that have none, and forgets those of texts that are gone.
func (s *Searcher) embedMissing(ctx context.Context, f *frozen) error {
	s.mu.Lock()
	present := make(map[[sha256.Size]byte]bool, f.tools)
	var missing [][sha256.Size]byte
	var texts []string
	for _, d := range f.docs {
		if d == nil {
			continue
		}
		key := d.digest()
		if !present[key] && s.vectors[key] == nil {
			missing, texts = append(missing, key), append(texts, d.embedded())
		}
		present[key] = true
	}
	if len(s.vectors) > 2*len(present) {
		for key := range s.vectors {
			if !present[key] {
				delete(s.vectors, key)
			}
		}
	}
	s.mu.Unlock()
	for at := 0; at < len(texts); at += batch {
		end := min(at+batch, len(texts))
		vectors, err := s.embedder.Embed(ctx, texts[at:end])
		if err != nil {
			return err
		}
		if len(vectors) != end-at {
			return agentkernel.Errorf(agentkernel.CodeUnavailable, "embed", "%d vectors for %d texts", len(vectors), end-at)
		}
		s.mu.Lock()
		for i, v := range vectors {
			s.vectors[missing[at+i]] = unit(v)
		}
		s.mu.Unlock()
	}
	return nil
}

// embedded is the text of a tool that an embedder reads.
func (d *document) embedded() string {
	text := d.tool.Server + ": " + d.tool.Name + "\n" + d.tool.Description
	return text[:min(len(text), maxText)]
}

func (d *document) digest() [sha256.Size]byte { return sha256.Sum256([]byte(d.embedded())) }

func unit(v []float32) []float32 {
	length := math.Sqrt(dot(v, v))
	if length == 0 {
		return v
	}
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(float64(x) / length)
	}
	return out
}

func dot(a, b []float32) float64 {
	var sum float64
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}
