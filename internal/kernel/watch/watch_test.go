package watch

import (
	"strings"
	"testing"

	"agentkernel"
)

// TestSlowReaderCostsLittle: a reader that reads nothing is sent back to the journal, whatever a program
// floods it with; only questions, which no journal has, are kept.
func TestSlowReaderCostsLittle(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for _, kind := range []agentkernel.EventKind{agentkernel.EventOutput, agentkernel.EventLog} {
		w := New(true)
		w.Add(agentkernel.Event{Kind: agentkernel.EventAsk, Ask: &agentkernel.Ask{ID: 1}}, 1)
		for range 100 {
			w.Add(agentkernel.Event{Kind: kind, Text: big}, 1)
		}
		w.Add(agentkernel.Event{Kind: agentkernel.EventAsk, Ask: &agentkernel.Ask{ID: 2}}, 1)
		events, _, lagged, err := w.Take()
		held, asks := 0, 0
		for _, ev := range events {
			held += len(ev.Text)
			if ev.Kind == agentkernel.EventAsk {
				asks++
			}
		}
		if held > limit+2<<20 || !lagged || asks != 2 || err != nil {
			t.Errorf("%s: %d bytes wait for the reader, lagged %v, %d questions, %v", kind, held, lagged, asks, err)
		}
	}
}

func TestArgumentsOfQuestionsAreBounded(t *testing.T) {
	ask := agentkernel.Ask{Args: []byte(`{"content":"` + strings.Repeat("x", 8<<20) + `"}`)}
	w := New(true)
	for range 1000 {
		w.Add(agentkernel.Event{Kind: agentkernel.EventAsk, Ask: &ask}, 1)
	}
	if w.size < 1000*len(ask.Args) {
		t.Errorf("the arguments of questions are not counted: %d", w.size)
	}
}
