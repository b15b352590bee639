package api

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

func (s *Server) getChanges(w http.ResponseWriter, r *http.Request, _ query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	changes, err := s.kernel(r).Changes(r.Context(), pid)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, changes)
}

func (s *Server) postApply(w http.ResponseWriter, r *http.Request, _ query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	var o agentkernel.ApplyOptions
	if err := readBody(w, r, &o); err != nil {
		return err
	}
	applied, err := s.kernel(r).Apply(r.Context(), pid, o)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, applied)
}

func (s *Server) postDiscard(w http.ResponseWriter, r *http.Request, _ query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	if err := readBody(w, r, &struct{}{}); err != nil {
		return err
	}
	if err := s.kernel(r).Discard(r.Context(), pid); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// getFile sends a file as it is read: however large it is, a small piece of it is in memory.
func (s *Server) getFile(w http.ResponseWriter, r *http.Request, q query) error {
	pid, err1 := pathPID(r)
	before, err2 := q.flag("before")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	name := agentkernel.FileName{Volume: q.text("volume"), Path: q.text("path"), Before: before}
	if _, err := agentkernel.ParseFileName(name.Path); err != nil {
		return err
	}
	file, err := s.kernel(r).OpenFile(r.Context(), pid, name)
	if err != nil {
		return err
	}
	defer file.Content.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.FormatInt(file.Size, 10))
	h.Set(wire.HeaderMedia, file.Media)
	w.WriteHeader(http.StatusOK)
	if n, err := io.CopyN(w, file.Content, file.Size); err != nil {
		s.log.Info("a file was not sent to its end", "pid", pid, "sent", n, "of", file.Size, "err", err)
		panic(http.ErrAbortHandler) // the client sees a broken answer, not a short file
	}
	return nil
}
