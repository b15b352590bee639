package search_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/tool/search"
)

// TestHostileSchemas: a schema costs in proportion to its length, however it is nested.
func TestHostileSchemas(t *testing.T) {
	const levels, size = 60, 200 << 10
	nest := func(open, end string) string {
		return strings.Repeat(open, levels) + `{"description":"` + strings.Repeat("x", size) + `"}` + strings.Repeat(end, levels)
	}
	flat := cost(t, `{"properties":{"a":{"description":"`+strings.Repeat("x", size)+`"}}}`)
	for name, schema := range map[string]string{
		"properties": nest(`{"properties":{"a":`, `}}`),
		"items":      nest(`{"items":`, `}`),
		"both":       nest(`{"items":{"properties":{"b":1,"a":`, `}}}`),
		"lists":      nest(`[`, `]`),
		"others":     nest(`{"not":[`, `]}`),
	} {
		if c := cost(t, schema); c > 8*flat+10*time.Millisecond {
			t.Errorf("%s: %v, and %v for a flat one", name, c, flat)
		}
	}
}

// cost is the least time in which a tool with a schema is taken in.
func cost(t *testing.T, schema string) time.Duration {
	t.Helper()
	least := time.Hour
	for range 3 {
		begun := time.Now()
		ix := search.New(search.Default())
		ix.Add(agentkernel.Tool{Server: "s", Name: "findme", InputSchema: json.RawMessage(schema)})
		if got := len(ix.Search("findme", 1)); got != 1 {
			t.Fatalf("%d found", got)
		}
		least = min(least, time.Since(begun))
	}
	return least
}

// TestSchemasThatSayLittle: what is no schema says nothing, and what stands beside it counts.
func TestSchemasThatSayLittle(t *testing.T) {
	for schema, found := range map[string]string{
		`{"properties":{"alpha":{"description":"bravo","enum":["charlie",1,null]}}}`:                                    "alpha bravo charlie",
		`{"properties":{"alpha":true,"delta":{"description":7,"enum":"x","properties":{"echo":[]}}}}`:                   "alpha delta echo",
		`{"properties":{"alpha":{"items":{"properties":{"bravo":{}}}}},"description":"charlie"}`:                        "alpha bravo",
		`{"properties":{"a":{"properties":{"b":{"properties":{"c":{"properties":{"d":{"properties":{"e5e":{}}}}}}}}}}}`: "",
		`{"properties":[{"alpha":{}}],"items":[{"properties":{"bravo":{}}}]}`:                                           "",
		`[1,[2,{"properties":{"alpha":{}}}]]`:                                                                           "",
		`"properties"`:                                                                                                  "",
		`{"properties":{"alpha":{}}`:                                                                                    "golf", // broken: the parameters that were understood count
	} {
		ix := search.New(search.Default())
		ix.Add(agentkernel.Tool{Server: "s", Name: "n1", InputSchema: json.RawMessage(schema), Params: []agentkernel.ToolParam{{Name: "golf"}}})
		var got []string
		for _, w := range strings.Fields("alpha bravo charlie delta echo golf") {
			if len(ix.Search(w, 1)) > 0 {
				got = append(got, w)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(strings.Fields(found)) {
			t.Errorf("%s: found by %v, not %s", schema, got, found)
		}
	}
}
