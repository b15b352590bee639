package api

import (
	"net/http"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// postTaskProgram writes a program and runs nothing. It is for who may run it: it says whether the kernel has models.
func (s *Server) postTaskProgram(w http.ResponseWriter, r *http.Request, _ query) error {
	if who := s.caller(r); !who.Has(agentkernel.RightRun) {
		return agentkernel.Errorf(agentkernel.CodeDenied, "task", "a task in plain language needs the right %s", agentkernel.RightRun)
	}
	var body wire.TaskRequest
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	if s.task == nil {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "task", "this kernel does no tasks in plain language").WithHint("send a program")
	}
	program, err := s.task(r.Context(), s.kernel(r), &body)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, program)
}
