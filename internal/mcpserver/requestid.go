package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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

// withRequestID notes the id of a request over HTTP. No client can set it otherwise.
func withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del(requestIDHeader)
		if r.Method != http.MethodPost || r.Body == nil {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			status := http.StatusBadRequest
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				status = http.StatusRequestEntityTooLarge
			}
			http.Error(w, fmt.Sprintf("the request cannot be read: %v", err), status)
			return
		}
		var message struct {
			ID json.RawMessage `json:"id"`
		}
		if json.Unmarshal(body, &message) == nil && len(message.ID) > 0 {
			r.Header.Set(requestIDHeader, string(message.ID))
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
