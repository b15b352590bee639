package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel/internal/strictjson"
)

// The SDK does not tell a handler the id of its request. Over HTTP a request may arrive twice, sent again by what lies between
// a client and this server: its id is put among its headers, which a handler sees.

// requestIDHeader is where the id of a request is.
const requestIDHeader = "Agentkernel-Request-Id"

func requestID(extra *mcp.RequestExtra) string {
	if extra == nil {
		return ""
	}
	return extra.Header.Get(requestIDHeader)
}

// isList says whether a body begins as a list.
func isList(body []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) }

// maxBatch is how many messages a batch may have: clients of protocol versions before 2025-06-18 send some.
const maxBatch = 100

// withRequestID notes the id of a request over HTTP. No client can set it otherwise. The body counts until it is served, and the
// end of the server waits for the answer of a call.
func (h *server) withRequestID(held *bodies, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del(requestIDHeader)
		if r.Method != http.MethodPost || r.Body == nil {
			next.ServeHTTP(w, r)
			return
		}
		principal := principalOf(auth.TokenInfoFromContext(r.Context()))
		if r.ContentLength > 0 && r.ContentLength <= maxRequest {
			if err := held.fits(principal, r.ContentLength); err != nil {
				refuseBody(w, err)
				return
			}
		}
		counted := &countedBody{Reader: http.MaxBytesReader(w, r.Body, maxRequest), bodies: held, principal: principal}
		defer func() { held.release(principal, counted.taken) }()
		body, err := io.ReadAll(counted)
		if err != nil {
			refuseBody(w, err)
			return
		}
		if isList(body) && json.Valid(body) && !strictjson.AreObjects(body, maxBatch) { // read as a batch, a list of numbers takes forty times its length
			http.Error(w, fmt.Sprintf("a batch has at most %d messages, each of them an object", maxBatch), http.StatusBadRequest)
			return
		}
		var message struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(body, &message) == nil && len(message.ID) > 0 {
			r.Header.Set(requestIDHeader, string(message.ID))
		}
		if message.Method == "tools/call" {
			if !h.clients.enter() {
				refuseEnding(w)
				return
			}
			defer h.clients.answering.Done()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
