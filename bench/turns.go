package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/userland/agent"
)

var turnsSection = section{
	name: "turns", title: "A task, turn by turn",
	about: "A task as `agentkernel do` does it: in each turn a model that answers at once writes a program, and the kernel runs it. Floor: the same without the loop, a request of the same size and a program run, one after the other. " +
		"First word: `agentkernel do` at a terminal (`script`), from the moment at which the model's server has sent its first word until it is on the screen.",
	run: measureTurns,
}

const (
	// turnsGoal is what the loop may add to a turn.
	turnsGoal = 5 * time.Millisecond
	// wordGoal is how long the first word may take to the screen.
	wordGoal = 100 * time.Millisecond
	// taskTurns is how many answers a task takes: the last one ends it.
	taskTurns = 12
)

func measureTurns(ctx context.Context, b *bench) (_ []table, err error) {
	if err := os.Setenv(agentsKey, "sk-bench"); err != nil {
		return nil, err
	}
	defer func() { _ = os.Unsetenv(agentsKey) }()
	server := newScripted()
	defer server.Close()
	k, err := b.open(ctx, embedded.Config{Models: []string{server.declared()}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	request, err := converse(ctx, k, 4<<10, agentkernel.DurabilityFull) // a task of 12 turns sends 3 to 6 kB
	if err != nil {
		return nil, err
	}
	contenders := []contender{
		{name: "a request, and a program run", role: roleFloor, n: taskTurns, run: func(ctx context.Context) error {
			if _, err := request(ctx, 1); err != nil {
				return err
			}
			return runAndCheck(ctx, k, python("program.py", "print(1)"), "1\n")
		}},
		{name: fmt.Sprintf("a turn of a task of %d", taskTurns), role: roleOurs, n: taskTurns, block: func(ctx context.Context, n int) ([]time.Duration, error) {
			return wholeTask(ctx, k, n)
		}},
	}
	results, err := contest(ctx, b.pick(30, 10, 1), b.tell, contenders)
	if err != nil {
		return nil, err
	}
	rows := latencies(contenders, results)
	rows[1].judge("p50 at most "+span(turnsGoal)+" above the floor", rows[1].P50 <= rows[0].P50+micros(turnsGoal))
	word, err := b.firstWord(ctx, server)
	if err != nil {
		return nil, err
	}
	return []table{{Rows: append(rows, word)}}, nil
}

// wholeTask makes a task, and gives each of its n turns the same part of what it took.
func wholeTask(ctx context.Context, k *embedded.Kernel, n int) ([]time.Duration, error) {
	program, err := agent.Program(agent.Task{Text: "Print the numbers, one after the other."})
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	p, err := k.Run(ctx, agentkernel.Spec{Program: program}, func(agentkernel.Event) error { return nil })
	if err == nil {
		err = finished(p)
	}
	each := time.Since(begin) / taskTurns
	samples := make([]time.Duration, n)
	for i := range samples {
		samples[i] = each
	}
	return samples, err
}

// firstWord measures how long the first word of an answer takes to a screen.
func (b *bench) firstWord(ctx context.Context, server *scripted) (row, error) {
	const name = "the model's first word, on the screen"
	if _, err := exec.LookPath("script"); err != nil {
		c := absent(name, roleOurs, notInstalled)
		return latency(c, nil), nil
	}
	c, err := b.commandLine()
	if err != nil {
		return row{}, err
	}
	c.at.env = append(c.at.env, "AGENTKERNEL_MODELS="+server.declared(), agentsKey+"=sk-bench", "TERM=xterm", "NO_COLOR=1")
	defer func() { _ = c.stop() }()
	var seen []time.Duration
	n := b.pick(40, 15, 2)
	for i := range n + 1 {
		d, err := c.watch(ctx, server)
		if err != nil {
			return row{}, err
		}
		if i > 0 { // the first one starts the kernel
			seen = append(seen, d)
		}
		if i%10 == 0 {
			b.tell("first word %d of %d", i, n)
		}
	}
	r := latency(contender{name: name, role: roleOurs}, series{seen})
	r.judge("p99 at most "+span(wordGoal), r.P99 <= micros(wordGoal))
	return r, nil
}

// watch does a task at a terminal, and gives how much later than the server has sent it the first word is there.
func (c commandLine) watch(ctx context.Context, server *scripted) (_ time.Duration, err error) {
	cmd := exec.CommandContext(ctx, "script", "-qefc", c.path+" do 'Print the numbers, one after the other.'", "/dev/null")
	cmd.Dir, cmd.Env = c.at.dir, c.at.env
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cmd.Wait()) }()
	screen, shown := bufio.NewReader(out), ""
	for !strings.Contains(shown, firstWord) {
		ch, _, err := screen.ReadRune()
		if err != nil {
			return 0, fmt.Errorf("the screen shows %.500q: %w", shown, err)
		}
		shown += string(ch)
	}
	took := time.Since(server.said())
	_, err = io.Copy(io.Discard, screen)
	return took, err
}

// firstWord is what no program and no task says.
const firstWord = "Certainly"

// scripted is a server that has a task print a number in each turn, and ends it in the last one. It answers at once.
type scripted struct {
	*httptest.Server
	mu    sync.Mutex
	spoke time.Time // when the first word of the last first turn was sent
}

func newScripted() *scripted {
	s := &scripted{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	return s
}

func (s *scripted) declared() string {
	return "fast openai:bench url=" + s.URL + "/v1 key=env:" + agentsKey + " price=1/10"
}

func (s *scripted) said() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spoke
}

func (s *scripted) answer(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Stream   bool `json:"stream"`
		Messages []struct {
			Role string `json:"role"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	turn := 1
	for _, m := range asked.Messages {
		if m.Role == "assistant" {
			turn++
		}
	}
	function, args := "run_python", fmt.Sprintf(`{"code":"print(%d)"}`, turn)
	if turn >= taskTurns {
		function, args = "finish", `{"result":"done"}`
	}
	call := fmt.Sprintf(`{"index":0,"id":"c%d","type":"function","function":{"name":%q,"arguments":%q}}`, turn, function, args)
	const usage = `"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}`
	if !asked.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"1","object":"chat.completion","model":"bench","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"%s.","tool_calls":[%s]}}],%s}`, firstWord, call, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s.chunk(w, fmt.Sprintf(`"choices":[{"index":0,"delta":{"role":"assistant","content":"%s, "}}]`, firstWord))
	if turn == 1 {
		s.mu.Lock()
		s.spoke = time.Now()
		s.mu.Unlock()
	}
	s.chunk(w, fmt.Sprintf(`"choices":[{"index":0,"delta":{"tool_calls":[%s]}}]`, call))
	s.chunk(w, `"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]`)
	s.chunk(w, `"choices":[],`+usage)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func (s *scripted) chunk(w http.ResponseWriter, fields string) {
	fmt.Fprintf(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"model\":\"bench\",%s}\n\n", fields)
	_ = http.NewResponseController(w).Flush()
}
