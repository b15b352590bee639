package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/embedded"
)

// letters is text that is like no other, of n bytes.
func letters(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%x ", r.Uint32())
	}
	return b.String()[:n]
}

// talker is a Go program that goes on and on with one conversation.
type talker struct {
	pid  agentkernel.PID
	h    agentkernel.Host
	said []string // messages
	asks []string // the arguments of each call
	n    int64
	held int64 // bytes of results
}

// ask goes on with the conversation, and hears that the model was sent all of it.
func (c *talker) ask(t *testing.T, question string) {
	t.Helper()
	c.said = append(c.said, fmt.Sprintf(`{"content":%q,"role":"user"}`, question))
	args := `{"max_tokens":100,"messages":[` + strings.Join(c.said, ",") + `],"model":"fast"}`
	c.n++
	result, err := c.h.Issue(agentkernel.HostedCall{Place: agentkernel.Place{N: c.n}, Op: "llm.complete", Args: json.RawMessage(args)})(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Message json.RawMessage }
	if err := json.Unmarshal(result, &answer); err != nil {
		t.Fatal(err)
	}
	c.said, c.asks, c.held = append(c.said, string(answer.Message)), append(c.asks, args), c.held+int64(len(result))
}

// stored is what a data directory has in its database and in blobs, in bytes.
func stored(t *testing.T, home string) (size int64) {
	t.Helper()
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && (strings.HasPrefix(d.Name(), "kernel.db") || strings.Contains(path, "/blobs/")) {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				size += info.Size()
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// TestLongConversation: 200 turns of 1 kB over a base of 200 kB take at most 1.2 times what is new in them, whole programs and files
// measured; the next kernel, a recording and whoever imports it read every turn whole.
func TestLongConversation(t *testing.T) {
	const turns, base = 200, 200_000
	r := rand.New(rand.NewPCG(1, 7))
	heard := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		heard = bytes.Count(body, []byte(`"role":`))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%q}}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`,
			letters(r, 200))
	}))
	t.Cleanup(server.Close)
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	dir := home(t)
	models := func(c *embedded.Config) { c.Models = []string{"fast openai:m url=" + server.URL + "/v1 price=1/10"} }
	k := openEmbeddedToClose(t, dir, models)
	closed := func() int64 {
		t.Helper()
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		return stored(t, dir)
	}
	before := closed()
	k = openEmbeddedToClose(t, dir, models)
	talk := func(turns int) *talker {
		t.Helper()
		p, err := k.Spawn(t.Context(), agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "talker"}})
		if err != nil {
			t.Fatal(err)
		}
		c := &talker{pid: p.PID}
		if c.h, err = k.Attach(t.Context(), p.PID, agentkernel.Attaching{}); err != nil {
			t.Fatal(err)
		}
		for range base / 1000 {
			c.said = append(c.said, fmt.Sprintf(`{"content":%q,"role":"user"}`, letters(r, 970)))
		}
		for range turns {
			if c.ask(t, letters(r, 740)); heard != len(c.said)-1 {
				t.Fatalf("the model was sent %d messages of %d", heard, len(c.said)-1)
			}
		}
		return c
	}
	c := talk(turns)
	whole, unique := int64(0), int64(len(strings.Join(c.said, ",")))+c.held
	for _, args := range c.asks {
		whole += int64(len(args))
	}
	took := closed() - before
	t.Logf("%d bytes were handed over, %d of them and of the answers are new, %d are stored: %.3f", whole, unique, took, float64(took)/float64(unique))
	if float64(took) > 1.2*float64(unique) {
		t.Errorf("%d bytes are stored, for %d that are new", took, unique)
	}

	k = openEmbeddedToClose(t, dir, models)
	defer func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}()
	c.journalled(t, k, c.pid)
	c = talk(turns / 10) // all turns of a recording are whole, which is much to pack
	file, err := k.Export(t.Context(), c.pid, agentkernel.ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other := openEmbedded(t, home(t))
	imported, err := other.Import(t.Context(), file, agentkernel.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.journalled(t, other, imported.PID)
}

// journalled looks whether a journal has each call whole.
func (c *talker) journalled(t *testing.T, k agentkernel.Kernel, pid agentkernel.PID) {
	t.Helper()
	list, err := k.Journal(t.Context(), pid, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range list {
		if e.Op == "llm.complete" {
			if string(e.Args) != c.asks[n] {
				t.Fatalf("call %d is journalled as %.200s...", n+1, e.Args)
			}
			n++
		}
	}
	if n != len(c.asks) {
		t.Fatalf("%d calls are journalled of %d", n, len(c.asks))
	}
}
