package sandboxtest

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/journal"
)

// holdWait bounds how long a program may take to issue the calls that it is to have under way.
const holdWait = 30 * time.Second

// Case is one program and what must come of it.
type Case struct {
	Name     string
	Language agentkernel.Language // "": Python
	File     string               // its name; "": report.py
	Source   string
	Needs    []Feature // a backend without them refuses the program,
	Without  string    // or, if this is not empty, runs it and fails with this in its message
	Args     []string
	Modules  map[string]string
	Limits   func(*agentkernel.Limits)
	Answer   func(c agentkernel.Call) agentkernel.Reply // nil: Echo
	Output   string                                     // "[stderr]" stands before each piece for that stream
	Prints   []string                                   // in place of Output: what it has somewhere, on either stream
	Calls    []string                                   // "async " before those that are
	Result   string                                     // "" is not looked at
	Code     agentkernel.Code                           // how it fails; "": it ends well
	Message  string                                     // part of the error's message
	Op       string                                     // of the error; "" is not looked at
	ExitCode int
	Folder   bool   // it has one of its own, with the files f ("old") and new ("new"), and makes g
	Stdin    string // what it reads
	Hold     int    // how many calls have to be under way before the first is answered
	// Traceback are parts of the traceback, which must name the user's files alone.
	Traceback []string
}

// Echo answers state.get with its key, time and chance as a kernel does, a tool with its arguments, and anything else
// with nothing.
func Echo(c agentkernel.Call) agentkernel.Reply {
	var a struct {
		Key       string          `json:"key"`
		N         int             `json:"n"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(c.Args, &a); err != nil {
		return agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeInvalid, c.Op, "%w", err)}
	}
	var result any
	switch c.Op {
	case "state.get":
		result = a.Key
	case "tool.call":
		return agentkernel.Reply{Result: a.Arguments}
	case "time.now":
		return agentkernel.Reply{Result: journal.AppendFloat(nil, 1795226400+float64(c.ID)/4)}
	case "rand.bytes":
		result = map[string][]byte{"$bytes": []byte(strings.Repeat(string(rune('a'+c.ID%26)), a.N))}
	}
	out, err := json.Marshal(result)
	if err != nil {
		return agentkernel.Reply{Err: agentkernel.AsError(err, agentkernel.CodeInternal, c.Op)}
	}
	return agentkernel.Reply{Result: out}
}

// Run is one program in motion, with all that it did.
type Run struct {
	t       testing.TB
	backend agentkernel.Backend
	Req     agentkernel.StartRequest
	Box     agentkernel.Sandbox
	Answer  func(c agentkernel.Call) agentkernel.Reply
	// Pick chooses which of the async calls under way is answered at a wait; nil: the newest, since the order is the
	// kernel's to choose.
	Pick func(flying []agentkernel.Reply) int
	// Hold is how many calls have to be under way before the first is answered.
	Hold  int
	woken chan struct{}
	// Each is called at every turn that is not the last, before it is answered.
	Each   func()
	Calls  []string
	out    strings.Builder
	flying []agentkernel.Reply
	issued int64
}

// NewRun prepares a program; Start starts it.
func NewRun(t testing.TB, b agentkernel.Backend, c Case) *Run {
	r := &Run{t: t, backend: b, Answer: c.Answer, Hold: c.Hold, woken: make(chan struct{}, 1)}
	if r.Answer == nil {
		r.Answer = Echo
	}
	r.Req = agentkernel.StartRequest{PID: 7, Namespace: "default", Limits: agentkernel.DefaultLimits(), Tools: tools,
		Program: c.program()}
	if c.Hold > 0 {
		r.Req.Wake = func() {
			select {
			case r.woken <- struct{}{}:
			default:
			}
		}
	}
	if c.Limits != nil {
		c.Limits(&r.Req.Limits)
	}
	r.Req.Output = func(stream, text string) {
		if stream != "stdout" {
			r.out.WriteString("[" + stream + "]")
		}
		r.out.WriteString(text)
	}
	return r
}

func (c Case) program() agentkernel.Program {
	return agentkernel.Program{Name: cmp.Or(c.File, "report.py"), Language: cmp.Or(c.Language, agentkernel.Python), Source: c.Source, Args: c.Args, Modules: c.Modules}
}

// Output is what the program has printed.
func (r *Run) Output() string { return r.out.String() }

// Start makes the sandbox.
func (r *Run) Start() *Run {
	r.t.Helper()
	box, err := r.backend.Start(context.Background(), r.Req)
	if err != nil {
		r.t.Fatalf("%s\nStart: %v", r.Req.Program.Source, err)
	}
	r.Box = box
	r.t.Cleanup(func() { _ = box.Close() })
	return r
}

// Finish drives the program to its end. A call of proc.exit is one: the kernel does not answer it.
func (r *Run) Finish() (agentkernel.Turn, error) {
	if r.Box == nil {
		r.Start()
	}
	return r.From(nil)
}

// From goes on with a reply.
func (r *Run) From(reply *agentkernel.Reply) (agentkernel.Turn, error) {
	for {
		turn, err := r.Box.Next(context.Background(), reply)
		if err != nil || turn.Kind == agentkernel.TurnExit || turn.Kind == agentkernel.TurnFail {
			return turn, err
		}
		if turn.Kind == agentkernel.TurnCall && turn.Call.Op == "proc.exit" {
			r.note(turn.Call)
			return agentkernel.Turn{Kind: agentkernel.TurnExit}, nil
		}
		if r.Each != nil {
			r.Each()
		}
		reply = r.Reply(turn)
	}
}

func (r *Run) note(c agentkernel.Call) {
	mode := ""
	if c.Async {
		mode = "async "
	}
	args, err := journal.Canonical(c.Args)
	if err != nil {
		r.t.Errorf("%s\n%s has arguments that are no values: %s: %v", r.Req.Program.Source, c.Op, c.Args, err)
	}
	r.Calls = append(r.Calls, mode+c.Op+" "+string(args))
}

// Reply answers one turn.
func (r *Run) Reply(turn agentkernel.Turn) *agentkernel.Reply {
	r.t.Helper()
	if turn.Kind == agentkernel.TurnWait {
		if len(r.flying) == 0 {
			r.t.Fatalf("%s\nwaits for nothing", r.Req.Program.Source)
		}
		if len(r.flying) < r.Hold {
			select {
			case <-r.woken:
				return nil
			case <-time.After(holdWait):
				r.t.Fatalf("%s\nhas %d calls under way, and never %d", r.Req.Program.Source, len(r.flying), r.Hold)
			}
		}
		r.Hold = 0
		at := len(r.flying) - 1
		if r.Pick != nil {
			at = r.Pick(r.flying)
		}
		chosen := r.flying[at]
		r.flying = append(r.flying[:at:at], r.flying[at+1:]...)
		return &chosen
	}
	r.issued++
	call := turn.Call
	call.ID = r.issued
	r.note(call)
	reply := r.Answer(call)
	reply.ID = call.ID
	if call.Async {
		r.flying = append(r.flying, reply)
		return &agentkernel.Reply{ID: call.ID, Pending: true}
	}
	return &reply
}

// one runs a case.
func (s Suite) one(t *testing.T, b agentkernel.Backend, c Case) {
	if missing, ok := s.has(c.Needs); !ok && c.Without != "" {
		turn, err := NewRun(t, b, c).Finish()
		if err != nil || turn.Kind != agentkernel.TurnFail || !strings.Contains(turn.Err.Message(), c.Without) {
			t.Errorf("the backend has no %s, and the program ends with %+v %v; want %q", missing, turn, err, c.Without)
		}
		return
	} else if !ok {
		if _, err := b.Check(agentkernel.Program{Name: "report.py", Source: c.Source, Modules: c.Modules}); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
			t.Errorf("the backend has no %s and does not refuse a program that needs it: %v", missing, err)
		}
		return
	}
	if _, err := b.Check(agentkernel.Program{Name: "report.py", Source: c.Source, Modules: c.Modules}); err != nil {
		t.Fatalf("%s\nCheck: %v", c.Source, err)
	}
	r := NewRun(t, b, c)
	turn, err := r.Finish()
	c.judge(t, r, turn, err)
	if err := r.Box.Close(); err != nil {
		t.Error(err)
	}
}

func (c Case) judge(t *testing.T, r *Run, turn agentkernel.Turn, err error) {
	t.Helper()
	var failure *agentkernel.Error
	switch {
	case err != nil:
		failure = agentkernel.AsError(err, agentkernel.CodeInternal, "")
	case turn.Kind == agentkernel.TurnFail:
		failure = turn.Err
	}
	if code := codeOf(failure); code != c.Code || failure != nil && !strings.Contains(failure.Message(), c.Message) {
		t.Fatalf("%s\nended with %v, want %q %q\n%s", c.Source, failure, c.Code, c.Message, tracebackOf(failure))
	}
	if c.Op != "" && failure.Op != c.Op {
		t.Errorf("%s\nended by %s, want %s", c.Source, failure.Op, c.Op)
	}
	for _, part := range c.Prints {
		if !strings.Contains(strings.ReplaceAll(r.Output(), "[stderr]", ""), part) {
			t.Errorf("%s\nprints\n%s\nwhich lacks %q", c.Source, r.Output(), part)
		}
	}
	if c.Output != "*" && c.Prints == nil && r.Output() != c.Output {
		t.Errorf("%s\nprints\n%s\nwant\n%s", c.Source, r.Output(), c.Output)
	}
	if got, want := strings.Join(r.Calls, "\n"), strings.Join(c.Calls, "\n"); got != want && c.Calls != nil {
		t.Errorf("%s\nmakes the calls\n%s\nwant\n%s", c.Source, got, want)
	}
	if c.Result != "" {
		if got, err := journal.Canonical(turn.Result); err != nil || string(got) != c.Result {
			t.Errorf("%s\ngives %s (%v), want %s", c.Source, turn.Result, err, c.Result)
		}
	}
	if turn.ExitCode != c.ExitCode {
		t.Errorf("%s\nends with exit code %d, want %d", c.Source, turn.ExitCode, c.ExitCode)
	}
	c.judgeTraceback(t, tracebackOf(failure))
}

func (c Case) judgeTraceback(t *testing.T, got string) {
	t.Helper()
	for _, part := range c.Traceback {
		if !strings.Contains(got, part) {
			t.Errorf("%s\nits traceback lacks %q:\n%s", c.Source, part, got)
		}
	}
	for line := range strings.Lines(got) {
		file, ok := strings.CutPrefix(strings.TrimSpace(line), "File \"")
		if file, _, _ := strings.Cut(file, "\""); ok && strings.Contains(file, "<") {
			t.Errorf("%s\nits traceback shows what is not the user's: %s", c.Source, line)
		}
	}
}

func codeOf(e *agentkernel.Error) agentkernel.Code {
	if e == nil {
		return ""
	}
	return e.Code
}

func tracebackOf(e *agentkernel.Error) string {
	if e == nil {
		return ""
	}
	return e.Traceback
}
