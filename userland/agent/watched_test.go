package agent_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/devllm"
	"agentkernel/userland/agent"
)

const inText = `
rules:
  - when: {tools: [run_python], turn: 1}
    answer: {error: {status: 400, message: gpt-dev does not support tools}}
  - when: {turn: 1}
    answer: {text: "I compute it ` + "`at once`" + `, since nothing is easier than that, and then I say what came of it.\n` + "```" + `python\nprint(6 * 7)\nprint('shown')\n` + "```" + `"}
  - when: {turn: 2, user: '/program 1 ended well. It printed:\n42/'}
    answer: {text: "FINAL: 42 it is."}
default: {error: {status: 400, message: this was not to be shown}}
`

// Where somebody watches, the model's words come as it says them, in front of what follows from them; the program in them is told of by its first
// line, and of what it printed is told where all of it is.
func TestWatched(t *testing.T) {
	r := newRig(t, inText, func(o *devllm.Options) { o.FirstToken, o.PerToken = 50*time.Millisecond, 20*time.Millisecond })
	_, stdout, stderr := r.do(agent.Task{Text: "compute it", Watched: true}, nil)
	want := "I compute it `at once`, since nothing is easier than that, and then I say what came of it.\n\nturn 1 · $"
	if _, after, ok := strings.Cut(stderr, want); stdout != "42 it is.\n" || !ok || strings.Contains(after, "print('shown')") ||
		!strings.Contains(after, "program 1, 2 lines, pid 2: print(6 * 7)\n  ended well · 2 lines: 42 shown · all of it: agentkernel logs 2\n") {
		t.Errorf("%q\n%s", stdout, stderr)
	}
	if strings.Contains(stderr, "```") {
		t.Errorf("it shows where a program begins:\n%s", stderr)
	}
	words, first := 0, time.Time{}
	for _, e := range r.events {
		if e.Kind != agentkernel.EventOutput || e.Stream != "stderr" {
			continue
		}
		if strings.HasPrefix(e.Text, "I comp") {
			first = e.At
		}
		if strings.Contains(e.Text, "turn 1 · $") {
			break
		}
		if !first.IsZero() {
			words++
		}
	}
	if words < 5 {
		t.Errorf("the words came in %d pieces", words)
	}
	for _, e := range r.model.Log(devllm.Filter{}) {
		if e.Status == 200 && first.After(e.Time) {
			t.Logf("the first word was printed %v after the model was asked, whose first token takes 50 ms", first.Sub(e.Time))
		}
	}
}

// An answer that breaks off is asked for once more, and what was shown of it stays shown.
func TestWatchedBreaksOff(t *testing.T) {
	r := newRig(t, inText, func(o *devllm.Options) { o.Faults = []devllm.Fault{{Kind: "cut", AfterEvents: 4, Skip: 1}} })
	_, stdout, stderr := r.do(agent.Task{Text: "compute it", Watched: true}, nil)
	if stdout != "42 it is.\n" || !strings.Contains(stderr, "\nthe answer broke off (") || !strings.Contains(stderr, "); it is asked for once more\nturn 1 · $") {
		t.Errorf("%q\n%s", stdout, stderr)
	}
	if n := len(r.model.Log(devllm.Filter{})); n != 4 {
		t.Errorf("the model was asked %d times", n)
	}
}

// A model that stalls breaks off as well, though programs know that as another exception.
func TestStalls(t *testing.T) {
	for _, watched := range []bool{false, true} {
		r := newRig(t, inText)
		asked := 0
		r.status = func() int {
			if asked++; asked == 1 {
				return http.StatusGatewayTimeout
			}
			return 0
		}
		p, stdout, stderr := r.do(agent.Task{Text: "compute it", Watched: watched}, nil)
		if p.ExitCode != 0 || stdout != "42 it is.\n" || !strings.Contains(stderr, "the answer broke off (timeout: ") ||
			strings.Count(stderr, "); it is asked for once more\n") != 1 {
			t.Errorf("watched %v: %d, %q\n%s", watched, p.ExitCode, stdout, stderr)
		}
	}
}

// The same holds where nobody watches, and for an answer of which not a bit came. One that breaks off twice ends the task.
func TestBreaksOff(t *testing.T) {
	for _, c := range []struct {
		name    string
		fault   devllm.Fault
		watched bool
		asked   int
		ends    bool
	}{
		{"cut", devllm.Fault{Kind: "cut", Skip: 1}, false, 4, false},
		{"cut in the middle", devllm.Fault{Kind: "cut", AfterEvents: 4, Skip: 2}, false, 4, false},
		{"malformed", devllm.Fault{Kind: "malformed", Skip: 1}, false, 4, false},
		{"cut before the first bit", devllm.Fault{Kind: "cut", Skip: 1}, true, 4, false},
		{"cut twice", devllm.Fault{Kind: "cut", Skip: 1, Count: 2}, false, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, inText, func(o *devllm.Options) { o.Faults = []devllm.Fault{c.fault} })
			_, stdout, stderr := r.do(agent.Task{Text: "compute it", Watched: c.watched}, nil)
			if ended := strings.Contains(stderr, "the task is not done: the model cannot be asked: its answer broke off twice: unavailable: "); (stdout != "42 it is.\n") != c.ends || ended != c.ends ||
				strings.Count(stderr, "); it is asked for once more\n") != 1 {
				t.Errorf("%q\n%s", stdout, stderr)
			}
			if strings.Contains(stderr, "sent again") || c.ends && !strings.Contains(stderr, "; ask again later, or another model with --model") {
				t.Errorf("what is said of it contradicts what was done:\n%s", stderr)
			}
			if n := len(r.model.Log(devllm.Filter{})); n != c.asked {
				t.Errorf("the model was asked %d times", n)
			}
		})
	}
}
