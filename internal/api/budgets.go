package api

import (
	"net/http"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

func (s *Server) getBudget(w http.ResponseWriter, r *http.Request, _ query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	state, err := s.kernel(r).Budget(r.Context(), pid)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, state)
}

func (s *Server) postBudget(w http.ResponseWriter, r *http.Request, _ query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	var more agentkernel.Budget
	if err := readBody(w, r, &more); err != nil {
		return err
	}
	state, err := s.kernel(r).AddBudget(r.Context(), pid, more)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, state)
}

func (s *Server) getAllowances(w http.ResponseWriter, r *http.Request, q query) error {
	states, err := s.kernel(r).Allowances(r.Context(), q.text("namespace"))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, wire.AllowanceList{Allowances: notNil(states)})
}
