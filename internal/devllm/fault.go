package devllm

import (
	"slices"
	"sync"
	"time"

	"agentkernel/internal/nearest"
)

// Fault is something that goes wrong for the next requests.
type Fault struct {
	// Kind is one of:
	//   500, 503, 529   an error of that status, in the dialect's form
	//   429             a limit that no meter knows of; RetryAfter says when to come again, 0: it does not
	//   quota           the 429 of a spend cap
	//   html            status 502 with a page of HTML, as proxies send it
	//   stall           nothing comes: before the headers, or after AfterEvents of a stream
	//   cut             the connection ends after AfterEvents of a stream, or in the middle of a whole answer
	//   malformed       after AfterEvents of a stream comes one that is no JSON; a whole answer is no JSON
	//   error-event     after AfterEvents of a stream comes an error in the dialect's form
	//   no-usage        the usage is missing
	Kind string `json:"kind"`
	// Count is how many requests it meets; 0: one. Below 0: all, until faults are cleared.
	Count int `json:"count"`
	// Skip lets so many requests pass first, and Every spares all but each so-manieth behind that.
	Skip  int `json:"skip"`
	Every int `json:"every"`
	// Model is the only one that it meets; "": all.
	Model string `json:"model"`
	// AfterEvents is how many events of a stream come before it.
	AfterEvents int `json:"after_events"`
	// RetryAfter is what a 429 says.
	RetryAfter Span `json:"retry_after"`
	// For is how long a stall lasts before the answer goes on; 0: until the client goes.
	For Span `json:"for"`
}

// faultKinds are those that there are.
func faultKinds() []string {
	return []string{"500", "503", "529", "429", "quota", "html", "stall", "cut", "malformed", "error-event", "no-usage"}
}

func (f Fault) validate() error {
	if !slices.Contains(faultKinds(), f.Kind) {
		question := nearest.Question(f.Kind, faultKinds())
		if question == "" {
			question = "there are 500, 503, 529, 429, quota, html, stall, cut, malformed, error-event and no-usage"
		}
		return bad("%s", question).of("there is no fault %q", f.Kind)
	}
	if f.Skip < 0 || f.Every < 0 || f.AfterEvents < 0 {
		return bad("leave it out for none").of("skip, every and after_events of the fault %s are not below zero", f.Kind)
	}
	return nil
}

// faults are those that are to come.
type faults struct {
	mu   sync.Mutex
	list []*pending
}

type pending struct {
	Fault
	left int
	seen int
}

func (q *faults) add(f Fault) {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := f.Count
	if left == 0 {
		left = 1
	}
	q.list = append(q.list, &pending{Fault: f, left: left})
}

func (q *faults) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = nil
}

// waiting are the faults that have not met all of their requests.
func (q *faults) waiting() []Fault {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := []Fault{}
	for _, p := range q.list {
		f := p.Fault
		f.Count = p.left
		list = append(list, f)
	}
	return list
}

// next is the fault that meets a request for the model; nil: none.
func (q *faults) next(model string) *Fault {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, p := range q.list {
		if p.Model != "" && p.Model != model {
			continue
		}
		p.seen++
		n := p.seen - p.Skip
		if n <= 0 || p.Every > 1 && n%p.Every != 0 {
			continue
		}
		if p.left > 0 {
			if p.left--; p.left == 0 {
				q.list = slices.Delete(q.list, i, i+1)
			}
		}
		return &p.Fault
	}
	return nil
}

// failure is the error that the fault is, if it is one that comes instead of an answer.
func (f *Fault) failure() *failure {
	switch f.Kind {
	case "500":
		return &failure{cause: internalFault, message: "The server had an error while processing your request. Sorry about that!"}
	case "503":
		return &failure{cause: unavailable, message: "The server is currently overloaded with other requests."}
	case "529":
		return &failure{cause: overloaded, message: "Overloaded"}
	case "429":
		return &failure{cause: limited, message: "Rate limit reached. Slow down.", limit: "fault", retry: time.Duration(f.RetryAfter), noRetry: f.RetryAfter == 0}
	case "quota":
		return spendCapReached()
	case "html":
		return &failure{cause: internalFault, status: 502, raw: "<html><head><title>502 Bad Gateway</title></head><body>bad gateway</body></html>\n"}
	}
	return nil
}

func spendCapReached() *failure {
	return &failure{cause: spent, limit: "spend", noRetry: true, message: "You exceeded your current quota, please check your plan and billing details."}
}
