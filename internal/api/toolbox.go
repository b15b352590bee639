package api

import (
	"net/http"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

func (s *Server) searchTools(w http.ResponseWriter, r *http.Request, q query) error {
	limit, err := q.number("limit")
	if err != nil {
		return err
	}
	found, err := s.kernel(r).SearchTools(r.Context(), q.list("files"), agentkernel.ToolQuery{
		Text: q.text("text"), Server: q.text("server"), Limit: int(min(limit, 1<<30))})
	if err != nil {
		return err
	}
	found.Tools = notNil(found.Tools)
	return answer(w, http.StatusOK, found)
}

func (s *Server) searchToolsWith(w http.ResponseWriter, r *http.Request, _ query) error {
	var body wire.SearchRequest
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	found, err := s.kernel(r).SearchTools(r.Context(), body.Files, body.ToolQuery)
	if err != nil {
		return err
	}
	found.Tools = notNil(found.Tools)
	return answer(w, http.StatusOK, found)
}

func (s *Server) acceptTools(w http.ResponseWriter, r *http.Request, _ query) error {
	var body wire.AcceptRequest
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	n, err := s.kernel(r).AcceptTools(r.Context(), body.Files, body.Server, body.Names)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, wire.Accepted{Changed: n})
}
