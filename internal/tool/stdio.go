package tool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel/internal/clip"
	"agentkernel/internal/incoming"
	"agentkernel/internal/lazy"
	"agentkernel/internal/strictjson"
)

// lineConn speaks newline-delimited JSON-RPC with a process. It is used instead of the SDK's transport
// because it limits the size of a message without dropping the session, passes over lines that are no messages, as
// the SDKs' clients do, and says so, and knows which requests left.
type lineConn struct {
	proc  *process
	in    *bufio.Reader
	limit int64

	room *incoming.Room // nil: there is no bound
	held *incoming.Hold // of the message that is being received or decoded; used by Read only

	queue []jsonrpc.Message // of a batch; used by Read only
	idle  int               // bytes since the last message that were none; used by Read only
	words clip.Tail         // the last lines that were none
	// printed is told the first of them, once; nil: nobody is.
	printed func(line string)
	clean   func(string) string // takes secrets out; nil: there are none

	readAll  chan struct{} // closed when there is nothing more to read
	readOnce sync.Once

	writing chan struct{} // holds one token: a lock that gives up with its context

	owed     owed          // what the server asked
	over     chan struct{} // closed by Close
	patience time.Duration // how long Read waits for the server to take an answer, once it is owed too many

	mu      sync.Mutex
	pending map[jsonrpc.ID]*track
	heard   time.Time // when the last answer came
	fatal   error     // why the connection ended
	closed  bool
	broken  bool // a write failed because nobody reads any more
}

func newLineConn(p *process, limit int64) *lineConn {
	c := &lineConn{proc: p, in: bufio.NewReaderSize(p.stdout, 64<<10), limit: limit,
		readAll: make(chan struct{}), writing: make(chan struct{}, 1), pending: map[jsonrpc.ID]*track{},
		owed: owed{asked: map[jsonrpc.ID]bool{}, room: make(chan struct{}, 1)}, over: make(chan struct{}), patience: answerPatience}
	c.writing <- struct{}{}
	return c
}

// Connect implements mcp.Transport.
func (c *lineConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements mcp.Connection; stdio has none.
func (c *lineConn) SessionID() string { return "" }

// Close ends the connection; Read returns.
func (c *lineConn) Close() error {
	c.mu.Lock()
	done := c.closed
	c.closed = true
	c.mu.Unlock()
	if !done {
		close(c.over)
		_ = c.proc.stdin.Close()
		_ = c.proc.stdout.Close()
	}
	return nil
}

// fail notes why the connection is unusable, the first reason only.
func (c *lineConn) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fatal == nil && !c.closed {
		c.fatal = err
	}
	return err
}

// usable says whether a message can be sent.
func (c *lineConn) usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fatal == nil && !c.closed && !c.broken
}

// failure is why the connection ended, nil if it did not or was closed from here.
func (c *lineConn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fatal
}

// Write sends one message. An error before the first byte leaves the connection usable.
func (c *lineConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if resp, ok := msg.(*jsonrpc.Response); ok {
		c.owed.answering(resp.ID)
		defer c.owed.answered()
	}
	select {
	case <-c.writing:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { c.writing <- struct{}{} }()
	if err := ctx.Err(); err != nil {
		return err
	}
	var t *track
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		if t = trackOf(ctx); t != nil {
			c.mu.Lock()
			c.pending[req.ID] = t
			c.mu.Unlock()
		}
	}
	sent, err := c.proc.write(ctx, data)
	if sent && t != nil {
		t.markSent()
	}
	switch {
	case err == nil:
		return nil
	case !sent && errors.Is(err, os.ErrDeadlineExceeded):
		return ctx.Err()
	case sent && errors.Is(err, os.ErrDeadlineExceeded):
		_ = c.fail(errors.New("it stopped reading in the middle of a message"))
	}
	c.mu.Lock()
	c.broken = true
	c.mu.Unlock()
	c.lastWords()
	_ = c.Close()
	return err
}

// lastWords lets the reader come to the end of what a dead server wrote.
func (c *lineConn) lastWords() {
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-c.readAll:
	case <-timer.C:
	}
}

// Read gives the next message. Its errors are final.
func (c *lineConn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		if len(c.queue) > 0 {
			msg := c.queue[0]
			c.queue = c.queue[1:]
			if len(c.queue) == 0 {
				defer c.held.Release()
			}
			if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
				switch fresh, err := c.ask(req.ID); {
				case err != nil:
					return nil, err
				case !fresh:
					continue
				}
			}
			return c.deliver(msg), nil
		}
		line, kept, err := c.message()
		switch {
		case err != nil:
			c.held.Release()
			c.readOnce.Do(func() { close(c.readAll) })
			c.ended(err)
			return nil, io.EOF
		case errors.Is(kept, errNoRoom) && idOf(line) == nil && bytes.Contains(line, []byte(`"method"`)): // no answer: it is passed over
			continue
		case kept != nil:
			if msg := c.dropped(line, kept); msg != nil {
				return msg, nil
			}
			if errors.Is(kept, errNoRoom) {
				return nil, c.fail(fmt.Errorf("it sent a message of more than %s while %w", megabytes(uncounted), kept))
			}
			return nil, c.fail(fmt.Errorf("it sent a message of more than %s", megabytes(c.limit)))
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if err := c.decode(line); err != nil {
			c.held.Release()
			return nil, c.fail(err)
		}
	}
}

// ask notes a request of the server before the SDK sees it, whose queue has no bound. A server that is owed too many answers is
// not read until it takes one. It is false for a request whose id is under way: the SDK would not answer it.
func (c *lineConn) ask(id jsonrpc.ID) (fresh bool, err error) {
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	for {
		fresh, room := c.owed.ask(id)
		if room {
			return fresh, nil
		}
		select {
		case <-c.owed.room:
		case <-c.over:
			return false, io.EOF
		case <-timer.C:
			return false, c.fail(fmt.Errorf("it sent more than %d requests and did not read the answers", maxOwed))
		}
	}
}

// maxOwed is how many answers a server may be owed, and answerPatience how long it may take none of them then.
const (
	maxOwed        = 64
	answerPatience = 5 * time.Second
)

// owed are the requests of a server that have no answer yet.
type owed struct {
	mu      sync.Mutex
	asked   map[jsonrpc.ID]bool
	writing int           // answers on their way
	room    chan struct{} // has a token after an answer has left
}

// ask adds a request if there is room. It is not fresh if one with its id is there.
func (o *owed) ask(id jsonrpc.ID) (fresh, room bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.asked[id]:
		return false, true
	case len(o.asked)+o.writing >= maxOwed:
		return false, false
	}
	o.asked[id] = true
	return true, true
}

// answering says that the answer to a request is about to leave: from now on the server may use its id again.
func (o *owed) answering(id jsonrpc.ID) {
	o.mu.Lock()
	delete(o.asked, id)
	o.writing++
	o.mu.Unlock()
}

// answered says that an answer has left, or never will.
func (o *owed) answered() {
	o.mu.Lock()
	o.writing--
	o.mu.Unlock()
	select {
	case o.room <- struct{}{}:
	default:
	}
}

// ended finds out why there is nothing to read any more. A server that lives on with its output closed
// is told apart from one that died by waiting a moment for its death; after this the SDK closes its stdin,
// and most would then leave with status 0.
func (c *lineConn) ended(err error) {
	if !errors.Is(err, io.EOF) {
		if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, os.ErrClosed) {
			_ = c.fail(err)
		}
		return
	}
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-c.proc.dead:
	case <-timer.C:
		_ = c.fail(errors.New("it closed its output"))
	}
}

// byteOrderMark begins a text that some Windows programs write.
const byteOrderMark = "\ufeff"

// decode queues the messages of one line. A line that is none is passed over: many servers, and the programs that they
// start, print something. One that begins as a message and is none was a message, and whoever waits for it would wait in vain.
func (c *lineConn) decode(line []byte) error {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte(byteOrderMark)))
	switch {
	case len(line) == 0:
		return nil
	case !json.Valid(line):
		if line[0] == '{' {
			return fmt.Errorf("it wrote a line to stdout that is not JSON, or is nested more than 10,000 deep: %s", c.excerpt(line))
		}
		return c.passOver(line)
	}
	if resp := response(line); resp != nil {
		c.queue, c.idle = append(c.queue, resp), 0
		return nil
	}
	parts := []json.RawMessage{line}
	if line[0] == '[' { // a batch, as protocol versions before 2025-06-18 have them
		if !strictjson.AreObjects(line, maxBatch) {
			return c.passOver(line)
		}
		if err := json.Unmarshal(line, &parts); err != nil {
			return err
		}
	}
	if len(parts) == 0 || slices.ContainsFunc(parts, func(part json.RawMessage) bool { return !isMessage(part) }) {
		return c.passOver(line)
	}
	for _, part := range parts {
		var id struct {
			ID messageID `json:"id"`
		}
		err := json.Unmarshal(part, &id)
		var msg jsonrpc.Message
		if err == nil {
			msg, err = jsonrpc.DecodeMessage(part)
		}
		if err != nil {
			return fmt.Errorf("it wrote a line to stdout that is no JSON-RPC message: %s", c.excerpt(line))
		}
		if resp, ok := msg.(*jsonrpc.Response); ok && resp.Result == nil && resp.Error == nil {
			return fmt.Errorf("it answered with neither a result nor an error: %s", c.excerpt(line))
		}
		c.queue = append(c.queue, msg)
	}
	c.idle = 0
	return nil
}

// maxBatch is how many messages a batch may have.
const maxBatch = 1000

// isMessage says whether JSON means to be a message of JSON-RPC, and not, say, a line of a log.
func isMessage(part json.RawMessage) bool {
	var m struct {
		Version json.RawMessage `json:"jsonrpc"`
	}
	return part[0] == '{' && json.Unmarshal(part, &m) == nil && m.Version != nil
}

// messageID is the id of a message: a text, a number or null. A list would be read whole, and takes many times its length.
type messageID struct{ value any }

func (id *messageID) UnmarshalJSON(raw []byte) error {
	const most = 1 << 10
	if len(raw) > most || raw[0] == '[' || raw[0] == '{' {
		return errors.New("an id is a text or a number")
	}
	return json.Unmarshal(raw, &id.value)
}

// mostIdle is how many bytes a server may write between two messages that are none: a program that only prints is no server.
const mostIdle = 1 << 20

// passOver keeps a line that is no message for whoever asks.
func (c *lineConn) passOver(line []byte) error {
	if c.idle += len(line) + 1; c.idle > mostIdle {
		return fmt.Errorf("it wrote more than %s to stdout that is no message: %s", megabytes(mostIdle), c.excerpt(line))
	}
	if c.printed != nil {
		c.printed(c.excerpt(line))
		c.printed = nil
	}
	_, _ = c.words.Write(line[:min(len(line), clip.Kept)])
	_, _ = c.words.Write([]byte{'\n'})
	return nil
}

// response reads a result without the detours of the SDK's decoder, each of which would copy it; nil: it is
// something else.
func response(line []byte) jsonrpc.Message {
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      messageID       `json:"id"`
		Method  json.RawMessage `json:"method"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}
	if json.Unmarshal(line, &m) != nil || m.Version != "2.0" || m.Method != nil || m.Error != nil || m.Result == nil {
		return nil
	}
	id, err := jsonrpc.MakeID(m.ID.value)
	if err != nil || !id.IsValid() {
		return nil
	}
	return &jsonrpc.Response{ID: id, Result: m.Result}
}

// emptyAnswer is an empty list of tools and an empty result of a call.
var emptyAnswer = json.RawMessage(`{"tools":[],"content":[]}`)

// deliver hands the answer to the track of its request before the SDK wakes the caller, and gives what the
// SDK is to see of it: that there is an answer. To decode it a second time would cost many times its size.
func (c *lineConn) deliver(msg jsonrpc.Message) jsonrpc.Message {
	resp, ok := msg.(*jsonrpc.Response)
	if !ok {
		return msg
	}
	c.mu.Lock()
	t := c.pending[resp.ID]
	delete(c.pending, resp.ID)
	c.heard = time.Now()
	c.mu.Unlock()
	if t == nil {
		return msg
	}
	t.answer(resp.Result, resp.Error, c.held.Part(incoming.Copies*int64(len(resp.Result))))
	if resp.Error != nil || resp.Result == nil {
		return msg
	}
	return &jsonrpc.Response{ID: resp.ID, Result: emptyAnswer}
}

// answeredSince says whether the server has answered anything after t.
func (c *lineConn) answeredSince(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard.After(t)
}

// forget drops the track of a request whose answer nobody waits for any more.
func (c *lineConn) forget(t *track) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, p := range c.pending {
		if p == t {
			delete(c.pending, id)
		}
	}
}

// message reads up to the next newline. Why it did not keep a message is in kept: errTooBig or errNoRoom; then it gives the beginning
// and the end only, enough to see whose answer it is.
func (c *lineConn) message() (line []byte, kept, err error) {
	c.held.Release()
	if c.held == nil {
		c.held = c.room.Hold()
	}
	l := incomingLine{conn: c}
	line, err = l.read()
	if l.bounded {
		c.proc.readBy(time.Time{})
	}
	return line, l.dropped, err
}

// incomingLine is a line that is being read.
type incomingLine struct {
	conn    *lineConn
	size    int64
	all     pieces
	edges   []byte // of one that is not kept
	dropped error  // why it is not
	bounded bool   // it must come in time
}

// read reads the line, up to four times the limit.
func (l *incomingLine) read() ([]byte, error) {
	for {
		part, err := l.conn.in.ReadSlice('\n')
		l.size += int64(len(part))
		late := l.bounded && errors.Is(err, os.ErrDeadlineExceeded) && l.conn.proc.readBy(time.Time{})
		if late { // nobody waits for it any more; the next read is for as long as it likes
			err, l.bounded = bufio.ErrBufferFull, false
		}
		if why := l.why(late); l.dropped == nil && why != nil {
			l.drop(why)
		}
		switch {
		case l.dropped != nil:
			l.edges = headAndTail(l.edges, part)
		case len(l.all) == 0 && err == nil:
			return part, nil // whole in the reader's buffer, valid until the next read
		default:
			l.all.add(part)
		}
		switch {
		case err == nil && l.dropped != nil:
			return l.edges, nil //nolint:nilerr // why it is not kept is in dropped
		case err == nil:
			return l.all.whole(), nil
		case errors.Is(err, bufio.ErrBufferFull) && l.size <= 4*l.conn.limit:
		case errors.Is(err, bufio.ErrBufferFull):
			l.dropped = errTooBig
			return nil, nil
		case errors.Is(err, io.EOF) && l.dropped == nil:
			if rest := l.all.whole(); len(bytes.TrimSpace(rest)) > 0 {
				return rest, nil
			}
			return nil, err
		default:
			return nil, err
		}
	}
}

// why says why the line is not kept, as far as it has come. One that is large enough to be counted must come before the calls have
// ended that it may be the answer to.
func (l *incomingLine) why(late bool) error {
	switch {
	case l.size > l.conn.limit:
		return errTooBig
	case l.size <= uncounted || l.dropped != nil:
		return nil //nolint:nilerr // it was said before
	case late || !l.conn.held.Set(incoming.Copies*l.size):
		return errNoRoom
	}
	if !l.bounded {
		l.bounded = l.conn.proc.readBy(l.conn.awaited())
	}
	return nil
}

func (l *incomingLine) drop(why error) {
	for _, piece := range l.all {
		l.edges = headAndTail(l.edges, piece)
	}
	l.all, l.dropped = nil, why
	l.conn.held.Release()
}

// awaited is when nobody waits any more for what is being received.
func (c *lineConn) awaited() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return time.Now().Add(c.patience)
	}
	var until time.Time
	for _, t := range c.pending {
		if t.until.After(until) {
			until = t.until
		}
	}
	return until
}

// pieces are a long line as it comes: a slice that grows by appending would be copied many times over.
type pieces [][]byte

const pieceSize = 1 << 20

func (p *pieces) add(part []byte) {
	if n := len(*p); n == 0 || len((*p)[n-1])+len(part) > cap((*p)[n-1]) {
		*p = append(*p, make([]byte, 0, max(len(part), min(pieceSize, 64<<10<<min(n, 4)))))
	}
	last := &(*p)[len(*p)-1]
	*last = append(*last, part...)
}

// whole is the line in one.
func (p pieces) whole() []byte {
	if len(p) == 1 {
		return p[0]
	}
	return bytes.Join(p, nil)
}

const edge = 512

func headAndTail(buf, part []byte) []byte {
	return cutMiddle(append(cutMiddle(buf), part...))
}

func cutMiddle(b []byte) []byte {
	if len(b) <= 2*edge {
		return b
	}
	out := make([]byte, 0, 2*edge)
	return append(append(out, b[:edge]...), b[len(b)-edge:]...)
}

var (
	idAtStart = lazy.Regexp(`^\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,`)
	idAtEnd   = lazy.Regexp(`,\s*"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// idOf is the id at the beginning or the end of a message; nil: there is none.
func idOf(edges []byte) []byte {
	m := idAtStart().FindSubmatch(edges)
	if m == nil {
		m = idAtEnd().FindSubmatch(edges)
	}
	if m == nil {
		return nil
	}
	return m[1]
}

// dropped answers, in the server's place, the request whose answer was not kept; nil if it cannot tell
// which one that was.
func (c *lineConn) dropped(edges []byte, why error) jsonrpc.Message {
	digits := idOf(edges)
	if digits == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.pending) == 1 {
			for _, t := range c.pending {
				t.markDropped(why)
			}
		}
		return nil
	}
	n, err := strconv.ParseInt(string(digits), 10, 53)
	if err != nil {
		return nil
	}
	id, err := jsonrpc.MakeID(float64(n))
	if err != nil {
		return nil
	}
	c.mu.Lock()
	t := c.pending[id]
	delete(c.pending, id)
	c.heard = time.Now()
	c.mu.Unlock()
	if t != nil {
		t.markDropped(why)
	}
	return &jsonrpc.Response{ID: id, Error: why}
}

// excerpt is the beginning of a line, quoted. Secrets are taken out before it is cut: of one that is cut nobody sees what it was.
func (c *lineConn) excerpt(line []byte) string {
	const shown, read = 120, 64 << 10
	text := string(line[:min(len(line), read)])
	if c.clean != nil {
		text = c.clean(text)
	}
	if len(text) > shown {
		return strconv.Quote(text[:shown]) + "..."
	}
	return strconv.Quote(text)
}

func megabytes(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d kB", n>>10)
}
