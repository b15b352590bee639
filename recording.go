package agentkernel

import (
	"context"
	"encoding/json"
)

// A recording is one process in one file: what it was created with, its journal and its working set
// (docs/export.md says what the file looks like), and if that was asked for the files that it made. It holds everything
// that a replay needs, and nothing of the machine: no image, no path that is opened, no secret of a tool server.

// MaxRecording bounds a recording in bytes.
const MaxRecording = 64 << 20

// Recordings takes processes out of a kernel, into another, and looks whether they repeat themselves.
type Recordings interface {
	// Export gives what process pid did so far as a recording. The values of the env and headers of its
	// tool servers are taken out of it. Errors: CodeNotFound, CodeLimit (too large), CodeUnavailable (the
	// secrets cannot be known, because a configuration file cannot be read now).
	Export(ctx context.Context, pid PID, o ExportOptions) ([]byte, error)
	// Import puts a recording into the store, under a new PID and ended: it can be read, compared and rerun,
	// but never recovered. Permissions and tool files of the recording are not taken over. Errors:
	// CodeCorrupt (not what was written), CodeVersion (written by a newer version), CodeLimit.
	Import(ctx context.Context, file []byte, o ImportOptions) (Process, error)
	// Replay runs the program of a recording, every call being answered from it: no tool server is started
	// and nothing is stored. Errors: those of Import; CodeUnsupported (the program cannot run here);
	// CodeUnavailable (engine missing).
	Replay(ctx context.Context, file []byte, o ReplayOptions) (Verdict, error)
}

// ExportOptions say what a recording contains.
type ExportOptions struct {
	// Unredacted leaves the values of the tool servers' env and headers in, where they occur.
	Unredacted bool `json:"unredacted,omitempty"`
	// Files takes what the process changed in its workspace and volumes along. Export then has the further errors
	// CodeInvalid (it has none) and CodeConflict (its changes were discarded, or have changed since they were applied).
	Files bool `json:"files,omitempty"`
}

// RecordedFile is one change that a process made to its files, as a recording has it.
type RecordedFile struct {
	Change
	Content []byte `json:"-"` // of a file that was added or changed; nil where Change.LeftOut says why it is not there
}

// ImportOptions say where a recording goes.
type ImportOptions struct {
	Namespace string `json:"namespace,omitempty"` // "" is "default"
}

// ReplayOptions bound what a recorded program may use; a recording may come from a stranger. Zero fields are
// the defaults of the kernel. Recorded limits that are smaller hold.
type ReplayOptions struct {
	Time   Duration `json:"time,omitempty"`
	Memory int64    `json:"memory,omitempty"`
	// Environment is the absolute path of a virtual environment with the packages of a program that had some: a
	// recording holds none, and what it says of paths is never looked at. Ignored for a program that had none.
	Environment string `json:"environment,omitempty"`
}

// Verdict says whether a program did again what its recording says.
type Verdict struct {
	Equal bool `json:"equal"`
	// Difference is the first difference, for humans; "" if there is none.
	Difference string `json:"difference,omitempty"`
	Calls      int64  `json:"calls"`  // answered from the recording
	Output     int64  `json:"output"` // bytes that were printed and compared
	// Cut says why the comparison goes only as far as the recording: the process was killed there, or had not
	// ended. "": the end was compared, too.
	Cut      string          `json:"cut,omitempty"`
	State    State           `json:"state"` // how the recorded process ended, StateUnfinished if it had not
	ExitCode int             `json:"exit_code"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    *Error          `json:"error,omitempty"`
	PID      PID             `json:"pid"`      // that it had
	Name     string          `json:"name"`     // of the program
	Engine   string          `json:"engine"`   // fingerprint of the engine here
	Recorded string          `json:"recorded"` // and there
}

// RecordingHost is the kernel whose processes are recorded.
type RecordingHost interface {
	// Accepting is why nothing new may begin; nil: it may.
	Accepting() error
	// Settled waits until everything that processes have done so far is durable.
	Settled(ctx context.Context) error
	// Changes and OpenFile are those of Workspaces.
	Changes(ctx context.Context, pid PID) (Changes, error)
	OpenFile(ctx context.Context, pid PID, name FileName) (File, error)
	// Verify runs a program with every call answered from the journal of an earlier run. Errors: CodeUnsupported (it
	// cannot run here), CodeUnavailable (the engine is missing, or the kernel is stopping), CodeCanceled.
	Verify(ctx context.Context, v Verification) (Verified, error)
}

// Verification is a program that is to run on nothing but the journal of an earlier run.
type Verification struct {
	Spec    Spec   // of it count the program, its limits and what it was denied
	Backend string // that it ran on
	Journal []Entry
	Cut     bool // the journal does not show the program's own end
	// What the program may use at most; zero fields are the defaults of the kernel.
	Time   Duration
	Memory int64
}

// Verified says what came of a Verification.
type Verified struct {
	NotBegun bool   // the program did not run: its journal ends before its imports were bound
	Engine   string // fingerprint
	Limits   Limits // that held
	Output   int64  // bytes printed according to the journal
	Calls    int64  // answered from the journal
	Repeated bool   // the journal is cut, and all of it was repeated; else the program ended as follows
	State    State
	ExitCode int
	Result   json.RawMessage
	Error    *Error
}

// SecretKeeper is the ability of a ToolSource to take secrets out of what leaves the kernel.
type SecretKeeper interface {
	// Redaction knows the secrets of all servers of the source as they are configured now. Errors:
	// CodeUnavailable if one of them cannot be known.
	Redaction(ctx context.Context) (Redaction, error)
}

// Redaction puts a name in brackets ("[GITHUB_TOKEN]") in the place of each secret, found by its value.
type Redaction interface {
	Text(s string) string
	// JSON does the same inside the strings of a JSON value, which stays valid.
	JSON(raw json.RawMessage) json.RawMessage
	// Source does the same for program text, but only for values that are surely secrets.
	Source(s string) string
}
