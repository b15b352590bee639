package providers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"agentkernel/internal/llm"
)

// shortestKey is how long a key is at least; a shorter one is no secret, and part of many words.
const shortestKey = 6

// maxRun bounds how many backslashes are read as one: three levels of JSON in JSON make seven of one.
const maxRun = 8

// masking is a provider in whose answers there are stars where its key would be. A server that repeats the key would hand it to the program,
// and to its journal. It is taken out of texts as they were decoded: in a body it may be escaped, and in a stream be cut in two.
type masking struct{ llm.Provider }

// asked is the key that a request was sent with. It is in the context of the request alone.
type asked struct{ key string }

type askedKey struct{}

// maskingFor has opts.Key tell the mask of each request its key.
func maskingFor(opts llm.Options) llm.Options {
	ask := opts.Key
	opts.Key = func(ctx context.Context) (string, error) {
		key, err := ask(ctx)
		if a, ok := ctx.Value(askedKey{}).(*asked); ok {
			a.key = key
		}
		return key, err
	}
	return opts
}

func masked(ctx context.Context) (context.Context, *mask) {
	a := &asked{}
	return context.WithValue(ctx, askedKey{}, a), &mask{asked: a}
}

// Complete implements llm.Provider.
func (p masking) Complete(ctx context.Context, r *llm.Request, w llm.Watch) (*llm.Answer, error) {
	ctx, m := masked(ctx)
	m.tools = r.Tools
	told := w.Delta
	if told != nil {
		w.Delta = func(d llm.Delta) error { return m.delta(d, told) }
	}
	a, err := p.Provider.Complete(ctx, r, m.watch(w))
	if a != nil {
		m.answer(a)
	}
	if told != nil {
		if late := m.end(told); err == nil && late != nil { // the same as if it had been told in time
			return nil, &llm.Error{Kind: llm.Canceled, Sent: true, Began: true, Usage: &a.Usage, RequestID: a.RequestID, Err: late}
		}
	}
	return a, m.failure(err)
}

// Embed implements llm.Provider.
func (p masking) Embed(ctx context.Context, r *llm.EmbedRequest, w llm.Watch) (*llm.Embeddings, error) {
	ctx, m := masked(ctx)
	e, err := p.Provider.Embed(ctx, r, m.watch(w))
	if e != nil {
		e.Model, e.Usage.Raw = m.whole(e.Model), m.json(e.Usage.Raw)
	}
	return e, m.failure(err)
}

// mask takes the key out of one answer.
type mask struct {
	asked *asked
	tools []llm.Tool // that the request offers: their names are the program's
	tails []tail
	deaf  bool // who is told has refused to hear more
}

// tail is the end of what has come at a place, with which the key may begin.
type tail struct {
	place int // of a call its index
	text  string
}

// Places that are no call's.
const (
	ofText      = -1
	ofReasoning = -2
)

func (m *mask) watch(w llm.Watch) llm.Watch {
	if head := w.Head; head != nil {
		w.Head = func(h llm.Head) {
			h.RequestID = m.whole(h.RequestID)
			head(h)
		}
	}
	return w
}

// delta tells a bit of an answer, without what the key may begin with: that comes with the next bit of the same place.
func (m *mask) delta(d llm.Delta, told func(llm.Delta) error) error {
	switch {
	case d.Call != nil:
		c := *d.Call
		c.ID, c.Name, c.Args = m.word(c.ID), m.name(c.Name), m.next(c.Index, c.Args)
		d.Call = &c
		if c.ID == "" && c.Name == "" && c.Args == "" {
			return nil
		}
	default:
		d.Text, d.Reasoning = m.next(ofText, d.Text), m.next(ofReasoning, d.Reasoning)
		if d == (llm.Delta{}) {
			return nil
		}
	}
	err := told(d)
	m.deaf = err != nil
	return err
}

// end tells what was kept back: nothing comes that it could be a part of.
func (m *mask) end(told func(llm.Delta) error) error {
	for _, t := range m.tails {
		d := llm.Delta{Call: &llm.ToolCallDelta{Index: t.place, Args: t.text}}
		switch t.place {
		case ofText:
			d = llm.Delta{Text: t.text}
		case ofReasoning:
			d = llm.Delta{Reasoning: t.text}
		}
		if t.text == "" || m.deaf {
			continue
		}
		if err := told(d); err != nil {
			return err
		}
	}
	return nil
}

// next is what can be told of a place, when text has come there.
func (m *mask) next(place int, text string) string {
	if text == "" {
		return ""
	}
	at := -1
	for i := range m.tails {
		if m.tails[i].place == place {
			at = i
			text = m.tails[i].text + text
		}
	}
	out, rest := cover(text, m.asked.key)
	switch {
	case at >= 0:
		m.tails[at].text = rest
	case rest != "":
		m.tails = append(m.tails, tail{place, rest})
	}
	return out
}

func (m *mask) whole(text string) string {
	out, rest := cover(text, m.asked.key)
	return out + rest
}

// json is whole for JSON, which it stays.
func (m *mask) json(raw json.RawMessage) json.RawMessage {
	out := m.whole(string(raw))
	if out == string(raw) {
		return raw
	}
	if !json.Valid([]byte(out)) { // the key was a number, or a part of one
		b, _ := json.Marshal(out) // a text always is JSON
		return b
	}
	return json.RawMessage(out)
}

// word is whole for an id, of which the rest may never come: a server that cuts one in two is not read to the end everywhere. What only begins as
// the key is taken out, too, if it is as long as a key.
func (m *mask) word(text string) string {
	out, rest := cover(text, m.asked.key)
	if len(rest) >= shortestKey {
		rest = strings.Repeat("*", len(rest))
	}
	return out + rest
}

// name is word for what a tool is called, but one that the program has named itself is no part of a key.
func (m *mask) name(text string) string {
	if slices.ContainsFunc(m.tools, func(t llm.Tool) bool { return t.Name == text }) {
		return m.whole(text)
	}
	return m.word(text)
}

// answer takes the key out of an answer. Its texts are read as one, as programs get them: a server may cut the key over two of them.
func (m *mask) answer(a *llm.Answer) {
	a.ID, a.Model, a.RequestID, a.Usage.Raw = m.word(a.ID), m.whole(a.Model), m.whole(a.RequestID), m.json(a.Usage.Raw)
	var texts, ids, names []*string
	var raws []*json.RawMessage
	for i := range a.Message.Parts {
		p := &a.Message.Parts[i]
		texts = append(texts, &p.Text)
		if p.Call != nil {
			ids, names = append(ids, &p.Call.ID), append(names, &p.Call.Name)
			p.Call.ID, p.Call.Name, p.Call.Args = m.word(p.Call.ID), m.name(p.Call.Name), m.json(p.Call.Args)
		}
		for _, o := range []*llm.Opaque{p.Opaque, p.Fields} {
			if o != nil {
				o.Raw = m.json(o.Raw)
				raws = append(raws, &o.Raw)
			}
		}
	}
	m.joined(texts)
	m.joined(ids)
	m.joined(names)
	m.blocks(raws)
}

// joined is whole for texts that are read one behind the other. Stars are as long as what they cover, so each text stays as long as it was.
func (m *mask) joined(texts []*string) {
	if len(m.asked.key) < shortestKey || len(texts) == 0 {
		return
	}
	if len(texts) == 1 {
		*texts[0] = m.whole(*texts[0])
		return
	}
	var b strings.Builder
	for _, t := range texts {
		b.WriteString(*t)
	}
	all := m.whole(b.String())
	if all == b.String() {
		return
	}
	for _, t := range texts {
		*t, all = all[:len(*t)], all[len(*t):]
	}
}

// blocks is joined for the texts in blocks of JSON: those that have one name are read one behind the other, in one block and over all of them.
func (m *mask) blocks(raws []*json.RawMessage) {
	if len(m.asked.key) < shortestKey {
		return
	}
	type place struct {
		raw, from int
		text      string
	}
	places := map[string][]*place{}
	for i, raw := range raws {
		for from, s := range texts(*raw) {
			places[s.name] = append(places[s.name], &place{i, from, s.text})
		}
	}
	for _, list := range places {
		parts := make([]*string, len(list))
		for i, p := range list {
			parts[i] = &p.text
		}
		m.joined(parts)
		for _, p := range list {
			raw := *raws[p.raw]
			if string(raw[p.from:p.from+len(p.text)]) != p.text {
				raw = slices.Clone(raw)
				copy(raw[p.from:], p.text)
				*raws[p.raw] = raw
			}
		}
	}
}

// named is a text of JSON as it is spelt there, and the name of the member that it is in.
type named struct{ name, text string }

// texts are those of a JSON value, each with where it begins.
func texts(raw json.RawMessage) iter.Seq2[int, named] {
	return func(yield func(int, named) bool) {
		name := ""
		for i := 0; i < len(raw); i++ {
			if raw[i] != '"' {
				continue
			}
			from := i + 1
			for i = from; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			text := string(raw[from:min(i, len(raw))])
			if rest := bytes.TrimLeft(raw[min(i+1, len(raw)):], " \t\r\n"); len(rest) > 0 && rest[0] == ':' {
				name = text
				continue
			}
			if !yield(from, named{name, text}) {
				return
			}
		}
	}
}

func (m *mask) failure(err error) error {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		e.Code, e.Message, e.RequestID = m.whole(e.Code), m.whole(e.Message), m.whole(e.RequestID)
		if e.Usage != nil {
			e.Usage.Raw = m.json(e.Usage.Raw)
		}
	}
	return err
}

// cover puts stars in place of the key. rest is the end of the text, if the key may begin with it.
func cover(text, key string) (out, rest string) {
	if len(key) < shortestKey {
		return text, ""
	}
	var b strings.Builder
	done := 0
	for i := 0; i < len(text); {
		if text[i] != key[0] && text[i] != '\\' {
			i++
			continue
		}
		switch n, open := spelt(text[i:], key); {
		case open:
			b.WriteString(text[done:i])
			return b.String(), text[i:]
		case n > 0:
			b.WriteString(text[done:i])
			b.WriteString(strings.Repeat("*", n))
			i += n
			done = i
		default:
			for i++; text[i-1] == '\\' && i < len(text) && text[i] == '\\'; {
				i++
			}
		}
	}
	if done == 0 {
		return text, ""
	}
	b.WriteString(text[done:])
	return b.String(), ""
}

// spelt is how many bytes at the beginning of a text spell the key, of which any character may be escaped as in JSON, several times over too;
// 0: they do not. open says that the text ends before that is known.
func spelt(text, key string) (n int, open bool) {
	for _, c := range []byte(key) {
		if n == len(text) {
			return 0, true
		}
		if text[n] == c && c != '\\' {
			n++
			continue
		}
		run := n
		for run < len(text) && run-n <= maxRun && text[run] == '\\' {
			run++
		}
		if run == n || run-n > maxRun {
			return 0, false
		}
		k, open := escaped(text[run:], c)
		if k == 0 && c != '\\' || open {
			return 0, open
		}
		n = run + k
	}
	return n, false
}

// escaped is how many bytes behind backslashes stand for a character; 0: none do, or it is the backslashes themselves.
func escaped(text string, c byte) (n int, open bool) {
	if text == "" {
		return 0, true
	}
	if text[0] == c && strings.IndexByte(`/"`, c) >= 0 {
		return 1, false
	}
	const digits = "0123456789abcdef"
	spelt := [...]byte{'u', '0', '0', digits[c>>4], digits[c&0xf]}
	for i, d := range spelt {
		if i == len(text) {
			return 0, true
		}
		have := text[i]
		if i > 0 && have >= 'A' && have <= 'F' {
			have += 'a' - 'A'
		}
		if have != d {
			return 0, false
		}
	}
	return len(spelt), false
}
