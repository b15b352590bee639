package search

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
)

// rrfK is the constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009).
const rrfK = 60

// depth is how far down each ranking is read before they are made one.
const depth = 100

// Searcher is an Index, and vectors of its tools if there is an embedder. It is safe for concurrent use.
type Searcher struct {
	*Index
	vectors *Vectors
}

// NewSearcher makes a searcher without tools; v may be nil.
func NewSearcher(w Weights, v *Vectors) *Searcher { return &Searcher{Index: New(w), vectors: v} }

// Find gives the best tools for a query. With an embedder both rankings are fused by reciprocal rank. Where
// the embedder fails the answer is that of the words, and the error says so.
func (s *Searcher) Find(ctx context.Context, query, server string, limit int) ([]Hit, error) {
	byWords := func(n int) []Hit {
		if server != "" {
			return s.SearchServer(query, server, n)
		}
		return s.Search(query, n)
	}
	if s.vectors == nil || query == "" {
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

// nearest ranks tools by the cosine between their vectors and the query's. Tools that have no vector yet are
// embedded first.
func (s *Searcher) nearest(ctx context.Context, query, server string) ([]Hit, error) {
	f := s.snapshot()
	var docs []*document
	var texts []string
	for _, d := range f.docs {
		if d != nil {
			docs, texts = append(docs, d), append(texts, d.embedded())
		}
	}
	vectors, err := s.vectors.Of(ctx, texts)
	if err != nil {
		return nil, err
	}
	q, err := s.vectors.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	var hits []Hit
	for i, d := range docs {
		if server != "" && d.tool.Server != server && d.tool.PythonServer != server {
			continue
		}
		if v := vectors[i]; len(v) == len(q) {
			hits = append(hits, Hit{d.tool, dot(q, v)})
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), compareTools(&a.Tool, &b.Tool))
	})
	return hits[:min(depth, len(hits))], nil
}

// embedded is the text of a tool that an embedder reads.
func (d *document) embedded() string {
	text := d.tool.Server + ": " + d.tool.Name + "\n" + d.tool.Description
	return strings.ToValidUTF8(text[:min(len(text), maxEmbedded)], "")
}

// maxEmbedded bounds the text of a tool that is embedded, in bytes: models read some 8,000 tokens at most.
const maxEmbedded = 4 << 10

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
