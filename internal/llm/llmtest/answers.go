package llmtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentkernel/internal/llm"
)

func forBoth(t *testing.T, test func(t *testing.T, stream bool)) {
	for name, stream := range map[string]bool{"in one piece": false, "in bits": true} {
		t.Run(name, func(t *testing.T) { test(t, stream) })
	}
}

func (b bed) text(t *testing.T) {
	forBoth(t, func(t *testing.T, stream bool) {
		reply := plain()
		reply.Thinking = []string{"first, ", "then"}
		s, p := b.start(t, b.replies(reply))
		a, h, e := ask(t, p, simple(), stream)
		if e != nil {
			t.Fatal(e)
		}
		if a.Text() != strings.Join(reply.Text, "") || a.Stop != llm.StopEnd || a.Model != replyModel || a.Message.Role != llm.Assistant {
			t.Errorf("%+v", a)
		}
		if b.Speaker.Can(ReplyIDs) && a.ID != replyID || b.Speaker.Can(RequestIDs) && (a.RequestID != "req-1" || h.heads[0].RequestID != "req-1") {
			t.Errorf("the ids: %+v, %+v", a, h.heads)
		}
		if want := "first, then"; stream && h.reasoning != want {
			t.Errorf("the reasoning is %q", h.reasoning)
		}
		asked, _ := s.last()
		model := b.Model
		if model == "" {
			model = "model-1"
		}
		if asked.Stream != stream || asked.Model != model || asked.MaxTokens != 4000 || asked.Choice != "auto" {
			t.Errorf("asked: %+v", asked)
		}
		if want := []Turn{{Role: "user", Text: Content}}; !reflect.DeepEqual(asked.Turns, want) {
			t.Errorf("asked: %+v", asked.Turns)
		}
	})
	t.Run("in one piece, though bits were asked for", func(t *testing.T) {
		reply := Reply{Text: []string{"whole"}, Calls: []Call{{"call_1", "f", []string{`{"a":1}`}}}, Stop: llm.StopToolCalls, Usage: &llm.Usage{Input: 1000, Output: 2}}
		_, p := b.start(t, func(w http.ResponseWriter, _ *http.Request) { b.answer(w, reply, false) })
		if a, _, e := ask(t, p, simple(), true); e != nil || a.Text() != "whole" {
			t.Errorf("%+v, %v", a, e)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		_, p := b.start(t, b.replies(Reply{Stop: llm.StopEnd, Usage: &llm.Usage{Input: 1000, Output: 1}}))
		for _, stream := range []bool{false, true} {
			if a, _, e := ask(t, p, simple(), stream); e != nil || a.Text() != "" || len(a.Calls()) != 0 {
				t.Errorf("%+v, %v", a, e)
			}
		}
	})
}

// long is a conversation with all that a request may have.
func (b bed) long() (*llm.Request, []Turn) {
	picture := []byte("\x89PNG\r\n\x1a\n" + strings.Repeat("\xff\x00", 50))
	inBody := "image/png:" + base64.StdEncoding.EncodeToString(picture)
	const odd = "äöü€😀 \"quoted\" \\ \t\u2028 <&> \x7f \x01"
	first, second := json.RawMessage(`{"city":"Zürich","n":[1,2.0]}`), json.RawMessage(`{}`)
	r := &llm.Request{
		Model: "model-1", MaxTokens: 777, ToolChoice: "auto",
		Tools: []llm.Tool{
			{Name: "weather", Description: "How the weather is.", Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"},"a":{"type":"integer"}}}`)},
			{Name: "now", Schema: json.RawMessage(`{"type":"object","properties":{}}`)},
		},
		Messages: []llm.Message{
			{Role: llm.System, Parts: []llm.Part{{Text: "Be brief."}}},
			{Role: llm.User, Parts: []llm.Part{{Text: "What is this?"}, {Image: &llm.Image{Type: "image/png", Data: picture}}, {Image: &llm.Image{Data: picture}}}},
			{Role: llm.Assistant, Parts: []llm.Part{
				{Text: odd}, {Opaque: &llm.Opaque{Dialect: "another", Raw: json.RawMessage(`{"type":"of another"}`)}},
				{Call: &llm.ToolCall{ID: "call_1", Name: "weather", Args: first}, Fields: &llm.Opaque{Dialect: "another", Raw: json.RawMessage(`{"of":"another"}`)}},
				{Call: &llm.ToolCall{ID: "call_2", Name: "now", Args: second}},
			}},
			{Role: llm.ToolRole, Parts: []llm.Part{
				{Result: &llm.ToolResult{ID: "call_1", Parts: []llm.Part{{Text: "sunny"}}}},
				{Result: &llm.ToolResult{ID: "call_2", Parts: []llm.Part{{Text: "no clock"}}, Failed: true}},
			}},
			{Role: llm.User, Parts: []llm.Part{{Text: odd}}},
		},
	}
	turns := []Turn{
		{Role: "system", Text: "Be brief."},
		{Role: "user", Text: "What is this?", Images: []string{inBody, inBody}},
		{Role: "assistant", Text: odd, Calls: []llm.ToolCall{{ID: "call_1", Name: "weather", Args: first}, {ID: "call_2", Name: "now", Args: second}}},
		{Role: "tool", Result: "call_1", Text: "sunny"},
		{Role: "tool", Result: "call_2", Text: "no clock", Failed: b.Speaker.Can(FailedResults)},
		{Role: "user", Text: odd},
	}
	return r, turns
}

func (b bed) request(t *testing.T) {
	s, p := b.start(t, b.replies(plain()))
	r, turns := b.long()
	if b.Speaker.Can(ImageURLs) {
		const address = "https://pictures.example/a.png?b=c"
		r.Messages[1].Parts = append(r.Messages[1].Parts, llm.Part{Image: &llm.Image{URL: address}})
		turns[1].Images = append(turns[1].Images, address)
	}
	if b.Speaker.Can(ToolImages) {
		image := r.Messages[1].Parts[1]
		r.Messages[3].Parts[0].Result.Parts = append(r.Messages[3].Parts[0].Result.Parts, image)
		turns[3].Images = turns[1].Images[:1]
	}
	temperature := 0.25
	r.Temperature = &temperature
	if b.Speaker.Can(Stopping) {
		r.Stop = []string{"END", "\n\n"}
	}
	seed := int64(7)
	if r.Seed = &seed; !b.Speaker.Can(Seeds) {
		seed = 0
	}
	r.Reasoning = "low"
	r.Extra = map[string]json.RawMessage{"x_own": json.RawMessage(`{"b":1,"a":[2, 3]}`), "x_also": json.RawMessage(`"x"`)}
	if _, _, e := ask(t, p, r, false); e != nil {
		t.Fatal(e)
	}
	asked, body := s.last()
	for i := range max(len(asked.Turns), len(turns)) {
		if i >= len(asked.Turns) || i >= len(turns) || !reflect.DeepEqual(asked.Turns[i], turns[i]) {
			t.Errorf("message %d of %d, and %d:\n%+v\n%+v", i, len(turns), len(asked.Turns), turns[min(i, len(turns)-1)], asked.Turns[min(i, len(asked.Turns)-1)])
		}
	}
	if !reflect.DeepEqual(asked.Tools, r.Tools) || asked.Temperature != temperature || asked.MaxTokens != 777 || !slices.Equal(asked.Stop, r.Stop) || asked.Seed != seed {
		t.Errorf("asked: %+v", asked)
	}
	for _, want := range []string{`"x_own":{"b":1,"a":[2, 3]}`, `"x_also":"x"`} {
		if !bytes.Contains(body, []byte(want)) {
			t.Errorf("no %s", want)
		}
	}
	if bytes.Contains(body, []byte("another")) {
		t.Error("a block of another dialect was sent")
	}
	for name, change := range map[string]func(*llm.Request){
		"a field said twice": func(r *llm.Request) { r.Extra = map[string]json.RawMessage{"model": json.RawMessage(`"x"`)} },
		"a stream":           func(r *llm.Request) { r.Extra = map[string]json.RawMessage{"stream": json.RawMessage(`true`)} },
		"what is no JSON":    func(r *llm.Request) { r.Extra = map[string]json.RawMessage{"x": json.RawMessage(`{`)} },
		"a tool's schema":    func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "f", Schema: json.RawMessage(`nonsense`)}} },
		"no role":            func(r *llm.Request) { r.Messages = append(r.Messages, llm.Message{Parts: []llm.Part{{Text: "x"}}}) },
		"a text of a tool": func(r *llm.Request) {
			r.Messages = append(r.Messages, llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Text: "x"}}})
		},
	} {
		before, _ := s.count()
		r := simple()
		change(r)
		_, _, e := ask(t, p, r, false)
		after, _ := s.count()
		if e == nil || e.Kind != llm.Invalid || e.Sent || before != after {
			t.Errorf("%s: %+v, and %d requests", name, e, after-before)
		}
	}
	for what, change := range map[Ability]func(*llm.Request){
		Stopping: func(r *llm.Request) { r.Stop = []string{"END"} },
		ImageURLs: func(r *llm.Request) {
			r.Messages[0].Parts[0] = llm.Part{Image: &llm.Image{URL: "https://pictures.example/a.png"}}
		},
		ToolImages: func(r *llm.Request) {
			r.Messages = append(r.Messages, llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.ToolResult{ID: "x", Parts: []llm.Part{{Image: &llm.Image{Data: []byte("x")}}}}}}})
		},
		Forcing: func(r *llm.Request) { r.ToolChoice = "required" },
	} {
		if b.Speaker.Can(what) {
			continue
		}
		r := simple()
		change(r)
		if _, _, e := ask(t, p, r, false); e == nil || e.Kind != llm.Unsupported || e.Sent {
			t.Errorf("%d: %+v", what, e)
		}
	}
}

// everything is a reply with all that one may have.
func everything() Reply {
	return Reply{
		Thinking: []string{"hm… ", "😀"}, Text: []string{"Ich ", "weiß", " es: €5 😀", "\\ \"x\"\n", "日本語"},
		Calls: []Call{
			{"call_a", "weather", []string{`{"ci`, `ty":"Zür`, `ich","n":[1,`, `2]}`}},
			{"call_b", "weather", []string{`{"city":"`, `東京"}`}},
			{"call_c", "now", []string{`{`, `}`}},
		},
		Stop: llm.StopToolCalls, Usage: &llm.Usage{Input: 1000, Output: 55},
	}
}

func (r Reply) wantCalls() (calls []llm.ToolCall) {
	for _, c := range r.Calls {
		calls = append(calls, llm.ToolCall{ID: c.ID, Name: c.Name, Args: json.RawMessage(strings.Join(c.Args, ""))})
	}
	return calls
}

// pieces: however a stream is cut, the answer is the same.
func (b bed) pieces(t *testing.T) {
	reply := everything()
	reply.Opaque = true
	for seed := range uint64(8) {
		_, p := b.start(t, func(w http.ResponseWriter, _ *http.Request) {
			r := rand.New(rand.NewPCG(seed, 1))
			text := strings.Join(b.Speaker.Stream(reply), "")
			if strings.Contains(b.Speaker.StreamType(), "event-stream") && seed%3 == 0 {
				text = ": keep alive\n\n" + text
			}
			if seed%2 == 0 {
				text = strings.ReplaceAll(text, "\n", "\r\n")
			}
			w.Header().Set("Content-Type", b.Speaker.StreamType())
			inPieces(w, text, r)
		})
		a, _, e := ask(t, p, simple(), true)
		if e != nil {
			t.Fatalf("seed %d: %v", seed, e)
		}
		if a.Text() != strings.Join(reply.Text, "") || object(a.Calls()) != object(reply.wantCalls()) || a.Stop != llm.StopToolCalls {
			t.Errorf("seed %d: %s", seed, object(a))
		}
	}
}

func (b bed) tools(t *testing.T) {
	forBoth(t, func(t *testing.T, stream bool) {
		reply := everything()
		_, p := b.start(t, b.replies(reply))
		a, _, e := ask(t, p, simple(), stream)
		if e != nil || a.Stop != llm.StopToolCalls || !reflect.DeepEqual(a.Calls(), reply.wantCalls()) {
			t.Errorf("%s, %v", object(a), e)
		}
	})
	if !b.Speaker.Can(PartialArgs) {
		return
	}
	t.Run("arguments that are no JSON", func(t *testing.T) {
		reply := Reply{Calls: []Call{{"call_1", "f", []string{`{"a": `, `"b`}}}, Stop: llm.StopToolCalls}
		s, p := b.start(t, func(w http.ResponseWriter, q *http.Request) {
			if !wantsStream(q) {
				reply = plain()
			}
			b.answer(w, reply, wantsStream(q))
		})
		h := &told{}
		a, err := p.Complete(t.Context(), simple(), h.watch(true))
		if err != nil {
			t.Fatal(err)
		}
		if calls := a.Calls(); len(calls) != 1 || string(calls[0].Args) != `"{\"a\": \"b"` || strings.Join(h.calls[0].Args, "") != `{"a": "b` {
			t.Errorf("%s and %+v", object(a), h.calls)
		}
		r := simple()
		r.Messages = append(r.Messages, a.Message, llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.ToolResult{ID: "call_1", Parts: []llm.Part{{Text: "no"}}}}}})
		if _, err := p.Complete(t.Context(), r, llm.Watch{}); err != nil {
			t.Fatal(err)
		}
		asked, _ := s.last()
		if got := string(asked.Turns[1].Calls[0].Args); got != `{"a": "b` && got != `{"raw":"{\"a\": \"b"}` {
			t.Errorf("sent back: %s", got)
		}
	})
	t.Run("no arguments", func(t *testing.T) {
		_, p := b.start(t, b.replies(Reply{Calls: []Call{{"call_1", "f", nil}}, Stop: llm.StopToolCalls}))
		h := &told{}
		a, err := p.Complete(t.Context(), simple(), h.watch(true))
		if err != nil || len(a.Calls()) != 1 || string(a.Calls()[0].Args) != "{}" {
			t.Errorf("%s, %v", object(a), err)
		}
	})
}

// sentBack: an answer can be sent back as it is, and what only the dialect understands keeps its bytes.
func (b bed) sentBack(t *testing.T) {
	block, back := b.Speaker.Opaque()
	forBoth(t, func(t *testing.T, stream bool) {
		reply := everything()
		reply.Opaque, reply.Thinking = true, nil
		s, p := b.start(t, b.replies(reply))
		r := simple()
		a, _, e := ask(t, p, r, stream)
		if e != nil {
			t.Fatal(e)
		}
		if o := a.Message.Parts[0].Opaque; o == nil || o.Dialect != p.Traits().Name || !bytes.Contains(o.Raw, block) {
			t.Fatalf("%s has not %s", object(a.Message.Parts[0]), block)
		}
		stored, err := json.Marshal(a) // as a journal does
		if err != nil {
			t.Fatal(err)
		}
		var loaded llm.Answer
		if err := json.Unmarshal(stored, &loaded); err != nil {
			t.Fatal(err)
		}
		r.Messages = append(r.Messages, a.Message)
		results := llm.Message{Role: llm.ToolRole}
		for _, c := range a.Calls() {
			results.Parts = append(results.Parts, llm.Part{Result: &llm.ToolResult{ID: c.ID, Parts: []llm.Part{{Text: "of " + c.ID}}}})
		}
		r.Messages = append(r.Messages, results)
		if _, _, e := ask(t, p, r, stream); e != nil {
			t.Fatal(e)
		}
		asked, body := s.last()
		want := []Turn{{Role: "user", Text: Content}, {Role: "assistant", Text: strings.Join(reply.Text, ""), Calls: reply.wantCalls()}}
		for _, c := range reply.Calls {
			want = append(want, Turn{Role: "tool", Result: c.ID, Text: "of " + c.ID})
		}
		if !reflect.DeepEqual(asked.Turns, want) {
			t.Errorf("%+v\n%+v", asked.Turns, want)
		}
		if !bytes.Contains(body, []byte(back)) {
			t.Errorf("%s\nhas not %s", body, back)
		}
	})
}

func (b bed) schema(t *testing.T) {
	s, p := b.start(t, b.replies(Reply{Text: []string{`{"n":`, `1}`}, Stop: llm.StopEnd}))
	for _, schema := range []string{
		`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`,
		`{"type":"object", "properties":{"z":{"type":"string"},"a":{"type":"string"}}}`,
	} {
		r := simple()
		r.Schema = json.RawMessage(schema)
		a, _, e := ask(t, p, r, true)
		if asked, _ := s.last(); e != nil || a.Text() != `{"n":1}` || asked.Schema != schema {
			t.Errorf("%+v, %v, %+v", a, e, asked)
		}
	}
}

func (b bed) stops(t *testing.T) {
	for stop := range b.Speaker.Stops() {
		reply := Reply{Text: []string{"x"}, Stop: stop, Usage: &llm.Usage{Input: 1000, Output: 1}}
		if stop == llm.StopToolCalls {
			reply.Calls = []Call{{"call_1", "f", []string{"{}"}}}
		}
		_, p := b.start(t, b.replies(reply))
		for _, stream := range []bool{false, true} {
			r := simple()
			if stop == llm.StopSequence {
				if b.Speaker.Can(Stopping) {
					r.Stop = []string{"END"}
				}
			}
			if a, _, e := ask(t, p, r, stream); e != nil || a.Stop != stop {
				t.Errorf("%s: %+v, %v", stop, a, e)
			}
		}
	}
}

// usage: the classes are disjoint, what the server does not say is estimated, and what cannot be is bounded.
func (b bed) usage(t *testing.T) {
	for _, u := range []llm.Usage{
		{Input: 1000, Output: 20},
		{Input: 100, CacheRead: 900, Output: 20, Reasoning: 300},
		{Input: 10, CacheRead: 800, CacheWrite: 70, Output: 5, Reasoning: 1},
		{Input: 10, CacheRead: 800, CacheWrite: 70, CacheWrite1h: 30, Output: 5},
		{CacheRead: 1000, Output: 1},
	} {
		reply := plain()
		reply.Usage = &u
		_, p := b.start(t, b.replies(reply))
		for _, stream := range []bool{false, true} {
			a, _, e := ask(t, p, simple(), stream)
			if e != nil {
				t.Fatal(e)
			}
			got := a.Usage
			if len(got.Raw) == 0 || !json.Valid(got.Raw) {
				t.Errorf("the raw usage is %q", got.Raw)
			}
			got.Raw = nil
			if want := b.Speaker.Seen(u); !reflect.DeepEqual(got, want) || got.Inputs() != u.Inputs() || got.Outputs() != u.Outputs() {
				t.Errorf("stream %v: %+v, want %+v", stream, got, want)
			}
		}
	}
	reply := plain()
	const absurd = 1 << 61
	reply.Usage = &llm.Usage{Input: absurd, CacheRead: absurd, CacheWrite: absurd, Output: absurd, Reasoning: absurd}
	_, p := b.start(t, b.replies(reply))
	for _, stream := range []bool{false, true} {
		if a, _, e := ask(t, p, simple(), stream); e != nil || a.Usage.Inputs() < 1e12 || a.Usage.Outputs() < 1e12 || max(a.Usage.Inputs(), a.Usage.Outputs()) > 4e12 {
			t.Errorf("stream %v: %+v, %v", stream, a, e)
		}
	}
	reply.Usage = nil
	_, p = b.start(t, b.replies(reply))
	for _, stream := range []bool{false, true} {
		a, _, e := ask(t, p, simple(), stream)
		if e != nil || !a.Usage.Estimated || a.Usage.Input < 5 || a.Usage.Input > 50 || a.Usage.Output < 3 || a.Usage.Output > 50 {
			t.Errorf("stream %v: %+v, %v", stream, a, e)
		}
	}
}

// grow: the bodies of a conversation that grows begin alike, and the same request has the same body.
func (b bed) grow(t *testing.T) {
	s, p := b.start(t, b.replies(plain()))
	r, _ := b.long()
	if !b.Speaker.Can(ImageURLs) {
		r.Messages[1].Parts = r.Messages[1].Parts[:1]
	}
	block, _ := b.Speaker.Opaque()
	r.Messages[2].Parts = append([]llm.Part{{Opaque: &llm.Opaque{Dialect: p.Traits().Name, Raw: wrapped(block, p)}}}, r.Messages[2].Parts...)
	r.Cache = "1h"
	r.Extra = map[string]json.RawMessage{}
	for i := range 20 {
		r.Extra[fmt.Sprintf("x_%d", i)] = json.RawMessage("1")
	}
	all := r.Messages
	var before []byte
	for n := 2; n <= len(all); n++ {
		r.Messages = all[:n]
		for range 2 {
			if _, _, e := ask(t, p, r, true); e != nil {
				t.Fatal(e)
			}
		}
		_, body := s.last()
		again := s.bodies[len(s.bodies)-2]
		if !bytes.Equal(body, again) {
			t.Fatalf("twice the same:\n%s\n%s", body, again)
		}
		if old := bytes.TrimSuffix(before, []byte("]}")); !bytes.HasPrefix(body, old) || before != nil && len(old) != len(before)-2 {
			t.Errorf("%d messages:\n%s\n%s", n, before, body)
		}
		before = body
	}
}

// wrapped is a block as the provider of chat completions has it: among the fields of a message.
func wrapped(block json.RawMessage, p llm.Provider) json.RawMessage {
	if p.Traits().Name == "openai" {
		return json.RawMessage(`{"reasoning_details":[` + string(block) + `]}`)
	}
	return block
}

func (b bed) embeddings(t *testing.T) {
	vectors := [][]float32{{1, 0.5, -0.25}, {0, 0, 1}, {-1, 3e-5, 2}}
	r := &llm.EmbedRequest{Model: "model-1", Texts: []string{Content, "zwei €", "three"}, Dimensions: 3}
	body := b.Speaker.Embeddings(vectors, 9)
	s, p := b.start(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	})
	heads, left := 0, 0
	got, err := p.Embed(t.Context(), r, llm.Watch{Head: func(llm.Head) { heads++ }, Leaves: func() error {
		left++
		return nil
	}})
	if body == nil {
		if e := isError(t, err); e.Kind != llm.Unsupported || e.Sent {
			t.Errorf("%+v", e)
		}
		return
	}
	if err != nil || !reflect.DeepEqual(got.Vectors, vectors) || got.Model != replyModel || got.Usage.Input != 9 || got.Usage.Estimated || heads != 1 || left != 1 {
		t.Errorf("%+v, %v, %d heads, went out %d times", got, err, heads, left)
	}
	if asked, _ := s.last(); !slices.Equal(asked.Texts, r.Texts) {
		t.Errorf("%+v", asked)
	}
	for name, bad := range map[string][]byte{
		"too few": b.Speaker.Embeddings(vectors[:2], 9), "different": b.Speaker.Embeddings([][]float32{{1}, {1, 2}, {3}}, 9),
		"empty": b.Speaker.Embeddings([][]float32{{}, {}, {}}, 9), "no JSON": []byte(`{"data`), "nothing": []byte(`{}`),
	} {
		_, p := b.start(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(bad) })
		if _, err := p.Embed(t.Context(), r, llm.Watch{}); isError(t, err).Kind != llm.Malformed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func (b bed) choices(t *testing.T) {
	s, p := b.start(t, b.replies(plain()))
	for choice, want := range map[string]string{"": "auto", "auto": "auto", "none": "none", "required": "required", "weather": "weather"} {
		r := simple()
		r.Tools = []llm.Tool{{Name: "weather", Schema: json.RawMessage(`{"type":"object"}`)}}
		r.ToolChoice = choice
		_, _, e := ask(t, p, r, false)
		if !b.Speaker.Can(Forcing) && (want == "required" || want == "weather") {
			if e == nil || e.Kind != llm.Unsupported {
				t.Errorf("%s: %v", choice, e)
			}
			continue
		}
		asked, _ := s.last()
		none := want == "none" && len(asked.Tools) == 0 // without the word, there are no tools
		if e != nil || asked.Choice != want && !none {
			t.Errorf("%s: %v, %+v", choice, e, asked)
		}
	}
}
