package main

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentkernel/internal/devllm"
)

// TestChart: the chart is a picture that a browser reads, with a step for each answer and a mark for each refusal.
func TestChart(t *testing.T) {
	begun := time.Unix(100, 0)
	at := func(seconds, status int) devllm.Entry {
		return devllm.Entry{Time: begun.Add(time.Duration(seconds) * time.Second), Status: status}
	}
	raw := trial{took: 4 * time.Second, failed: 1, timeline: timeline([]devllm.Entry{at(3, http.StatusTooManyRequests), at(1, http.StatusOK), at(2, 500)}, begun)}
	if len(raw.timeline) != 2 || raw.timeline[0].refused || !raw.timeline[1].refused {
		t.Fatalf("%+v", raw.timeline)
	}
	x := experiment{agents: 2, steps: 1}
	svg := string(x.chart(raw, trial{took: 8 * time.Second, timeline: []answered{{at: 4 * time.Second}, {at: 8 * time.Second}}}))
	for want, n := range map[string]int{
		"H145.0V259.0": 1, // of 680 pixels for 8 s the first second's, and one of the four answers
		"v10":          1, "1 answers, 1 refusals, 1 agents failed": 1, "2 answers, 0 refusals, 0 agents failed": 1,
	} {
		if strings.Count(svg, want) != n {
			t.Errorf("%q is there %d times, want %d:\n%s", want, strings.Count(svg, want), n, svg)
		}
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
