package router

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/llm"
)

// answers keeps answers to queries that may be answered again (llm.Query.Reuse), in memory alone. Each belongs to a question of one
// namespace; the one that was used longest ago goes first. What it returns must not be changed.
type answers struct {
	max int // bytes, about

	mu    sync.Mutex
	size  int
	order list.List // of *kept, the one used last first
	known map[question]*list.Element
}

// question is a digest of who asks, which model, and all that reaches the provider.
type question [sha256.Size]byte

// kept is an answer that is kept.
type kept struct {
	question question
	at       time.Time // when it came
	size     int
	result   *llm.Result
}

const (
	// maxAnswers bounds what is kept: some thousand long answers.
	maxAnswers = 32 << 20
	// maxPart is the part of it that one answer may take.
	maxPart = 8
	// aroundAnswer is what an answer takes besides its content, in bytes.
	aroundAnswer = 1 << 10
)

func newAnswers() *answers {
	return &answers{max: maxAnswers, known: map[question]*list.Element{}}
}

// questionOf is the question of a query, as the program asks it; false: it has none. The priority is no part of it: it decides when
// a question is answered, and not how.
func questionOf(alias string, q *llm.Query) (out question, ok bool) {
	r := q.Request
	r.Priority = 0
	asked, err := json.Marshal(r)
	kind := "complete"
	if q.Embed != nil {
		asked, err = json.Marshal(q.Embed)
		kind = "embed"
	}
	if err != nil {
		return out, false
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(q.Namespace), []byte(alias), []byte(kind), asked} {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // never fails
		_, _ = h.Write(part)
	}
	h.Sum(out[:0])
	return out, true
}

// get is the answer to a question that came at since or later; nil: there is none.
func (a *answers) get(q question, since time.Time) *llm.Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.known[q]
	if e == nil || e.Value.(*kept).at.Before(since) {
		return nil
	}
	a.order.MoveToFront(e)
	return e.Value.(*kept).result
}

// put keeps an answer, if it is one that the same question may have again: it is whole, and not too large.
func (a *answers) put(q question, r *llm.Result, now time.Time) {
	again, size := again(r)
	if again == nil || size > a.max/maxPart {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.known[q]; e != nil {
		a.remove(e)
	}
	a.known[q] = a.order.PushFront(&kept{q, now, size, again})
	for a.size += size; a.size > a.max; {
		a.remove(a.order.Back())
	}
}

func (a *answers) remove(e *list.Element) {
	k := e.Value.(*kept)
	a.size -= k.size
	a.order.Remove(e)
	delete(a.known, k.question)
}

// again is an answer as it is given again, which uses nothing and costs nothing, and how large that is; nil: it is cut, refused, or
// not at its end.
func again(r *llm.Result) (*llm.Result, int) {
	out := llm.Result{Answer: &llm.Answer{}, Data: r.Data, Cost: new(agentkernel.NanoUSD), Reused: true}
	if e := r.Embeddings; e != nil {
		size := aroundAnswer
		for _, v := range e.Vectors {
			size += 4*len(v) + 24
		}
		out.Embeddings = &llm.Embeddings{Model: e.Model, Vectors: e.Vectors}
		return &out, size
	}
	switch r.Stop {
	case llm.StopEnd, llm.StopSequence, llm.StopToolCalls:
	default:
		return nil, 0
	}
	*out.Answer = *r.Answer
	out.Usage = llm.Usage{}
	text, err := json.Marshal(out.Answer)
	if err != nil {
		return nil, 0
	}
	return &out, aroundAnswer + 2*len(text) + len(out.Data)
}

// recall looks for an answer that the plan may give again, and holds it: it is there then whatever becomes of what is kept.
func (p *plan) recall() *llm.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil && p.reuse {
		p.held = p.r.answers.get(p.question, p.r.now().Add(-p.q.Reuse))
	}
	return p.held
}

// recalled is the answer that the plan holds.
func (p *plan) recalled() *llm.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}
