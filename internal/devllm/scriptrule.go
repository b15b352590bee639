package devllm

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentkernel/internal/lazy"
)

func (r *rule) check() error {
	if r.Answer == nil {
		return &lineError{r.line, "the rule has no answer"}
	}
	if r.Times < 0 || r.When.Turn < 0 || r.Expect.Turn < 0 {
		return &lineError{r.line, "times and turn are not below zero"}
	}
	groups := []string{"model", "turn", "user", "tool_result"}
	for _, p := range slices.Concat(r.When.patterns(), r.Expect.patterns()) {
		if p.re == nil {
			continue
		}
		for i, name := range p.re.SubexpNames() {
			groups = append(groups, strconv.Itoa(i))
			if name != "" {
				groups = append(groups, name)
			}
		}
	}
	if err := r.Answer.check(r.line, groups); err != nil {
		return err
	}
	if r.Wrong != nil {
		return r.Wrong.check(r.line, nil)
	}
	return nil
}

func (c conditions) patterns() []pattern {
	return []pattern{c.Model, c.System, c.User, c.ToolResult, c.Anywhere}
}

var quoted = lazy.Regexp(`\{\{\s*(\w+)\s*\}\}`)

// check refuses an answer that is none, or two, or that quotes a group that is not there.
func (a *reply) check(line int, groups []string) error {
	kinds := 0
	for _, there := range []bool{a.Text != "" || len(a.Calls) > 0, a.JSON != nil, a.Refusal != "", a.Tokens > 0, a.Error != nil} {
		if there {
			kinds++
		}
	}
	if kinds != 1 {
		return &lineError{line, "an answer has text and calls, or one of json, refusal, tokens and error"}
	}
	for _, c := range a.Calls {
		if c.Name == "" {
			return &lineError{line, "a call has no name"}
		}
	}
	if e := a.Error; e != nil {
		if e.Status < 400 || e.Status > 599 {
			return &lineError{line, fmt.Sprintf("the status of an error is %d, and no number from 400 to 599", e.Status)}
		}
		if d, err := time.ParseDuration(e.RetryAfter); e.RetryAfter != "" && (err != nil || d < 0) {
			return &lineError{line, fmt.Sprintf("retry_after is %q, and no time such as 2s", e.RetryAfter)}
		}
	}
	if groups == nil {
		return nil
	}
	all, err := json.Marshal([]any{a.Text, a.JSON, a.Calls, a.Refusal, a.Reasoning})
	if err != nil {
		return &lineError{line, "the answer cannot be written as JSON: " + err.Error()}
	}
	for _, m := range quoted().FindAllStringSubmatch(string(all), -1) {
		if !slices.Contains(groups, m[1]) {
			return &lineError{line, fmt.Sprintf("{{%s}} is no group of the rule's expressions", m[1])}
		}
	}
	return nil
}

// hold says whether all conditions hold, and adds the groups of their expressions.
func (c conditions) hold(r *request, groups map[string]string) bool {
	var everything strings.Builder
	everything.WriteString(r.system)
	for _, m := range r.msgs {
		everything.WriteString("\n" + m.text)
	}
	texts := []string{r.model, r.system, r.last("user"), r.toolResults(), everything.String()}
	for i, p := range c.patterns() {
		if p.text != "" && !p.find(texts[i], groups) {
			return false
		}
	}
	if c.Turn != 0 && c.Turn != r.turn() || c.Schema != nil && *c.Schema != (r.schema != nil || r.jsonMode) {
		return false
	}
	if c.Images != nil && *c.Images != r.images() {
		return false
	}
	for _, name := range c.Tools {
		if !slices.ContainsFunc(r.tools, func(t tool) bool { return t.name == name }) {
			return false
		}
	}
	return true
}

// decide is the answer of the first rule that matches; nil: none does, and there is no default.
func (s *Script) decide(r *request, srv *Server) *answer {
	for _, rule := range s.rules {
		groups := map[string]string{"model": r.model, "turn": strconv.Itoa(r.turn()), "user": r.last("user"), "tool_result": r.toolResults()}
		if !rule.When.hold(r, groups) || !s.mayUse(rule) {
			continue
		}
		name := rule.Name
		if name == "" {
			name = "line " + strconv.Itoa(rule.line)
		}
		if expected := maps.Clone(groups); rule.Expect.hold(r, expected) {
			return rule.Answer.answer(r, srv, name, expected)
		}
		if rule.Wrong == nil {
			return &answer{rule: name + " (wrong)", text: "I do not know: I was not shown what I expected."}
		}
		return rule.Wrong.answer(r, srv, name+" (wrong)", groups)
	}
	if s.fallback != nil {
		return s.fallback.answer(r, srv, "default", nil)
	}
	return nil
}

// mayUse counts a use of the rule, if it has one left.
func (s *Script) mayUse(r *rule) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Times > 0 && s.used[r] >= r.Times {
		return false
	}
	s.used[r]++
	return true
}

func (a *reply) answer(r *request, srv *Server, name string, groups map[string]string) *answer {
	fill := func(text string) string {
		return quoted().ReplaceAllStringFunc(text, func(m string) string {
			if v, ok := groups[quoted().FindStringSubmatch(m)[1]]; ok {
				return v
			}
			return m
		})
	}
	out := &answer{rule: name, text: fill(a.Text), refusal: fill(a.Refusal), reasoning: fill(a.Reasoning)}
	switch {
	case a.JSON != nil:
		out.text = compact(filled(a.JSON, fill))
	case a.Tokens > 0:
		out.text = srv.echo(r, a.Tokens)
	case a.Error != nil:
		out.fail = a.Error.failure()
	case a.Refusal != "":
		out.finish = refused
	}
	for _, c := range a.Calls {
		args := fill(c.Raw)
		if c.Raw == "" {
			args = "{}"
			if c.Arguments != nil {
				args = compact(filled(c.Arguments, fill))
			}
		}
		out.calls = append(out.calls, call{name: fill(c.Name), args: args})
	}
	return out
}

// filled is a value of YAML with its texts filled in. A text that is one group alone, of digits, becomes a number.
func filled(v any, fill func(string) string) any {
	switch v := v.(type) {
	case string:
		text := fill(v)
		if m := quoted().FindString(v); m == v && m != "" {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				return n
			}
		}
		return text
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = filled(v[i], fill)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = filled(v[k], fill)
		}
		return out
	}
	return v
}

func (e *replyError) failure() *failure {
	f := &failure{status: e.Status, message: e.Message, cause: internalFault}
	f.retry, _ = time.ParseDuration(e.RetryAfter) // it was checked
	f.noRetry = f.retry == 0
	switch e.Status {
	case http.StatusBadRequest:
		f.cause = badInput
	case http.StatusUnauthorized:
		f.cause = wrongKey
	case http.StatusNotFound:
		f.cause = noModel
	case http.StatusTooManyRequests:
		f.cause, f.limit = limited, "script"
	case http.StatusServiceUnavailable:
		f.cause = unavailable
	case 529:
		f.cause = overloaded
	}
	if f.message == "" {
		f.message = "The script says so."
	}
	return f
}
