package llm

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is remembered is what was read, of this namespace and these bytes, and not more than may be.
func TestMemo(t *testing.T) {
	m := newMemo()
	m.max = 6000
	raw := func(n int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"role":"user","content":%q}`, fmt.Sprint(n, strings.Repeat("\n", 150))))
	}
	var group sync.WaitGroup
	for _, namespace := range []string{"a", "b"} {
		group.Go(func() {
			for i := range 300 {
				got, err := m.read(namespace, raw(i*7%23))
				want, wrong := readMessage(raw(i * 7 % 23))
				if err != nil || wrong != nil || !cmp.Equal(want, got) {
					t.Errorf("message %d: %v, %v", i, got, err)
				}
			}
		})
	}
	group.Wait()
	if m.size > m.max || m.size < m.max/2 || m.order.Len() != len(m.known) {
		t.Errorf("%d bytes of at most %d are remembered, in %d and %d places", m.size, m.max, m.order.Len(), len(m.known))
	}
	for range 2 { // what cannot be read is never remembered
		if _, err := m.read("a", json.RawMessage(`{"role":"boss","content":"x"}`)); err == nil {
			t.Error("a message of a role that is none is read")
		}
	}
	before := m.order.Len()
	if _, err := m.read("c", raw(1)); err != nil || m.order.Front().Value.(*memory).namespace != "c" {
		t.Errorf("another namespace: %v, %d remembered", err, before)
	}
}

// FuzzSimple: what is read quickly is what would be read otherwise.
func FuzzSimple(f *testing.F) {
	for _, raw := range []string{
		`{"role":"user","content":"a \\ \"b\"\n"}`, ` { "content" : "x" , "role" : "system" } `, `{"role":"user","content":"\u00e9"}`, `{"role":"user","content":""}`,
		`{"role":"user","content":"a","content":"b"}`, `{"role":"user","Content":"a"}`, `{"role":"tool","content":"a"}`, `{"content":"a"}`, `{"role":"user","content":"\/"}`,
		"{\"role\":\"user\",\"content\":\"\xff\"}", `{"role":"user","content":"a","failed":true}`, `{"ro\u006ce":"user","content":"a"}`, `{"role":"user","content":"a"}}`, `{}`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) { // a call's arguments are
			return
		}
		if got, ok := simple(raw); ok {
			if want, err := decodeMessage(raw); err != nil || !cmp.Equal(want, got) {
				t.Errorf("%q: %v, want %v, %v", raw, got, want, err)
			}
		}
	})
}

// FuzzSimpleArgs is the same for the other arguments.
func FuzzSimpleArgs(f *testing.F) {
	for _, raw := range []string{
		`{"max_tokens":100,"model":"fast"}`, `{}`, `{"model":null}`, `{"model":"a","model":"b"}`, `{"max_tokens":0}`, `{"max_tokens":1e2}`, `{"max_tokens":12345678901234567890}`,
		`{"max_tokens":null}`, `{"Model":"a"}`, `{"model":"a","seed":1}`, ` { "model" : "a\n" , "max_tokens" : 5 } `, `{"max_tokens":1.0}`, `{"max_tokens":[1]}`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got, want completeArgs
		if !json.Valid(raw) || !got.simple(raw) {
			return
		}
		if err := json.Unmarshal(raw, &want); err != nil || !cmp.Equal(want, got, cmp.AllowUnexported(completeArgs{})) {
			t.Errorf("%q: %+v, want %+v, %v", raw, got, want, err)
		}
	})
}

// TestUsualIsSimple: what nearly all calls consist of is read without reflection.
func TestUsualIsSimple(t *testing.T) {
	for _, raw := range []string{`{"role":"user","content":"a \"b\"\n"}`, `{"content": "x", "role": "system"}`, `{"role":"assistant","content":"é"}`} {
		if _, ok := simple(json.RawMessage(raw)); !ok {
			t.Errorf("%s is not", raw)
		}
	}
	for _, raw := range []string{`{}`, `{"max_tokens":100,"model":"fast"}`} {
		if !new(completeArgs).simple(json.RawMessage(raw)) {
			t.Errorf("%s is not", raw)
		}
	}
}

// TestMemoOfManySmallOnes: what is remembered of messages that are nothing but what stands around them is bounded, too.
func TestMemoOfManySmallOnes(t *testing.T) {
	m := newMemo()
	for i := range 200_000 {
		if _, err := m.read("a", json.RawMessage(fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"%d"}]}`, i))); err != nil {
			t.Fatal(err)
		}
	}
	if n, most := m.order.Len(), maxMemory/aroundMemory; n > most {
		t.Errorf("%d messages are remembered, of at most %d", n, most)
	}
}
