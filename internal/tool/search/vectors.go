package search

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"agentkernel"
)

// batch is how many texts an embedder is handed at once.
const batch = 128

// rest is how long an embedder that failed is left alone: each search would wait for it otherwise.
const rest = time.Minute

// digest names a text.
type digest [sha256.Size]byte

// Vectors are what an embedder made of texts, kept in memory and in a file. It is safe for concurrent use.
type Vectors struct {
	cfg VectorConfig

	mu     sync.Mutex
	byText map[digest][]float32 // of unit length; nil: the file was not read yet
	used   map[digest]bool      // since the file was read
	failed error
	again  time.Time // when the embedder is asked again
}

// VectorConfig is what Vectors need; Embedder is needed.
type VectorConfig struct {
	Embedder Embedder
	Path     string // the file that keeps the vectors of tools; "": none
	Model    string // who made them: those of another are not read
	// Problem is told what is wrong with the file; it never stops a search. Nil: nobody.
	Problem func(path string, err error)
	Now     func() time.Time // nil: time.Now
}

// NewVectors makes Vectors. The file is read when they are asked for first.
func NewVectors(cfg VectorConfig) *Vectors {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Problem == nil {
		cfg.Problem = func(string, error) {}
	}
	return &Vectors{cfg: cfg, used: map[digest]bool{}}
}

// Of returns the vectors of texts that last: those that are not known are asked for and written to the file.
func (v *Vectors) Of(ctx context.Context, texts []string) ([][]float32, error) {
	v.mu.Lock()
	defer v.mu.Unlock() // one asks, and the others find what it was told
	v.load()
	missing := map[digest]string{}
	var order []digest
	keys := make([]digest, len(texts))
	for i, text := range texts {
		keys[i] = sha256.Sum256([]byte(text))
		v.used[keys[i]] = true
		if _, asked := missing[keys[i]]; v.byText[keys[i]] == nil && !asked {
			missing[keys[i]] = text
			order = append(order, keys[i])
		}
	}
	err := v.learn(ctx, order, missing)
	if err != nil {
		return nil, err
	}
	out := make([][]float32, len(texts))
	for i, key := range keys {
		out[i] = v.byText[key]
	}
	return out, nil
}

// learn asks for what is missing, in batches. What came before a failure is kept.
func (v *Vectors) learn(ctx context.Context, order []digest, texts map[digest]string) error {
	if len(order) == 0 {
		return nil
	}
	learned := 0
	defer func() {
		if learned > 0 {
			v.save()
		}
	}()
	for at := 0; at < len(order); at += batch {
		part := order[at:min(at+batch, len(order))]
		list := make([]string, len(part))
		for i, key := range part {
			list[i] = texts[key]
		}
		vectors, err := v.ask(ctx, list)
		if err != nil {
			return err
		}
		for i, key := range part {
			v.byText[key] = unit(vectors[i])
			learned++
		}
	}
	return nil
}

// Query returns the vector of a text that does not last.
func (v *Vectors) Query(ctx context.Context, text string) ([]float32, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	vectors, err := v.ask(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	return unit(vectors[0]), nil
}

// ask asks the embedder, unless it failed a moment ago; v.mu is held.
func (v *Vectors) ask(ctx context.Context, texts []string) ([][]float32, error) {
	if v.failed != nil && v.cfg.Now().Before(v.again) {
		return nil, v.failed
	}
	vectors, err := v.cfg.Embedder.Embed(ctx, texts)
	if err == nil && len(vectors) != len(texts) {
		err = agentkernel.Errorf(agentkernel.CodeUnavailable, "embed", "the embedder returned %d vectors for %d texts", len(vectors), len(texts))
	}
	if err != nil && ctx.Err() != nil {
		return nil, err // the caller's time, and no fault of the embedder
	}
	v.failed, v.again = err, v.cfg.Now().Add(rest)
	return vectors, err
}
