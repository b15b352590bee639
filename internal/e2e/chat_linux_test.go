package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/devllm"
	"agentkernel/internal/tool/tooltest"
	"agentkernel/userland/agent"
)

// chatScript is a model that keeps a number in a variable, and adds to it when it is asked the next thing.
const chatScript = `
rules:
  - when: {user: remember, turn: 1, system: This is a conversation, tools: [run_python, finish]}
    answer: {calls: [{name: run_python, arguments: {code: "kept = 35\nprint('kept', kept)"}}]}
  - when: {user: remember, tool_result: kept 35}
    answer: {calls: [{name: finish, arguments: {result: It is kept.}}]}
  - when: {user: add seven, tool_result: '/printed:\n42/'}
    answer: {calls: [{name: finish, arguments: {result: 42}}]}
  - when: {user: add seven, anywhere: kept 35}
    answer: {calls: [{name: run_python, arguments: {code: "print(kept + 7)"}}]}
  - when: {user: hello, anywhere: the user was shown it}
    answer: {text: Hello to you.}
  - when: {user: wait}
    answer: {calls: [{name: run_python, arguments: {code: "import time\nprint('waits')\ntime.sleep(3600)"}}]}
  - when: {user: compute}
    answer: {calls: [{name: run_python, arguments: {code: "while True: pass"}}]}
  - when: {user: go round}
    answer: {calls: [{name: run_python, arguments: {code: "print({{turn}})"}}]}
  - when: {user: write}
    answer: {calls: [{name: run_python, arguments: {code: "from tools.lines import append_line\nappend_line(path='FILE', text='x')"}}]}
default: {error: {status: 400, message: this was not to be shown}}
`

// chatting is a conversation with the model of a script, in a kernel that can be killed.
type chatting struct {
	t     *testing.T
	dir   string
	v     *victim
	k     agentkernel.Kernel
	model *devllm.Server
	pid   agentkernel.PID
	n     int
}

func chat(t *testing.T, script string, turns int) *chatting {
	t.Helper()
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	t.Setenv(envSandboxes, systemPython(t))
	c := &chatting{t: t, dir: home(t)}
	parsed, err := devllm.ParseScript("answers.yaml", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	var model string
	c.model, model = devModels(t, func(o *devllm.Options) { o.Script, o.FirstToken = parsed, 10*time.Millisecond })
	t.Setenv(envModels, model)
	c.boot()
	program, err := agent.Chat(agent.Task{Turns: turns, Servers: []string{"lines"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.k.Spawn(t.Context(), agentkernel.Spec{Program: program, Backend: "process", Interactive: true, OnBudget: agentkernel.BudgetRaise,
		Tools: []string{tooltest.Config(t, map[string]tooltest.Server{"lines": tooltest.Stdio(t)})}})
	if err != nil {
		t.Fatal(err)
	}
	c.pid = p.PID
	c.rests()
	return c
}

func (c *chatting) boot() {
	c.v = startVictim(c.t, c.dir)
	c.k = c.v.client(c.t, c.dir)
}

// rests returns when the conversation waits for the user.
func (c *chatting) rests() {
	c.t.Helper()
	eventually(c.t, "the conversation waits for the user", func() bool {
		p, err := c.k.Process(c.t.Context(), c.pid)
		return err == nil && strings.Join(p.WaitsFor, " ") == "proc.next"
	})
}

// say says something, and gives what is on standard output and standard error then. hears is told of each event; nil: nobody is.
func (c *chatting) say(text string, hears func(agentkernel.Event) error) (stdout, stderr string, err error) {
	c.t.Helper()
	c.n++
	end, err := c.k.Feed(c.t.Context(), c.pid, agentkernel.Cell{Name: fmt.Sprintf("said %d", c.n), Source: agent.Said(text, 0)}, func(ev agentkernel.Event) error {
		switch {
		case ev.Kind != agentkernel.EventOutput:
		case ev.Stream == "stderr":
			stderr += ev.Text
		default:
			stdout += ev.Text
		}
		if hears != nil {
			return hears(ev)
		}
		return nil
	})
	if err == nil && end.Error != nil {
		stderr += "!" + string(end.Error.Code)
	}
	return stdout, stderr, err
}

// TestChat: each thing is said with all before it and with the variables of the programs; words alone are an answer; and what comes to none, or is
// interrupted, leaves the conversation where it was.
func TestChat(t *testing.T) {
	c := chat(t, chatScript, 3)
	interrupt := func(at string) func(agentkernel.Event) error {
		return func(ev agentkernel.Event) error {
			if !strings.Contains(ev.Text, at) {
				return nil
			}
			return c.k.Signal(t.Context(), c.pid, agentkernel.SignalInterrupt)
		}
	}
	for _, turn := range []struct {
		says   string
		hears  func(agentkernel.Event) error
		stdout string
		stderr string // contains
	}{
		{"remember 35", nil, "It is kept.\n", "ended well · 1 line: kept 35\n"},
		{"add seven", nil, "42\n", ""},
		{"hello", nil, "Hello to you.\n", "turn 1 · Hello to you. · $"},
		{"go round and round", nil, "", "no answer: it has taken 3 turns\n"},
		{"compute without end", interrupt("while True"), "", "!interrupted"},
		{"add seven", nil, "42\n", ""},
		{"wait", interrupt("program"), "", "interrupted"},
		{"add seven \" \\ \u2028 ü", nil, "42\n", ""},
	} {
		stdout, stderr, err := c.say(turn.says, turn.hears)
		if err != nil || stdout != turn.stdout || !strings.Contains(stderr, turn.stderr) {
			t.Errorf("%s: %q, %v\n%s", turn.says, stdout, err, stderr)
		}
	}
	if p, err := c.k.EndSession(t.Context(), c.pid); err != nil || p.State != agentkernel.StateExited {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestChatAsks: a tool that changes things is asked about, and the answer is the model's to know.
func TestChatAsks(t *testing.T) {
	c := chat(t, strings.Replace(chatScript, "FILE", t.TempDir()+"/lines", 1), 1)
	asked := 0
	_, stderr, err := c.say("write a line", func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventAsk {
			asked++
			return c.k.Answer(t.Context(), ev.PID, ev.Ask.ID, agentkernel.AnswerNo)
		}
		return nil
	})
	if err != nil || asked != 1 || !strings.Contains(stderr, "failed: ") || !strings.Contains(stderr, "append_line may change things") {
		t.Errorf("%v, asked %d times\n%s", err, asked, stderr)
	}
}

// TestChatOverAKill kills the kernel at steps of the second thing that is said, one of three; AGENTKERNEL_SOAK takes all. The next kernel brings it to its answer: the model is asked nothing
// again that is in the journal, and the conversation goes on with all that was said and with the variables.
func TestChatOverAKill(t *testing.T) {
	var steps []int64
	for at := int64(0); ; {
		c := chat(t, chatScript, 20)
		if out, stderr, err := c.say("remember 35", nil); out != "It is kept.\n" || err != nil {
			t.Fatalf("%q, %v\n%s", out, err, stderr)
		}
		before, err := c.k.Journal(t.Context(), c.pid, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		if at == 0 { // how many steps there are
			if out, stderr, err := c.say("add seven", nil); out != "42\n" || err != nil {
				t.Fatalf("%q, %v\n%s", out, err, stderr)
			}
			after, err := c.k.Journal(t.Context(), c.pid, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			for n := int64(len(before)) + 1; n <= int64(len(after)); n++ {
				steps = append(steps, n)
			}
			steps = sample(steps, 3)
		} else {
			said := make(chan struct{})
			go func() {
				defer close(said)
				_, _, _ = c.say("add seven", nil)
			}()
			k := c.v.client(t, c.dir)
			eventually(t, fmt.Sprintf("the journal has %d entries", at), func() bool {
				entries, err := k.Journal(t.Context(), c.pid, 1, 0)
				return err == nil && int64(len(entries)) >= at
			})
			c.v.kill()
			<-said
			c.boot()
			c.rests()
			if out := stdoutOf(t, c.k, c.pid); out != "It is kept.\n42\n" {
				t.Errorf("killed at entry %d, it has printed %q", at, out)
			}
		}
		if out, stderr, err := c.say("hello", nil); out != "Hello to you.\n" || err != nil {
			t.Errorf("killed at entry %d: %q, %v\n%s", at, out, err, stderr)
		}
		if out, stderr, err := c.say("add seven", nil); out != "42\n" || err != nil {
			t.Errorf("killed at entry %d: %q, %v\n%s", at, out, err, stderr)
		}
		asked := 0
		for _, e := range c.model.Log(devllm.Filter{}) {
			if e.Rule != "" || e.Status == 200 {
				asked++
			}
		}
		if asked < 7 || asked > 8 { // one request may have been cut off
			t.Errorf("killed at entry %d, the model was asked %d times", at, asked)
		}
		c.v.kill()
		if len(steps) == 0 {
			return
		}
		at, steps = steps[0], steps[1:]
	}
}
