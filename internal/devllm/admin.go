package devllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"agentkernel/internal/strictjson"
)

// admin serves what is the server's own: no provider has it, and no key is asked for.
func (s *Server) admin(mux *http.ServeMux) {
	mux.HandleFunc("GET /devllm", func(w http.ResponseWriter, _ *http.Request) {
		names := []string{}
		for _, m := range s.opts.Profile.Models {
			names = append(names, m.Name)
		}
		writeJSON(w, http.StatusOK, map[string]any{"profile": s.opts.Profile.Name, "models": names, "waiting": s.Waiting()})
	})
	mux.HandleFunc("GET /devllm/limits", s.getLimits)
	mux.HandleFunc("POST /devllm/limits", s.postLimits)
	mux.HandleFunc("GET /devllm/faults", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.faults.waiting()) })
	mux.HandleFunc("POST /devllm/faults", s.postFault)
	mux.HandleFunc("DELETE /devllm/faults", func(w http.ResponseWriter, _ *http.Request) {
		s.ClearFaults()
		writeJSON(w, http.StatusOK, s.faults.waiting())
	})
	mux.HandleFunc("GET /devllm/log", s.filtered(func(f Filter) any { return s.Log(f) }))
	mux.HandleFunc("GET /devllm/totals", s.filtered(func(f Filter) any { return s.Totals(f) }))
	mux.HandleFunc("DELETE /devllm/log", func(w http.ResponseWriter, _ *http.Request) {
		s.ClearLog()
		writeJSON(w, http.StatusOK, s.Totals(Filter{}))
	})
}

// filtered answers with what a filter in the query picks.
func (s *Server) filtered(pick func(Filter) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		f := Filter{Key: q.Get("key"), Model: q.Get("model")}
		for name, to := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
			if text := q.Get(name); text != "" {
				t, err := time.Parse(time.RFC3339Nano, text)
				if err != nil {
					refuse(w, bad("write 2026-12-01T10:00:00Z").of("%s: %q is not a time", name, text))
					return
				}
				*to = t
			}
		}
		writeJSON(w, http.StatusOK, pick(f))
	}
}

// limitsView is how limits are shown and sent.
type limitsView struct {
	Family string `json:"family,omitempty"` // of models; "": all
	Limits
}

func (s *Server) getLimits(w http.ResponseWriter, r *http.Request) {
	family := r.URL.Query().Get("family")
	s.limiter.mu.Lock()
	l := s.limiter.of(family)
	s.limiter.mu.Unlock()
	writeJSON(w, http.StatusOK, limitsView{family, l})
}

// postLimits changes what the body has; the rest stays.
func (s *Server) postLimits(w http.ResponseWriter, r *http.Request) {
	var only struct {
		Family string `json:"family"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(body, &only)
	}
	if err != nil {
		refuse(w, bad(`send {"requests": 100, "total": 50000}`).of("%s", strictjson.Explain(err, "the body", body)))
		return
	}
	s.limiter.mu.Lock()
	view := limitsView{only.Family, s.limiter.of(only.Family)}
	s.limiter.mu.Unlock()
	if err := decode(body, &view); err != nil {
		refuse(w, err)
		return
	}
	if err := s.SetLimits(view.Family, view.Limits); err != nil {
		refuse(w, err)
		return
	}
	writeJSON(w, http.StatusOK, view)
}

func (s *Server) postFault(w http.ResponseWriter, r *http.Request) {
	var f Fault
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil {
		err = decode(body, &f)
	}
	if err == nil {
		err = s.AddFault(f)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	writeJSON(w, http.StatusOK, s.faults.waiting())
}

// decode reads JSON that may hold only what v has.
func decode(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	hint := hint("docs/devllm.md says what it may hold")
	if err := d.Decode(v); err != nil {
		return hint.of("%s", strictjson.Explain(err, "the body", body))
	}
	if d.More() {
		return hint.of("the body: more than one value")
	}
	if err := strictjson.Check(body, v); err != nil {
		return hint.of("%s", err)
	}
	return nil
}

// refuse answers a request to the server itself that cannot be carried out.
func refuse(w http.ResponseWriter, err error) {
	body := map[string]any{"message": err.Error()}
	if b, ok := errors.AsType[*BadOption](err); ok {
		body["hint"] = b.Hint
	}
	writeJSON(w, http.StatusBadRequest, map[string]any{"error": body})
}
