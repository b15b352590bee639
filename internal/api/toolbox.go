package api

import (
	"net/http"

	"agentkernel"
)

// AcceptRequest is the body of POST /tools/accept; no names means all tools of the server.
type AcceptRequest struct {
	Files  []string `json:"files"`
	Server string   `json:"server"`
	Names  []string `json:"names,omitempty"`
}

// Accepted is the answer of POST /tools/accept: how many tools had changed.
type Accepted struct {
	Changed int `json:"changed"`
}

func (s *Server) searchTools(w http.ResponseWriter, r *http.Request, q query) error {
	limit, err := q.number("limit")
	if err != nil {
		return err
	}
	found, err := s.kernel.SearchTools(r.Context(), q.list("files"), agentkernel.ToolQuery{
		Text: q.text("text"), Server: q.text("server"), Limit: int(min(limit, 1<<30))})
	if err != nil {
		return err
	}
	found.Tools = notNil(found.Tools)
	return answer(w, http.StatusOK, found)
}

// SearchRequest is the body of POST /tools/search, for those who have local tools.
type SearchRequest struct {
	Files []string `json:"files,omitempty"`
	agentkernel.ToolQuery
}

func (s *Server) searchToolsWith(w http.ResponseWriter, r *http.Request, _ query) error {
	var body SearchRequest
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	found, err := s.kernel.SearchTools(r.Context(), body.Files, body.ToolQuery)
	if err != nil {
		return err
	}
	found.Tools = notNil(found.Tools)
	return answer(w, http.StatusOK, found)
}

func (s *Server) acceptTools(w http.ResponseWriter, r *http.Request, _ query) error {
	var body AcceptRequest
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	n, err := s.kernel.AcceptTools(r.Context(), body.Files, body.Server, body.Names)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, Accepted{Changed: n})
}
