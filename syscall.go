package agentkernel

import (
	"encoding/json"
	"slices"
	"strings"
)

// Effect is the class of a syscall's effect. It decides what recovery may do with a call whose intent is
// in the journal and whose result is not.
type Effect string

const (
	EffectPure       Effect = "pure"       // inside the kernel: time, random, state. Never waits for the disk
	EffectRead       Effect = "read"       // looks at the world: run again
	EffectIdempotent Effect = "idempotent" // changes the world, twice is as once: run again
	EffectPaid       Effect = "paid"       // costs money: run again once, both charged
	EffectWrite      Effect = "write"      // changes the world: never run again; the program gets OutcomeUnknown
	// EffectByTool stands in the table only: the tool's own annotations decide, per call.
	EffectByTool Effect = "tool"
	// EffectByMethod stands in the table only: the method of the request decides ([FetchEffect]).
	EffectByMethod Effect = "method"
	// EffectLocal stands in listings only: a local tool runs inside the sandbox, and is no call.
	EffectLocal Effect = "local"
)

// External says whether the call leaves the kernel, so that its intent must be durable before it runs.
func (e Effect) External() bool { return e != EffectPure }

// Repeatable says whether recovery may run the call again without asking.
func (e Effect) Repeatable() bool {
	return e == EffectPure || e == EffectRead || e == EffectIdempotent
}

// Stricter is the one of two effects that asks for more care.
func (e Effect) Stricter(other Effect) Effect {
	order := []Effect{EffectPure, EffectRead, EffectIdempotent, EffectPaid, EffectWrite}
	if at := slices.Index(order, e); at >= 0 && at >= slices.Index(order, other) {
		return e
	}
	if slices.Contains(order, other) {
		return other
	}
	return EffectWrite
}

// Param is one argument of a syscall.
type Param struct {
	Name     string
	Type     string // JSON Schema type: string integer number boolean object array any
	Optional bool
	Default  string // as the guest writes it ("None", "0.0"); only for optional ones
	Doc      string
}

// Syscall describes one operation. The table is [Syscalls]; the reference page, the guest stubs and the
// dispatcher are all made from it.
type Syscall struct {
	Name       string // "family.verb"
	Doc        string // one sentence
	Args       []Param
	Result     string // JSON Schema type of the result
	ResultDoc  string
	Effect     Effect
	Capability string // what a Spec's Deny takes away; "" cannot be taken away
	// Peer is the argument that names whoever outside answers, where a process may rely on that being the same one as before
	// (the server of a tool); "": there is none.
	Peer string
	// Mask is what the call adds to the number of those who hold signals back (signals.mask); it is never negative.
	Mask int
	// Advances says that each call takes what comes next, of the clock, of chance or of a stream: the same answer again is no repetition.
	Advances bool
	// Event is what a journalled call shows to those who watch the process; "": nothing.
	Event EventKind
	// Guest is the name under which a program finds it in the module `kernel` ("state.get", "sleep");
	// empty if programs reach it in another way.
	Guest string
	// Bare says that the name of its family alone makes the call, too: llm("...") is llm.ask("...").
	Bare bool
}

// Family is the part of the name before the dot.
func (s Syscall) Family() string { f, _, _ := strings.Cut(s.Name, "."); return f }

// Signature is the Python signature of the guest function: "get(key, default=None)".
func (s Syscall) Signature() string {
	var args []string
	for _, p := range s.Args {
		if p.Optional {
			args = append(args, p.Name+"="+p.Default)
			continue
		}
		args = append(args, p.Name)
	}
	_, verb, ok := strings.Cut(s.Guest, ".")
	if !ok {
		verb = s.Guest
	}
	return verb + "(" + strings.Join(args, ", ") + ")"
}

// Syscalls is the one table of operations, in the order of the reference page: those of the kernel itself, and those of the
// families, whose descriptors are in internal/sys (syscalls.go is generated from them).
func Syscalls() []Syscall { return slices.Concat(kernelCalls, familyCalls) }

// FindSyscall looks an operation up by name.
func FindSyscall(name string) (Syscall, bool) {
	for _, table := range [][]Syscall{kernelCalls, familyCalls} {
		for i := range table {
			if table[i].Name == name {
				return table[i], true
			}
		}
	}
	return Syscall{}, false
}

// KernelSyscalls are the operations that the kernel carries out itself.
func KernelSyscalls() []Syscall { return slices.Clone(kernelCalls) }

// kernelCalls are those that the kernel carries out itself, since they change its table of processes.
var kernelCalls = []Syscall{
	{Name: "proc.self", Guest: "self", Effect: EffectPure,
		Doc:    "What the kernel knows of the calling process.",
		Result: "object", ResultDoc: "pid, parent, namespace, name, priority, args"},
	{Name: "proc.exit", Guest: "exit", Effect: EffectPure,
		Doc:    "Ends the process at once; nothing after it runs. sys.exit is the same call.",
		Args:   []Param{{Name: "code", Type: "any", Optional: true, Default: "0", Doc: "exit code 0 to 255; a text is printed to stderr and means 1"}},
		Result: "null"},
	{Name: "proc.spawn", Guest: "spawn", Effect: EffectPure, Capability: "proc.spawn",
		Doc: "Starts a child process. It has at most the permissions of its parent and outlives a parent that ends first.",
		Args: []Param{
			{Name: "source", Type: "string", Doc: "the child's program"},
			{Name: "args", Type: "array", Optional: true, Default: "None", Doc: "its sys.argv[1:], a list of str"},
			{Name: "name", Type: "string", Optional: true, Default: "None", Doc: "name for ps and tracebacks"},
			{Name: "priority", Type: "integer", Optional: true, Default: "None", Doc: "lower is more urgent; not below the parent's"},
			{Name: "limits", Type: "object", Optional: true, Default: "None", Doc: "smaller limits than the parent's: " + limitNames()},
			{Name: "detached", Type: "boolean", Optional: true, Default: "False", Doc: "pause, stop and kill of a process above do not reach it"},
			{Name: "deadline", Type: "number", Optional: true, Default: "None", Doc: "when it is asked to stop, in seconds since 1970, UTC, as now() says them; that of the parent, if that is sooner and the child is not detached"},
			{Name: "budget", Type: "object", Optional: true, Default: "None", Doc: "what it and all below it may spend, within what this process may: usd, tokens, calls, turns, time"},
			{Name: "folder", Type: "boolean", Optional: true, Default: "False", Doc: "it sees the folders of this process as they were found; what it changes in the workspace is kept apart under its own pid, volumes it only reads"},
		},
		Result: "integer", ResultDoc: "the child's pid"},
	{Name: "proc.wait", Guest: "wait", Effect: EffectPure, Capability: "proc.wait",
		Doc: "Waits until a child has ended.",
		Args: []Param{
			{Name: "pid", Type: "integer", Doc: "a child of the caller"},
			{Name: "timeout", Type: "number", Optional: true, Default: "None", Doc: "seconds; then TimeoutError"},
		},
		Result: "object", ResultDoc: "pid, state, exit_code, result, error, stdout"},
	{Name: "proc.next", Effect: EffectPure, Event: EventIdle,
		Doc: "Hands over how a cell of a session ended and waits for the next one. Sandboxes of sessions make it between two cells; programs cannot.",
		Args: []Param{
			{Name: "result", Type: "any", Optional: true, Default: "None", Doc: "value of the cell's last expression"},
			{Name: "error", Type: "object", Optional: true, Default: "None", Doc: "what the cell raised"},
		},
		Result: "object", ResultDoc: "the next cell with the tools that it imports, or the end"},
}

// Call is one syscall as a sandbox issues it. Calls are numbered in the order in which they are issued.
type Call struct {
	ID int64  `json:"id"` // 1, 2, ...; assigned by the kernel
	Op string `json:"op"`
	// Args is a JSON object in the guest's key order (docs/values.md says how values are written). The
	// journal keeps its canonical form, which is what replay compares.
	Args json.RawMessage `json:"args"`
	// Async says that the program goes on without the result and takes it at a later TurnWait.
	Async bool `json:"async,omitempty"`
}

// Reply answers a call.
type Reply struct {
	ID     int64           `json:"id"`
	Result json.RawMessage `json:"result,omitempty"` // canonical JSON; nil with Err or Pending
	Err    *Error          `json:"error,omitempty"`
	// Pending tells the sandbox that an async call is under way; its result comes with a later Reply.
	Pending bool `json:"pending,omitempty"`
}
