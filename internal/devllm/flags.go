package devllm

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"agentkernel/internal/nearest"
)

// ParseLimit changes one of the limits, written as on a command line: total=10000, window=10s, foreign=0.3.
func ParseLimit(l Limits, text string) (Limits, error) {
	err := parseFields(&l, text, "limit", []string{"requests", "input", "output", "total", "window", "burst", "foreign"})
	if err == nil {
		err = l.validate()
	}
	return l, err
}

// ParseFault reads a fault as it is written on a command line: a kind, and what the fields of Fault say behind commas, such
// as cut,after_events=3,count=2.
func ParseFault(text string) (Fault, error) {
	kind, rest, _ := strings.Cut(text, ",")
	f := Fault{Kind: kind}
	for field := range strings.SplitSeq(rest, ",") {
		if field == "" {
			continue
		}
		if err := parseFields(&f, field, "fault", []string{"count", "skip", "every", "model", "after_events", "retry_after", "for"}); err != nil {
			return f, err
		}
	}
	return f, f.validate()
}

// parseFields sets one field of v, by its name in JSON.
func parseFields(v any, text, what string, names []string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || value == "" {
		return bad("write %s=VALUE", name).of("%s of a %s has no value", strconv.Quote(text), what)
	}
	if !slices.Contains(names, name) {
		question := nearest.Question(name, names)
		if question == "" {
			question = "there are " + strings.Join(names, ", ")
		}
		return bad("%s", question).of("a %s has no %s", what, strconv.Quote(name))
	}
	body := []byte(`{"` + name + `":` + value + `}`)
	if !json.Valid(body) {
		body = []byte(compact(map[string]string{name: value}))
	}
	if err := decode(body, v); err != nil {
		return bad("numbers are whole, times are written as 10s, shares as 0.3").of("%s: %s", text, err)
	}
	return nil
}
