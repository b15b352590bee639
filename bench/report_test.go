package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestContestTakesTurns(t *testing.T) {
	var order []string
	c := func(name string, n int) contender {
		return contender{name: name, n: n, run: func(context.Context) error { order = append(order, name); return nil }}
	}
	results, err := contest(t.Context(), 2, func(string, ...any) {}, []contender{c("a", 2), absent("b", rolePeer, notInstalled), c("c", 1)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(order, ""), "ac"+"aac"+"aac"; got != want {
		t.Errorf("they ran in the order %s, want %s: warm-up, then two rounds", got, want)
	}
	if len(results[0]) != 2 || len(results[0][0]) != 2 || len(results[1]) != 0 || len(results[2]) != 2 {
		t.Errorf("blocks: %v", results)
	}
}

func TestContestNamesWhoFailed(t *testing.T) {
	broken := errors.New("broken")
	_, err := contest(t.Context(), 1, func(string, ...any) {}, []contender{
		{name: "the one", n: 1, run: func(context.Context) error { return broken }}})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "the one") {
		t.Errorf("got %v", err)
	}
}

func TestMarkdown(t *testing.T) {
	floor := contender{name: "floor | with a bar", role: roleFloor}
	ours := latency(contender{name: "ours", role: roleOurs}, series{us(1500, 1500)})
	ours.judgeRatio(1.51, 1.5, "floor")
	slow := figure("rate", roleOurs, "%d calls/s", 12)
	slow.judge("at least 10 calls/s", true)
	r := report{Mode: "quick", Machine: machine{CPU: "C", Cores: 2, Date: "2026-11-21"}, Sections: []outcome{
		{Name: "a", Title: "First", About: "What it is.", Tables: []table{
			{Rows: []row{latency(floor, series{us(1000)}), ours, latency(absent("bwrap", rolePeer, notInstalled), nil)}},
			{Title: "Figures", Rows: []row{slow}, Notes: []string{"A note."}}}},
		{Name: "b", Title: "Second", About: "It fails.", Error: "the engine is missing"},
	}}
	var out strings.Builder
	r.markdown(&out)
	for _, line := range []string{
		"Machine: C · 2 cores",
		"This is a quick run",
		"1 of 2 goals met.",
		"## First",
		"| what |  | p50 | p99 | ratio | goal | result |",
		`| floor \| with a bar | floor | 1.00 ms | 1.00 ms |  |  |  |`,
		"| ours | ours | 1.50 ms | 1.50 ms | 1.51 x | at most 1.5 x floor | **missed** |",
		"| bwrap | peer | not installed |  |  |  |  |",
		"| what |  | measured | goal | result |",
		"| rate | ours | 12 calls/s | at least 10 calls/s | met |",
		"- A note.",
		"**not measured**: the engine is missing",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("missing: %s", line)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1234 * time.Nanosecond: "1.23 µs", 43 * time.Microsecond: "43.0 µs", 4321 * time.Microsecond: "4.32 ms",
		65 * time.Second: "65.0 s", 999 * time.Microsecond: "999 µs",
	} {
		if got := span(d); got != want {
			t.Errorf("%d ns: got %q, want %q", d, got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	names := func(only string) []string {
		chosen, err := choose(only)
		if err != nil {
			return []string{err.Error()}
		}
		var out []string
		for _, s := range chosen {
			out = append(out, s.name)
		}
		return out
	}
	if got := names(""); len(got) != len(sections())-2 || slices.Contains(got, "million") || slices.Contains(got, "tau2") {
		t.Errorf("all: %v", got)
	}
	if got := names("park,warm"); !slices.Equal(got, []string{"warm", "park"}) {
		t.Errorf("two: %v", got)
	}
	if got := names("warm,wram"); len(got) != 1 || !strings.Contains(got[0], `"wram"`) {
		t.Errorf("unknown: %v", got)
	}
}

func TestWithoutPaths(t *testing.T) {
	got := withoutPaths("open /a/repo/x.py: /tmp/akb1/k/kernel.db is gone, and so is /a/repo", "/a/repo", "/tmp/akb1", "")
	if got != "open x.py: k/kernel.db is gone, and so is ." {
		t.Errorf("got %q", got)
	}
}
