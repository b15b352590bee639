package api

import (
	"context"
	"net/http"

	"agentkernel"
	"agentkernel/internal/policy"
)

// callerKey is where the context of a request has its principal.
type callerKey struct{}

// known returns a request whose context says who has sent it.
func (s *Server) known(r *http.Request) (*http.Request, error) {
	if s.principal == nil {
		return r, nil
	}
	who, err := s.principal(r)
	if err != nil {
		return r, err
	}
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, who)), nil
}

// caller is who has sent a request. One that has not come through guard is of somebody without
// rights.
func (s *Server) caller(r *http.Request) agentkernel.Principal {
	if s.principal == nil {
		return agentkernel.Owner()
	}
	who, _ := r.Context().Value(callerKey{}).(agentkernel.Principal)
	return who
}

// kernel is the kernel as the sender of a request sees it. Handlers reach it in no other way.
func (s *Server) kernel(r *http.Request) agentkernel.Kernel {
	return policy.Scoped(s.whole, s.caller(r))
}
