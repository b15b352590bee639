package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/sse"
)

// Exchange is a request and its answer. One goroutine uses it.
type Exchange struct {
	server  *Server
	call    Call
	parent  context.Context // of whoever asked
	ctx     context.Context
	cancel  context.CancelCauseFunc
	silence *time.Timer
	idle    time.Duration
	key     string
	sent    atomic.Bool // the server may have the request
	resp    *http.Response
	head    llm.Head
	left    int64 // bytes that the body may still have
	// What of the answer was told, in bytes.
	text, reasoning int64
	began           bool
	ended           bool
}

// errTooLarge ends an answer that has more bytes than it may have.
var errTooLarge = errors.New("the answer is too large")

// malformed is what is wrong with an answer.
type malformed string

func (m malformed) Error() string { return string(m) }

// Malformed is an error of the kind [llm.Malformed]. It says what is wrong with the answer, and repeats nothing of it.
func Malformed(format string, args ...any) error { return malformed(fmt.Sprintf(format, args...)) }

// refused is an error of whoever is told of an answer.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// readHead tells of the head, and reads the body of a failure.
func (x *Exchange) readHead() *llm.Error {
	d, h := x.server.dialect, x.resp.Header
	x.head.Status = x.resp.StatusCode
	for _, name := range d.RequestIDs {
		if x.head.RequestID = clean(h.Get(name)); x.head.RequestID != "" {
			break
		}
	}
	if d.Limits != nil {
		x.head.Limits = d.Limits(h, serverTime(h, time.Now()))
	}
	if x.call.Watch.Head != nil {
		x.call.Watch.Head(x.head)
	}
	if x.head.Status == http.StatusOK {
		if coding := h.Get("Content-Encoding"); coding != "" && coding != "identity" {
			return x.fail(Malformed("the answer is compressed, which was not asked for"))
		}
		if kind, _, _ := mime.ParseMediaType(h.Get("Content-Type")); kind == "text/html" {
			return x.fail(Malformed("the answer is a web page: is the base URL that of the API?"))
		}
		return nil
	}
	if x.head.Status/100 == 3 {
		e := x.newError(llm.Invalid)
		e.Message = "the server redirects to another address, where the key will not be sent: set the base URL to that address"
		return e
	}
	x.left = min(x.left, maxFailure)
	body, err := io.ReadAll(x)
	if err != nil && x.ctx.Err() != nil {
		return x.fail(err)
	}
	return x.Refuse(d.Fault(body), nil) // half of what it says is better than nothing
}

// RequestID is the server's name for the request; "": it gives none.
func (x *Exchange) RequestID() string { return x.head.RequestID }

// Events says whether the answer is a stream of events, or of lines of JSON; else it comes in one piece, asked for or not.
func (x *Exchange) Events() bool {
	kind, _, err := mime.ParseMediaType(x.resp.Header.Get("Content-Type"))
	return x.call.Stream && (err != nil || kind != "application/json")
}

// Stream reads the events of an answer.
func (x *Exchange) Stream() *sse.Reader { return sse.NewReader(x, x.most()) }

// Lines reads the lines of an answer.
func (x *Exchange) Lines() *sse.Lines { return sse.NewLines(x, x.most()) }

func (x *Exchange) most() int { return int(min(x.server.most(x.call), 1<<30)) }

// Read reads the body of an answer. It waits no longer than the server may be silent.
func (x *Exchange) Read(p []byte) (int, error) {
	if x.left <= 0 {
		return 0, errTooLarge
	}
	x.silence.Reset(x.idle)
	n, err := x.resp.Body.Read(p[:min(int64(len(p)), x.left)])
	x.silence.Stop() // how long whoever is told takes does not count
	x.left -= int64(n)
	if errors.Is(err, io.EOF) {
		x.ended = true
	}
	return n, err
}

// JSON reads an answer that comes in one piece. The error is an [*llm.Error].
func (x *Exchange) JSON(v any) error {
	body, err := x.All()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return x.Fail(err, nil)
	}
	return nil
}

// All is the body of an answer in one piece. The error is an [*llm.Error].
func (x *Exchange) All() ([]byte, error) {
	x.left++ // one byte more, to see that there is none
	body, err := io.ReadAll(x)
	if err == nil && x.left == 0 {
		err = errTooLarge
	}
	if err != nil {
		return nil, x.fail(err)
	}
	return body, nil
}

// Delta tells a bit of the answer. Its error must end the request.
func (x *Exchange) Delta(d llm.Delta) error {
	x.text += int64(len(d.Text))
	x.reasoning += int64(len(d.Reasoning))
	if d.Call != nil {
		x.text += int64(len(d.Call.Name) + len(d.Call.Args))
	}
	if x.call.Watch.Delta == nil {
		return nil
	}
	x.began = true
	if err := x.call.Watch.Delta(d); err != nil {
		return refused{err}
	}
	return nil
}

// Tell tells an answer that came in one piece, to one who asked for bits.
func (x *Exchange) Tell(a *llm.Answer) error {
	if x.call.Watch.Delta == nil {
		return nil
	}
	calls := 0
	for _, p := range a.Message.Parts {
		d := llm.Delta{Text: p.Text}
		if p.Call != nil {
			d.Call = &llm.ToolCallDelta{Index: calls, ID: p.Call.ID, Name: p.Call.Name, Args: string(p.Call.Args)}
			calls++
		}
		if d == (llm.Delta{}) {
			continue
		}
		if err := x.Delta(d); err != nil {
			return err
		}
	}
	return nil
}

// Guess is what an answer has used, by its bytes: the server does not say.
func (x *Exchange) Guess(a *llm.Answer) llm.Usage {
	size := 0
	for _, p := range a.Message.Parts {
		size += len(p.Text)
		if p.Call != nil {
			size += len(p.Call.Name) + len(p.Call.Args)
		}
	}
	return llm.Usage{Input: x.call.Input, Output: Tokens(int64(size)), Reasoning: Tokens(x.reasoning), Estimated: true}
}

// lingering is how long the end of a body may take behind the end of its answer.
const lingering = time.Second

// Done ends an exchange whose answer is there. The connection is used again if the server ends the body soon.
func (x *Exchange) Done() {
	x.idle = lingering
	for rest := [512]byte{}; !x.ended && x.left > 0; {
		if _, err := x.Read(rest[:]); err != nil {
			break
		}
	}
	x.Close()
}

// Close ends an exchange. A connection whose body has not ended is closed.
func (x *Exchange) Close() {
	x.silence.Stop()
	x.cancel(nil)
	if x.resp != nil {
		x.resp.Body.Close()
	}
}

// clean is a word of a head, short and without what a terminal would obey.
func clean(s string) string {
	const most = 200
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), most)]
}
