package devllm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Entry is what the log has of one request.
type Entry struct {
	Seq     int64     `json:"seq"` // in the order of their ends
	Time    time.Time `json:"time"`
	Ended   time.Time `json:"ended"`
	Key     string    `json:"key"` // its fingerprint
	API     string    `json:"api"`
	Path    string    `json:"path"`
	Model   string    `json:"model,omitempty"`
	Stream  bool      `json:"stream,omitempty"`
	Request string    `json:"request"` // a fingerprint of the body

	Status     int    `json:"status"` // 499: the client went before the answer's end
	Limit      string `json:"limit,omitempty"`
	RetryAfter Span   `json:"retry_after,omitempty"`
	Fault      string `json:"fault,omitempty"`
	Rule       string `json:"rule,omitempty"`    // of the script
	Aborted    bool   `json:"aborted,omitempty"` // a stream ended before its end

	Tokens  Tokens  `json:"tokens"`        // that are billed
	Charged Charged `json:"charged"`       // what the limits were charged, in the end
	Nanos   int64   `json:"nanos"`         // the price, in nano-dollars
	Cut     int64   `json:"cut,omitempty"` // tokens of the prompt that were dropped in silence
}

// Charged is what limits were charged.
type Charged struct {
	Requests int64 `json:"requests"`
	Input    int64 `json:"input"`
	Output   int64 `json:"output"`
	Total    int64 `json:"total"`
}

func (c Charged) plus(o Charged, sign int64) Charged {
	return Charged{c.Requests + sign*o.Requests, c.Input + sign*o.Input, c.Output + sign*o.Output, c.Total + sign*o.Total}
}

func (c Charged) most(o Charged) Charged {
	return Charged{max(c.Requests, o.Requests), max(c.Input, o.Input), max(c.Output, o.Output), max(c.Total, o.Total)}
}

// Filter picks entries; what is zero picks all. Since is included, Until is not.
type Filter struct {
	Since, Until time.Time
	Key          string // a fingerprint: see Fingerprint
	Model        string
}

func (f Filter) has(e *Entry) bool {
	return (f.Since.IsZero() || !e.Time.Before(f.Since)) && (f.Until.IsZero() || e.Time.Before(f.Until)) &&
		(f.Key == "" || f.Key == e.Key) && (f.Model == "" || f.Model == e.Model)
}

// Fingerprint is what the log calls a key.
func Fingerprint(key string) string { return fingerprint(key) }

// Totals are sums over the log.
type Totals struct {
	Requests int64            `json:"requests"`
	Statuses map[string]int64 `json:"statuses"`
	Refused  map[string]int64 `json:"refused"` // 429s by the limit that refused them
	Aborted  int64            `json:"aborted"`
	Tokens   Tokens           `json:"tokens"`
	Charged  Charged          `json:"charged"`
	Nanos    int64            `json:"nanos"`
	USD      string           `json:"usd"`
	// Most is the most that was charged within any span of 1s, 10s and 60s. A request counts at the time at which it
	// came in, with all that it was charged in the end.
	Most map[string]Charged `json:"most"`
}

// journal is the log.
type journal struct {
	mu      sync.Mutex
	entries []Entry
	out     io.Writer
	nanos   int64
	more    chan struct{} // closed when an entry is added
}

func newJournal(out io.Writer) *journal { return &journal{out: out, more: make(chan struct{})} }

// added is closed when the next entry is there.
func (j *journal) added() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.more
}

// Await returns when the log has at least n entries, or when ctx ends. An answer's entry is written when its last byte
// has been sent, so that a client may be quicker.
func (s *Server) Await(ctx context.Context, n int) error {
	for {
		more := s.journal.added()
		s.journal.mu.Lock()
		enough := len(s.journal.entries) >= n
		s.journal.mu.Unlock()
		if enough {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (j *journal) add(e Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Seq = int64(len(j.entries)) + 1
	j.entries = append(j.entries, e)
	j.nanos += e.Nanos
	close(j.more)
	j.more = make(chan struct{})
	if j.out != nil {
		_, _ = io.WriteString(j.out, compact(e)+"\n") // a log that cannot be written is no reason not to answer
	}
}

// spent is what all requests have cost.
func (j *journal) spent() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.nanos
}

func (j *journal) pick(f Filter) []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := []Entry{}
	for i := range j.entries {
		if f.has(&j.entries[i]) {
			list = append(list, j.entries[i])
		}
	}
	return list
}

// Log are the entries of the log that the filter picks, in the order of their ends. Requests under way are not in it.
func (s *Server) Log(f Filter) []Entry { return s.journal.pick(f) }

// ClearLog forgets the log, and what was spent.
func (s *Server) ClearLog() {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	s.journal.entries, s.journal.nanos = nil, 0
}

// Totals sums up the entries that the filter picks.
func (s *Server) Totals(f Filter) Totals { return sumUp(s.journal.pick(f)) }

func sumUp(entries []Entry) Totals {
	t := Totals{Statuses: map[string]int64{}, Refused: map[string]int64{}, Most: map[string]Charged{}}
	for _, e := range entries {
		t.Requests++
		t.Statuses[strconv.Itoa(e.Status)]++
		if e.Status == 429 {
			t.Refused[e.Limit]++
		}
		if e.Aborted {
			t.Aborted++
		}
		t.Tokens, t.Charged = t.Tokens.plus(e.Tokens), t.Charged.plus(e.Charged, 1)
		t.Nanos += e.Nanos
	}
	t.USD = dollars(t.Nanos)
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Seq, b.Seq)) })
	for name, span := range map[string]time.Duration{"1s": time.Second, "10s": 10 * time.Second, "60s": time.Minute} {
		t.Most[name] = mostWithin(entries, span)
	}
	return t
}

// mostWithin is the most that is charged within a span; the entries are in the order of their times.
func mostWithin(entries []Entry, span time.Duration) (most Charged) {
	var sum Charged
	first := 0
	for _, e := range entries {
		sum = sum.plus(e.Charged, 1)
		for entries[first].Time.Add(span).Compare(e.Time) <= 0 {
			sum = sum.plus(entries[first].Charged, -1)
			first++
		}
		most = most.most(sum)
	}
	return most
}

// dollars writes nano-dollars, such as 1.500000000.
func dollars(nanos int64) string { return fmt.Sprintf("%d.%09d", nanos/1e9, nanos%1e9) }

// bodyHash tells bodies apart. JSON counts by what it says, not by how it is written.
func bodyHash(body []byte) string {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if d.Decode(&v) == nil {
		body = []byte(compact(v)) // the members of objects are sorted
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:12])
}
