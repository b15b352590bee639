package devllm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// decide is the answer to a request: the script's, or one of its own. Calls get their ids here.
func (s *Server) decide(r *request, n int64) *answer {
	var a *answer
	if s.opts.Script != nil {
		a = s.opts.Script.decide(r, s)
	}
	if a == nil {
		a = s.invent(r)
	}
	if r.oneCall && len(a.calls) > 1 {
		a.calls = a.calls[:1]
	}
	for i := range a.calls {
		a.calls[i].id = fmt.Sprintf("call_%06d_%d", n, i+1)
	}
	if len(a.calls) > 0 && a.finish == stopped {
		a.finish = wantsTools
	}
	return a
}

// invent is the answer without a script: a call if one is demanded, JSON if that is asked for, an echo otherwise.
func (s *Server) invent(r *request) *answer {
	a := &answer{}
	if s.opts.Reasoning > 0 {
		a.reasoning = s.filler("thinking", s.opts.Reasoning)
	}
	for _, t := range r.tools {
		if r.choice == t.name || r.choice == "required" {
			a.calls = []call{{name: t.name, args: compact(example(t.schema))}}
			return a
		}
	}
	switch {
	case r.schema != nil:
		a.text = compact(example(r.schema))
	case r.jsonMode:
		a.text = compact(map[string]any{"echo": s.echo(r, min(s.opts.EchoTokens, 16))})
	default:
		a.text = s.echo(r, s.opts.EchoTokens)
	}
	return a
}

// echo is a text of exactly n tokens, made of the words of the last message of the user.
func (s *Server) echo(r *request, n int64) string {
	text := r.last("user")
	if results := r.toolResults(); results != "" {
		text = results
	}
	return s.filler(text, n)
}

// filler is a text of exactly n tokens, made of the words of another.
func (s *Server) filler(from string, n int64) string {
	var b strings.Builder
	words := strings.Fields(from)
	for i := 0; n > 0; i++ {
		word := "ok"
		if len(words) > 0 {
			word = strings.ToValidUTF8(words[i%len(words)], "?")
		}
		if i > 0 {
			word = " " + word
		}
		size := s.tokens.count(word)
		if size > n || size > 16 {
			if word = "ok"; i > 0 {
				word = " ok"
			}
			size = 1
		}
		b.WriteString(word)
		n -= size
	}
	return b.String()
}

// cut shortens the answer to n tokens: the reasoning is made first, then text, then calls. It returns what it counts.
func (s *Server) cut(a *answer, n int64, why finish) (output, reasoning int64) {
	short := false
	take := func(text string) (string, int64) {
		text, was := s.tokens.cut(text, n)
		used := s.tokens.count(text)
		n -= used
		short = short || was
		return text, used
	}
	a.reasoning, reasoning = take(a.reasoning)
	var used int64
	a.text, used = take(a.text)
	output += used
	a.refusal, used = take(a.refusal)
	output += used
	for i := range a.calls {
		if n <= 0 {
			a.calls, short = a.calls[:i], true
			break
		}
		name := s.tokens.count(a.calls[i].name)
		n -= min(name, n)
		a.calls[i].args, used = take(a.calls[i].args)
		output += name + used
	}
	if short {
		a.finish = why
	}
	return output, reasoning
}

// compact writes JSON without spaces, and signs such as < as they are.
func compact(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "null"
	}
	return strings.TrimSuffix(b.String(), "\n")
}
