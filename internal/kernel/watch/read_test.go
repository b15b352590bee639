package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentkernel"
)

// source is a journal whose output stands at the positions in it.
type source struct {
	outputs []int64
	durable []agentkernel.Position
	fails   error
}

func (s *source) Source() Source {
	return Source{
		Durable: func(_ context.Context, pos agentkernel.Position) error {
			s.durable = append(s.durable, pos)
			return s.fails
		},
		Journal: func(_ context.Context, from int64, fn func(agentkernel.Event) error) (last int64, done bool, err error) {
			for _, seq := range s.outputs {
				if last = seq; seq >= from {
					if err := fn(output(seq)); err != nil {
						return last, false, err
					}
				}
			}
			return last, false, nil
		},
	}
}

func output(seq int64) agentkernel.Event {
	return agentkernel.Event{Kind: agentkernel.EventOutput, Seq: seq, Text: "x"}
}

func state(seq int64, paused bool) agentkernel.Event {
	return agentkernel.Event{Kind: agentkernel.EventState, Seq: seq, Process: &agentkernel.Process{Paused: paused}}
}

func end(seq int64) agentkernel.Event {
	return agentkernel.Event{Kind: agentkernel.EventEnd, Seq: seq, Process: &agentkernel.Process{}}
}

// TestRead: a reader is told of each event once and in order, from where he was; questions, states and an idle session are
// told although what stands behind them is known.
func TestRead(t *testing.T) {
	idle := agentkernel.Event{Kind: agentkernel.EventIdle, Seq: 4, Idle: &agentkernel.Idle{}}
	ask := agentkernel.Event{Kind: agentkernel.EventAsk, Seq: 1, Ask: &agentkernel.Ask{}}
	for name, c := range map[string]struct {
		seen       int64
		untilPause bool
		events     []agentkernel.Event
		want       string
	}{
		"from the beginning":            {events: []agentkernel.Event{output(1), output(2), end(3)}, want: "output 1, output 2, end 3"},
		"what he has had":               {seen: 2, events: []agentkernel.Event{output(1), output(2), output(3), end(4)}, want: "output 3, end 4"},
		"a question of before":          {seen: 2, events: []agentkernel.Event{ask, end(4)}, want: "ask 0, end 4"},
		"a question":                    {events: []agentkernel.Event{ask, output(2), end(3)}, want: "ask 1, output 2, end 3"},
		"a question, shown once more":   {events: []agentkernel.Event{state(2, false), ask, end(4)}, want: "state 2, ask 0, end 4"},
		"nothing behind the end":        {events: []agentkernel.Event{end(1), output(2)}, want: "end 1"},
		"until a pause":                 {untilPause: true, events: []agentkernel.Event{state(1, false), state(2, true), end(3)}, want: "state 1, state 2"},
		"over a pause":                  {events: []agentkernel.Event{state(2, true), end(3)}, want: "state 2, end 3"},
		"an idle session that is late":  {events: []agentkernel.Event{output(5), idle, end(6)}, want: "output 5, idle 4, end 6"},
		"an idle session that was read": {seen: 4, events: []agentkernel.Event{idle, end(6)}, want: "end 6"},
	} {
		w, s := New(true), &source{}
		for i, ev := range c.events {
			w.Add(ev, agentkernel.Position(i+1))
		}
		var got []string
		err := w.Read(t.Context(), s.Source(), c.seen, c.untilPause, func(ev agentkernel.Event) error {
			if len(s.durable) == 0 {
				t.Errorf("%s: told before it is durable", name)
			}
			got = append(got, fmt.Sprintf("%s %d", ev.Kind, ev.Seq))
			return nil
		})
		if told := strings.Join(got, ", "); told != c.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", name, told, err, c.want)
		}
		if !slices.Equal(s.durable, []agentkernel.Position{agentkernel.Position(len(c.events))}) {
			t.Errorf("%s: waited for %v", name, s.durable)
		}
	}
}

// TestReadStops: nothing that is not durable is told, and a reader's own error ends the reading, as that of the watcher does
// when all is told.
func TestReadStops(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		durable, own, watcher error
		told                  int
	}{
		"the store":   {durable: broken, told: 0},
		"the reader":  {own: broken, told: 1},
		"the watcher": {watcher: broken, told: 2},
	} {
		w, s, told := New(false), &source{fails: c.durable}, 0
		w.Add(output(1), 1)
		w.Add(state(2, false), 2)
		if c.watcher != nil {
			w.Fail(c.watcher)
		}
		err := w.Read(t.Context(), s.Source(), 0, false, func(agentkernel.Event) error { told++; return c.own })
		if !errors.Is(err, broken) || told != c.told {
			t.Errorf("%s: told of %d, %v", name, told, err)
		}
	}
}

// TestReadOfALaggard: what a reader has left unread for too long he is told from the journal, and nothing of it twice.
func TestReadOfALaggard(t *testing.T) {
	w, s := New(false), &source{}
	big := strings.Repeat("x", 1<<20)
	for i := range 30 {
		ev := output(int64(i + 1))
		ev.Text = big
		w.Add(ev, agentkernel.Position(i+1))
		s.outputs = append(s.outputs, ev.Seq)
	}
	var got []int64
	done := errors.New("done")
	err := w.Read(t.Context(), s.Source(), 3, false, func(ev agentkernel.Event) error {
		if got = append(got, ev.Seq); ev.Seq == 30 {
			w.Add(output(20), 31)
			w.Add(end(31), 31)
		}
		if ev.Seq == 31 {
			return done
		}
		return nil
	})
	var want []int64
	for seq := int64(4); seq <= 31; seq++ {
		want = append(want, seq)
	}
	if !slices.Equal(got, want) || !errors.Is(err, done) {
		t.Errorf("%v, %v", got, err)
	}
}
