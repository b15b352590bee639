package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/llm"
	"agentkernel/internal/sys"
	sysllm "agentkernel/internal/sys/llm"
	"agentkernel/internal/sys/systest"
)

// open opens a stream of an engine; the error is that of the call.
func open(ctx context.Context, t *testing.T, e *engine, args string) (sys.Outcome, error) {
	t.Helper()
	return systest.New(t, sysllm.Family(e, hosts{})).Outside(ctx, t, "llm.stream", args)
}

// read reads the next items, and says what they settle.
func read(ctx context.Context, s sys.Stream) string {
	items, err := s.Next(ctx)
	text := string(items.Result())
	if items.Ended {
		text += " settles " + items.Total.String()
	}
	if err != nil {
		text += " " + err.Error()
	}
	return text
}

// script tells bits of an answer; each waits for a step of the test.
func script(steps <-chan error, bits ...llm.Delta) func(context.Context, func(llm.Delta) error) error {
	return func(ctx context.Context, tell func(llm.Delta) error) error {
		for _, bit := range bits {
			select {
			case err := <-steps:
				if err != nil {
					return err
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if err := tell(bit); err != nil {
				return err
			}
		}
		return nil
	}
}

func text(s string) llm.Delta { return llm.Delta{Text: s} }

// TestStream: a program reads what has come since it read last, bits of one kind as one; the last item is what llm.complete answers.
func TestStream(t *testing.T) {
	call := func(d llm.ToolCallDelta) llm.Delta { return llm.Delta{Call: &d} }
	synctest.Test(t, func(t *testing.T) {
		steps := make(chan error)
		e := &engine{answer: says(llm.Part{Text: "Hé \"x\""}, llm.Part{Call: &llm.ToolCall{ID: "c1", Name: "look", Args: json.RawMessage(`{"at":1}`)}})}
		e.bits = script(steps, llm.Delta{Reasoning: "hm"}, llm.Delta{Reasoning: "m"}, text("Hé "), text(`"x"`), call(llm.ToolCallDelta{Index: 0, ID: "c1", Name: "look"}),
			call(llm.ToolCallDelta{Index: 0, Args: `{"at"`}), call(llm.ToolCallDelta{Index: 0, Args: `:1}`}), call(llm.ToolCallDelta{Index: 1, Args: `{}`}), text("!"))
		go func() { steps <- nil }()
		out, err := open(t.Context(), t, e, `{"messages":"Go","model":"fast"}`)
		if err != nil || !out.Keeps || !e.asked.Streams || requested(t, e) != `{"model":"","messages":[{"role":"user","parts":[{"text":"Go"}]}]}` {
			t.Fatalf("%+v %v: %s", out, err, requested(t, e))
		}
		s := out.Stream
		if got := read(t.Context(), s); got != `[{"reasoning":"hm"}]` {
			t.Error(got)
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := read(impatient, s); got != "[] context deadline exceeded" {
			t.Error(got)
		}
		if w := s.(sys.Waiter).Waiting(); w != "model fast: 0 characters so far, the last 1.0 s ago" {
			t.Error(w)
		}
		for range 6 {
			steps <- nil
		}
		synctest.Wait()
		if got, want := read(t.Context(), s), `[{"reasoning":"m"},{"text":"Hé \"x\""},{"call":{"arguments":"{\"at\":1}","id":"c1","index":0,"name":"look"}}]`; got != want {
			t.Errorf("%s, want\n%s", got, want)
		}
		steps <- nil
		steps <- nil
		synctest.Wait()
		complete, err := systest.New(t, sysllm.Family(e, hosts{})).Outside(t.Context(), t, "llm.complete", `{"messages":[{"role":"user","content":"Go"}]}`)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := read(t.Context(), s), `[{"call":{"arguments":"{}","index":1}},{"text":"!"},{"answer":`+string(complete.Result)+`}] settles 3 usd`; got != want {
			t.Errorf("%s, want\n%s", got, want)
		}
		for range 2 {
			if got := read(t.Context(), s); got != "[] settles 3 usd" {
				t.Error(got)
			}
		}
		if w, used := s.(sys.Waiter).Waiting(), s.(sys.Settler).Settle(); w != "" || used.String() != "3 usd" {
			t.Errorf("%q, %s", w, used)
		}
	})
}

// TestAStreamWithoutBits: an answer in which nothing was said is an answer.
func TestAStreamWithoutBits(t *testing.T) {
	e := &engine{answer: says(), bits: script(nil)}
	out, err := open(t.Context(), t, e, `{"messages":[{"role":"user","content":"Go"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t.Context(), out.Stream); !strings.HasPrefix(got, `[{"answer":{`) {
		t.Error(got)
	}
}

// TestAStreamThatFails: before the first bit the call fails, and behind it the stream, once all was read that had come.
func TestAStreamThatFails(t *testing.T) {
	broken := agentkernel.Errorf(agentkernel.CodeUnavailable, "llm", "the stream broke after 2 characters")
	steps := make(chan error, 3)
	steps <- broken
	out, err := open(t.Context(), t, &engine{bits: script(steps, text("ab"))}, `{"messages":"Go"}`)
	if e := agentkernel.AsError(err, "", ""); e.Op != "llm.stream" || e.Code != agentkernel.CodeUnavailable || out.Settle.String() != "2 usd" || out.Stream != nil || out.Keeps {
		t.Errorf("%+v %v", out, err)
	}
	synctest.Test(t, func(t *testing.T) {
		steps := make(chan error, 3)
		steps <- nil
		steps <- broken
		out, err := open(t.Context(), t, &engine{bits: script(steps, text("ab"), text("c"))}, `{"messages":"Go"}`)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, want := range []string{`[{"text":"ab"}]`, "[] settles 2 usd llm.stream: the stream broke after 2 characters", "[] settles 2 usd llm.stream: the stream broke after 2 characters"} {
			if got := read(t.Context(), out.Stream); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	})
}

// TestAStreamThatNobodyWaitsFor: a call that is interrupted, or has no more time, ends its request.
func TestAStreamThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		out, err := open(ctx, t, &engine{bits: script(nil, text("x"))}, `{"messages":"Go"}`)
		if !errors.Is(err, context.Canceled) || out.Stream != nil || out.Settle.String() != "2 usd" {
			t.Errorf("%+v %v", out, err)
		}
	})
}

// TestCloseAStream: its request is cancelled, and what it has used is settled; if the provider does not hear, nobody knows.
func TestCloseAStream(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			steps := make(chan error, 1)
			steps <- nil
			e := &engine{answer: says(), bits: script(steps, text("x"), text("y"))}
			if deaf {
				e.bits = func(_ context.Context, tell func(llm.Delta) error) error {
					err := tell(text("x"))
					time.Sleep(time.Hour)
					return err
				}
			}
			out, err := open(t.Context(), t, e, `{"messages":"Go"}`)
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			used := out.Stream.(sys.Settler).Settle()
			if want := map[bool]string{false: "2 usd after 0s", true: "nothing after 1s"}[deaf]; fmt.Sprintf("%s after %s", used, time.Since(begun)) != want || deaf != (used == nil) {
				t.Errorf("%s after %s, want %s", used, time.Since(begun), want)
			}
			time.Sleep(2 * time.Hour) // the deaf one ends
		})
	}
}

// TestAProgramThatDoesNotRead: what waits for it in memory is bounded, and the provider waits so long and no longer.
func TestAProgramThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		e := &engine{answer: says(llm.Part{Text: "x"})}
		e.bits = func(_ context.Context, tell func(llm.Delta) error) error {
			for range 1000 {
				if err := tell(text(strings.Repeat("x", 1000))); err != nil {
					return err
				}
				told++
			}
			return nil
		}
		const most = 70
		out, err := open(t.Context(), t, e, `{"messages":"Go"}`)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if told > most {
			t.Errorf("%d kB wait for the program", told)
		}
		got := 0
		for range 40 { // as long as it reads, however slowly, nothing ends
			time.Sleep(4 * time.Minute)
			items, err := out.Stream.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var item struct {
				Text   string
				Answer json.RawMessage
			}
			for _, raw := range items.List {
				item.Text = ""
				if err := json.Unmarshal(raw, &item); err != nil {
					t.Fatal(err)
				}
				got += len(item.Text)
			}
			synctest.Wait()
			if item.Answer != nil {
				break
			}
			if told-got/1000 > most {
				t.Fatalf("%d kB wait for the program", told-got/1000)
			}
		}
		if got != 1_000_000 {
			t.Errorf("%d bytes were read", got)
		}
		for _, c := range []struct {
			wanted bool
			after  time.Duration
			why    string
		}{{false, 5 * time.Minute, "for 5 minutes"}, {true, 30 * time.Second, "for 30 seconds, and others wait for its place"}} {
			told, e.wanted = 0, c.wanted
			if out, err = open(t.Context(), t, e, `{"messages":"Go"}`); err != nil {
				t.Fatal(err)
			}
			time.Sleep(c.after - time.Second)
			if w := out.Stream.(sys.Waiter).Waiting(); w == "" {
				t.Errorf("it has ended before %s", c.after)
			}
			time.Sleep(2 * time.Second)
			_ = read(t.Context(), out.Stream)
			want := fmt.Sprintf("[] settles 2 usd llm.stream: the stream was ended after %d characters: the program has read nothing of it %s", 1000*told, c.why)
			if got := read(t.Context(), out.Stream); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	})
}
