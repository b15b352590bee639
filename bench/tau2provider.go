package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/tiktoken-go/tokenizer"

	"agentkernel/internal/devllm"
)

// provider is devllm with another script for each task. It keeps what it is sent and what it answers.
type provider struct {
	url   string
	web   *httptest.Server
	codec tokenizer.Codec

	mu        sync.Mutex
	script    func(firstRequest string) (string, []code)
	programs  []code       // of the script
	model     http.Handler // since the first request of the task
	exchanged []exchange
}

// exchange is a request that was answered.
type exchange struct{ request, answer []byte }

func newProvider() (*provider, error) {
	p := &provider{}
	var err error
	if p.codec, err = tokenizer.Get(tokenizer.O200kBase); err != nil {
		return nil, err
	}
	p.web = httptest.NewServer(p)
	p.url = p.web.URL
	return p, nil
}

// begin begins a task. The script may depend on what the first request shows; the programs are those that it writes.
func (p *provider) begin(script func(firstRequest string) (string, []code)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script, p.programs, p.model, p.exchanged = script, nil, nil, nil
}

// ServeHTTP answers as the script of the task says.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err == nil && p.model == nil {
		err = p.start(string(body))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	p.model.ServeHTTP(answer, r)
	if r.Method == http.MethodPost && answer.Code == http.StatusOK {
		p.exchanged = append(p.exchanged, exchange{body, bytes.Clone(answer.Body.Bytes())})
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // a client that is gone needs no answer
}

func (p *provider) start(request string) error {
	if p.script == nil {
		return errors.New("no task has begun")
	}
	text, programs := p.script(request)
	o := devllm.Options{}
	var err error
	if o.Script, err = devllm.ParseScript("tau2", []byte(text)); err != nil {
		return err
	}
	o.Profile, _ = devllm.ProfileByName("openai")
	o.Profile.Limits = devllm.Limits{} // tokens are counted here, not rationed
	p.programs = programs
	p.model, err = devllm.New(o)
	return err
}

// cost is what a task cost in one way.
type cost struct {
	once, sent int // tokens that the model reads and writes: what is sent again counted once, or each time
	written    int // of both: what the model writes
	turns      int
	lines      int // of programs
}

// cost counts the requests since the task began.
func (p *provider) cost() (c cost, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, program := range p.programs {
		c.lines += program.lines()
	}
	known := 0 // messages that were read before
	for i, e := range p.exchanged {
		var request struct {
			Tools    []struct{ Function function }
			Messages []message
		}
		var answer struct{ Choices []struct{ Message message } }
		if err := errors.Join(json.Unmarshal(e.request, &request), json.Unmarshal(e.answer, &answer)); err != nil {
			return c, err
		}
		if len(request.Messages) <= known || len(answer.Choices) != 1 {
			return c, fmt.Errorf("request %d has %d messages and %d answers", i+1, len(request.Messages), len(answer.Choices))
		}
		c.turns++
		for _, t := range request.Tools {
			text, err := t.Function.declared()
			if err == nil {
				err = c.read(p.codec, text, i == 0)
			}
			if err != nil {
				return c, err
			}
		}
		for n, m := range request.Messages {
			if err := c.read(p.codec, m.text(), n >= known && m.Role != "assistant"); err != nil { // what the model wrote is counted as that
				return c, err
			}
		}
		known = len(request.Messages)
		if err := c.write(p.codec, answer.Choices[0].Message.text()); err != nil {
			return c, err
		}
	}
	return c, nil
}

// function is a tool as OpenAI has it.
type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// declared is the declaration of the tool as bench/tokens counts it.
func (f function) declared() (string, error) {
	raw, err := json.Marshal(map[string]any{"name": f.Name, "description": f.Description, "input_schema": f.Parameters})
	return string(raw), err
}

// message is one of a conversation, as OpenAI has it.
type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// toolCall is a call that a model wants.
type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// text is what of the message the model reads or writes, as bench/tokens counts it: its words and its calls.
func (m message) text() string {
	text := m.Content
	for _, c := range m.ToolCalls {
		text += fmt.Sprintf(`{"name":%q,"input":%s}`, c.Function.Name, c.Function.Arguments)
	}
	return text
}

func (c *cost) read(codec tokenizer.Codec, text string, isNew bool) error {
	n, err := codec.Count(text)
	if c.sent += n; isNew {
		c.once += n
	}
	return err
}

func (c *cost) write(codec tokenizer.Codec, text string) error {
	n, err := codec.Count(text)
	c.written, c.once, c.sent = c.written+n, c.once+n, c.sent+n
	return err
}
