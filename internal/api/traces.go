package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"agentkernel"
	"agentkernel/internal/api/wire"
	"agentkernel/internal/clip"
)

// A page of a journal ends after so many entries or bytes, whichever comes first.
const (
	pageEntries = 5000
	pageBytes   = 8 << 20
	maxBatch    = 512 // entries asked of the kernel at a time
	firstBatch  = 8   // the first time: each may be as large as a result can be
)

func (s *Server) getEvents(w http.ResponseWriter, r *http.Request, q query) error {
	pid, err1 := pathPID(r)
	from, err2 := q.number("from")
	follow, err3 := q.flag("follow")
	last, err4 := lastEvent(r)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	from = max(from, last)
	return s.stream(w, r, agentkernel.EventEnd, func(ctx context.Context, fn func(agentkernel.Event) error) (wire.Done, error) {
		return wire.Done{}, s.kernel(r).Events(ctx, pid, from, follow, fn)
	})
}

// lastEvent is the position behind the last event that a resuming client has seen; 0 if it says nothing.
func lastEvent(r *http.Request) (int64, error) {
	v := r.Header.Get(wire.HeaderLastEvent)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 62)
	if err != nil || n < 0 {
		return 0, invalid("header Last-Event-ID: %q is not the id of an event", clip.Short(v))
	}
	return n + 1, nil
}

// getJournal answers a page of a journal. Entries are encoded one by one, so that a page is bounded in
// bytes although a single result may be large.
func (s *Server) getJournal(w http.ResponseWriter, r *http.Request, q query) error {
	pid, err1 := pathPID(r)
	from, err2 := q.number("from")
	limit, err3 := q.number("limit")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if limit == 0 || limit > pageEntries {
		limit = pageEntries
	}
	page := struct {
		Entries []json.RawMessage `json:"entries"`
		Next    int64             `json:"next,omitempty"`
	}{Entries: []json.RawMessage{}}
	batch := int64(firstBatch)
	for size := 0; ; {
		ask := min(batch, limit-int64(len(page.Entries)))
		entries, err := s.kernel(r).Journal(r.Context(), pid, from, int(ask))
		if err != nil {
			return err
		}
		before := size
		for i := range entries {
			var b bytes.Buffer
			if err := encodeTo(&b, &entries[i]); err != nil {
				return err
			}
			page.Entries = append(page.Entries, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
			size += b.Len()
			from = entries[i].Seq + 1
			if size >= pageBytes {
				break
			}
		}
		if int64(len(entries)) < ask && size < pageBytes {
			break // the end of the journal
		}
		if int64(len(page.Entries)) >= limit || size >= pageBytes {
			page.Next = from
			break
		}
		batch = nextBatch(batch, size-before)
	}
	return answer(w, http.StatusOK, page)
}

// nextBatch is how many entries are asked for after so many that had so many bytes.
func nextBatch(n int64, size int) int64 {
	if size > pageBytes/8 {
		return max(n/2, 1)
	}
	return min(2*n, maxBatch)
}

func (s *Server) getSpec(w http.ResponseWriter, r *http.Request, _ query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	spec, err := s.kernel(r).Spec(r.Context(), pid)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, spec)
}

func (s *Server) getState(w http.ResponseWriter, r *http.Request, _ query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	state, err := s.kernel(r).State(r.Context(), pid)
	if err != nil {
		return err
	}
	if state == nil {
		state = map[string]json.RawMessage{}
	}
	return answer(w, http.StatusOK, wire.WorkingSet{State: state})
}

func (s *Server) getServers(w http.ResponseWriter, r *http.Request, q query) error {
	list, err := s.kernel(r).ToolServers(r.Context(), q.list("files"))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, wire.ServerList{Servers: notNil(list)})
}

func (s *Server) getTools(w http.ResponseWriter, r *http.Request, q query) error {
	list, err := s.kernel(r).ListTools(r.Context(), q.list("files"), q.text("server"))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, wire.ToolList{Tools: notNil(list)})
}
