package mcpserver

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
)

// What goes back to the model of one program. The process keeps all of it, and the answer says where.
const (
	maxOutput  = 32 << 10 // bytes of a stream
	maxResult  = 32 << 10 // bytes of a result
	maxPreview = 2 << 10  // bytes of a result that is larger
)

// output is what a call answers about a program that has run.
func (w *watch) output(p agentkernel.Process, result json.RawMessage, failure *agentkernel.Error) *executeOutput {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := max(p.Usage.Output-w.printed, 0)
	out := &executeOutput{PID: int64(p.PID), State: string(p.State), ExitCode: p.ExitCode, ran: p.Usage.Syscalls > 0 || p.Usage.Output > 0}
	for _, s := range []struct {
		from *capped
		to   *string
	}{{&w.stdout, &out.Stdout}, {&w.stderr, &out.Stderr}} {
		text, cut := s.from.text(p.PID, began)
		if *s.to = text; cut {
			out.links = append(out.links, link{outputURI(p.PID, began), "output", "Everything that the program printed.", "text/plain", w.printed})
		}
	}
	if len(out.links) > 1 { // one address for both streams
		out.links = out.links[:1]
	}
	if string(result) != "null" {
		out.take(result, resultURI(p.PID, w.idle))
	}
	if failure != nil {
		if failure.Hint == "" { // a cell of a session failed, which is no end of a process: the kernel has not looked for one
			failure = failure.WithHint("%s", w.c.h.cfg.Spec.Boundary(failure.Message()+"\n"+failure.Traceback))
		}
		out.Error = explain(w.c.h.withPackages(failure))
		out.ExitCode = max(out.ExitCode, failure.Code.ExitCode())
	}
	if left := p.LeftBehind(); left != "" {
		out.addNote(left)
	}
	for _, call := range p.UnderWay {
		out.addNote(agentkernel.InDoubt(call))
	}
	return out
}

// take puts a result into the answer: its images as images, and what is too large as its beginning and its address.
func (o *executeOutput) take(result json.RawMessage, uri string) {
	if len(result) == 0 {
		return
	}
	full := len(result)
	result, o.images = extractImages(result, uri)
	if len(result) <= maxResult {
		o.Result = result
		return
	}
	o.preview = string(result[:maxPreview])
	o.Note = fmt.Sprintf("the result has %d bytes and is left out here. The whole: %s; in a session: keep it in a variable and print the part that you need", full, uri)
	o.links = append(o.links, link{uri, "result", "The whole result.", "application/json", int64(full)})
}

// link is the address of what an answer leaves out.
type link struct {
	uri, name, say, mime string
	size                 int64
}

// attached are the images of an answer and the addresses of what it leaves out.
func (o *executeOutput) attached(links bool) []mcp.Content {
	var out []mcp.Content
	for _, i := range o.images {
		out = append(out, &mcp.ImageContent{Data: i.data, MIMEType: i.mime})
	}
	for _, l := range o.links {
		if links {
			out = append(out, &mcp.ResourceLink{URI: l.uri, Name: l.name, Description: l.say, MIMEType: l.mime, Size: &l.size})
		}
	}
	return out
}

// timedOut is the answer of a cell that was stopped; p is its session as it stands.
func (w *watch) timedOut(p agentkernel.Process, timeout time.Duration, kept bool) *executeOutput {
	e := agentkernel.Errorf(agentkernel.CodeTimeout, "execute_code", "the code ran longer than %s and was stopped", timeout).
		WithHint("give a longer timeout, or dispatch_background_task; calls that it made stay made")
	pid := p.PID
	p.State, p.ExitCode = agentkernel.StateKilled, 0
	out := w.output(p, nil, e)
	switch {
	case kept:
		out.Session, out.State = pid.String(), "failed"
	case w.session:
		out.Note = "its session ended with it; the next call begins a new one"
	}
	return out
}

// addNote says one thing more about an answer.
func (o *executeOutput) addNote(text string) {
	if o.Note != "" {
		o.Note += "; "
	}
	o.Note += agentkernel.OverMCP.Hint(text)
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
	section("result, the beginning: ", o.preview)
	if e := o.Error; e != nil {
		section("", e.text())
	} else if o.ExitCode != 0 { // it has ended so by itself
		section("exit code ", strconv.Itoa(o.ExitCode))
	}
	section("artifacts:", o.artifactText())
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
	p := &programError{Code: string(e.Code), Message: e.Message(), Traceback: e.Traceback, Try: agentkernel.OverMCP.Hint(e.Hint)}
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
		{"wall limit", "give a longer timeout; calls that it made stay made"},
	} {
		if strings.Contains(p.Message, known.says) {
			p.Try = known.try
			break
		}
	}
	return p
}

// withFlags are the packages that a hint at the command line names.
var withFlags = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`run it with --with [\w.-]+(?: --with [\w.-]+)*`) })

// withPackages says what brings a package that a program lacks: the argument of execute_code, or whoever may allow it.
func (s *server) withPackages(e *agentkernel.Error) *agentkernel.Error {
	return e.WithHint("%s", withFlags().ReplaceAllStringFunc(e.Hint, func(flags string) string {
		names := strings.Split(flags, "--with ")[1:]
		for i, name := range names {
			names[i] = strconv.Quote(strings.TrimSpace(name))
		}
		list := "packages [" + strings.Join(names, ", ") + "]"
		if s.cfg.Packages != nil {
			return "run it with " + list
		}
		return "agentkernel mcp --allow-packages allows " + list
	}))
}

// capped keeps the beginning and the end of a stream.
type capped struct {
	head  strings.Builder
	tail  string
	total int
	full  int64 // where in all that the program printed the head was full; -1: it is not
}

// add takes text that begins at a position in all that the program printed.
func (c *capped) add(s string, at int64) {
	if c.total == 0 {
		c.full = -1
	}
	c.total += len(s)
	if room := maxOutput*3/4 - c.head.Len(); room > 0 && c.full < 0 {
		cut := min(room, len(s))
		for cut < len(s) && cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		c.head.WriteString(s[:cut])
		s, at = s[cut:], at+int64(cut)
	}
	if s != "" && c.full < 0 {
		c.full = at
	}
	c.tail += s
	if over := len(c.tail) - maxOutput/4; over > maxOutput {
		c.tail = strings.Clone(c.tail[over:])
	}
}

// text is the stream as far as the model gets it; cut says that something is left out. began is where the
// program's output begins in that of its process.
func (c *capped) text(pid agentkernel.PID, began int64) (text string, cut bool) {
	over := len(c.tail) - maxOutput/4
	if over <= 0 && c.head.Len()+len(c.tail) == c.total {
		return c.head.String() + c.tail, false
	}
	tail := c.tail
	if over > 0 {
		tail = tail[over:]
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return fmt.Sprintf("%s\n[%d bytes left out; they begin at %s; the whole output: %s]\n%s", c.head.String(), c.total-c.head.Len()-len(tail),
		outputURI(pid, began+c.full), outputURI(pid, began), tail), true
}
