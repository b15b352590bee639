// Package llm is what the kernel knows of language models: what is asked and what is answered in one form, and the narrow
// interface behind which providers are, each in a package of its own below this one. A provider sends one request and reads
// one answer. It never waits for a limit, never sends anything twice, and decides nothing about money: that is the matter of
// whoever calls it.
package llm

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Provider speaks the protocol of one kind of server. Its methods may be called by many goroutines.
type Provider interface {
	// Complete sends one request. When ctx ends, the connection is closed at once, and the error is an [*Error] of the kind
	// [Canceled] that says whether anything was sent. Every other failure is an [*Error], too.
	Complete(ctx context.Context, r *Request, w Watch) (*Answer, error)
	// Embed makes vectors of texts. An [*Error] of the kind [Unsupported]: the provider has no such thing.
	Embed(ctx context.Context, r *EmbedRequest, w Watch) (*Embeddings, error)
	// Traits are what is true of the server as a whole.
	Traits() Traits
}

// Traits are what a kind of server does its own way.
type Traits struct {
	// Name is that of the dialect: "openai", "openai-responses", "anthropic", "ollama". A part of an answer that only its own
	// dialect understands (Part.Opaque) is sent back to a provider of the same name.
	Name string
	// CancelFree says that a request that is cancelled costs nothing more, and frees what it used at once.
	CancelFree bool
	// Priority says that the server orders what it has queued by Request.Priority.
	Priority bool
	// CachedInputFree says that input which the server's cache has does not count against its limit of input tokens.
	CachedInputFree bool
	// OutputPrecharged says that the limit of output tokens is charged with Request.MaxTokens when a request begins.
	OutputPrecharged bool
}

// Options are what a provider is made from.
type Options struct {
	BaseURL string // up to the version: "https://api.openai.com/v1"; "": the provider's own
	// Key gives the key for one request; nil: none is sent. It is asked for each request, and its answer is kept nowhere.
	Key func(ctx context.Context) (string, error)
	// APIVersion and Deployment are Azure's.
	APIVersion, Deployment string
	Client                 *http.Client  // nil: one of its own, that follows no redirect
	Idle                   time.Duration // how long a stream may be silent; 0: 5 minutes. An answer in one piece may take twice as long
	MaxAnswer              int64         // bytes of one answer; 0: 8 MiB, more than a model says, and 64 MiB for vectors
}

// Watch is told of a request that is under way; each may be nil.
type Watch struct {
	// Leaves is told that the request goes out now, before a server can have it; once for each connection that is tried. Its error keeps
	// the request back, and is that of the request.
	Leaves func() error
	// Head is told once what the head of the answer says, before anything of its body is read; of failures, too.
	Head func(Head)
	// Delta is told each bit of the answer as it comes. Its error ends the request with that error. Without it the provider may
	// ask for the answer in one piece.
	Delta func(Delta) error
}

// Head is the head of an answer.
type Head struct {
	Status    int
	RequestID string
	Limits    []Limit
}

// What a limit bounds.
const (
	LimitRequests = "requests"
	LimitTokens   = "tokens" // input and output together
	LimitInput    = "input"  // tokens
	LimitOutput   = "output" // tokens
)

// Limit is what a server says of one of its limits.
type Limit struct {
	What      string
	Limit     int64         // -1: it does not say
	Remaining int64         // -1: it does not say
	Reset     time.Duration // until it is whole again; -1: it does not say
}

// Role says who speaks.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool" // the results of tools
)

// Request is what is asked of a model.
type Request struct {
	Model    string    `json:"model"` // as the provider names it
	Messages []Message `json:"messages"`
	Tools    []Tool    `json:"tools,omitempty"`
	// ToolChoice is "auto" (""), "none", "required", or the name of a tool.
	ToolChoice string `json:"tool_choice,omitempty"`
	// MaxTokens caps what is answered, reasoning included; 0: the provider's own cap. (Anthropic has none: 0 is an error there.)
	MaxTokens   int64    `json:"max_tokens,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	Stop        []string `json:"stop,omitempty"`
	Seed        *int64   `json:"seed,omitempty"`
	// Schema is the JSON Schema of the answer; nil: it is text.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Reasoning is how much the model is to think: "", "none", "low", "medium", "high".
	Reasoning string `json:"reasoning,omitempty"`
	// Cache marks how long the provider is to keep what the request begins with: "", "5m", "1h". Who caches by itself ignores it.
	Cache string `json:"cache,omitempty"`
	// Priority is for servers that order what they have queued; lower is more urgent.
	Priority int `json:"priority,omitempty"`
	// Extra are fields of the provider's own, which are put into the body as they are; they do not replace what is above.
	Extra map[string]json.RawMessage `json:"extra,omitempty"`
}

// Message is one turn of a conversation.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// Part is a part of a message. Exactly one of Text, Image, Call, Result and Opaque is set.
type Part struct {
	Text string `json:"text,omitempty"`
	// Escaped is Text as it stands between the quotes of a JSON string, for whoever writes it into a request, and must not be changed; nil: nobody has written it so yet.
	Escaped []byte      `json:"-"`
	Image   *Image      `json:"image,omitempty"`
	Call    *ToolCall   `json:"call,omitempty"`
	Result  *ToolResult `json:"result,omitempty"`
	// Opaque is a block that only its own dialect understands: reasoning with a signature, a search that the server made. It is
	// sent back byte for byte to a provider of the same dialect, and left out for any other.
	Opaque *Opaque `json:"opaque,omitempty"`
	// Fields are what its own dialect says of this part besides: the signature of a call, the phase of a text. They go along with
	// the part to a provider of the same dialect, byte for byte, and are left out for any other. Raw is an object.
	Fields *Opaque `json:"fields,omitempty"`
}

// Image is a picture: bytes, or an address.
type Image struct {
	Type string `json:"type,omitempty"` // "image/png"
	Data []byte `json:"data,omitempty"`
	URL  string `json:"url,omitempty"`
}

// ToolCall is what a model wants of a tool.
type ToolCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"` // as the model wrote it, if that is JSON; else a JSON text of what it wrote
}

// ToolResult is what a tool has answered.
type ToolResult struct {
	ID     string `json:"id"` // of the call
	Parts  []Part `json:"parts"`
	Failed bool   `json:"failed,omitempty"`
}

// Opaque is a block of one dialect.
type Opaque struct {
	Dialect string          `json:"dialect"`
	Raw     json.RawMessage `json:"raw"`
}

// Tool is what a model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"` // of its arguments
}

// Delta is a bit of an answer. Exactly one is set.
type Delta struct {
	Text      string         `json:"text,omitempty"`
	Reasoning string         `json:"reasoning,omitempty"` // a summary of what it thinks, or the thoughts
	Call      *ToolCallDelta `json:"call,omitempty"`
}

// ToolCallDelta is a bit of what a model wants of a tool; those of one call have one index, and ID and Name come with the first.
type ToolCallDelta struct {
	Index int    `json:"index"`
	ID    string `json:"id,omitempty"`
	Name  string `json:"name,omitempty"`
	Args  string `json:"args,omitempty"`
}

// Stop says why a model has stopped.
type Stop string

// Why a model stops.
const (
	StopEnd       Stop = "end"
	StopLength    Stop = "length"     // MaxTokens, or the context is full
	StopToolCalls Stop = "tool_calls" // it waits for results
	StopSequence  Stop = "stop"       // one of Request.Stop
	StopRefusal   Stop = "refusal"    // it, or a filter, will not answer
	StopPause     Stop = "pause"      // the server rests amid a long turn: it goes on when it gets its message back
)

// Answer is what a model has answered.
type Answer struct {
	ID        string  `json:"id,omitempty"`
	Model     string  `json:"model"` // as the server names what answered
	RequestID string  `json:"request_id,omitempty"`
	Message   Message `json:"message"`
	Stop      Stop    `json:"stop"`
	Usage     Usage   `json:"usage"`
}

// Text is the text of an answer.
func (a *Answer) Text() (text string) {
	for _, p := range a.Message.Parts {
		text += p.Text
	}
	return text
}

// Calls are the tool calls of an answer.
func (a *Answer) Calls() (calls []ToolCall) {
	for _, p := range a.Message.Parts {
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}

// Usage is what an answer has used, in tokens. The classes are disjoint: their sum is all that was charged.
type Usage struct {
	Input        int64 `json:"input"` // that no cache had
	CacheRead    int64 `json:"cache_read,omitempty"`
	CacheWrite   int64 `json:"cache_write,omitempty"`    // kept for 5 minutes, or as long as the provider does
	CacheWrite1h int64 `json:"cache_write_1h,omitempty"` // kept for an hour
	Output       int64 `json:"output"`                   // without reasoning
	Reasoning    int64 `json:"reasoning,omitempty"`
	// Estimated says that the server did not say it, or not to the end: a stream was cut.
	Estimated bool            `json:"estimated,omitempty"`
	Raw       json.RawMessage `json:"raw,omitempty"` // as the server said it
}

// mostTokens is the most that a number of a usage can be: more than any model takes or gives, and so few that sums of them are numbers.
const mostTokens = 1e12

// Tokens is a number of tokens as a server says it, as far as there can be so many.
func Tokens(said int64) int64 { return min(max(said, 0), mostTokens) }

// Possible is a usage whose sums are numbers, whatever a server says.
func (u Usage) Possible() Usage {
	for _, n := range []*int64{&u.Input, &u.CacheRead, &u.CacheWrite, &u.CacheWrite1h, &u.Output, &u.Reasoning} {
		*n = Tokens(*n)
	}
	return u
}

// Inputs are all input tokens.
func (u Usage) Inputs() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.CacheWrite1h }

// Outputs are all output tokens.
func (u Usage) Outputs() int64 { return u.Output + u.Reasoning }

// EmbedRequest asks for vectors of texts.
type EmbedRequest struct {
	Model      string                     `json:"model"`
	Texts      []string                   `json:"texts"`
	Dimensions int                        `json:"dimensions,omitempty"` // 0: the model's own
	Extra      map[string]json.RawMessage `json:"extra,omitempty"`
}

// Size is how long the texts are, in bytes.
func (r *EmbedRequest) Size() (n int64) {
	for _, text := range r.Texts {
		n += int64(len(text))
	}
	return n
}

// Embeddings are vectors, in the order of the texts.
type Embeddings struct {
	Model   string      `json:"model"`
	Vectors [][]float32 `json:"vectors"`
	Usage   Usage       `json:"usage"`
}
