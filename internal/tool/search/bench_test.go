package search_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/tool/search"
)

// generated makes tools as servers have them: verb_noun names, a sentence or three, a few parameters. Words
// follow Zipf's law, as in real descriptions, so that some stand in most tools.
func generated(n int) []agentkernel.Tool {
	r := rand.New(rand.NewPCG(5, 6))
	verbs := strings.Fields("get list create update delete search find read write add remove set send run check convert export import compare open")
	words := make([]string, 5000)
	for i := range words {
		words[i] = fmt.Sprintf("%s%s", strings.Fields("ka lo mi ne pu ra si to vu wa")[r.IntN(10)], strings.Fields("ber dan fil gor hem jun kel lam mor nis")[i%10]) + fmt.Sprint(i/10%10*37)
	}
	copy(words, strings.Fields("file data user issue message page image table name list time path text report order price repository document table event comment project key service account"))
	zipf := rand.NewZipf(r, 1.1, 4, uint64(len(words)-1))
	word := func() string { return words[zipf.Uint64()] }
	out := make([]agentkernel.Tool, n)
	for i := range out {
		server := fmt.Sprintf("server-%s-%d", words[i/20%len(words)], i/20)
		var d strings.Builder
		for range 10 + r.IntN(25) {
			d.WriteString(word() + " ")
		}
		t := agentkernel.Tool{Server: server, Name: fmt.Sprintf("%s_%s_%s%d", verbs[r.IntN(len(verbs))], word(), word(), i%20),
			Description: "It " + verbs[r.IntN(len(verbs))] + "s the " + d.String() + ". " + d.String()}
		for range r.IntN(6) {
			t.Params = append(t.Params, agentkernel.ToolParam{Name: word() + "_" + word(), Doc: "The " + word() + " of the " + word()})
		}
		out[i] = t
	}
	return out
}

const many = 50_000

func BenchmarkBuild50000(b *testing.B) {
	tools := generated(many)
	b.ResetTimer()
	for b.Loop() {
		ix := search.New(search.Default())
		ix.Add(tools...)
		ix.Search("x", 1)
	}
}

func queries() []string {
	return []string{"list the files of a directory", "create a new issue in the repository with a title and a comment",
		"send a message to the user", "find the price of an order and write it to a table in the report document",
		"get data", "search text in all pages of the project and save it to /tmp/out.md", "convert an image"}
}

func BenchmarkSearch2000(b *testing.B)  { benchmarkSearch(b, 2000) }
func BenchmarkSearch50000(b *testing.B) { benchmarkSearch(b, many) }

func benchmarkSearch(b *testing.B, tools int) {
	b.Helper()
	ix := search.New(search.Default())
	ix.Add(generated(tools)...)
	ix.Search("x", 1)
	var took []time.Duration
	qs := queries()
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		begun := time.Now()
		ix.Search(qs[i%len(qs)], 10)
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

func BenchmarkAddOneTo50000(b *testing.B) {
	tools := generated(many)
	ix := search.New(search.Default())
	ix.Add(tools...)
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		ix.Add(tools[i%many])
		ix.Search("list files", 10)
	}
}
