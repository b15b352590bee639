package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/llm"
)

// most is how often a call may be charged for at most before its process knows what it has cost: where money is bounded, nothing is sent
// again that may have been charged; elsewhere twice.
func (a *asking) most() int {
	if a.capped {
		return 1
	}
	return 3
}

// arrives takes a request, and checks that it may be sent.
func (p *provider) arrives(a *asking, r *llm.Request, fate fate, roll uint64, turn time.Time) *request {
	w, m := p.e.w, p.e.w.market
	var pid agentkernel.PID
	var call int64
	if n, err := fmt.Sscanf(a.name, "%d/%d", &pid, &call); n != 2 || err != nil {
		w.failf("a request is of the call %q", a.name)
	}
	if !w.disk.intended(pid, call) {
		w.failf("call %d of process %d asks a model, and its intent is not durable", call, pid)
	}
	q := &request{call: a.name, to: p.model, kernel: p.e.generation, open: true}
	held := int64(0)
	if l := w.disk.ledger(pid); l != nil && l.calls[call] != nil {
		c := l.calls[call]
		q.life, q.turns, held = c.paid, c.turns, l.purse.held[call][agentkernel.AmountUSD]
		if c.resultSeq != 0 || l.terminal {
			w.failf("call %d of process %d asks a model, and has its result", call, pid)
		}
		if c.unsent {
			w.failf("call %d of process %d asks a model, and its journal says that it waits for its turn", call, pid)
		}
	}
	text := ""
	for _, part := range r.Messages[len(r.Messages)-1].Parts {
		text += part.Text
	}
	input := inputs(text)
	if most := costs(p.model, input, r.MaxTokens); int64(most) > held {
		w.failf("call %d of process %d asks for what may cost %d, and has reserved %d", call, pid, most, held)
	}
	output := 1 + int64(roll>>32)%r.MaxTokens
	m.mu.Lock()
	defer m.mu.Unlock()
	w.asked()
	m.answers++
	for i := range 1 + int(roll>>40%4) {
		q.pieces = append(q.pieces, fmt.Sprintf("answer %d, piece %d. ", m.answers, i))
	}
	q.usage = llm.Usage{Input: input - input/4, CacheRead: input / 4, Output: output}
	switch fate {
	case answered, garbled:
		q.charged = costs(p.model, input, output)
	case lame:
		q.charged = costs(p.model, input, 0)
	case broken:
		q.charged = costs(p.model, input, output/2)
	}
	m.checkAgain(w, a, q)
	m.requests[a.name] = append(m.requests[a.name], q)
	m.checkLimits(w, q, fate, turn, input+r.MaxTokens)
	return q
}

// checkAgain checks that a request may be sent after those that its call has sent before; m.mu is held.
func (m *market) checkAgain(w *World, a *asking, q *request) {
	doubtful := 1 // with this one
	for _, old := range m.requests[a.name] {
		switch {
		case old.life != q.life:
			continue
		case old.kernel != q.kernel && old.turns == q.turns:
			w.failf("call %s asks a model again after a crash, and its journal does not say so", a.name)
		case old.open:
			w.failf("call %s asks a model while it is being answered", a.name)
		case old.whole:
			w.failf("call %s asks a model again, and was answered", a.name)
		case !old.free:
			doubtful++
		}
	}
	if doubtful > a.most() {
		w.failf("call %s may be charged for %d times before anybody knows what it has cost", a.name, doubtful)
	}
}

// guard is how much later a request may arrive than it was its turn.
const guard = 50 * time.Millisecond

// checkLimits notes what a request takes of the limits of its server; m.mu is held. What a limit has refused takes nothing.
func (m *market) checkLimits(w *World, q *request, fate fate, turn time.Time, tokens int64) {
	of := limiter(q.to)
	m.underWay[of]++
	limits := m.limitsOf(of)
	if n := m.underWay[of]; limits.Concurrent > 0 && int64(n) > limits.Concurrent {
		w.failf("%d requests are under way at %s, which takes %d", n, of, limits.Concurrent)
	}
	if alone := m.alone[of]; turn.After(alone[0]) && turn.Before(alone[1]) {
		w.failf("%s wanted to be left alone until %s, and a request is sent at %s", of, alone[1], turn)
	}
	if fate == refused || fate == overloaded {
		return
	}
	if fate == failed { // it is one of its requests, and no model has read it
		tokens = 0
	}
	at := time.Now()
	if late := turn.Add(guard); late.Before(at) { // the disk was slow
		at = late
	}
	m.taken[of] = append(m.taken[of], taking{at, tokens})
}

// limitsOf are those of a limiter: the first deployment says them.
func (m *market) limitsOf(of string) (l struct{ RPM, TPM, Concurrent int64 }) {
	for i := range m.declared {
		if d := &m.declared[i]; limiter(d) == of {
			l.RPM, l.Concurrent = d.RPM, d.Concurrent
			if d.OutputKept() { // elsewhere it is not known before the answer what it takes
				l.TPM = d.TPM
			}
			break
		}
	}
	return l
}

// checkWindows checks that no limit was passed at any moment: each is a bucket that fills all the time.
func (m *market) checkWindows(w *World) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range slices.Sorted(maps.Keys(m.taken)) {
		list, limits := m.taken[of], m.limitsOf(of)
		slices.SortFunc(list, func(a, b taking) int { return a.at.Compare(b.at) })
		for _, l := range []struct {
			what   string
			amount int64
			takes  func(taking) int64
		}{{"requests", limits.RPM, func(taking) int64 { return 1 }}, {"tokens", limits.TPM, func(t taking) int64 { return t.tokens }}} {
			level, at := float64(l.amount), time.Time{}
			for _, t := range list {
				if !at.IsZero() {
					level = min(float64(l.amount), level+t.at.Sub(at).Minutes()*float64(l.amount))
				}
				at = t.at
				if level -= float64(l.takes(t)); l.amount > 0 && level < -1e-3 {
					w.failf("%s takes %d %s in a minute, and was sent %.3f too many by %s", of, l.amount, l.what, -level, at)
				}
			}
		}
	}
}

// checkTraffic checks, when nothing is about to happen, that nobody has a turn that he does not use.
func (w *World) checkTraffic() {
	if w.engine == nil {
		return
	}
	s := w.engine.router.Limits()
	queued := s.Unplaced
	for i := range s.Keys {
		k := &s.Keys[i]
		if queued += k.Queued; k.Running > 0 {
			w.failf("nothing is under way, and %d calls have their turn at %s %s", k.Running, k.Key, k.Family)
		}
	}
	if n := w.engine.waiting(); queued > n {
		w.failf("%d calls of models are queued, and %d wait", queued, n)
	}
}

// asksModel says whether a call is one of a model.
func asksModel(op string) bool { return strings.HasPrefix(op, "llm.") }

// around is how many tokens may be around the one message of a request.
const around = 32

// reserves is what a call of a model may cost at most, by the declarations alone.
func (m *market) reserves(args json.RawMessage) (usd int64) {
	var a struct {
		Model    string `json:"model"`
		Max      int64  `json:"max_tokens"`
		Prompt   string `json:"prompt"`
		Messages any    `json:"messages"`
	}
	if m == nil || json.Unmarshal(args, &a) != nil {
		return 0
	}
	text := a.Prompt
	switch said := a.Messages.(type) {
	case string:
		text = said
	case []any:
		if first, ok := said[0].(map[string]any); ok {
			text, _ = first["content"].(string)
		}
	}
	var names []string
	for i := range m.declared {
		if d := &m.declared[i]; d.Alias == a.Model {
			names = append(names, d.Alias, d.Fallback)
		}
	}
	for i := range m.declared {
		if d := &m.declared[i]; slices.Contains(names, d.Alias) {
			usd = max(usd, int64(costs(d, int64(len(text))+around, a.Max)))
		}
	}
	return usd
}

// checkAsked compares what a process was told of a call of a model, and what it was charged for it, with what was answered and charged.
func (w *World) checkAsked(pid agentkernel.PID, l *ledger, id int64, c *ledgerCall) {
	requests := w.market.of(pid, id)
	charged, limit := agentkernel.NanoUSD(0), agentkernel.NanoUSD(l.purse.of(id))
	var known agentkernel.NanoUSD
	unknown, whole := 0, []request{}
	for _, q := range requests {
		charged += q.charged
		if q.before(c) {
			continue
		}
		switch {
		case q.known:
			known += q.charged
		case !q.free:
			unknown++
		}
		if q.whole {
			whole = append(whole, q)
		}
	}
	bounded := w.bounded(w.disk.row(pid))
	settled, said := c.settled[agentkernel.AmountUSD], c.settled != nil && (c.op != "llm.stream" || c.err != nil || c.over)
	counts := bounded || said && c.paid == 0 // else it may have been sent several times, and a crash or a signal came before it could say so
	if charged > limit && counts {
		w.failf("process %d: call %d was charged %d, and what it has spent and holds is %d", pid, id, charged, limit)
	}
	switch {
	case !said:
	case unknown > 0 && bounded:
		w.failf("process %d: call %d settles %d, and nobody knows what %d of its requests have cost", pid, id, settled, unknown)
	case unknown == 0 && settled != int64(known):
		w.failf("process %d: call %d settles %d, and its requests have cost %d", pid, id, settled, known)
	}
	if c.op != "llm.stream" && c.resultSeq != 0 && c.err == nil {
		if !said && unknown == 0 {
			w.failf("process %d: call %d was answered, and settles nothing", pid, id)
		}
		text := answerText(c)
		if !slices.ContainsFunc(whole, func(q request) bool { return q.text() == text }) {
			w.failf("process %d: call %d has the answer %q, which no model gave", pid, id, text)
		}
	}
	if c.op == "llm.stream" {
		w.checkRead(pid, l, id, requests)
	}
}

// before says that a request was sent before its call began for the last time: what it has cost was settled then, or is charged whole.
func (q *request) before(c *ledgerCall) bool { return q.life != c.paid || q.turns != c.turns }

// answerText is the text that a call was answered.
func answerText(c *ledgerCall) (text string) {
	if c.op == "llm.ask" {
		_ = json.Unmarshal(c.result, &text) // then it is none
		return text
	}
	var a struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(c.result, &a)
	return a.Text
}

// checkRead checks that what a program has read of a stream is the beginning of one answer.
func (w *World) checkRead(pid agentkernel.PID, l *ledger, id int64, requests []request) {
	read, whole, over := "", "", false
	for _, n := range slices.Sorted(maps.Keys(l.calls)) {
		c := l.calls[n]
		var a struct {
			Handle string `json:"handle"`
		}
		if c.op != "stream.next" || c.resultSeq == 0 || c.err != nil || json.Unmarshal(c.args, &a) != nil || a.Handle != fmt.Sprintf("%d.%d", pid, id) {
			continue
		}
		var items []struct {
			Text   string `json:"text"`
			Answer *struct {
				Text string `json:"text"`
			} `json:"answer"`
		}
		if err := json.Unmarshal(c.result, &items); err != nil {
			w.failf("process %d: call %d has read %s", pid, n, c.result)
		}
		for _, i := range items {
			if over {
				w.failf("process %d: call %d has read %s behind the end", pid, n, c.result)
			}
			if read += i.Text; i.Answer != nil {
				whole, over = i.Answer.Text, true
			}
		}
	}
	if over && whole != read {
		w.failf("process %d: the answer to call %d is %q, and what was read of it %q", pid, id, whole, read)
	}
	if !slices.ContainsFunc(requests, func(q request) bool { return strings.HasPrefix(q.text(), read) && (!over || q.text() == whole) }) && (read != "" || over) {
		w.failf("process %d: of call %d it has read %q, which is of no answer", pid, id, read)
	}
}
