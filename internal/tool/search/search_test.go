package search_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/tool/search"
)

func tool(server, name, description string) agentkernel.Tool {
	return agentkernel.Tool{Server: server, PythonServer: server, Name: name, PythonName: name, Description: description}
}

func names(hits []search.Hit) []string {
	out := []string{}
	for _, h := range hits {
		out = append(out, h.Tool.Server+"."+h.Tool.Name)
	}
	return out
}

func TestWordsMeet(t *testing.T) {
	ix := search.New(search.Default())
	ix.Add(tool("fs", "readTextFile", "Give the content of a file."), tool("fs", "list-directory", "Names in a folder."),
		tool("img", "base64_decode", "From text to bytes."), tool("draw", "mindmap", "A picture of thoughts."),
		tool("news", "top10", "获取微博热搜榜，展示当下最热门的社会话题"), tool("mail", "HTTPSender", "Hand over a parcel."))
	for query, want := range map[string]string{
		"read text files":       "fs.readTextFile",
		"list the directories":  "fs.list-directory",
		"decode BASE64":         "img.base64_decode",
		"mind map":              "draw.mindmap",
		"a MindMap":             "draw.mindmap",
		"trending topics":       "news.top10",
		"热搜":                    "news.top10",
		"http sender":           "mail.HTTPSender",
		"dump /var/log/x.log":   "fs.readTextFile", // a path is a file
		"show me what is in /x": "fs.list-directory",
	} {
		if got := names(ix.Search(query, 3)); len(got) == 0 || got[0] != want {
			t.Errorf("%q finds %v, not %s", query, got, want)
		}
	}
	for _, nothing := range []string{"", "the of and", "zzzz", "!!! ???", "\xff\xfe"} {
		if got := ix.Search(nothing, 3); len(got) != 0 {
			t.Errorf("%q finds %v", nothing, names(got))
		}
	}
	if got := names(ix.SearchServer("read file", "draw", 3)); len(got) != 0 {
		t.Errorf("another server's tools: %v", got)
	}
	ix.Search(strings.Repeat("read a file ", 1<<20), 3) // 12 MB
}

// A task of several sentences finds the best tool of each, however many words the others have.
func TestEachSentenceHasASay(t *testing.T) {
	ix := search.New(search.Default())
	for _, n := range []string{"profit", "revenue", "dividend", "debt", "cash"} {
		ix.Add(tool("finance", "company_"+n, "Audited financial figures of a company by quarter and year: "+n+"."))
	}
	ix.Add(tool("mail", "send_letter", "Send a letter to a person."), tool("gone", "polish", "Polish seven crimson lanterns."))
	ix.Remove("gone")
	for _, query := range []string{
		"Tell me the profit of the company, audited financial figures by quarter and year. A letter goes to my sister in Oslo.",
		"公司 company profit, audited financial figures by quarter and year。A letter goes to my sister in Oslo",
		"Polish seven crimson lanterns! Profit of the company, audited financial figures by quarter and year? A letter goes to my sister in Oslo",
	} {
		got := ix.Search(query, 2)
		if !slices.Contains(names(got), "mail.send_letter") {
			t.Errorf("%q finds %v", query, names(got))
		}
		for _, h := range got {
			if !(h.Score > 0) {
				t.Errorf("%q: %s scores %v", query, h.Tool.Name, h.Score)
			}
		}
	}
}

// However the tools came and went, the same tools give the same answer.
func TestHistoryDoesNotMatter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	tools := generated(400)
	fresh := search.New(search.Default())
	fresh.Add(tools...)
	worn := search.New(search.Default())
	for range 3 {
		shuffled := slices.Clone(tools)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for _, tl := range shuffled {
			tl.Description = "something else " + tl.Description
			worn.Add(tl)
		}
		worn.Search("anything", 1)
		for _, tl := range shuffled[:100] {
			worn.Remove(tl.Server, tl.Name)
		}
		worn.Add(shuffled...)
	}
	worn.Add(tools...)
	worn.Add(tool("gone", "gone", "gone"))
	worn.Remove("gone")
	if worn.Len() != fresh.Len() {
		t.Fatalf("%d tools, not %d", worn.Len(), fresh.Len())
	}
	for i := range 200 {
		query := tools[i].Name + " " + tools[(i*7)%len(tools)].Description
		a, b := fresh.Search(query, 10), worn.Search(query, 10)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("%q: %v and %v", query, names(a), names(b))
		}
	}
}

func TestEqualScoresAreOrderedByName(t *testing.T) {
	ix := search.New(search.Default())
	for _, n := range []string{"c", "a", "b"} {
		ix.Add(tool("server_"+n, "convert", "Convert units."), tool("server_a", "convert_"+n, "Convert units."))
	}
	want := "[server_a.convert server_a.convert_a server_a.convert_b server_a.convert_c server_b.convert server_c.convert]"
	if got := fmt.Sprint(names(ix.Search("convert units", 10))); got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestConcurrentUse(t *testing.T) {
	ix := search.New(search.Default())
	ix.Add(generated(200)...)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 50 {
				ix.Replace(fmt.Sprint("s", i), []agentkernel.Tool{tool(fmt.Sprint("s", i), fmt.Sprint("t", j), "read a file")})
				if len(ix.Search("read a file", 5)) == 0 {
					t.Error("nothing found")
				}
			}
		})
	}
	all.Wait()
	if ix.Len() != 204 {
		t.Errorf("%d tools", ix.Len())
	}
}

// A strange schema costs its words, no more.
func TestStrangeSchemas(t *testing.T) {
	for _, schema := range []string{`true`, `[]`, `{"properties":[]}`, `{"properties":{"a":true}}`, `{"properties":{"a":{"description":5,"enum":"x","items":[{}]}}}`, `{`} {
		ix := search.New(search.Default())
		tl := tool("s", "rotate", "Turn it.")
		tl.InputSchema = json.RawMessage(schema)
		ix.Add(tl)
		if len(ix.Search("rotate", 1)) != 1 {
			t.Errorf("%s: not found", schema)
		}
	}
}

// A hashed bag of letters is embedder enough to see the plumbing.
func embeddings(t *testing.T, broken *bool) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Model string   `json:"model"`
			Input []string `json:"input"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.URL.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer k" || in.Model != "m" {
			t.Errorf("request %s %v %v", r.URL.Path, in, err)
		}
		if *broken {
			http.Error(w, "out of memory", http.StatusInternalServerError)
			return
		}
		type vector struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		}
		var data []vector
		for i, s := range in.Input {
			v := make([]float32, 8)
			v[0] = .1
			if strings.Contains(s, "canine") || strings.Contains(s, "dog") {
				v[1] = 1
			}
			data = append(data, vector{len(in.Input) - 1 - i, v})
		}
		for i := range data { // the answer may come in any order
			data[i].Index = i
		}
		slices.Reverse(data)
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

func TestEmbedderFindsWhatWordsDoNot(t *testing.T) {
	broken := false
	now := time.Now()
	s := search.NewSearcher(search.Default(), search.NewVectors(search.VectorConfig{Now: func() time.Time { return now },
		Embedder: &search.Endpoint{URL: embeddings(t, &broken), Model: "m", Key: func() (string, error) { return "k", nil }}}))
	s.Add(tool("zoo", "feed_canine", "Feed it."), tool("zoo", "walk", "Walk a cat."), tool("zoo", "open_gate", "Open the gate."))
	if got := names(s.Search("dog", 3)); len(got) != 0 {
		t.Fatalf("words alone find %v", got)
	}
	hits, err := s.Find(t.Context(), "dog", "", 1)
	if err != nil || fmt.Sprint(names(hits)) != "[zoo.feed_canine]" {
		t.Errorf("%v, %v", names(hits), err)
	}
	broken = true
	hits, err = s.Find(t.Context(), "gate", "", 3)
	if agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || fmt.Sprint(names(hits)) != "[zoo.open_gate]" {
		t.Errorf("with a broken embedder: %v, %v", names(hits), err)
	}
	if strings.Contains(fmt.Sprint(err), "Bearer") {
		t.Errorf("the key is in %v", err)
	}
}

type shortEmbedder struct{}

func (shortEmbedder) Embed(context.Context, []string) ([][]float32, error) { return nil, nil }

func TestAnEmbedderThatLies(t *testing.T) {
	s := search.NewSearcher(search.Default(), search.NewVectors(search.VectorConfig{Embedder: shortEmbedder{}}))
	s.Add(tool("a", "b", "c"))
	if _, err := s.Find(t.Context(), "b", "", 3); err == nil {
		t.Error("no error")
	}
	for _, answer := range []string{`{`, `{"data":[]}`, `{"data":[{"index":7,"embedding":[1]}]}`} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
		_, err := (&search.Endpoint{URL: srv.URL}).Embed(t.Context(), []string{"x"})
		var e *agentkernel.Error
		if !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("%s: %v", answer, err)
		}
		srv.Close()
	}
}

func TestFuse(t *testing.T) {
	a, b, c := search.Hit{Tool: tool("s", "a", "")}, search.Hit{Tool: tool("s", "b", "")}, search.Hit{Tool: tool("s", "c", "")}
	if got := fmt.Sprint(names(search.Fuse(3, []search.Hit{a, b}, []search.Hit{c, b}))); got != "[s.b s.a s.c]" {
		t.Error(got)
	}
}
