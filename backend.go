package agentkernel

import (
	"context"
	"encoding/json"
	"time"
)

// Backend isolates and runs programs. Implementations live in internal/sandbox/*, never import one
// another, and pass one conformance suite.
type Backend interface {
	// Info says what the backend is and can do. It is cheap and never fails.
	Info() BackendInfo
	// Check refuses, before anything ran, a program that this backend cannot run: CodeSyntax with line
	// and caret, or CodeUnsupported that names the line and the backend that has the thing; and any
	// program, CodeUnavailable, while the engine is missing (the hint is the command that installs it). It
	// also says what the program will need.
	Check(p Program) (Needs, error)
	// Start makes a sandbox for a program, fresh or (Image not nil) as it stood when the image was made.
	// Nothing of the program has run when it returns. Errors: CodeUnavailable when the engine is missing
	// (the hint is the command that installs it), CodeVersion when the image is another engine's.
	Start(ctx context.Context, req StartRequest) (Sandbox, error)
	// Close ends every sandbox and worker.
	Close() error
}

// BackendInfo describes a backend to the kernel and to `doctor`.
type BackendInfo struct {
	Name        string     `json:"name"`
	Languages   []Language `json:"languages"`
	Fingerprint string     `json:"fingerprint"`        // engine and guest library versions; part of every image
	Images      bool       `json:"images"`             // Sandbox.Image works: processes can be parked
	Sessions    bool       `json:"sessions,omitempty"` // Program.Session works
	Replayable  bool       `json:"replayable"`         // the same replies make the same program, if its language is replayable
	Files       bool       `json:"files,omitempty"`    // StartRequest.Mounts and Stdin work
	// Isolation is what kind of boundary its programs run behind; "": none.
	Isolation Isolation `json:"isolation,omitempty"`
	// Walls say what stands between the backend's programs and the machine, as far as it is known before one runs; what
	// is not On is lacking. A sandbox that is Walled says it of itself.
	Walls     []Wall `json:"walls,omitempty"`
	Available bool   `json:"available"`
	Problem   string `json:"problem,omitempty"` // why it is not available
	Fix       string `json:"fix,omitempty"`     // the command that mends it
}

// Needs is what the static pass found that a program imports.
type Needs struct {
	// Tools are the tool functions to bind, by server and Python name as the program writes them.
	// A name "*" means the whole server ("import tools.x").
	Tools []ToolRef `json:"tools,omitempty"`
	// Skills are the names of `skills.X` modules that are not in Program.Modules.
	Skills []string `json:"skills,omitempty"`
	// Differs are places, a few sentences with their lines, at which this backend may not do what the
	// language's own runtime does. Where the kernel may choose, another backend that has none goes first.
	Differs []string `json:"differs,omitempty"`
	// Plain says of a cell of a session that later ones are understood without it.
	Plain bool `json:"plain,omitempty"`
}

// ToolRef is one tool as a program imports it.
type ToolRef struct {
	Server string `json:"server"` // Python name of the server: "filesystem"
	Name   string `json:"name"`   // Python name of the tool, or "*"
	Line   int    `json:"line"`   // where the program imports it
}

// StartRequest is what a backend needs to make a sandbox.
type StartRequest struct {
	PID       PID
	Namespace string // a worker never changes namespace
	Program   Program
	Limits    Limits // no zero fields but Wall and Calls
	Tools     []Tool // the tools that the program imports, found by the kernel from Needs
	Image     []byte // nil: start from the beginning
	// Mounts are the folders that the program sees; none for a backend without BackendInfo.Files.
	Mounts []Mount
	// Stdin is the host's path of the file that the program has as its standard input, open for reading; "": it has an
	// empty one. As with Mounts.
	Stdin string
	// Output takes what the program prints, in order, while Next runs. stream is "stdout" or "stderr".
	Output func(stream string, text string)
	// Wake is called, from any goroutine, when a program that went on by itself after TurnWait has something to
	// say: Next is then called without a reply. Nil: results alone make the program go on.
	Wake func()
}

// Mount is one folder of the host as a sandbox sees it. What the program writes goes to Scratch and nowhere else.
type Mount struct {
	Volume string // "": the workspace, the program's working directory
	Source string // absolute path on the host, without symbolic links
	// Scratch is a directory for the changes, where overlayfs makes `upper` and `work`; "": ReadOnly or Own says how.
	Scratch  string
	ReadOnly bool
	Own      bool // Source is a copy that belongs to this process alone
	Optional bool // the program starts without it where it cannot be shown, and its standard error says so
	// Hidden are paths in Source that the program can neither read nor list; directories end with a slash.
	Hidden []string
}

// Sandbox is one program in motion. It is used by one goroutine at a time. The kernel pulls: each Next
// lets the program run until it needs the kernel.
type Sandbox interface {
	// Next hands the program the reply to its last turn (nil at the start and after an image was loaded,
	// which emits its turn again) and runs it to the next turn. After an error the sandbox is dead.
	// Errors: ctx's error when it ends (the program is stopped with its sandbox), CodeCrashed when the
	// program has brought its sandbox down (else it is a TurnLost), CodeLimit when it was ended for a limit that the program could not be told.
	Next(ctx context.Context, reply *Reply) (Turn, error)
	// Image gives bytes from which Start continues at the present turn, here or on another machine with
	// the same fingerprint. Valid only between Next calls, and not after TurnExit or TurnFail.
	Image(ctx context.Context) ([]byte, error)
	// Running is the time that the program has spent running, waiting not counted, since its beginning.
	Running() time.Duration
	// Close gives the sandbox back. It may be called in any state, also while Next runs, which then fails.
	Close() error
}

// Suspender is a sandbox whose program can be stopped at any moment, not only where it waits for the kernel, with
// everything that it has started. Next, if it runs then, returns at once: with TurnHeld if the program is kept as it
// stands, with TurnLost if it has to begin again, or with TurnWait. Time in which it is stopped is not counted.
type Suspender interface {
	Suspend(stop bool) error
}

// Stopper is a sandbox that can ask its program to end as the system of the program knows it: by SIGTERM. What the program does then
// is up to it; one that lets the signal end it ends as by an interrupt (CodeInterrupted). One that is suspended is asked when it goes on.
type Stopper interface {
	Stop() error
}

// Ender is a sandbox that can say when nothing of it runs any more: the channel is closed then. It is for sandboxes
// with Mounts, whose files are not touched before.
type Ender interface {
	Gone() <-chan struct{}
}

// Holder is a sandbox with Mounts that can say how many bytes on disk its processes hold in files that no folder names any
// more. known is what its folders hold. It may be called at any time, also while Next runs.
type Holder interface {
	Held(known int64) int64
}

// Leaver is a sandbox with files of its own, which go with it: Process.Left are those that it names. It is asked when its program has
// ended or is about to be killed, and never after Close.
type Leaver interface {
	Left() []string
}

// TurnKind is why a program stopped running.
type TurnKind int

const (
	TurnCall TurnKind = iota + 1 // Call is set: reply with the result, or Pending if Call.Async
	TurnWait                     // everything waits for async calls: reply with one result; or see StartRequest.Wake
	TurnExit                     // the program ended; ExitCode and Result are set
	TurnFail                     // an uncaught error; Err is set
	TurnHeld                     // a Suspender stopped it while it computed: when it is let go, Next(nil) goes on
	// TurnLost: the sandbox is dead, and its program is not to blame: it begins again, from its image or its start. Err is why: something
	// from outside has killed it. Nil: a Suspender has given it up.
	TurnLost
)

// Turn is where a program stopped.
type Turn struct {
	Kind     TurnKind
	Call     Call            // TurnCall; ID is 0, the kernel numbers it
	ExitCode int             // TurnExit; TurnFail, if it is not 0
	Result   json.RawMessage // TurnExit: value of the last expression, nil if none
	Err      *Error          // TurnFail: CodeProgram, CodeSyntax or CodeLimit, with Traceback; TurnLost: CodeCrashed
	Fault    Fault           // TurnFail, and a session's proc.next with an error: whose doing it is
}

// Fault says whose doing the uncaught error of a program is, as far as its backend can tell. Where the kernel chose the
// backend, it lets another one go on with a program whose error may be the backend's.
type Fault int

// The faults. An error that answers a call, and a limit, are never the backend's.
const (
	FaultProgram Fault = iota // the program's own, or the answer to one of its calls
	FaultPerhaps              // the language's own runtime might not have raised it
	FaultBackend              // the backend lacks something that the language has
)
