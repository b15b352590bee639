package mcpserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"agentkernel"
)

// maxOutput is how much of a stream goes back to the model; the process keeps all of it.
const maxOutput = 32 << 10

// output is what a call answers about a program that has run.
func (w *watch) output(p agentkernel.Process, result json.RawMessage, failure *agentkernel.Error) *executeOutput {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := &executeOutput{PID: int64(p.PID), State: string(p.State), Stdout: w.stdout.text(p.PID), Stderr: w.stderr.text(p.PID), ExitCode: p.ExitCode}
	switch {
	case len(result) == 0 || string(result) == "null":
	case len(result) > maxResult:
		out.Note = fmt.Sprintf("the result has %d bytes and is left out; print what you need of it", len(result))
	default:
		out.Result = result
	}
	if failure != nil {
		out.Error = explain(failure)
		out.ExitCode = max(out.ExitCode, failure.Code.ExitCode())
	}
	return out
}

// timedOut is the answer of a piece that was stopped.
func (w *watch) timedOut(s *session, timeout time.Duration, kept bool) *executeOutput {
	e := agentkernel.Errorf(agentkernel.CodeTimeout, "execute_code", "the code ran longer than %s and was stopped", timeout).
		WithHint("give a longer timeout, or dispatch_background_task")
	out := w.output(agentkernel.Process{PID: s.pid, State: agentkernel.StateKilled}, nil, e)
	if kept {
		out.Session, out.State = s.pid.String(), "failed"
	} else {
		out.Note = "its session ended with it; the next call begins a new one"
	}
	return out
}

func (o *executeOutput) failed() bool { return o.Error != nil || o.ExitCode != 0 }

// text is what a model reads: output first, then result or error.
func (o *executeOutput) text() string {
	var b strings.Builder
	b.WriteString(o.Stdout)
	section := func(title, text string) {
		if text == "" {
			return
		}
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(title + text)
	}
	section("stderr:\n", o.Stderr)
	section("result: ", string(o.Result))
	if e := o.Error; e != nil {
		section("", e.text())
	}
	section("note: ", o.Note)
	if b.Len() == 0 {
		return "(no output; print what you need)"
	}
	return b.String()
}

func (e *programError) text() string {
	text := strings.TrimRight(e.Traceback, "\n")
	if text != "" {
		text += "\n"
	}
	if e.Traceback == "" || !strings.Contains(e.Traceback, e.Message) {
		text += e.Code + ": " + e.Message
	}
	if e.Try != "" {
		text = strings.TrimRight(text, "\n") + "\ntry: " + e.Try
	}
	return text
}

// explain gives traceback, message and what to try.
func explain(e *agentkernel.Error) *programError {
	p := &programError{Code: string(e.Code), Message: e.Message(), Traceback: e.Traceback, Try: e.Hint}
	if p.Try != "" {
		return p
	}
	for _, known := range []struct{ says, try string }{
		{"string indices must be integers", "the value is text; if it holds JSON: json.loads(value)"},
		{"'str' object has no attribute", "the value is text; if it holds JSON: json.loads(value)"},
		{"KeyError", "look at what is there first: print(repr(value)[:500])"},
		{"list index out of range", "look at what is there first: print(repr(value)[:500])"},
		{"NameError", "define or import it; session \"new\" and a stopped session lose variables"},
		{"'NoneType' object", "a call before returned None: print what each step returns"},
	} {
		if strings.Contains(p.Message, known.says) {
			p.Try = known.try
			break
		}
	}
	return p
}

// capped keeps the beginning and the end of a stream.
type capped struct {
	head  strings.Builder
	tail  string
	total int
}

func (c *capped) add(s string) {
	c.total += len(s)
	if room := maxOutput*3/4 - c.head.Len(); room > 0 {
		cut := min(room, len(s))
		for cut < len(s) && cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		c.head.WriteString(s[:cut])
		s = s[cut:]
	}
	c.tail += s
	if over := len(c.tail) - maxOutput/4; over > maxOutput {
		c.tail = c.tail[over:]
	}
}

func (c *capped) text(pid agentkernel.PID) string {
	over := len(c.tail) - maxOutput/4
	if over <= 0 && c.head.Len()+len(c.tail) == c.total {
		return c.head.String() + c.tail
	}
	tail := c.tail
	if over > 0 {
		tail = tail[over:]
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return fmt.Sprintf("%s\n[%d bytes left out; the whole output: %s]\n%s", c.head.String(), c.total-c.head.Len()-len(tail), outputURI(pid), tail)
}
