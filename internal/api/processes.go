package api

import (
	"context"
	"errors"
	"net/http"

	"agentkernel"
	"agentkernel/internal/api/wire"
	"agentkernel/internal/clip"
)

func (s *Server) getVersion(w http.ResponseWriter, _ *http.Request, _ query) error {
	return answer(w, http.StatusOK, s.version)
}

func (s *Server) getInfo(w http.ResponseWriter, r *http.Request, _ query) error {
	info, err := s.kernel(r).Info(r.Context())
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, info)
}

// postProcess creates a process. With follow the answer is its events, and the process goes on if the
// client leaves.
func (s *Server) postProcess(w http.ResponseWriter, r *http.Request, q query) error {
	follow, err := q.flag("follow")
	if err != nil {
		return err
	}
	var spec agentkernel.Spec
	if err := readBody(w, r, &spec); err != nil {
		return err
	}
	if follow {
		return s.stream(w, r, agentkernel.EventEnd, func(ctx context.Context, fn func(agentkernel.Event) error) (wire.Done, error) {
			p, err := s.kernel(r).Run(ctx, spec, fn)
			return wire.Done{Process: &p}, err
		})
	}
	p, err := s.kernel(r).Spawn(r.Context(), spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", wire.ProcessPath(p.PID, ""))
	return answer(w, http.StatusCreated, p)
}

func (s *Server) postMany(w http.ResponseWriter, r *http.Request, _ query) error {
	var body wire.ManyRequest
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	pids, err := s.kernel(r).SpawnMany(r.Context(), body.Spec, body.Each)
	if err != nil {
		return err
	}
	return answer(w, http.StatusCreated, wire.Many{PIDs: notNil(pids)})
}

func (s *Server) listProcesses(w http.ResponseWriter, r *http.Request, q query) error {
	f, err1 := selection(q)
	limit, err2 := q.number("limit")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	f.Limit = int(limit)
	list, err := s.kernel(r).List(r.Context(), f)
	if err != nil {
		return err
	}
	page := wire.ProcessList{Processes: notNil(list)}
	if len(list) > 0 && f.Key == "" {
		f.Before, f.Limit = list[len(list)-1].PID, 1
		older, err := s.kernel(r).List(r.Context(), f)
		if err != nil {
			return err
		}
		if len(older) > 0 {
			page.Next = f.Before
		}
	}
	return answer(w, http.StatusOK, page)
}

func (s *Server) countProcesses(w http.ResponseWriter, r *http.Request, q query) error {
	f, err := selection(q)
	if err != nil {
		return err
	}
	n, err := s.kernel(r).Count(r.Context(), f)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, wire.Count{Count: n})
}

// selection is the filter of a listing, but for its limit.
func selection(q query) (agentkernel.Filter, error) {
	unfinished, err1 := q.flag("unfinished")
	active, err2 := q.flag("active")
	parent, err3 := q.number("parent")
	before, err4 := q.number("before")
	return agentkernel.Filter{Namespace: q.text("namespace"), Unfinished: unfinished, Active: active, Parent: agentkernel.PID(parent),
		Before: agentkernel.PID(before), Key: q.text("key")}, errors.Join(err1, err2, err3, err4)
}

func (s *Server) getProcess(w http.ResponseWriter, r *http.Request, _ query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	p, err := s.kernel(r).Process(r.Context(), pid)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, p)
}

// waitProcess is a long poll: it answers when the process has ended or is paused, or after timeout with
// the process as it stands then.
func (s *Server) waitProcess(w http.ResponseWriter, r *http.Request, q query) error {
	pid, err1 := pathPID(r)
	timeout, err2 := q.duration("timeout")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	ctx := r.Context()
	bounded := q.values.Get("timeout") != ""
	if bounded { // 0 is at once
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	p, err := s.kernel(r).Wait(ctx, pid)
	if err != nil && bounded && ctx.Err() != nil && r.Context().Err() == nil {
		p, err = s.kernel(r).Process(r.Context(), pid)
	}
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, p)
}

func (s *Server) postSignal(w http.ResponseWriter, r *http.Request, _ query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	var body wire.SignalRequest
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	if _, err := body.Of(body.Signal); err != nil {
		return err
	}
	if err := s.kernel(r).Signal(r.Context(), pid, body.Signal, body.SignalOptions); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) postAnswer(w http.ResponseWriter, r *http.Request, _ query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	var body wire.AnswerRequest
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	switch body.Answer {
	case agentkernel.AnswerYes, agentkernel.AnswerAlways, agentkernel.AnswerNo:
	default:
		return invalid("answer %q is not known: yes, always or no", clip.Short(string(body.Answer)))
	}
	if err := s.kernel(r).Answer(r.Context(), pid, body.Ask, body.Answer); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) postRecover(w http.ResponseWriter, r *http.Request, _ query) error {
	var body wire.RecoverRequest
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	if body.PID < 0 {
		return invalid("pid %d is not a pid; 0 means all", body.PID)
	}
	list, err := s.kernel(r).Recover(r.Context(), body.PID)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, wire.ProcessList{Processes: notNil(list)})
}

func (s *Server) postShutdown(w http.ResponseWriter, r *http.Request, _ query) error {
	if !s.caller(r).Owner {
		return agentkernel.Errorf(agentkernel.CodeDenied, "shutdown", "only the owner of the kernel may end it")
	}
	err := answer(w, http.StatusAccepted, wire.Stopping{OSPID: s.osPID})
	s.end() // the answer is sent first: an orderly end waits for running requests
	return err
}

// notNil makes an empty list "[]" and not "null".
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
