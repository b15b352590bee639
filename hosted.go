package agentkernel

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hosted is the ability to run processes whose program lives elsewhere (backend "hosted"): a framework, an
// SDK coroutine, a gateway. The process is created with Spawn; whoever is its Host makes its calls. See docs/hosted.md.
type Hosted interface {
	// Attach makes the caller the host of a hosted process. A process has one at most (CodeConflict); who was it before, and
	// comes back when another has been, is told so (CodeFenced).
	Attach(ctx context.Context, pid PID, how Attaching) (Host, error)
}

// Attaching says how a host takes up a process. The zero value: its program is at its beginning, and the process has no host.
type Attaching struct {
	// Epoch is that of an earlier attachment whose program still runs, and goes on; 0: the program is at its beginning.
	Epoch int64
	// TakeOver takes the process from whoever is its host. Without effect where Epoch is not 0.
	TakeOver bool
}

// Attached is what a host learns of a process.
type Attached struct {
	PID   PID   `json:"pid"`
	Epoch int64 `json:"epoch"` // of this attachment; in the journal, and higher than all before
	Calls int64 `json:"calls"` // that the process has made in all its attachments
}

// Host makes the calls of a hosted process. Its methods may be called at the same time; calls are made in the order of Issue.
type Host interface {
	Attached() Attached
	// Issue makes a call, or looks up what the journal has of it, and returns what waits for its result: JSON, or an *Error. Who
	// does not wait gives up the result and not the call.
	Issue(c HostedCall) Awaited
	// End ends the process, durably. What is under way is given up.
	End(ctx context.Context, e HostedEnd) (Process, error)
	// Done is closed when the attachment is over: the process has ended, another is its host, or the kernel ends.
	Done() <-chan struct{}
	// Err says why it is over; nil: it is not, or the process has ended.
	Err() error
	// Close lets go of the process, which waits for a host again. Calls that are under way go on.
	Close() error
}

// Awaited waits for the result of a call.
type Awaited func(ctx context.Context) (json.RawMessage, error)

// HostedCall is one call of a hosted program.
type HostedCall struct {
	Place
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args"` // a JSON object
}

// HostedEnd says how a hosted program ended: with an error, or with an exit code and a result.
type HostedEnd struct {
	ExitCode int             `json:"exit_code,omitempty"` // 0 to 255
	Result   json.RawMessage `json:"result,omitempty"`    // JSON
	Error    *HostedError    `json:"error,omitempty"`
}

// HostedError is what a hosted program failed with.
type HostedError struct {
	Message   string `json:"message"`
	Exception string `json:"exception,omitempty"` // its type: "ValueError"
	Traceback string `json:"traceback,omitempty"`
}

// Place is where a call stands in a hosted program: the N-th of a lane. What runs one after the other is one lane. A program
// that begins again makes the same calls at the same places, in whatever order its lanes run.
type Place struct {
	Lane string `json:"lane"`
	N    int64  `json:"n"` // from 1
}

// maxLane bounds the name of a lane, in bytes.
const maxLane = 200

// Validate says what is wrong with a place.
func (p Place) Validate() error {
	switch {
	case p.N < 1:
		return Errorf(CodeInvalid, "host", "a call has the number %d in its lane: they begin at 1", p.N)
	case len(p.Lane) > maxLane:
		return Errorf(CodeInvalid, "host", "the name of a lane has %d bytes; at most %d are possible", len(p.Lane), maxLane)
	case !utf8.ValidString(p.Lane) || strings.ContainsFunc(p.Lane, unicode.IsControl):
		return Errorf(CodeInvalid, "host", "the name of a lane is not UTF-8, or has control characters")
	}
	return nil
}

// String is the Stream of the entry of a call at the place: "3@1.2".
func (p Place) String() string { return strconv.FormatInt(p.N, 10) + "@" + p.Lane }

// ParsePlace reads what String has written.
func ParsePlace(s string) (Place, bool) {
	n, lane, found := strings.Cut(s, "@")
	number, err := strconv.ParseInt(n, 10, 64)
	p := Place{Lane: lane, N: number}
	return p, found && err == nil && p.String() == s && p.Validate() == nil
}

// ItsHost stands in Process.WaitsFor for whoever is to host the process, and does not.
const ItsHost = "its host"

// ItsServers stands in Process.WaitsFor for the servers of the tools that the program imports, which are asked, and started
// where they do not run, before it begins or goes on.
const ItsServers = "its tool servers"
