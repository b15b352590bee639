package tool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel/internal/incoming"
	"agentkernel/internal/portowner"
)

// errTooBig ends the body of an answer that is larger than the limit.
var errTooBig = errors.New("the answer is too big")

// errNoRoom ends an answer for which the kernel has no memory left beside all others.
var errNoRoom = errors.New("too much is being received at the same time")

// uncounted is how many bytes of a message need no room among all that is being received.
const uncounted = 1 << 20

// wire is the HTTP side of one server: it adds the configured headers, limits and records answers, and
// knows which requests can have reached the server.
type wire struct {
	base    *http.Transport
	origin  url.URL // headers go to this scheme and host only
	headers map[string]string
	limit   int64
	room    *incoming.Room
	refused atomic.Int64 // status of the last POST that was turned away
}

func newWire(e *entry, limit int64, room *incoming.Room) (*wire, error) {
	u, err := url.Parse(e.url)
	if err != nil {
		return nil, errors.New("its url cannot be read")
	}
	dial := (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	switch {
	case e.program != 0:
		dial = dialProgram
	case len(e.headers) > 0 || u.User != nil || u.RawQuery != "": // there may be a key in them
		dial = portowner.For(u, &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	return &wire{
		base: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           dial,
			ForceAttemptHTTP2:     true,
			MaxIdleConns:          64,
			MaxIdleConnsPerHost:   64,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
		},
		origin: *u, headers: e.headers, limit: limit, room: room,
	}, nil
}

// transport is the SDK's transport over this wire.
func (w *wire) transport() mcp.Transport {
	return &mcp.StreamableClientTransport{
		Endpoint:     w.origin.String(),
		HTTPClient:   &http.Client{Transport: w, CheckRedirect: w.redirect},
		MaxRetries:   2,
		MaxEventSize: int(w.limit),
	}
}

// redirect follows redirects within the server's own host, so that what is sent goes nowhere else.
func (w *wire) redirect(req *http.Request, via []*http.Request) error {
	if !w.own(req.URL) {
		return fmt.Errorf("it redirects to another host, %s", req.URL.Host)
	}
	if len(via) >= 5 {
		return errors.New("it redirects in a circle")
	}
	return nil
}

func (w *wire) own(u *url.URL) bool { return u.Scheme == w.origin.Scheme && u.Host == w.origin.Host }

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	t := trackOf(req.Context())
	ctx := req.Context()
	if t != nil {
		// From the moment there is a connection the request may be on its way.
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { t.markSent() }})
	}
	req = req.Clone(ctx)
	for k, v := range w.headers {
		if w.own(req.URL) {
			req.Header.Set(k, v)
		}
	}
	if err := t.ask(req); err != nil {
		return nil, err
	}
	resp, err := w.send(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 && req.Method == http.MethodPost {
		w.refused.Store(int64(resp.StatusCode))
		if t != nil {
			t.refuse(resp.StatusCode)
		}
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	stream := media == "text/event-stream"
	resp.Body = &answerBody{body: resp.Body, limit: w.limit, held: w.room.Hold(), stream: stream, track: t}
	if t != nil {
		resp.ContentLength = -1
	}
	return resp, nil
}

// send sends the request. The GET that opens the stream of notifications is optional: some servers answer it
// with an error, or only when there is something to say; both count as "405: no such stream", because the
// SDK would otherwise wait for it before the first call.
func (w *wire) send(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || req.Header.Get("Last-Event-ID") != "" {
		return w.base.RoundTrip(req)
	}
	ctx, cancel := context.WithCancel(req.Context())
	timer := time.AfterFunc(streamPatience, cancel)
	resp, err := w.base.RoundTrip(req.WithContext(ctx))
	late := !timer.Stop()
	if err != nil || late || resp.StatusCode >= 400 {
		cancel()
		if err == nil {
			_ = resp.Body.Close()
		}
		if req.Context().Err() != nil {
			return nil, req.Context().Err()
		}
		return &http.Response{StatusCode: http.StatusMethodNotAllowed, Header: http.Header{}, Body: http.NoBody,
			Request: req}, nil
	}
	resp.Body = &cancelBody{resp.Body, cancel}
	return resp, nil
}

// streamPatience is how long an HTTP server may take to open the stream of notifications.
const streamPatience = 3 * time.Second

type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// answerBody is the body of an HTTP answer, limited. The answer to a request that is tracked goes to its track;
// the SDK is shown that there is one and no more (emptyAnswer): to decode it a second time would cost many
// times its size.
type answerBody struct {
	body   io.ReadCloser
	limit  int64
	stream bool   // server-sent events
	track  *track // nil: limit only
	held   *incoming.Hold

	lines *bufio.Reader // of a stream
	size  int64
	from  int64  // of what is being received: the message, or event, that begins there
	mid   bool   // of a stream without track: within a line
	out   []byte // for the SDK
	err   error  // once out is read
}

// Read implements io.Reader.
func (r *answerBody) Read(p []byte) (int, error) {
	if r.track == nil {
		return r.limited(p)
	}
	for len(r.out) == 0 && r.err == nil {
		if r.stream {
			r.event()
		} else {
			r.whole()
		}
	}
	if len(r.out) == 0 {
		return 0, r.err
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// Close implements io.Closer.
func (r *answerBody) Close() error {
	r.held.Release()
	return r.body.Close()
}

// limited reads what is no answer to a call. What a server says by itself, in a stream, is small.
func (r *answerBody) limited(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if !r.stream {
		if bad := r.count(n); bad != nil {
			return 0, bad
		}
		return n, err
	}
	for _, c := range p[:n] {
		switch r.size++; {
		case c == '\n' && !r.mid: // the end of an event
			r.size = 0
		case c != '\r':
			r.mid = c != '\n'
		}
	}
	if r.size > uncounted {
		return 0, errTooBig
	}
	return n, err
}

// count counts n bytes more. errTooBig, errNoRoom: they are not kept.
func (r *answerBody) count(n int) error {
	r.size += int64(n)
	switch size := r.size - r.from; {
	case r.size > r.limit:
		return r.drop(errTooBig)
	case size > uncounted && !r.held.Set(incoming.Copies*size):
		return r.drop(errNoRoom)
	}
	return nil
}

func (r *answerBody) drop(why error) error {
	if r.track != nil {
		r.track.markDropped(why)
	}
	r.out, r.err = nil, why
	return why
}

// counted is a body whose bytes are counted as they are read.
type counted struct{ *answerBody }

func (r counted) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if bad := r.count(n); bad != nil {
		return 0, bad
	}
	return n, err
}

// whole takes a JSON body.
func (r *answerBody) whole() {
	defer r.held.Release() // what is not handed to the track
	raw, err := io.ReadAll(counted{r})
	if r.err != nil {
		return
	}
	r.out, _ = r.answered(raw)
	switch {
	case err != nil:
		r.err = err
	case r.err == nil:
		r.err = io.EOF
	}
}

// event takes the next event of a stream: its lines, up to an empty one.
func (r *answerBody) event() {
	if r.lines == nil {
		r.lines = bufio.NewReaderSize(r.body, 32<<10)
	}
	defer r.held.Release() // what is not handed to the track
	r.from = r.size
	var all, data []byte
	for {
		line, err := r.line()
		if err != nil && len(line) == 0 || r.err != nil {
			if r.err == nil {
				r.err = err
			}
			break
		}
		all = append(all, line...)
		text := bytes.TrimRight(line, "\r\n")
		if rest, ok := bytes.CutPrefix(text, []byte("data:")); ok {
			data = append(append(data, bytes.TrimPrefix(rest, []byte(" "))...), '\n')
		}
		if len(text) == 0 {
			break
		}
	}
	if errors.Is(r.err, errTooBig) || errors.Is(r.err, errNoRoom) {
		return
	}
	if len(data) > 0 {
		if shown, ok := r.answered(data); ok && shown == nil {
			all = nil
		} else if ok {
			all = append(append([]byte("event: message\ndata: "), shown...), "\n\n"...)
		}
	}
	r.out = all
}

// line reads up to the next line feed, within the limit.
func (r *answerBody) line() (line []byte, err error) {
	for {
		part, err := r.lines.ReadSlice('\n')
		if bad := r.count(len(part)); bad != nil {
			return nil, bad
		}
		if line = append(line, part...); !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// answered hands an answer to the track and gives what the SDK is to see instead; false: raw itself.
func (r *answerBody) answered(raw []byte) (shown []byte, replaced bool) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  *jsonrpc.Error  `json:"error"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil || m.Result == nil && m.Error == nil {
		return raw, false
	}
	if !r.track.asked(m.ID) {
		if !r.stream { // nothing else comes
			r.err = errors.New("its answer is to another request")
		}
		return nil, true
	}
	if m.Error != nil {
		r.track.answer(m.Result, m.Error, nil)
		return raw, false
	}
	r.track.answer(m.Result, nil, r.held.Part(math.MaxInt64))
	if len(m.ID) == 0 {
		return raw, false
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, emptyAnswer), true
}
