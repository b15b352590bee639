package api

import (
	"context"
	"net/http"

	"agentkernel"
)

func (s *Server) postHalt(w http.ResponseWriter, r *http.Request, _ query) error {
	return changeHold(w, r, s.kernel(r).Halt)
}

func (s *Server) postThaw(w http.ResponseWriter, r *http.Request, _ query) error {
	return changeHold(w, r, s.kernel(r).Thaw)
}

func changeHold(w http.ResponseWriter, r *http.Request, change func(context.Context, agentkernel.Hold) error) error {
	h, err := readHold(w, r)
	if err != nil {
		return err
	}
	if err := change(r.Context(), h); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// readHold reads what a request is over. What is named, and is empty, is no hold over the kernel: a client has lost its value.
func readHold(w http.ResponseWriter, r *http.Request) (h agentkernel.Hold, err error) {
	var body struct {
		Namespace *string          `json:"namespace"`
		Tree      *agentkernel.PID `json:"tree"`
		Why       string           `json:"why"`
	}
	if err := readBody(w, r, &body); err != nil {
		return h, err
	}
	if h.Why = body.Why; body.Namespace != nil {
		h.Namespace = *body.Namespace
	}
	if body.Tree != nil {
		h.Tree = *body.Tree
	}
	if body.Namespace != nil && h.Namespace == "" || body.Tree != nil && h.Tree == 0 {
		return h, agentkernel.Errorf(agentkernel.CodeInvalid, "halt", "namespace or tree is empty; leave both out to mean the whole kernel")
	}
	return h, nil
}
