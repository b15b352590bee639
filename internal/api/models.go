package api

import (
	"net/http"
	"time"

	"agentkernel"
	"agentkernel/internal/api/wire"
	"agentkernel/internal/clip"
)

func (s *Server) getModelUsage(w http.ResponseWriter, r *http.Request, q query) error {
	asked := agentkernel.UsageQuery{Namespace: q.text("namespace")}
	for _, key := range q.list("by") {
		asked.By = append(asked.By, agentkernel.UsageKey(key))
	}
	if tree := q.text("tree"); tree != "" {
		pid, err := agentkernel.ParsePID(tree)
		if err != nil {
			return err
		}
		asked.Tree = pid
	}
	for name, at := range map[string]*time.Time{"since": &asked.Since, "until": &asked.Until} {
		if text := q.text(name); text != "" {
			var err error
			if *at, err = time.Parse(time.RFC3339, text); err != nil {
				return invalid("%s=%s must be a time such as 2026-11-01T00:00:00Z", name, clip.Short(text))
			}
		}
	}
	u, err := s.kernel(r).ModelUsage(r.Context(), asked)
	if err != nil {
		return err
	}
	u.Rows = notNil(u.Rows)
	return answer(w, http.StatusOK, u)
}

func (s *Server) getModelLimits(w http.ResponseWriter, r *http.Request, _ query) error {
	l, err := s.kernel(r).ModelLimits(r.Context())
	if err != nil {
		return err
	}
	l.Keys, l.Deployments = notNil(l.Keys), notNil(l.Deployments)
	return answer(w, http.StatusOK, l)
}

func (s *Server) postModelKey(w http.ResponseWriter, r *http.Request, _ query) error {
	var body wire.KeyRequest
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	if err := s.kernel(r).GiveKey(r.Context(), body.PID, body.Model, body.Key); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
