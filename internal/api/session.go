package api

import (
	"context"
	"net/http"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// postCell hands a session its next cell; the answer is the cell's events. The cell runs on if the
// client leaves.
func (s *Server) postCell(w http.ResponseWriter, r *http.Request, _ query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	var cell agentkernel.Cell
	if err := readBody(w, r, &cell); err != nil {
		return err
	}
	return s.stream(w, r, agentkernel.EventIdle, func(ctx context.Context, fn func(agentkernel.Event) error) (wire.Done, error) {
		end, err := s.kernel(r).Feed(ctx, pid, cell, fn)
		return wire.Done{Cell: &end}, err
	})
}

func (s *Server) postEnd(w http.ResponseWriter, r *http.Request, _ query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	p, err := s.kernel(r).EndSession(r.Context(), pid)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, p)
}
