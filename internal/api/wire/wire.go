// Package wire is what goes over the line between a client and the HTTP API of a kernel: paths, headers, bodies, frames. Client
// and server import it, and not each other.
package wire

import (
	"encoding/json"
	"strconv"

	"agentkernel"
)

// Prefix is the path below which the API lives. The number is not [agentkernel.APIVersion]: the path names
// the family of the API, the header the exact version.
const Prefix = "/api/v1"

// Every answer carries both headers. A request may carry them too: another API version is refused, and a
// caller that sends its version string insists on meeting the same one.
const (
	HeaderVersion = "Agentkernel-Version"
	HeaderAPI     = "Agentkernel-Api"
	// HeaderLastEvent resumes a stream behind the event with this id (Server-Sent Events, WHATWG HTML 9.2).
	HeaderLastEvent = "Last-Event-Id"
)

// MaxTarget is the size in bytes beyond which a client asks for nothing with path and query: a server refuses larger headers, and says
// only that they are too large.
const MaxTarget = 192 << 10

// MaxBody is the size in bytes beyond which a request is refused.
const MaxBody = 64 << 20

// MaxEvent is the size in bytes beyond which a reader of a stream gives up on an event.
const MaxEvent = 64 << 20

// The frames that end a stream; every other frame is an agentkernel.Event, named by its kind. A stream that
// ends without one of them was cut.
const (
	FrameDone    = "done"    // Done: nothing more comes
	FrameFailure = "failure" // agentkernel.Error
)

// Done is the last frame of a stream that ended well. Process is set if the stream created the process,
// Cell if it fed a session.
type Done struct {
	Process *agentkernel.Process `json:"process,omitempty"`
	Cell    *agentkernel.CellEnd `json:"piece,omitempty"`
}

// Version is the answer of GET /version.
type Version struct {
	Version string `json:"version"`
	API     int    `json:"api"`
}

// VersionError says that two versions met that cannot work together, and what to do.
func VersionError(kernel, caller Version) *agentkernel.Error {
	if kernel.API != caller.API {
		return agentkernel.Errorf(agentkernel.CodeVersion, "attach",
			"this is agentkernel %s (API %d), and the kernel that runs on this data directory is agentkernel %s (API %d)",
			caller.Version, caller.API, kernel.Version, kernel.API).WithHint(versionHint)
	}
	return agentkernel.Errorf(agentkernel.CodeVersion, "attach",
		"this is agentkernel %s, and the kernel that runs on this data directory is agentkernel %s",
		caller.Version, kernel.Version).WithHint(versionHint)
}

const versionHint = "`agentkernel shutdown` ends that kernel, the next command starts its own and " +
	"`agentkernel recover` continues what was unfinished; or use the binary that started it"

// Stopping is the answer of POST /shutdown: the kernel ends once it has been sent.
type Stopping struct {
	OSPID int `json:"os_pid"`
}

// ProcessList is a list of processes, newest first; of a listing, a page. Next is the PID before which older ones are; 0: there are
// none.
type ProcessList struct {
	Processes []agentkernel.Process `json:"processes"`
	Next      agentkernel.PID       `json:"next,omitempty"`
}

// Count is the answer of GET /processes/count.
type Count struct {
	Count int `json:"count"`
}

// EntryPage is a part of a journal. Next is the position to ask from for more; 0 at the end.
type EntryPage struct {
	Entries []agentkernel.Entry `json:"entries"`
	Next    int64               `json:"next,omitempty"`
}

// WorkingSet is the state of a process.
type WorkingSet struct {
	State map[string]json.RawMessage `json:"state"`
}

// ManyRequest is the body of POST /processes/many.
type ManyRequest struct {
	Spec agentkernel.Spec       `json:"spec"`
	Each []agentkernel.Instance `json:"each"`
}

// Many is its answer: the PIDs, in order.
type Many struct {
	PIDs []agentkernel.PID `json:"pids"`
}

// SignalRequest is the body of POST /processes/{pid}/signal.
type SignalRequest struct {
	Signal agentkernel.Signal `json:"signal"`
	agentkernel.SignalOptions
}

// AnswerRequest is the body of POST /processes/{pid}/answers.
type AnswerRequest struct {
	Ask    int64              `json:"ask"`
	Answer agentkernel.Answer `json:"answer"`
}

// ResolveRequest is the body of POST /processes/{pid}/resolutions.
type ResolveRequest struct {
	Call int64 `json:"call"`
	agentkernel.Resolution
}

// RecoverRequest is the body of POST /recover; 0 means all unfinished processes.
type RecoverRequest struct {
	PID agentkernel.PID `json:"pid,omitempty"`
}

// ServerList lists tool servers.
type ServerList struct {
	Servers []agentkernel.ToolServer `json:"servers"`
}

// ToolList lists tools.
type ToolList struct {
	Tools []agentkernel.Tool `json:"tools"`
}

// ProcessPath is the path of a process, or of something below it ("wait").
func ProcessPath(pid agentkernel.PID, below string) string {
	path := Prefix + "/processes/" + strconv.FormatInt(int64(pid), 10)
	if below != "" {
		path += "/" + below
	}
	return path
}

// TrailerError carries the error of a stream that began well, as the JSON of an agentkernel.Error; without it the
// stream is complete.
const TrailerError = "Agentkernel-Error"

// HeaderMedia is the media type of a file of a process. The Content-Type of the answer is always that of bytes: what a
// program wrote is no page of ours.
const HeaderMedia = "Agentkernel-Media"

// AllowanceList lists allowances of namespaces.
type AllowanceList struct {
	Allowances []agentkernel.AllowanceState `json:"allowances"`
}

// KeyRequest is the body of POST /models/key.
type KeyRequest struct {
	PID   agentkernel.PID `json:"pid,omitempty"` // a process that has brought the model
	Model string          `json:"model"`
	Key   string          `json:"key"`
}

// TaskRequest is the body of POST /tasks/program: a task in plain language that a model is to do.
type TaskRequest struct {
	Task    string           `json:"task"`
	Model   string           `json:"model,omitempty"`  // an alias; "": the first one
	Schema  json.RawMessage  `json:"schema,omitempty"` // that the result has to fit
	Steps   bool             `json:"steps,omitempty"`
	Checked bool             `json:"checked,omitempty"`
	Agents  int              `json:"agents,omitempty"` // that may do parts of it; 0: none
	Spec    agentkernel.Spec `json:"spec"`             // of its process, but for the program, of which Modules alone counts
}

// TaskProgram answers a TaskRequest.
type TaskProgram struct {
	Program agentkernel.Program `json:"program"`
	Turns   int                 `json:"turns"` // how many answers of models it may take where nobody says
}

// SkillList lists skills, without their code.
type SkillList struct {
	Skills []agentkernel.Skill `json:"skills"`
}

// DeleteSkillRequest is the body of POST /skills/delete.
type DeleteSkillRequest struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// AcceptRequest is the body of POST /tools/accept; no names means all tools of the server.
type AcceptRequest struct {
	Files  []string `json:"files"`
	Server string   `json:"server"`
	Names  []string `json:"names,omitempty"`
}

// Accepted is the answer of POST /tools/accept: how many tools had changed.
type Accepted struct {
	Changed int `json:"changed"`
}

// SearchRequest is the body of POST /tools/search, for those who have local tools.
type SearchRequest struct {
	Files []string `json:"files,omitempty"`
	agentkernel.ToolQuery
}
