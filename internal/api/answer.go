package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"agentkernel"
)

// answer writes v as JSON. It is encoded in full first, so that what cannot be encoded is an error answer
// and not half a document.
func answer(w http.ResponseWriter, status int, v any) error {
	var b bytes.Buffer
	if err := encodeTo(&b, v); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client is gone if this fails
	return nil
}

// encodeTo writes JSON and a newline. Journalled values pass through byte for byte: < and > are not escaped.
func encodeTo(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return agentkernel.Errorf(agentkernel.CodeInternal, "api", "an answer cannot be written as JSON: %w", err)
	}
	return nil
}

// fail answers with an error. Nothing may have been written before.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := s.explain(r, err)
	status := e.Code.HTTPStatus()
	if w.Header().Get("Allow") != "" {
		status = http.StatusMethodNotAllowed
	}
	if e.Code == agentkernel.CodeCorrupt && e.Op == "recording" { // it came with the request: nothing of ours is damaged
		status = http.StatusBadRequest
	}
	if e.Code == agentkernel.CodeInternal {
		s.log.Error("request failed", "path", r.URL.Path, "error", e.Error())
	}
	if err := answer(w, status, e); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// explain gives an error as the caller should read it: a call that was cut off because the kernel ends
// says so, and why if its store failed.
func (s *Server) explain(r *http.Request, err error) *agentkernel.Error {
	pid, _ := pathPID(r) // 0: the path names none
	return s.explainOf(r, pid, err)
}

// explainOf is explain for a request about a process.
func (s *Server) explainOf(r *http.Request, pid agentkernel.PID, err error) *agentkernel.Error {
	if errors.Is(err, context.Canceled) {
		if s.stopping() {
			return s.cutOff(r, pid)
		}
		return agentkernel.AsError(err, agentkernel.CodeCanceled, r.URL.Path)
	}
	return agentkernel.AsError(err, agentkernel.CodeInternal, r.URL.Path)
}
