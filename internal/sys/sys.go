// Package sys is the door between the kernel and the families of system calls. A family is a package of its own below this
// one: what its calls are, what they do, and what a recovery and a rerun may do with them. It knows neither the kernel nor
// another family; the kernel knows families by [Family] alone. A new family is one folder and one line in
// internal/sys/families.
//
// A handler never sees the process that calls. It gets a [Call], and returns an [Outcome], which the kernel commits in one
// batch with the call. A family decides about a call before anything of it is in the journal, and may reserve what it costs
// ([Admission]); keeps data with a process that is derived from the journal ([Local]); sends to other processes ([Post]); lets
// a call wait ([Wait]); and answers bit by bit ([Stream]). internal/sys/systest/toy does each of these.
package sys

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/strictjson"
)

// Family is a group of system calls: those with its name before the dot.
type Family struct {
	Name string
	Ops  []Op
	// Check refuses a Spec whose fields for this family are wrong, before a process is made of it; nil: there are none.
	Check func(s *agentkernel.Spec) error
	// Grant says what a process of a Spec may use up in its whole life of what calls reserve; a name that is not there is not
	// bounded, and of one that several families grant the least counts. nil: the family bounds nothing. Each process has what
	// its own Spec grants: what is shared with those below it is not a matter of Grant.
	Grant func(s *agentkernel.Spec) agentkernel.Amounts
	// Local is what the family keeps of each process; nil: nothing.
	Local *Local
}

// Local is data that a family keeps of a process. The kernel has it, as long as the process is in memory, and derives it from
// the journal: from the calls of the family, those that an origin has answered included. No restart of the program unwinds it,
// and a call that is answered from the journal changes nothing. A family has no map of its own by process.
type Local struct {
	// Fold returns the data behind one more step; nil: none. It depends on its arguments alone, and does not change data,
	// which handlers may be reading (Call.Local).
	Fold func(data any, step *Step) any
	// Save encodes data for an image, as JSON, and Load decodes that. What they lose, a fold of the whole journal has.
	Save func(data any) json.RawMessage
	Load func(saved json.RawMessage) (any, error)
	// Drop lets go of data when the process has ended or leaves memory, of which Fold or Load may make it again; nil: there
	// is nothing to do.
	Drop func(pid agentkernel.PID, data any)
	// Wants says whether Fold is told of calls of another family, too; nil: of none.
	Wants func(op *Op) bool
}

// Step is one step of a call in the journal: its intent, its result, or, of a call that was answered at once, both.
type Step struct {
	PID  agentkernel.PID
	Call int64
	Op   string
	Args json.RawMessage // canonical
	At   time.Time       // when the call was made
	// Answered: Result or Err is what became of the call.
	Answered bool
	Result   json.RawMessage
	Err      *agentkernel.Error
	Origin   bool // an origin has answered it: it was not made
	// Aborted: the cell that Call was answered with was aborted, for Err, and what it did behind Call is not repeated. It has
	// neither Op nor Args, and is told of data that is not nil alone.
	Aborted bool
	// Settled: the stream that Call has opened has given all that it had; the answer which has the last of it, or says why there is
	// none, is the next step. It is told as Aborted is.
	Settled bool
}

// Op is one system call. Exactly one of Now, Begin and Outside is set. Handlers are called without locks, by several
// goroutines.
type Op struct {
	agentkernel.Syscall
	// Rerun says what the call means for the order in which a rerun is answered by its origin.
	Rerun Rerun
	// Subject is what the call is about, in few words ("filesystem.write_file"), for tables and errors; nil: its name says it.
	// It is asked for calls of the journal too, also for those that were refused.
	Subject func(args json.RawMessage) string
	// Opens says that the call answers a stream (Outcome.Stream). How many a process may have open is bounded.
	Opens bool
	// Plain says that the subject alone names what was done; else the name of the call comes with it.
	Plain bool
	// Admit decides about a call of Outside before anything of it is in the journal; nil: it may be made, with the effect that
	// its descriptor has. It is asked again before a call is made again, whose permission was settled then.
	Admit func(c *Call) (Admission, error)

	// Now answers at once, without leaving the kernel.
	Now func(c *Call) (Outcome, error)
	// Begin starts a call that waits inside the kernel. It is asked again for the same call after a recovery.
	Begin func(c *Call) (Wait, error)
	// Outside leaves the kernel, once the intent of the call is durable. ctx ends when the call has to be answered.
	Outside func(ctx context.Context, c *Call) (Outcome, error)
}

// Label is the call in few words: its name, and what it is about.
func (o *Op) Label(args json.RawMessage) string {
	if o.Subject == nil {
		return o.Name
	}
	return o.Labelled(o.Subject(args))
}

// Labelled is Label for a subject.
func (o *Op) Labelled(subject string) string {
	if subject == "" {
		return o.Name
	}
	return o.Name + " " + subject
}

// Brief is a label in the words of a sentence.
func (o *Op) Brief(label string) string {
	if o.Plain {
		return strings.TrimPrefix(label, o.Name+" ")
	}
	return label
}

// Rerun says what a call means in a rerun.
type Rerun int

const (
	// Strict calls must come in the order of the origin; the first that does not is the first difference.
	Strict Rerun = iota
	// Free calls are answered by the origin if it made the same between the same two strict calls; one that it did not make
	// runs, and is no difference: a new look at the clock does not make the program another.
	Free
	// Own calls work on what belongs to the process itself, which begins anew, and always run.
	Own
)

// Call is a system call as its handler sees it. It belongs to the kernel, and is not changed.
type Call struct {
	PID   agentkernel.PID
	ID    int64
	Op    *Op
	Args  json.RawMessage // in the guest's order; valid JSON
	Since time.Time       // when the call was first made, also by an earlier kernel
	Spec  *agentkernel.Spec
	// Effect is the class with which the call was admitted, or with which it stands in the journal.
	Effect agentkernel.Effect
	Again  bool // its process has made it before, or was about to, and its journal says so: not an origin
	// Budgeted says that something bounds what the process spends, BoundsUSD that it bounds money.
	Budgeted, BoundsUSD bool
	Bound               *Binding
	State               WorkingSet
	// Streams are those that the process has open.
	Streams Streams
	Local   any // what its family keeps of the process; nil: nothing. It is not changed
	// Held says of a call that leaves the kernel that its process stands still at this moment, or that the kernel ends. It is asked before
	// anything is sent, also before it is sent once more: then nothing is, and the error of the call is ErrWaits. The caller holds no lock.
	Held func() bool

	// For Outside alone.
	Admitted any    // Admission.Value
	Key      string // for whoever deduplicates effects: "<store uuid>/<pid>/<call>"
	Expect   string // the incarnation of the peer that answered the process last; "": none has
}

// ErrWaits is the error of a call outside the kernel that has nothing under way, and waits for its turn again. Outcome.Settle says what it
// has cost.
var ErrWaits = agentkernel.Errorf(agentkernel.CodeUnavailable, "kernel", "the call was held back before it was sent again")

// Decode reads the arguments strictly; the error says the expected signature.
func (c *Call) Decode(v any) error { return Decode(&c.Op.Syscall, c.Args, v) }

// Decode reads the arguments of a call strictly; the error says the expected signature.
func Decode(desc *agentkernel.Syscall, args json.RawMessage, v any) error {
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, desc.Name, "wrong arguments for %s: %s", desc.Signature(), strictjson.Explain(err, "the arguments", args))
	}
	return nil
}

// DecodePart reads a part of the arguments of a call strictly, which came as it was written; nothing changes nothing. op is the call,
// name that of the part.
func DecodePart(op, name string, raw json.RawMessage, v any) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil {
		return nil
	}
	text := strictjson.Explain(err, name, raw)
	if e, ok := errors.AsType[*agentkernel.Error](err); ok {
		text = e.Message()
	}
	if !strings.HasPrefix(text, name) {
		text = name + ": " + text
	}
	return agentkernel.Errorf(agentkernel.CodeInvalid, op, "%s", text)
}

// Matches says whether a pattern of Past.Again means the call by its own name, as "http.fetch", "llm.*" and "llm" do: an Admission.Matches.
func (c *Call) Matches(pattern string) bool {
	ok, err := path.Match(pattern, c.Op.Name)
	family, _, _ := strings.Cut(c.Op.Name, ".")
	return ok && err == nil || pattern == family
}

// Errorf makes an error of the call.
func (c *Call) Errorf(code agentkernel.Code, format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(code, c.Op.Name, format, args...)
}

// Invalid says what is wrong with the arguments.
func (c *Call) Invalid(format string, args ...any) error {
	return c.Errorf(agentkernel.CodeInvalid, format, args...)
}

// WorkingSet is the working set of a process. Change calls use while nothing else uses it, and makes the changes that it returns,
// unless there is no room for them. Outcome.State names the same, and is committed with the call.
type WorkingSet interface {
	Change(use Use) error
}

// Use reads the keys of a working set, which are so many bytes with their values. It changes nothing itself: a nil value deletes
// its key.
type Use = func(keys map[string]json.RawMessage, size int64) (changed map[string]json.RawMessage, err error)

// Admission is what a family decides about a call.
type Admission struct {
	Effect  agentkernel.Effect // "": that of the descriptor
	Subject string             // "": as Op.Subject says
	Value   any                // for Op.Outside
	// Matches says whether a pattern of Spec.Allow or Past.Again means the call; nil: none does.
	Matches func(pattern string) bool
	Name    string // what is asked for: "filesystem.write_file"
	Pattern string // the pattern that means this and nothing else
	// Ask is what the call needs permission for; nil: it needs none.
	Ask *Question
	// Reserve is what the call may use up at most, by name. It is taken from what its process has left in the batch of the
	// intent, and settled in that of the result (Outcome.Settle). A call that would take more than is left is refused before
	// anything goes out. The amounts of a call that is made again after a crash stay reserved, but for those that cost each
	// time: one that is paid or reserves money, and a write that somebody lets be made again, reserve anew, and what they had
	// reserved first is charged.
	Reserve agentkernel.Amounts
	// Later decides, in the time that calls have, where that takes a look outside; nil: it is decided.
	Later func(ctx context.Context) (Admission, error)
	// Turn is for what the call waits once it may be made; nil: it does not wait.
	Turn Turn
	// Leave is called, with locks held, when a call ends whose result nobody waits for any more: nothing more goes out for it. It returns what
	// the call has used up; nil: nobody knows, and all that was reserved is charged, as without it.
	Leave func() agentkernel.Amounts
	// Waiting says for what the call waits, in few words; "": it does not. nil: there is nothing to say.
	Waiting func() string
}

// Turn is the place of a call among those of which only so many are under way at once. It is asked for once the call may be made, before
// anything of it is in the journal, and given back when the call has come back. A call that waits for long is in the journal meanwhile,
// with nothing reserved but agentkernel.AmountUnsent, so that its process can be parked. What stands still has no place.
type Turn interface {
	// Ready takes the place if the call may have it at once; else Wait follows, or Drop.
	Ready() bool
	// Wait waits for the place: days perhaps, where somebody has to do something for it. The error is that of the call, which was not sent.
	Wait(ctx context.Context) error
	// Drop gives the place back. It may come several times, and when there is none.
	Drop()
}

// Timed is a Turn for which a call waits in the time that calls have.
type Timed interface {
	Turn
	// Waited is how long it has.
	Waited() time.Duration
}

// Waited is how much the call has waited of the time that it has.
func (a *Admission) Waited() time.Duration {
	if a == nil {
		return 0
	}
	if t, timed := a.Turn.(Timed); timed {
		return t.Waited()
	}
	return 0
}

// Priced is a Turn with which comes what the call reserves, in the place of Admission.Reserve.
type Priced interface {
	Turn
	Reserve() agentkernel.Amounts
}

// Wants is what the call may use up at most; nil: nothing, or its family was not asked.
func (a *Admission) Wants() agentkernel.Amounts {
	if a == nil {
		return nil
	}
	if t, priced := a.Turn.(Priced); priced {
		return t.Reserve()
	}
	return a.Reserve
}

// Waits is what the label of the call has behind it as long as it waits its turn: ", queued 2.1 s: ...".
func (a *Admission) Waits() string {
	if a == nil || a.Waiting == nil {
		return ""
	}
	if why := a.Waiting(); why != "" {
		return ", " + why
	}
	return ""
}

// Means says whether one of the patterns means the call.
func (a *Admission) Means(patterns []string) bool {
	return a != nil && a.Matches != nil && slices.ContainsFunc(patterns, a.Matches)
}

// Question is what a human is asked about the call.
func (a *Admission) Question(call int64, effect agentkernel.Effect) *agentkernel.Ask {
	args := a.Ask.Args
	if canonical, err := journal.Canonical(args); err == nil { // else it was refused before
		args = canonical
	}
	return &agentkernel.Ask{ID: call, Call: a.Name, Pattern: a.Pattern, Effect: effect, Args: args}
}

// Drop gives back the place of the call.
func (a *Admission) Drop() {
	if a != nil && a.Turn != nil {
		a.Turn.Drop()
	}
}

// Left says what the call has used up whose result nobody waits for any more; nil: nobody knows, or its family does not say.
func (a *Admission) Left() agentkernel.Amounts {
	if a == nil || a.Leave == nil {
		return nil
	}
	return a.Leave()
}

// Question asks for permission.
type Question struct {
	Args   json.RawMessage    // what is shown of the call
	Denied *agentkernel.Error // what the program is told without permission
}

// Outcome is what has become of a call.
type Outcome struct {
	Result json.RawMessage // canonical JSON
	// Posts go into the inboxes of other processes, and are committed with the call.
	Posts []Post
	// State are the keys of the working set that the call has changed; a nil value was deleted.
	State map[string]json.RawMessage
	// Incarnation says which incarnation of the peer has answered; "": it has none.
	Incarnation string
	// Settle is what the call has used up of what it had reserved, or beyond that: the rest is returned. nil: all that was
	// reserved; what is not known to have been spared is charged. It counts with a failure, too, but for a write of which
	// nobody knows what became of it.
	Settle agentkernel.Amounts
	// Keeps says that what the call has reserved stays reserved behind its result, but for the call itself, until its stream is settled
	// (Settler). Of an outcome with a Stream alone; its Settle does not count.
	Keeps bool
	// Ends settles what an earlier call has kept; nil: nothing is settled.
	Ends *Settlement
	// Stream is what the call has opened; the kernel makes Result a handle for it. nil: nothing. Of calls with Op.Opens alone.
	Stream Stream
	// Done is told whether the call was answered so: not, if nobody waits for it any more. nil: the family need not know.
	Done func(committed bool)
	// Settled says of a failure that it is known what became of the call: it was not sent, or the other side refused it.
	Settled bool
}

// Post is what a call sends to a process of its own namespace.
type Post struct {
	To       agentkernel.PID
	Kind     string // what Wait.Kind of the receiver has to say
	Priority int    // lower is more urgent; 0: agentkernel.DefaultPriority
	Data     json.RawMessage
}

// Wait is what a call waits for: something in the inbox of its process, a time, or whichever comes first.
type Wait struct {
	Kind   string             // answered with the Data of a post of this kind; "": the inbox does not matter
	Until  time.Time          // it is answered then; now or before: at once, or, with a Kind, if there is no such post; zero, with a Kind: never
	Result json.RawMessage    // at Until
	Err    *agentkernel.Error // at Until, instead of Result; nil: Result
}

// Traffic reports the limits of models, takes their keys, and drops what belongs to trees that have ended.
type Traffic interface {
	// Limits are what is known of the traffic at this moment.
	Limits() agentkernel.ModelLimits
	// Give hands over the key of a model, in place of the one before: of one of the kernel's own or, with brought, of those that the
	// processes of a tree have brought (agentkernel.Spec.Models).
	Give(tree agentkernel.PID, brought []string, model, key string) error
	// Ended drops what there is for a tree whose processes have ended. It returns at once.
	Ended(tree agentkernel.PID)
}

// Null is the result of a call that has none.
var Null = json.RawMessage("null")

const tenYears = 10 * 365 * 24 * time.Hour

// Seconds converts without overflow: ten years stand for any longer time.
func Seconds(s float64) time.Duration {
	return time.Duration(min(s, tenYears.Seconds()) * float64(time.Second))
}

// Table joins families by the names of their calls, and refuses what is no family: a call with another name, two of one
// name, handlers that are missing or too many.
func Table(families []Family) (map[string]*Op, error) {
	all := map[string]*Op{}
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, agentkernel.Errorf(agentkernel.CodeInternal, "kernel", "system call %s: %s", name, fmt.Sprintf(format, args...)))
	}
	for _, f := range families {
		for i := range f.Ops {
			op := &f.Ops[i]
			handlers := 0
			for _, has := range []bool{op.Now != nil, op.Begin != nil, op.Outside != nil} {
				if has {
					handlers++
				}
			}
			pure := op.Effect == agentkernel.EffectPure
			switch {
			case op.Family() != f.Name:
				bad(op.Name, "it is not of the family %s", f.Name)
			case all[op.Name] != nil:
				bad(op.Name, "there are two")
			case handlers != 1:
				bad(op.Name, "it has %d handlers; it needs one", handlers)
			case op.Admit != nil && op.Outside == nil:
				bad(op.Name, "only calls that are made outside are admitted")
			case op.Opens && op.Outside == nil:
				bad(op.Name, "only calls that are made outside open streams")
			case pure && op.Outside != nil, !pure && op.Outside == nil:
				bad(op.Name, "calls with the effect %s are made outside, and only they are", op.Effect)
			}
			all[op.Name] = op
		}
	}
	return all, errors.Join(errs...)
}
