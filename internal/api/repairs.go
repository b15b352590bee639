package api

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

func (s *Server) postResolution(w http.ResponseWriter, r *http.Request, _ query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	var body wire.ResolveRequest
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	if err := s.kernel(r).Resolve(r.Context(), pid, body.Call, body.Resolution); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// recordingType is the type of a recording as a body: an opaque file.
const recordingType = "application/octet-stream"

func (s *Server) getExport(w http.ResponseWriter, r *http.Request, q query) error {
	pid, err1 := pathPID(r)
	unredacted, err2 := q.flag("unredacted")
	files, err3 := q.flag("files")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	file, err := s.kernel(r).Export(r.Context(), pid, agentkernel.ExportOptions{Unredacted: unredacted, Files: files})
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", recordingType)
	h.Set("Content-Length", strconv.Itoa(len(file)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(file) // the client is gone if this fails
	return nil
}

func (s *Server) postImport(w http.ResponseWriter, r *http.Request, q query) error {
	file, err := readFile(w, r)
	if err != nil {
		return err
	}
	p, err := s.kernel(r).Import(r.Context(), file, agentkernel.ImportOptions{Namespace: q.text("namespace")})
	if err != nil {
		return err
	}
	w.Header().Set("Location", wire.ProcessPath(p.PID, ""))
	return answer(w, http.StatusCreated, p)
}

func (s *Server) postReplay(w http.ResponseWriter, r *http.Request, q query) error {
	span, err1 := q.duration("time")
	memory, err2 := q.number("memory")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	file, err := readFile(w, r)
	if err != nil {
		return err
	}
	v, err := s.kernel(r).Replay(r.Context(), file, agentkernel.ReplayOptions{Time: agentkernel.Duration(span), Memory: memory,
		Environment: q.text("environment")})
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, v)
}

// readFile reads a body that is a file.
func readFile(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > agentkernel.MaxRecording {
		return nil, errFileTooLarge()
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, agentkernel.MaxRecording))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, errFileTooLarge()
		}
		return nil, invalid("the request could not be read: %w", err)
	}
	return b, nil
}

func errFileTooLarge() error {
	return agentkernel.Errorf(agentkernel.CodeLimit, "recording", "the recording is larger than %d MiB", agentkernel.MaxRecording>>20)
}
