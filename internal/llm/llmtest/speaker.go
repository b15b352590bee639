// Package llmtest is the suite that every provider passes: over real HTTP, against servers that speak its dialect, cut their
// streams anywhere, fail in every way that is known, and say what they were asked. Only tests may import it.
package llmtest

import (
	"encoding/json"
	"net/http"

	"agentkernel/internal/llm"
)

// Speaker is the server's side of a dialect. Its methods are pure.
type Speaker interface {
	// Whole is a reply in one piece, and Stream one in bits: events or lines, the last of which is the mark of the end.
	Whole(r Reply) []byte
	Stream(r Reply) []string
	// StreamType is the content type of a stream.
	StreamType() string
	// Asked reads a request. The error says what is wrong with it.
	Asked(r *http.Request, body []byte) (*Asked, error)
	// Seen is what of usage and of stops the dialect can say.
	Seen(u llm.Usage) llm.Usage
	Stops() map[llm.Stop]bool
	// Fault is an event of a stream that says that the server is overloaded.
	Fault() string
	Faults() []Fault
	// Limits are headers, and what they mean half a minute after midnight of the first of January 2026.
	Limits() (http.Header, []llm.Limit)
	// Opaque is a block that only the dialect understands, as it has to come back; nil: there is none. The second is the part of
	// a request that has it.
	Opaque() (block json.RawMessage, back string)
	// Embeddings is a reply with vectors; nil: there are none.
	Embeddings(vectors [][]float32, tokens int64) []byte
	// Can says what the dialect has a word for.
	Can(what Ability) bool
}

// Ability is what some dialects can say, and others not.
type Ability int

// The abilities.
const (
	Stopping      Ability = iota // words to stop at
	ImageURLs                    // pictures by their address
	ToolImages                   // pictures in the results of tools
	Forcing                      // a tool that must be called
	RequestIDs                   // in the head
	ReplyIDs                     // in the reply
	Seeds                        // a seed
	PartialArgs                  // arguments in bits
	FailedResults                // a result that says that the tool has failed
)

// Reply is what a server answers.
type Reply struct {
	Thinking, Text []string // in bits
	Calls          []Call
	Stop           llm.Stop
	Usage          *llm.Usage // nil: it says nothing of it
	Opaque         bool       // it begins with Speaker.Opaque
}

// Call is a tool call whose arguments come in bits.
type Call struct {
	ID, Name string
	Args     []string
}

// Asked is what a request asks.
type Asked struct {
	Path, Key, Model string
	Stream           bool
	Turns            []Turn
	Tools            []llm.Tool
	Choice           string // "auto", "none", "required", or a name
	MaxTokens        int64
	Temperature      float64
	Seed             int64
	Stop             []string
	Schema           string
	Reasoning        string
	Texts            []string // to make vectors of
}

// Turn is a message.
type Turn struct {
	Role   string   // "system", "user", "assistant", "tool"
	Text   string   // all of it
	Images []string // "image/png:" and the bytes in base64, or an address
	Calls  []llm.ToolCall
	Result string // the id of the call
	Failed bool
}

// Fault is a way to fail.
type Fault struct {
	Status     int
	Header     http.Header
	Body       string
	Kind       llm.Kind
	Code       string
	RetryAfter int // milliseconds
}

const (
	replyID    = "reply-1"
	replyModel = "model-2026"
)

// text writes a JSON string, with escapes where a server may have them.
func text(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

func object(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

type m = map[string]any
