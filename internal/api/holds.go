package api

import (
	"net/http"

	"agentkernel"
)

func (s *Server) postHalt(w http.ResponseWriter, r *http.Request, _ query) error {
	var h agentkernel.Hold
	if err := readBody(w, r, &h); err != nil {
		return err
	}
	if err := s.kernel(r).Halt(r.Context(), h); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) postThaw(w http.ResponseWriter, r *http.Request, _ query) error {
	var h agentkernel.Hold
	if err := readBody(w, r, &h); err != nil {
		return err
	}
	if err := s.kernel(r).Thaw(r.Context(), h); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
