package router

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"agentkernel/internal/llm"
)

// TestQuestions: each field of a request makes another question, those that it will have one day included. What is the same is what a
// provider does not see, or does not answer by.
func TestQuestions(t *testing.T) {
	asked := func(namespace, alias string, change func(*llm.Query)) question {
		q := llm.Query{Namespace: namespace, Request: llm.Request{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "x"}}}}}}
		if change != nil {
			change(&q)
		}
		out, ok := questionOf(alias, &q)
		if !ok {
			t.Fatal("no question")
		}
		return out
	}
	plain := asked("n", "fast", nil)
	seen := map[question]string{plain: "as it is"}
	differs := func(what string, got question) {
		if before, there := seen[got]; there {
			t.Errorf("%s is the question %s", what, before)
		}
		seen[got] = what
	}
	differs("another namespace", asked("m", "fast", nil))
	differs("another model", asked("n", "smart", nil))
	differs("the boundary is elsewhere", asked("nf", "ast", nil))
	kind := reflect.TypeFor[llm.Request]()
	for i := range kind.NumField() {
		name := kind.Field(i).Name
		got := asked("n", "fast", func(q *llm.Query) { fill(t, reflect.ValueOf(&q.Request).Elem().Field(i)) })
		if name == "Priority" {
			if got != plain {
				t.Error("the priority is part of the question")
			}
			continue
		}
		differs(name, got)
	}
	part := reflect.TypeFor[llm.Part]()
	for i := range part.NumField() {
		name := part.Field(i).Name
		got := asked("n", "fast", func(q *llm.Query) { fill(t, reflect.ValueOf(&q.Request.Messages[0].Parts[0]).Elem().Field(i)) })
		if name == "Escaped" { // it is the text once more
			if got != plain {
				t.Error("how a text is escaped is part of the question")
			}
			continue
		}
		differs("a part's "+name, got)
	}
	differs("an embedding", asked("n", "fast", func(q *llm.Query) { q.Embed = &llm.EmbedRequest{Texts: []string{"x"}} }))
	differs("zero is not nothing", asked("n", "fast", func(q *llm.Query) { q.Request.Temperature = new(float64) }))
	if asked("n", "fast", func(q *llm.Query) {
		q.PID, q.Tree, q.ID, q.Bounded, q.Capped, q.Reuse = 1, 2, "3", true, true, time.Hour
	}) != plain {
		t.Error("who asks is part of the question")
	}
}

// fill gives a field a value that is not zero.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("filled")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"filled":1}`))
			return
		}
		if v.Type().Elem().Kind() == reflect.Struct { // its own fields are no matter here
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]json.RawMessage{"filled": json.RawMessage("1")}))
	default:
		t.Fatalf("nothing fills a %s", v.Type())
	}
}

// TestBounds: what is kept is bounded in bytes, what was used longest ago goes first, and no answer takes all of it.
func TestBounds(t *testing.T) {
	a := newAnswers()
	a.max = 40_000
	now := time.Unix(1, 0)
	of := func(n int) (q question) {
		copy(q[:], fmt.Sprint(n))
		return q
	}
	says := func(length int) *llm.Result {
		return &llm.Result{Answer: &llm.Answer{Stop: llm.StopEnd, Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Text: strings.Repeat("x", length)}}}}}
	}
	for n := range 100 {
		a.put(of(n), says(500), now)
		if a.get(of(0), now) == nil {
			t.Fatalf("what is used all the time has gone after %d", n)
		}
	}
	if a.size > a.max || a.size < a.max*3/4 || a.order.Len() != len(a.known) {
		t.Errorf("%d bytes of at most %d, in %d and %d places", a.size, a.max, a.order.Len(), len(a.known))
	}
	if a.get(of(99), now) == nil || a.get(of(1), now) != nil || a.get(of(99), now.Add(1)) != nil {
		t.Error("another one has gone, or one is older than it is")
	}
	before := a.size
	a.put(of(99), says(500), now.Add(time.Second))
	if a.size != before || a.get(of(99), now.Add(time.Second)) == nil {
		t.Errorf("what is replaced counts still: %d, was %d", a.size, before)
	}
	if a.put(of(200), says(a.max/maxPart), now); a.get(of(200), now) != nil || a.get(of(0), now) == nil {
		t.Error("one answer takes more than its part")
	}
}
