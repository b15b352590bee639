package devllm

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Server answers as a provider does. It is an http.Handler, and may be used by many requests at once.
type Server struct {
	opts    Options
	tokens  tokenizer
	limiter *limiter
	cache   *promptCache
	faults  faults
	queue   *queue
	journal *journal
	keys    map[string]bool // fingerprints of those that are let in; empty: all are
	mux     *http.ServeMux
	tape    *tape // recording or replay; nil: neither
	number  atomic.Int64

	mu        sync.Mutex
	responses map[string]*kept // by id, for those who come back
}

// New checks the options and returns a server. Errors are of type *BadOption.
func New(options Options) (*Server, error) {
	opts, err := options.complete()
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, tokens: tokenizer{opts.Profile.Piece}, limiter: newLimiter(opts.Profile.Limits), cache: newPromptCache(),
		queue: newQueue(opts.Profile.Parallel, opts.Profile.Queue), journal: newJournal(opts.Log), keys: map[string]bool{}, responses: map[string]*kept{}}
	if s.tokens.piece == 0 {
		s.tokens.piece = 6
	}
	if opts.Script != nil {
		s.opts.Profile.Models = append(append([]Model{}, opts.Profile.Models...), opts.Script.models...)
	}
	for _, k := range opts.Keys {
		s.keys[fingerprint(k)] = true
	}
	for _, f := range opts.Faults {
		s.faults.add(f)
	}
	if opts.Record != "" || opts.Replay != "" {
		if s.tape, err = openTape(opts); err != nil {
			return nil, err
		}
	}
	s.mux = s.routes()
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// routes are the paths of the profile's provider, and those of the server itself.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	post := func(path string, d dialect) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, d) })
	}
	chat := chatDialect{s.opts.Profile.Name}
	openai := func(base string) {
		post(base+"/chat/completions", chat)
		post(base+"/responses", responsesDialect{s})
		post(base+"/responses/input_tokens", countDialect{responsesDialect{s}})
		mux.HandleFunc("GET "+base+"/responses/{id}", s.getResponse)
		post(base+"/embeddings", embeddingsDialect{chat})
		s.listModels(mux, base, chat)
	}
	switch s.opts.Profile.Name {
	case "azure":
		post("/openai/deployments/{deployment}/chat/completions", chat)
		post("/openai/deployments/{deployment}/embeddings", embeddingsDialect{chat})
		openai("/openai/v1")
	case "anthropic":
		post("/v1/messages", messagesDialect{})
		post("/v1/messages/count_tokens", countDialect{messagesDialect{counts: true}})
		s.listModels(mux, "/v1", messagesDialect{})
	case "ollama":
		post("/api/chat", ollamaDialect{})
		post("/api/embed", ollamaEmbed{})
		mux.HandleFunc("GET /api/tags", s.ollamaTags)
		mux.HandleFunc("GET /api/version", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, map[string]any{"version": "0.0.0-devllm"})
		})
		post("/v1/chat/completions", chat)
		post("/v1/embeddings", embeddingsDialect{chat})
		s.listModels(mux, "/v1", chat)
	case "openrouter":
		openai("/api/v1")
	default:
		openai("/v1")
	}
	s.admin(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if s.tape != nil {
			s.tape.serve(w, r)
			return
		}
		f := &failure{cause: noPath, message: fmt.Sprintf("Invalid URL (%s %s): the profile %s does not have it", r.Method, r.URL.Path, s.opts.Profile.Name)}
		var d dialect = chat
		if s.opts.Profile.Name == "anthropic" {
			d = messagesDialect{}
		}
		s.fail(w, &exchange{d: d, id: s.number.Add(1)}, f)
	})
	return mux
}

// dialect is how one API reads requests and writes answers.
type dialect interface {
	// name is what the log calls it.
	name() string
	read(r *http.Request, body []byte) (*request, *failure)
	// failBody is the body of an error.
	failBody(f *failure, requestID string) any
	// whole is the answer in one piece, steps the same as a stream.
	whole(x *exchange) any
	steps(x *exchange, yield func(step) bool)
	// frame is a step as it is sent, and mediaType what a stream is.
	frame(s step) []byte
	mediaType() string
	// midError is an error within a stream.
	midError(f *failure) step
}

// exchange is one request and its answer.
type exchange struct {
	s      *Server
	d      dialect
	id     int64
	key    string // fingerprint
	start  time.Time
	model  Model
	req    *request
	ans    *answer
	tokens Tokens // of the whole answer
	fault  *Fault
	group  group
	taken  amounts
	when   time.Time // it was taken
	entry  Entry
	marks  []mark // what the cache keeps once the answer begins

	admitted bool  // the limits let it through
	sent     int64 // tokens that the client was sent, or that were made for it
}

// maxBody is the largest request.
const maxBody = 64 << 20

// serve answers a request for a model.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, d dialect) {
	if s.tape != nil {
		s.tape.serve(w, r)
		return
	}
	now := s.opts.Clock.Now()
	x := &exchange{s: s, d: d, id: s.number.Add(1), key: fingerprint(keyOf(r)), start: now}
	x.entry = Entry{Time: now, Key: x.key, API: d.name(), Path: r.URL.Path}
	defer func() { x.log() }() // also when a fault ends the connection by a panic
	if f := s.admit(r, x); f != nil {
		s.fail(w, x, f)
		return
	}
	if x.counts() {
		x.entry.Status = http.StatusOK
		s.tellLimits(w.Header(), x, nil)
		writeJSON(w, http.StatusOK, d.whole(x))
		return
	}
	defer x.settle()
	release, ok := s.queue.enter(r.Context(), x.req.priority)
	switch {
	case r.Context().Err() != nil:
		x.tokens = Tokens{}
		x.abandon()
		return
	case !ok:
		s.fail(w, x, &failure{cause: queueFull, limit: "queue", message: "server busy, please try again. maximum pending requests exceeded"})
		return
	}
	defer release()
	if x.req.inputs == nil {
		x.ans = s.decide(x.req, x.id)
		if f := x.ans.fail; f != nil {
			x.entry.Rule = x.ans.rule
			s.fail(w, x, f)
			return
		}
		x.limitAnswer()
		x.entry.Rule = x.ans.rule
	}
	s.deliver(w, r, x)
}

// admit reads the request and lets it through everything that may refuse it. What is charged is in x.
func (s *Server) admit(r *http.Request, x *exchange) *failure {
	if f := s.checkKey(keyOf(r)); f != nil {
		return f
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		x.entry.Aborted = true
		return &failure{cause: badInput, status: 499, message: "the client went before its request was whole"}
	case len(body) > maxBody:
		return &failure{cause: badInput, status: http.StatusRequestEntityTooLarge, message: "Request exceeds the maximum size"}
	}
	x.entry.Request = bodyHash(body)
	req, f := x.d.read(r, body)
	if f != nil {
		return f
	}
	x.req = req
	x.entry.Model, x.entry.Stream = req.model, req.stream
	m, ok := s.opts.Profile.model(req.model)
	if !ok || (m.Dims > 0) != (req.inputs != nil) {
		return &failure{cause: noModel, param: "model", message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", req.model)}
	}
	x.model = m
	if x.counts() {
		s.countPrompt(req)
		return nil
	}
	if x.fault = s.faults.next(req.model); x.fault != nil {
		x.entry.Fault = x.fault.Kind
		if f := x.fault.failure(); f != nil {
			return f
		}
		req.noUsage = x.fault.Kind == "no-usage"
	}
	if f := s.measure(x); f != nil {
		return f
	}
	if limit := s.opts.SpendCap; limit > 0 && s.journal.spent() >= limit {
		return spendCapReached()
	}
	return s.charge(x)
}

// checkKey lets a key through, or says why not.
func (s *Server) checkKey(key string) *failure {
	if len(s.keys) > 0 && !s.keys[fingerprint(key)] || key == "" && s.opts.Profile.KeyNeeded {
		return &failure{cause: wrongKey, message: "Incorrect API key provided. You can find your API key in your account."}
	}
	return nil
}

// measure counts the prompt and holds it against the model's window.
func (s *Server) measure(x *exchange) *failure {
	r, m := x.req, x.model
	s.countPrompt(r)
	window := m.Window
	if s.opts.Profile.Name == "ollama" {
		if r.window > 0 {
			window = min(window, r.window)
		}
		s.dropFront(r, window)
	}
	for _, b := range r.blocks {
		if n := s.tokensOf(b); r.inputs != nil && n > window {
			return s.tooLong(n, window)
		}
	}
	switch {
	case r.inputs != nil:
	case r.promptTokens > window:
		return s.tooLong(r.promptTokens, window)
	case m.Output > 0 && r.maxOutput > m.Output && s.opts.Profile.Headers != "none":
		return badRequest("max_tokens: %d > %d, which is the maximum allowed number of output tokens for %s", r.maxOutput, m.Output, m.Name).at("max_tokens")
	case r.promptTokens+r.maxOutput > window && s.opts.Profile.Name != "anthropic" && s.opts.Profile.Name != "ollama":
		return s.tooLong(r.promptTokens+r.maxOutput, window)
	}
	return nil
}

func (s *Server) countPrompt(r *request) {
	r.promptTokens = 0
	for _, b := range r.blocks {
		r.promptTokens += s.tokensOf(b)
	}
}

// counts says that the prompt is counted, and nothing answered.
func (x *exchange) counts() bool {
	_, ok := x.d.(countDialect)
	return ok
}

func (s *Server) tooLong(n, window int64) *failure {
	f := &failure{cause: tooLong, param: "messages"}
	f.message = fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.", window, n)
	if s.opts.Profile.Name == "anthropic" {
		f.message = fmt.Sprintf("prompt is too long: %d tokens > %d maximum", n, window)
	}
	return f
}

// charge takes the request off the limits.
func (s *Server) charge(x *exchange) *failure {
	p, now := s.opts.Profile, s.opts.Clock.Now()
	x.group, x.when = group{x.key, x.model.family()}, now
	var marks []mark
	x.tokens, marks = s.cached(x.req, x.model, x.key+" "+x.model.Name, now)
	input := x.tokens.Input()
	if p.EstimateChars {
		input = (x.req.chars() + 3) / 4
	}
	if p.FreeCacheReads {
		input -= x.tokens.CacheRead
	}
	output := int64(0)
	if p.Precharge {
		output = x.req.maxOutput
	}
	x.taken = amounts{1, input, output, input + output}
	if no := s.limiter.take(x.group, x.taken, p.CountRefused, now); no != nil {
		x.taken = amounts{}
		return ofRefusal(no, x.model.Name)
	}
	x.admitted = true
	x.marks = marks
	return nil
}

// limitAnswer cuts the answer to what was asked for and what there is room for.
func (x *exchange) limitAnswer() {
	room, why := x.model.Window-x.req.promptTokens, windowFull
	if x.model.Output > 0 && x.model.Output < room {
		room, why = x.model.Output, cutShort
	}
	if n := x.req.maxOutput; n > 0 && n <= room {
		room, why = n, cutShort
	}
	x.tokens.Output, x.tokens.Reasoning = x.s.cut(x.ans, room, why)
}

// settle corrects what was taken in advance by what was used.
func (x *exchange) settle() {
	if !x.admitted {
		return
	}
	used := x.used()
	final := x.taken
	p := x.s.opts.Profile
	if !p.Precharge || p.Refund || x.req.maxOutput == 0 || used.Answer() > x.taken[outputDim] {
		final[outputDim] = used.Answer()
	}
	final[totalDim] = final[inputDim] + final[outputDim]
	var correction amounts
	for d := range correction {
		correction[d] = final[d] - x.taken[d]
	}
	x.s.limiter.settle(x.group, correction, x.when, x.s.opts.Clock.Now())
	x.taken = final
}

// used are the tokens that are billed: of an answer that was not made to its end, what was sent of it.
func (x *exchange) used() Tokens {
	t := x.tokens
	if x.entry.Status >= 400 && x.entry.Status != 499 { // an error costs nothing
		return Tokens{}
	}
	if x.entry.Aborted && !x.s.opts.Profile.Drains {
		t.Reasoning = min(t.Reasoning, x.sent)
		t.Output = min(t.Output, x.sent-t.Reasoning)
	}
	return t
}

func (x *exchange) log() {
	x.entry.Ended = x.s.opts.Clock.Now()
	if x.admitted {
		x.entry.Tokens = x.used()
		x.entry.Charged = Charged{x.taken[requestsDim], x.taken[inputDim], x.taken[outputDim], x.taken[totalDim]}
		x.entry.Cut = x.req.cutTokens
		x.entry.Nanos = x.model.Price.nanos(x.entry.Tokens)
	}
	x.s.journal.add(x.entry)
}

// Foreign charges a key as if another client had used it: requests, input and output tokens.
func (s *Server) Foreign(key, family string, requests, input, output int64) {
	now := s.opts.Clock.Now()
	s.limiter.settle(group{fingerprint(key), family}, amounts{requests, input, output, input + output}, now, now)
}

// SetLimits changes the limits of a family of models, or, with "", of all, while the server runs.
func (s *Server) SetLimits(family string, l Limits) error {
	if err := l.validate(); err != nil {
		return err
	}
	s.limiter.set(family, l, s.opts.Clock.Now())
	return nil
}

// AddFault lets something go wrong for the next requests.
func (s *Server) AddFault(f Fault) error {
	if err := f.validate(); err != nil {
		return err
	}
	s.faults.add(f)
	return nil
}

// ClearFaults forgets the faults that are to come.
func (s *Server) ClearFaults() { s.faults.clear() }

// pause sleeps by the server's clock.
func (s *Server) pause(ctx context.Context, d time.Duration) error { return s.opts.Clock.Sleep(ctx, d) }
