package agentkernel

import (
	"context"
	"encoding/json"
	"time"
)

// EntryKind is what a journal entry records.
type EntryKind string

const (
	EntryCreated  EntryKind = "created"  // the first entry; Data is the Spec without its program text; Imported
	EntryCall     EntryKind = "call"     // a syscall was issued; with Done its result is in the same entry
	EntryResult   EntryKind = "result"   // the result of an earlier EntryCall
	EntryOutput   EntryKind = "output"   // Stream and Data (a JSON string)
	EntryPaused   EntryKind = "paused"   // Note says why; Call and Err: the outcome of that call is unknown, a human decides; Data: {"with": PID} if it is paused because of another process
	EntryResumed  EntryKind = "resumed"  //
	EntryRecover  EntryKind = "recover"  // a kernel took the process up again; Data: {"from": seq, "by": ...}
	EntrySignal   EntryKind = "signal"   // Signal came; Data: {"pending": true} if it waits for the program's next call
	EntryResolve  EntryKind = "resolve"  // a human decided about Call: Decision. Done and fail: its EntryResult follows
	EntryRetry    EntryKind = "retry"    // Call is about to be sent once more or, if its intent has not left, for the first time; Reserve is what it may use
	EntryPast     EntryKind = "past"     // how far a rerun went along its past, in words (Note); Call: the first that was live
	EntryTools    EntryKind = "tools"    // what the program imports: Data is the list of Tools, without their schemas
	EntryMoved    EntryKind = "moved"    // another backend goes on with the program; Data: {"from", "to"}; Err: what ended it on the first
	EntryAborted  EntryKind = "given_up" // Call is the proc.next whose cell was aborted: what is between its result and this is not repeated; Err says why
	EntryPublish  EntryKind = "publish"  // the program has exited with 0, and its files are about to be applied; Data is how it ends
	EntryAllowed  EntryKind = "allowed"  // a human allows the tools of Pattern from now on
	EntryBudget   EntryKind = "budget"   // the budget is raised; Data is the Budget that is added
	EntrySettled  EntryKind = "settled"  // a stream is at its end that Call has opened, or Call will have no result, or waits for its turn again (Reserve): Settle, of what it has kept; Async: it has more to give
	EntryAttached EntryKind = "attached" // a host has taken the process up; Data has the epoch
	EntryTerminal EntryKind = "terminal" // the last entry; Data is {"exit_code","state","ran_ns"}, Err what it failed with
)

// EntryKinds are all kinds.
func EntryKinds() []EntryKind {
	return []EntryKind{EntryCreated, EntryCall, EntryResult, EntryOutput, EntryPaused, EntryResumed, EntryRecover, EntrySignal, EntryResolve, EntryRetry,
		EntryPast, EntryTools, EntryMoved, EntryAborted, EntryPublish, EntryAllowed, EntryBudget, EntrySettled, EntryAttached, EntryTerminal}
}

// Entry is one record of a process's journal. Seq numbers are dense from 1 within a process.
//
// What code decides by has a field. Those from Origin on have no JSON and no column of their own: Note has them in words,
// which is also how earlier versions wrote them. WriteNote and ReadNote go from one to the other.
type Entry struct {
	PID    PID             `json:"pid"`
	Seq    int64           `json:"seq"`
	Kind   EntryKind       `json:"kind"`
	At     time.Time       `json:"at"`               // microseconds
	Call   int64           `json:"call,omitempty"`   // EntryCall, EntryResult: the call's number
	Op     string          `json:"op,omitempty"`     // EntryCall: operation
	Effect Effect          `json:"effect,omitempty"` // EntryCall: class in force for this call
	Async  bool            `json:"async,omitempty"`  // EntryCall
	Args   json.RawMessage `json:"args,omitempty"`   // EntryCall: canonical arguments
	Done   bool            `json:"done,omitempty"`   // EntryCall: Data or Err is the result
	Data   json.RawMessage `json:"data,omitempty"`   // result, output text or details, by Kind
	Err    *Error          `json:"error,omitempty"`  // EntryCall with Done, EntryResult: the error reply
	Stream string          `json:"stream,omitempty"` // EntryOutput: "stdout" or "stderr"; EntryCall of a hosted program: its Place
	Note   string          `json:"note,omitempty"`   // for people: what else is worth knowing, and the fields from Origin on
	// Missing says why Args or Data cannot be read, where a journal is read that has lost payloads: see Salvager.
	Missing *Error `json:"missing,omitempty"`

	Origin      *OriginCall `json:"-"` // EntryCall of a rerun: where its answer is from; nil: the process made the call itself
	Incarnation string      `json:"-"` // EntryResult: of the server that answered; "": no server did
	Signal      Signal      `json:"-"` // EntrySignal
	Decision    Decision    `json:"-"` // EntryResolve
	Pattern     string      `json:"-"` // EntryAllowed: as in Spec.Allow
	Reserve     Amounts     `json:"-"` // EntryCall without a result, EntryRetry: what the call may use up; EntryResult: what its stream may yet
	Settle      Amounts     `json:"-"` // EntryResult, EntrySettled: what the call has used up; nil: all that was reserved for it
	Imported    *ProcessOf  `json:"-"` // EntryCreated: of which process the recording was; nil: the process was created here
}

// Position is a place in the store's one total order of appended batches.
type Position int64

// Batch is a set of changes of one process that become durable together.
type Batch struct {
	Entries []Entry
	Process *ProcessRecord             // insert or replace the process's row
	State   map[string]json.RawMessage // working set: key to value, nil deletes; the PID is that of Entries[0]
	Image   *Image                     // replaces the process's image; an Image with no Bytes deletes it
	Key     *Key                       // belongs to the process from now on; not in a batch with Process
	Posts   []Post                     // put into the inboxes of other processes, by the last of Entries
	Took    []PostID                   // taken out of the process's own inbox, by Entries
	Epoch   int64                      // of the lease under which the kernel holds the process's tree; 0: not fenced. See Fencer
}

// Post is what a process finds in its inbox: a message, a signal with a payload.
type Post struct {
	PostID
	To       PID             `json:"to"`
	Kind     string          `json:"kind"`     // who takes it: the name of a call, or of a family
	Priority int             `json:"priority"` // lower is more urgent, and taken first
	At       time.Time       `json:"at"`       // microseconds
	Data     json.RawMessage `json:"data"`     // canonical
}

// PostID names a post: the N-th that was sent with an entry.
type PostID struct {
	From PID   `json:"from"`
	Seq  int64 `json:"seq"` // of the entry, in the journal of From
	N    int   `json:"n"`
}

// Key is an idempotency key. A namespace has each once: as that of a Spec, or as one that a process was given later.
type Key struct{ Namespace, Name string }

// ProcessRecord is the process's row: what is known without reading its journal.
type ProcessRecord struct {
	Process       // State is StateUnfinished, exited, failed or killed
	Spec    Spec  // with the program; stored once per content
	Calls   int64 // calls issued so far; exact at terminal, informative before
	// Parked says that the process waits and is in nobody's memory; nil: it need not be so.
	Parked *Parked
}

// Parked says of an unfinished process that its journal and its image have all of it, and that nothing has to be done for it
// until a time comes or somebody asks for it. A kernel that continues what is unfinished leaves it where it is.
type Parked struct {
	Until    time.Time `json:"until,omitzero"` // microseconds; zero: only somebody from outside wakes it
	Since    time.Time `json:"since"`          // as Process.WaitsSince; microseconds
	WaitsFor []string  `json:"waits_for"`      // as in Process
	Kernel   int64     `json:"kernel"`         // who parked it: when that kernel started, in nanoseconds since 1970
}

// Due is a parked process that has to be woken at a time.
type Due struct {
	PID PID
	At  time.Time
}

// Image is a parked process: what its sandbox gave, and where in the journal it stands.
type Image struct {
	PID         PID
	Seq         int64  // journal entries up to and including Seq are in the image
	Fingerprint string // only the same engine may load it
	Kernel      []byte // the kernel's own part: call counter, outstanding calls, output offset (JSON)
	Bytes       []byte // the sandbox's part
}

// StoreInfo describes a store.
type StoreInfo struct {
	UUID   string `json:"uuid"`   // names this store for ever
	Schema int    `json:"schema"` // version of the schema
	Path   string `json:"path"`
	// Earlier are the stores that it was restored from, oldest first.
	Earlier []Origin `json:"earlier,omitempty"`
	// Damage says that durable transactions are lost, so that no kernel opens the store: of one that is read without a kernel.
	Damage *Error `json:"damage,omitempty"`
}

// Filter selects processes.
type Filter struct {
	Namespace  string // "" all
	Unfinished bool   // only those without a terminal entry
	Active     bool   // only those of the unfinished that are not parked
	Before     PID    // only those with a smaller PID; 0 all
	Parent     PID    // 0 all
	Key        string // that which has this idempotency key in Namespace; "" all
	Limit      int    // newest first; 0 means all, but see Listing.List
}

// Store keeps journals, images and working sets. It promises that the batches of one process become
// durable in the order in which they were appended, together with everything appended before them
// anywhere (one total order); code relies on no more than per-process order plus causality.
//
// After a failed commit the store is failed: Append and Flush answer CodeStorage for ever, and what is on
// the disk is a prefix of what was appended. A store that several kernels use may also refuse a single tree: see Fencer.
type Store interface {
	Info() StoreInfo
	// NewPID reserves a PID, which no other caller gets, of whatever kernel. It need not be durable: an unused one is lost. A
	// store on another machine may have to wait. Errors: those of ctx, CodeStorage, CodeUnavailable; the store itself goes on.
	NewPID(ctx context.Context) (PID, error)
	// Append takes a batch into memory and gives its position. It does not wait for the disk; a batch is
	// durable within 5 ms even if nobody asks. The caller must not change what it handed over.
	Append(b Batch) (Position, error)
	// Flush waits until everything up to pos is durable. Concurrent calls share one commit.
	Flush(ctx context.Context, pos Position) error
	StoreReader
	// SmallState is State if its keys and values are at most so many bytes, else nil, and then it reads no values. size is how
	// many they are.
	SmallState(ctx context.Context, pid PID, atMost int64) (state map[string]json.RawMessage, size int64, err error)
	// Due lists the parked processes that have to be woken, those that are due first at the beginning, ties by PID. kernel is the
	// one that parked them (Parked.Kernel); 0: whoever did.
	Due(ctx context.Context, kernel int64, limit int) ([]Due, error)
	// Inbox reads what a process has been sent and has not taken: the most urgent first, of these what was sent first, ties by
	// PostID. What a process that has ended had not taken is gone.
	Inbox(ctx context.Context, pid PID) ([]Post, error)
	// Waiting counts what of a kind Inbox would read.
	Waiting(ctx context.Context, pid PID, kind string) (int, error)
	// Posted lists the unfinished processes that have something in their inboxes, by PID.
	Posted(ctx context.Context) ([]PID, error)
	// SetHolds replaces the holds, and returns when that is durable.
	SetHolds(ctx context.Context, holds []Hold) error
	// Close makes everything appended durable and releases the files.
	Close() error
}

// Fencer is a Store that several kernels use, each for the trees that it holds a lease of. A lease has an epoch, and each next one
// of the same tree a greater one. Once a tree has a greater epoch than a batch of it, the batch is refused: whoever appended it
// has lost the tree, and may not know it yet. A Batch.Epoch of 0 is never refused. A store that one kernel holds is no Fencer,
// and accepts every epoch.
//
// A fenced tree fails alone, and the store goes on:
//   - Append answers CodeFenced, and takes nothing. It may also accept the batch, where it learns of the lease later.
//   - Flush answers CodeFenced if the batch at pos was refused. Everything else up to pos is durable then: what was refused
//     is left out, and with it all batches of that tree and epoch that came after it.
//   - reads show what other kernels have made durable, and nothing that was refused.
type Fencer interface {
	// OnFenced sets what is called when the store learns that another kernel has a tree: at most once for each lease that this
	// one has lost, whether or not it appends to the tree again. root is the process at the root of the tree. fn is
	// called on a goroutine of its own; it may use the store. Set it before the first Append.
	OnFenced(fn func(root PID))
}

// Salvager is a StoreReader that shows what is left where payloads are lost: a blob is missing, or changed. Elsewhere such a
// payload is an error (CodeCorrupt), because nothing may be done again for want of it. lost is that error; nil: nothing is.
type Salvager interface {
	// ProcessLeft is Process; of what is lost the record has nothing.
	ProcessLeft(ctx context.Context, pid PID) (rec ProcessRecord, lost, err error)
	// EntriesLeft is Entries; an entry that has lost its Args or Data says so in Missing.
	EntriesLeft(ctx context.Context, pid PID, from int64, limit int) (list []Entry, lost, err error)
}

// SmallState is what Store.SmallState gives of a working set that is in memory.
func SmallState(state map[string]json.RawMessage, atMost int64) (small map[string]json.RawMessage, size int64) {
	for k, v := range state {
		size += int64(len(k) + len(v))
	}
	switch {
	case size > atMost:
		return nil, size
	case state == nil:
		return map[string]json.RawMessage{}, size
	}
	return state, size
}

// Outliner is a StoreReader that reads journals without the Args and Data of entries, which may be large: for who counts. Some of them
// may have theirs all the same.
type Outliner interface {
	Outline(ctx context.Context, pid PID, from int64, limit int) ([]Entry, error)
}

// StoreReader reads what a store holds, appended batches that are not durable yet included. A reader of
// the database of another, running kernel sees what is durable.
type StoreReader interface {
	Process(ctx context.Context, pid PID) (ProcessRecord, error) // CodeNotFound
	// Processes lists rows without program text, newest first.
	Processes(ctx context.Context, f Filter) ([]ProcessRecord, error)
	// Count says how many rows Processes would list; f.Limit does not count.
	Count(ctx context.Context, f Filter) (int, error)
	// ByKey finds the process that was created with an idempotency key, or was given it (Batch.Key); CodeNotFound.
	ByKey(ctx context.Context, namespace, key string) (PID, error)
	// Entries reads a journal from seq on, in order; limit 0 means all.
	Entries(ctx context.Context, pid PID, from int64, limit int) ([]Entry, error)
	// Image gives the newest image; CodeNotFound; CodeCorrupt if its MAC is wrong.
	Image(ctx context.Context, pid PID) (Image, error)
	// State reads the whole working set of a process.
	State(ctx context.Context, pid PID) (map[string]json.RawMessage, error)
	// Holds reads what stands still, by tree and namespace.
	Holds(ctx context.Context) ([]Hold, error)
}
