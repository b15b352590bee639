package devllm

import (
	"hash/fnv"
	"sync"
	"time"
)

// promptCache knows which prefixes of prompts were seen, by key and model, and until when.
type promptCache struct {
	mu    sync.Mutex
	until map[prefix]held
}

// prefix is a beginning of a prompt: its owner (key and model) and a hash of all of it.
type prefix struct {
	owner string
	hash  uint64
}

type held struct {
	until time.Time
	life  time.Duration
}

func newPromptCache() *promptCache { return &promptCache{until: map[prefix]held{}} }

// mark is a prefix that is read or written.
type mark struct {
	hash   uint64
	tokens int64 // of the prefix
	life   time.Duration
}

// live says whether the prefix is held, and lets it live on for as long as it was kept.
func (c *promptCache) live(owner string, m mark, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.until[prefix{owner, m.hash}]
	if !ok || !h.until.After(now) {
		return false
	}
	h.until = now.Add(h.life)
	c.until[prefix{owner, m.hash}] = h
	return true
}

// write keeps the marks from now on.
func (c *promptCache) write(owner string, marks []mark, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range marks {
		c.until[prefix{owner, m.hash}] = held{now.Add(m.life), m.life}
	}
	if len(c.until) > 100_000 { // a long soak forgets what has died
		for p, h := range c.until {
			if !h.until.After(now) {
				delete(c.until, p)
			}
		}
	}
}

// The automatic cache reads in steps of so many tokens.
const cacheStep = 128

// lookBack is how many blocks before a breakpoint are looked at for a prefix that is there already.
const lookBack = 20

// cached says how the prompt's tokens are classed, and what the cache is to keep once the answer has begun.
func (s *Server) cached(r *request, m Model, owner string, now time.Time) (Tokens, []mark) {
	least := m.CacheMin
	if least == 0 {
		least = s.opts.Profile.CacheMin
	}
	switch {
	case least > 0 && s.opts.Profile.CacheLife > 0:
		return s.automatic(r, m, owner, least, now)
	case least > 0 && s.opts.Profile.Headers == "anthropic":
		return s.breakpoints(r, owner, least, now)
	}
	return Tokens{Uncached: r.promptTokens}, nil
}

// automatic is the cache of OpenAI and its kin: the longest prefix in whole steps, from the minimum on.
func (s *Server) automatic(r *request, m Model, owner string, least int64, now time.Time) (Tokens, []mark) {
	var marks []mark
	h, n := fnv.New64a(), int64(0)
	step := min(least, cacheStep)
	for _, b := range r.blocks {
		h.Write([]byte(b.pictures))
		for token := range s.tokens.split(b.text) {
			h.Write([]byte(token))
			h.Write([]byte{0})
			if n++; n >= least && (n-least)%step == 0 {
				marks = append(marks, mark{h.Sum64(), n, s.opts.Profile.CacheLife})
			}
		}
		n += s.tokensOf(b) - s.tokens.count(b.text)
	}
	var read int64
	for i := len(marks) - 1; i >= 0; i-- {
		if s.cache.live(owner, marks[i], now) {
			read = marks[i].tokens
			break
		}
	}
	t := Tokens{Uncached: r.promptTokens - read, CacheRead: read}
	if m.CacheWrites && len(marks) > 0 {
		t.CacheWrite = marks[len(marks)-1].tokens - read
		t.Uncached -= t.CacheWrite
	}
	return t, marks
}

// breakpoints is Anthropic's cache: what stands before a breakpoint is kept as long as that says.
func (s *Server) breakpoints(r *request, owner string, least int64, now time.Time) (Tokens, []mark) {
	type point struct {
		mark
		marked bool
	}
	points := make([]point, 0, len(r.blocks))
	h, n := fnv.New64a(), int64(0)
	for _, b := range r.blocks {
		h.Write([]byte(b.pictures + "\x00" + b.text))
		h.Write([]byte{0})
		n += s.tokensOf(b)
		points = append(points, point{mark{h.Sum64(), n, b.keep}, b.keep > 0})
	}
	var read, last int64
	var writes []mark
	t := Tokens{}
	for i, p := range points {
		if !p.marked || p.tokens < least {
			continue
		}
		for j := i; j >= 0 && j > i-lookBack && points[j].tokens > read; j-- {
			if s.cache.live(owner, points[j].mark, now) {
				read = points[j].tokens
				break
			}
		}
		writes = append(writes, p.mark)
		last = p.tokens
	}
	from := read
	for _, m := range writes {
		n := max(m.tokens-from, 0)
		from = max(from, m.tokens)
		if m.life > 5*time.Minute {
			t.CacheWrite1h += n
		} else {
			t.CacheWrite += n
		}
	}
	t.CacheRead = read
	t.Uncached = r.promptTokens - max(last, read)
	return t, writes
}
