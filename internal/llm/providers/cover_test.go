package providers

import (
	"strings"
	"testing"

	"agentkernel/internal/llm"
)

// TestMask: the key is in no text, however that comes, and nothing else of it is changed, or kept back longer than it may begin the key.
func TestMask(t *testing.T) {
	const key = "sk-abcabd"
	for in, want := range map[string]string{
		"":                           "",
		"hello":                      "hello",
		"it is sk-abcabd.":           "it is *********.",
		"sk-abcabdsk-abcabd":         "******************",
		"sk-abcsk-abcabd sk-abc":     "sk-abc********* sk-abc",
		"sk-abcab":                   "sk-abcab",
		`\u0073k-abcabd \u0073k`:     "************** " + `\u0073k`,
		`\\\u0073\\\u006B-abcabd!`:   strings.Repeat("*", 23) + "!",
		`\n\\ a \"quoted\" \u00`:     `\n\\ a \"quoted\" \u00`,
		strings.Repeat(`\`, 100):     strings.Repeat(`\`, 100),
		"ssk-abcabd sk-sk-abcabd ss": "s********* sk-********* ss",
	} {
		for n := 1; n < 9; n++ {
			m := &mask{asked: &asked{key}}
			var got strings.Builder
			told := func(d llm.Delta) error { got.WriteString(d.Text); return nil }
			for rest := in; rest != ""; {
				bit := rest[:min(n, len(rest))]
				rest = rest[len(bit):]
				if err := m.delta(llm.Delta{Text: bit}, told); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.end(told); err != nil || got.String() != want {
				t.Errorf("%q in bits of %d: %q, want %q", in, n, got.String(), want)
			}
			if whole := m.whole(in); whole != want {
				t.Errorf("%q in one: %q, want %q", in, whole, want)
			}
		}
	}
	m := &mask{asked: &asked{key}}
	var order []string
	told := func(d llm.Delta) error { order = append(order, d.Text+d.Reasoning); return nil }
	for _, d := range []llm.Delta{{Text: "hello"}, {Text: " is"}, {Reasoning: "thought"}, {Text: " it"}} {
		if err := m.delta(d, told); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(order, "|"); got != "hello| i|thought|s it" {
		t.Errorf("told as %s", got)
	}
}
