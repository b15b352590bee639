package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/embedded"
)

var modelsSection = section{
	name: "models", title: "A request to a model",
	about: "One `llm.complete` of a Go program in the kernel's own process: checked, planned, reserved, journalled, sent to a server on this machine that answers at once, settled, journalled, answered. " +
		"Each goes on with a conversation of the size that is named. That it is made is on the disk before it is sent, also of a relaxed process, which does not wait for its answer to be. Floor: what it takes without a kernel: one small entry committed to the bare store, the same body posted to the same server with Go's own client, and one more entry committed, which a relaxed process does not wait for.",
	run: measureModels,
}

// modelsGoal is what a request may cost beside its commits and its way to the server.
const modelsGoal = 150 * time.Microsecond

func measureModels(ctx context.Context, b *bench) (_ []table, err error) {
	commit, closeStore, err := b.commitFloor(ctx)
	if closeStore != nil {
		defer closeStore()
	}
	if err != nil {
		return nil, err
	}
	server, err := serveModel()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if err := os.Setenv(agentsKey, "sk-bench"); err != nil {
		return nil, err
	}
	defer func() { _ = os.Unsetenv(agentsKey) }()
	k, err := b.open(ctx, embedded.Config{Models: []string{"fast openai:bench url=" + server.url + " key=env:" + agentsKey + " price=1/10"}})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	n := b.pick(40, 20, 3)
	contenders := []contender{{name: "one entry, committed to the bare store", role: roleFloor, n: n, run: commit}}
	sizes := []int{2, 64, 512}
	for _, kB := range sizes {
		durable, err := converse(ctx, k, kB<<10, agentkernel.DurabilityFull)
		if err != nil {
			return nil, err
		}
		relaxed, err := converse(ctx, k, kB<<10, agentkernel.DurabilityRelaxed)
		if err != nil {
			return nil, err
		}
		contenders = append(contenders,
			contender{name: fmt.Sprintf("%d kB: committed, posted, committed", kB), role: roleFloor, n: n, run: inTurn(commit, server.post(kB<<10), commit)},
			contender{name: fmt.Sprintf("%d kB: committed, posted", kB), role: roleFloor, n: n, run: inTurn(commit, server.post(kB<<10))},
			contender{name: fmt.Sprintf("%d kB: llm.complete, durable", kB), role: roleOurs, n: n, block: durable},
			contender{name: fmt.Sprintf("%d kB: llm.complete, relaxed", kB), role: roleOurs, n: n, block: relaxed})
	}
	results, err := contest(ctx, b.pick(20, 10, 2), b.tell, contenders)
	if err != nil {
		return nil, err
	}
	rows := latencies(contenders, results)
	for i := range sizes {
		for j := range 2 { // durable, relaxed
			floor, ours := rows[4*i+1+j], &rows[4*i+3+j]
			ours.judge("p50 at most "+span(modelsGoal)+" above the floor", ours.P50 <= floor.P50+micros(modelsGoal))
		}
	}
	return []table{{Rows: rows}}, nil
}

// modelServer answers every request for a completion with the same words, at once.
type modelServer struct {
	http.Server
	url string
}

func serveModel() (*modelServer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &modelServer{url: "http://" + ln.Addr().String() + "/v1"}
	s.ReadHeaderTimeout = sectionPatience
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the answer is the same for whatever was asked
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"1","object":"chat.completion","model":"bench","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Yes."}}],`+
			`"usage":{"prompt_tokens":100,"completion_tokens":2,"total_tokens":102}}`)
	})
	go func() { _ = s.Serve(ln) }() // until it is closed
	return s, nil
}

// post makes what sends a body of a size with nothing of ours.
func (s *modelServer) post(size int) func(context.Context) error {
	body := turn(conversation(size), 0)
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/chat/completions", bytes.NewReader(body))
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, res.Body)
		return errors.Join(err, res.Body.Close())
	}
}

// inTurn does one thing after the other.
func inTurn(steps ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, step := range steps {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// conversation is the beginning of one of a size, with messages of about a kilobyte.
func conversation(size int) []byte {
	const said = "The \"quick\" brown fox jumps over the lazy dog.\nWhat does it mean? "
	out := []byte(`{"max_tokens":100,"messages":[{"content":"You answer briefly.","role":"system"}`)
	for i := 0; len(out) < size-200; i++ {
		text, _ := json.Marshal(fmt.Sprint(i, ": ", strings.Repeat(said, min(14, max(1, (size-200-len(out))/len(said)))))) // a text always has one
		out = fmt.Appendf(out, `,{"content":%s,"role":%q}`, text, [...]string{"user", "assistant"}[i%2])
	}
	return out
}

// turn is a conversation that ends with a question of its own.
func turn(said []byte, n int64) json.RawMessage {
	out := append(make([]byte, 0, len(said)+100), said...)
	return fmt.Appendf(out, `,{"content":"Question %d: what now?","role":"user"}],"model":"fast"}`, n)
}

// converse makes the caller the host of a process, and gives what makes requests of it.
func converse(ctx context.Context, k *embedded.Kernel, size int, d agentkernel.Durability) (func(context.Context, int) ([]time.Duration, error), error) {
	p, err := k.Spawn(ctx, agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "bench"}, Durability: d})
	if err != nil {
		return nil, err
	}
	h, err := k.Attach(ctx, p.PID, agentkernel.Attaching{})
	if err != nil {
		return nil, err
	}
	said, at := conversation(size), int64(0)
	return func(ctx context.Context, n int) ([]time.Duration, error) {
		samples := make([]time.Duration, 0, n)
		for range n {
			at++
			call := agentkernel.HostedCall{Place: agentkernel.Place{N: at}, Op: "llm.complete", Args: turn(said, at)}
			begin := time.Now()
			if _, err := h.Issue(call)(ctx); err != nil {
				return nil, err
			}
			samples = append(samples, time.Since(begin))
		}
		return samples, nil
	}, nil
}
