package api

import (
	"encoding/json"
	"net/http"
	"time"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// backupPatience is how long the reader of a backup may let the kernel wait: blobs are kept for it meanwhile.
const backupPatience = 5 * time.Minute

func (s *Server) getBackup(w http.ResponseWriter, r *http.Request, _ query) error {
	to := &backupBody{w: w, control: http.NewResponseController(w)}
	err := s.kernel(r).Backup(r.Context(), to)
	if err == nil || !to.begun {
		return err
	}
	e := s.explain(r, err)
	s.log.Warn("a backup was not completed", "error", e.Error())
	text, jerr := json.Marshal(e)
	if jerr != nil {
		panic(http.ErrAbortHandler) // the caller finds the stream cut
	}
	w.Header().Set(wire.TrailerError, string(text))
	return nil
}

// backupBody is the body of the answer. Its header goes out with the first bytes, so that an error before them is
// an answer like any other.
type backupBody struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (b *backupBody) Write(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		h := b.w.Header()
		h.Set("Content-Type", recordingType)
		h.Set("Trailer", wire.TrailerError)
		b.w.WriteHeader(http.StatusOK)
	}
	if err := b.control.SetWriteDeadline(time.Now().Add(backupPatience)); err != nil {
		return 0, agentkernel.AsError(err, agentkernel.CodeInternal, "backup")
	}
	return b.w.Write(p)
}
