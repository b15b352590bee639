package api

import (
	"net/http"

	"agentkernel"
)

func (s *Server) postPrune(w http.ResponseWriter, r *http.Request, _ query) error {
	var o agentkernel.PruneOptions
	if err := readBody(w, r, &o); err != nil {
		return err
	}
	out, err := s.kernel(r).Prune(r.Context(), o)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, out)
}

func (s *Server) getStorage(w http.ResponseWriter, r *http.Request, _ query) error {
	out, err := s.kernel(r).Storage(r.Context())
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, out)
}
