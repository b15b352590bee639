package devllm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// request is what was asked, in whichever dialect.
type request struct {
	model  string
	stream bool
	system string // all of it
	msgs   []message
	tools  []tool
	blocks []block // the prompt in the order in which caches see it: tools, system, messages

	promptTokens int64 // of all blocks; filled in by the server
	cutTokens    int64 // how many of them were dropped in silence (Ollama)
	window       int64 // Ollama's num_ctx; 0: the model's
	maxOutput    int64 // 0: not said
	schema       json.RawMessage
	jsonMode     bool
	choice       string // of tools: "", "none", "required" or a tool's name
	oneCall      bool   // no parallel tool calls
	priority     int    // lower first (vLLM)
	wantUsage    bool   // the stream is to end with the usage (chat completions)
	thinking     bool   // reasoning is to be shown
	padded       bool   // the events of the stream hide how long they are (OpenAI)
	noUsage      bool   // a fault leaves it out

	dims   int      // of vectors; 0: the model's
	inputs []string // that vectors are asked of
	base64 bool     // vectors as base64
	fixed  int      // how many blocks come before the messages (responses)
	keep   bool     // the response is to be found again by its id (responses)
}

// message is one of a conversation. Its role is user, assistant or tool.
type message struct {
	role  string
	text  string
	calls []call
	of    string // tool: the id of the call that it answers
}

// call is a call of a tool by the model.
type call struct {
	id   string
	name string
	args string // JSON, unless the answer was cut
}

// tool is one that the model may call.
type tool struct {
	name   string
	schema json.RawMessage
}

// block is a piece of the prompt.
type block struct {
	text     string
	images   int64
	pictures string        // what tells them from others
	keep     time.Duration // a breakpoint of the cache stands behind it
}

// blockOverhead is what it costs to say where a block begins and ends.
const blockOverhead = 3

func (s *Server) tokensOf(b block) int64 {
	return s.tokens.count(b.text) + b.images*s.opts.Profile.ImageTokens + blockOverhead
}

// chars is the length of the prompt in characters.
func (r *request) chars() (n int64) {
	for _, b := range r.blocks {
		n += int64(len([]rune(b.text)))
	}
	return n
}

// images is how many pictures the prompt has.
func (r *request) images() (n int64) {
	for _, b := range r.blocks {
		n += b.images
	}
	return n
}

// last is the text of the last message of a role; "" if there is none.
func (r *request) last(role string) string {
	for i := len(r.msgs) - 1; i >= 0; i-- {
		if r.msgs[i].role == role {
			return r.msgs[i].text
		}
	}
	return ""
}

// toolResults are the texts of the results behind the last message of the model, one a line.
func (r *request) toolResults() string {
	var texts []string
	for i := len(r.msgs) - 1; i >= 0 && r.msgs[i].role != "assistant"; i-- {
		if r.msgs[i].role == "tool" {
			texts = append([]string{r.msgs[i].text}, texts...)
		}
	}
	return strings.Join(texts, "\n")
}

// turn is the number of the answer that is asked for, from 1.
func (r *request) turn() int {
	n := 1
	for i, m := range r.msgs {
		if m.role == "assistant" && (i == 0 || r.msgs[i-1].role != "assistant") {
			n++
		}
	}
	return n
}

// checkCalls refuses a conversation in which a call of a tool has no result, or a result no call, as providers do.
func (r *request) checkCalls() *failure {
	open := map[string]bool{}
	for i, m := range r.msgs {
		if m.role == "tool" {
			if !open[m.of] {
				return badRequest("messages with role 'tool' must be a response to a preceding message with 'tool_calls': there is no open call %q", m.of).at("messages")
			}
			delete(open, m.of)
			continue
		}
		if len(open) > 0 && !(m.role == "assistant" && r.msgs[i-1].role == "assistant") {
			break
		}
		for _, c := range m.calls {
			open[c.id] = true
		}
	}
	for id := range open {
		return badRequest("a tool call must be followed by its result: there is none for %q", id).at("messages")
	}
	return nil
}

// answer is what the server says to a request.
type answer struct {
	rule      string // of the script, for the log
	reasoning string
	text      string
	refusal   string
	calls     []call
	finish    finish
	fail      *failure
}

type finish int

const (
	stopped finish = iota
	cutShort
	wantsTools
	refused
	windowFull
)

// fingerprint names a key without telling it.
func fingerprint(key string) string {
	if key == "" {
		return "none"
	}
	sum := sha256.Sum256([]byte("devllm key " + key))
	return hex.EncodeToString(sum[:6])
}

// keyOf is the key of a request, wherever its dialect has it.
func keyOf(r *http.Request) string {
	for _, h := range []string{"x-api-key", "api-key"} {
		if k := r.Header.Get(h); k != "" {
			return k
		}
	}
	if scheme, k, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(k)
	}
	return ""
}
