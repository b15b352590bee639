package llm_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"agentkernel/internal/llm"
	sysllm "agentkernel/internal/sys/llm"
	"agentkernel/internal/sys/systest"
)

// TestLongConversationGoesOn: whatever becomes of a long conversation from turn to turn, the model is asked what a kernel would ask it that hears
// of the conversation for the first time.
func TestLongConversationGoesOn(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a seed has to give the same numbers again
	e := &engine{answer: says(llm.Part{Text: "Yes"})}
	p := systest.New(t, sysllm.Family(e, nil))
	var said []string
	say := func(n int) {
		for range n {
			text := fmt.Sprintf(`{"role":"user","content":"%d %s\n"}`, len(said)*1000+chance.IntN(1000), strings.Repeat("and so on ", 50))
			if chance.IntN(5) == 0 {
				text = fmt.Sprintf(`{"role": "assistant", "content": null, "tool_calls": [{"id":"c%d","name":"f","arguments":{"a":[1]}}]}`, len(said))
			}
			said = append(said, text)
		}
	}
	say(60)
	for turn := range 60 {
		args := fmt.Sprintf(`{"temperature":0.5,"messages":[%s],"max_tokens":%d}`, strings.Join(said, ","), 1+turn%2)
		_, err := p.Outside(t.Context(), t, "llm.complete", args)
		fresh := &engine{answer: says(llm.Part{Text: "Yes"})}
		_, wrong := systest.New(t, sysllm.Family(fresh, nil)).Outside(t.Context(), t, "llm.complete", args)
		if fmt.Sprint(err) != fmt.Sprint(wrong) || wrong == nil && requested(t, e) != requested(t, fresh) {
			t.Fatalf("turn %d: %v, want %v", turn, err, wrong)
		}
		switch chance.IntN(6) {
		case 0:
			said = said[:len(said)-3]
		case 1:
			said = append(said[1:20], said[21:]...)
		case 2:
			say(1)
			said[len(said)-1] = `{"role":"boss","content":"x"}`
		default:
			if said[len(said)-1] == `{"role":"boss","content":"x"}` {
				said = said[:len(said)-1]
			}
			say(2)
		}
	}
}
