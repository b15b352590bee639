package api

import (
	"context"
	"net/http"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// postPiece hands a session its next piece; the answer is the piece's events. The piece runs on if the
// client leaves.
func (s *Server) postPiece(w http.ResponseWriter, r *http.Request, _ query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	var piece agentkernel.Piece
	if err := readBody(w, r, &piece); err != nil {
		return err
	}
	return s.stream(w, r, agentkernel.EventIdle, func(ctx context.Context, fn func(agentkernel.Event) error) (wire.Done, error) {
		end, err := s.kernel(r).Feed(ctx, pid, piece, fn)
		return wire.Done{Piece: &end}, err
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
