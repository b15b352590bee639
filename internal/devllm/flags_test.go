package devllm

import (
	"strings"
	"testing"
	"time"
)

func TestLimitsAndFaultsOnACommandLine(t *testing.T) {
	l := Limits{Requests: 5}
	for _, text := range []string{"total=1000", "window=10s", "foreign=0.25"} {
		var err error
		if l, err = ParseLimit(l, text); err != nil {
			t.Fatal(err)
		}
	}
	if l != (Limits{Requests: 5, Total: 1000, Window: Span(10 * time.Second), Foreign: 0.25}) {
		t.Errorf("%+v", l)
	}
	f, err := ParseFault("cut,after_events=3,count=2,model=gpt-dev")
	if err != nil || f != (Fault{Kind: "cut", AfterEvents: 3, Count: 2, Model: "gpt-dev"}) {
		t.Errorf("%+v %v", f, err)
	}
	if f, err := ParseFault("429,retry_after=2s"); err != nil || f.RetryAfter != Span(2*time.Second) {
		t.Errorf("%+v %v", f, err)
	}
	for text, says := range map[string]string{"totl=5": "did you mean total?", "total": "has no value", "total=many": "total=many", "total=-1": "the limit of total is -1", "window=5": "window", "foreign=2": "share"} {
		if _, err := ParseLimit(Limits{}, text); err == nil || !strings.Contains(err.Error()+err.(*BadOption).Hint, says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, says := range map[string]string{"cutt": "did you mean cut?", "cut,after=3": "after_events", "cut,count": "has no value", "": "there is no fault"} {
		if _, err := ParseFault(text); err == nil || !strings.Contains(err.Error()+err.(*BadOption).Hint, says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
