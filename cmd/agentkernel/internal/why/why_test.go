package why

import (
	"encoding/json"
	"errors"
	"flag"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/journaltest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// run is a process in the making: a clock, a journal and a row.
type run struct {
	p       agentkernel.Process
	now     time.Time
	entries []agentkernel.Entry
	slots   []agentkernel.Process // who runs
	talks   bool                  // it is a conversation
}

// created begins a process whose spec has these members.
func created(spec string) *run {
	r := &run{now: start, p: agentkernel.Process{PID: 12, Name: "report.py", Backend: "monty", Created: start, State: agentkernel.StateWaiting}}
	return r.put(agentkernel.Entry{Kind: agentkernel.EntryCreated, Data: json.RawMessage(spec)})
}

func (r *run) after(d time.Duration) *run { r.now = r.now.Add(d); return r }

func (r *run) put(e agentkernel.Entry) *run {
	e.PID, e.Seq, e.At = r.p.PID, int64(len(r.entries)+1), r.now
	e.ReadNote()
	r.entries = append(r.entries, e)
	return r
}

func (r *run) call(id int64, op string, effect agentkernel.Effect, args string) *run {
	r.p.Usage.Syscalls = max(r.p.Usage.Syscalls, id)
	return r.put(agentkernel.Entry{Kind: agentkernel.EntryCall, Call: id, Op: op, Effect: effect, Args: json.RawMessage(args)})
}

func (r *run) tool(id int64, name string, effect agentkernel.Effect) *run {
	server, tool, _ := strings.Cut(name, ".")
	return r.call(id, "tool.call", effect, `{"arguments":{"n":1},"server":"`+server+`","tool":"`+tool+`"}`)
}

func (r *run) async() *run { r.entries[len(r.entries)-1].Async = true; return r }

func (r *run) result(id int64, data string) *run {
	return r.put(agentkernel.Entry{Kind: agentkernel.EntryResult, Call: id, Data: json.RawMessage(data)})
}

func (r *run) fails(id int64, e *agentkernel.Error) *run {
	return r.put(agentkernel.Entry{Kind: agentkernel.EntryResult, Call: id, Err: e})
}

func (r *run) denied(id int64, name string, e *agentkernel.Error) *run {
	r.tool(id, name, agentkernel.EffectWrite)
	last := &r.entries[len(r.entries)-1]
	last.Done, last.Err = true, e
	return r
}

func (r *run) kind(k agentkernel.EntryKind, note string) *run {
	return r.put(agentkernel.Entry{Kind: k, Note: note})
}

func (r *run) running(d time.Duration) *run { r.p.Usage.Running = d; return r }

func (r *run) state(s agentkernel.State, waits ...string) *run {
	r.p.State, r.p.WaitsFor = s, waits
	return r
}

func (r *run) ends(s agentkernel.State, code int, e *agentkernel.Error) *run {
	r.p.State, r.p.ExitCode, r.p.Error, r.p.Ended = s, code, e, r.now
	return r.put(agentkernel.Entry{Kind: agentkernel.EntryTerminal, Err: e})
}

// raises ends the process with an exception of two frames.
func (r *run) raises(exception, message string) *run {
	text := exception + ": " + message
	return r.ends(agentkernel.StateFailed, 1, &agentkernel.Error{Code: agentkernel.CodeProgram, Op: "run", Err: errors.New(text), Exception: exception,
		Traceback: "Traceback (most recent call last):\n  File \"report.py\", line 9, in <module>\n    work(7)\n" +
			"  File \"report.py\", line 3, in work\n    return issue(n)\n           ^^^^^^^^\n" +
			"  File \"/usr/lib/python3/json.py\", line 80, in loads\n    raise\n" + text + "\n"})
}

func failure(code agentkernel.Code, op, message string) *agentkernel.Error {
	return agentkernel.Errorf(code, op, "%s", message)
}

const ms = time.Millisecond

// cases has one of everything that may have become of a process.
func cases() map[string]*run {
	two := func() *run { // two finished calls: 800 ms at a server, 100 ms asleep
		return created(`{"program":{"name":"report.py"},"tools":["/etc/my tools.json"],"limits":{"time":"30s","memory":67108864}}`).running(40*ms).
			after(20*ms).tool(1, "github.search", agentkernel.EffectRead).after(800*ms).result(1, `[]`).
			after(30*ms).call(2, "time.sleep", agentkernel.EffectPure, `{"seconds":0.1}`).after(100*ms).result(2, `null`)
	}
	tool := failure(agentkernel.CodeTool, "tool.call", "title is too long")
	refused := failure(agentkernel.CodeDenied, "tool.call", "github.create may change things (write) and was not allowed").WithHint("allow it with --allow 'github.create'")
	slow := failure(agentkernel.CodeTimeout, "tool.call", "server \"github\" did not answer search in time")
	dead := failure(agentkernel.CodeUnavailable, "tool.call", "server \"github\" ended: exit status 3; its stderr ends with:\nloading\nfatal: the disk caught \x1b[2Jfire")
	unknown := failure(agentkernel.CodeOutcomeUnknown, "tool.call", "github.create may or may not have happened: the kernel died while it was under way")
	gone := failure(agentkernel.CodeDenied, "state.get", "state.get is denied to this process (deny = \"state\")")
	diverged := failure(agentkernel.CodeDiverged, "replay", "call 2 is not the one in the journal\n- time.sleep {\"seconds\":0.1}\n+ time.sleep {\"seconds\":0.2}")
	limit := func(name, message string) *agentkernel.Error {
		return failure(agentkernel.CodeLimit, "limit."+name, message)
	}
	wrongKey := failure(agentkernel.CodeUnavailable, "llm", "the model fast: HTTP 401: invalid_api_key").WithHint("put the right key into the variable: `export KEY=...` and then `agentkernel shutdown`")
	noKey := failure(agentkernel.CodeUnavailable, "llm", "the model fast: the key of the provider is not available: "+agentkernel.NotSet("KEY").Error()).WithHint("`export KEY=...`")
	unpriced := failure(agentkernel.CodeUnavailable, "models", "nobody says what openai:x costs, and the process has a budget of dollars").
		WithHint("declare the model with price=INPUT/OUTPUT, in dollars for a million tokens")
	down := failure(agentkernel.CodeTimeout, "llm", "the model fast did not answer in time: connection refused").WithHint("look whether the server runs: `agentkernel doctor` asks it")
	slowModel := failure(agentkernel.CodeTimeout, "llm", "the model fast did not answer in time: the provider stalled").WithHint("it was tried 2 times: raise limits.call_wait, or ask for less")
	noModel := failure(agentkernel.CodeNotFound, "llm", `there is no model "fsat"`).WithHint("did you mean fast? No other is declared")
	noHost := failure(agentkernel.CodeUnavailable, "http", "a.test refused the connection")
	closed := failure(agentkernel.CodeDenied, "http", "a.test was not allowed").WithHint("allow it with --allow-host 'a.test'")
	silent := failure(agentkernel.CodeTimeout, "signals.wait", "no signal came within 5 s")
	asked := func(e *agentkernel.Error, exception string) *run {
		return two().call(3, "llm.ask", agentkernel.EffectPaid, `{"model":"fast","prompt":"x"}`).after(50*ms).fails(3, e).raises(exception, e.GuestText())
	}
	fetched := func(e *agentkernel.Error, exception string) *run {
		return two().call(3, "http.fetch", agentkernel.EffectRead, `{"url":"https://a.test/"}`).after(50*ms).fails(3, e).raises(exception, e.GuestText())
	}
	return map[string]*run{
		"model_key":      asked(wrongKey, "RuntimeError"),
		"model_no_key":   asked(noKey, "RuntimeError"),
		"model_unpriced": asked(unpriced, "RuntimeError"),
		"model_down":     asked(down, "TimeoutError"),
		"model_slow":     asked(slowModel, "TimeoutError"),
		"model_unknown":  asked(noModel, "KeyError"),
		"host_down":      fetched(noHost, "RuntimeError"),
		"host_closed":    fetched(closed, "PermissionError"),
		"signal_late":    two().call(3, "signals.wait", agentkernel.EffectPure, `{"timeout":5}`).after(5*time.Second).fails(3, silent).raises("TimeoutError", silent.GuestText()),

		"finished":  two().ends(agentkernel.StateExited, 0, nil),
		"exit_code": two().prints("stderr", "warning\nno input\n").exit(3).ends(agentkernel.StateExited, 3, nil),
		"exception": two().raises("ValueError", "no such month"),
		"tool_error": two().tool(3, "github.create", agentkernel.EffectWrite).after(50*ms).fails(3, tool).after(10*ms).
			raises("RuntimeError", tool.GuestText()),
		"tool_error_wrapped": two().tool(3, "github.create", agentkernel.EffectWrite).after(50*ms).fails(3, tool).
			raises("ValueError", "cannot file it: "+tool.GuestText()),
		"tool_error_caught": two().tool(3, "github.create", agentkernel.EffectWrite).after(50*ms).fails(3, tool).
			raises("KeyError", "'id'"),
		"refused":       two().denied(3, "github.create", refused).raises("PermissionError", refused.GuestText()),
		"refused_deny":  two().call(3, "state.get", agentkernel.EffectPure, `{"key":"a"}`).done(gone).raises("PermissionError", gone.GuestText()),
		"server_died":   two().tool(3, "github.search", agentkernel.EffectRead).after(5*ms).fails(3, dead).raises("RuntimeError", dead.GuestText()),
		"server_slow":   two().tool(3, "github.search", agentkernel.EffectRead).after(2*time.Minute).fails(3, slow).raises("TimeoutError", slow.GuestText()),
		"limit_journal": two().ends(agentkernel.StateKilled, 137, limit("journal", "journal limit of 4 GiB reached (used 4.1 GiB)")),
		"server_start":  created(`{"tools":["/etc/mcp.json"]}`).after(5*ms).ends(agentkernel.StateFailed, 69, failure(agentkernel.CodeUnavailable, "tool.start", "report.py, line 1: server \"github\" did not start: it exited with status 1; its stderr ends with:\nno token")),
		"server_unset":  created(`{"tools":["/etc/mcp.json"]}`).after(5*ms).ends(agentkernel.StateFailed, 2, failure(agentkernel.CodeInvalid, "tools", "report.py, line 1: server \"github\" (/etc/mcp.json, line 1, column 16): "+agentkernel.NotSet("TOKEN").Error()+": set it before the kernel starts, or write ${TOKEN:-default}")),
		"unknown":       two().tool(3, "github.create", agentkernel.EffectWrite).after(90*ms).recovered(5*time.Second).fails(3, unknown).raises("OSError", unknown.GuestText()),
		"unknown_pause": two().tool(3, "github.create", agentkernel.EffectWrite).after(90*ms).doubted(3, unknown).after(3 * time.Minute),
		"resolved_pause": two().tool(3, "github.create", agentkernel.EffectWrite).doubted(3, unknown).
			put(agentkernel.Entry{Kind: agentkernel.EntryResolve, Call: 3, Note: "done"}).result(3, `1`).pause("").after(time.Minute),
		"limit_time": two().running(31*time.Second).after(31*time.Second).ends(agentkernel.StateKilled, 124, limit("time", "time limit reached: the program ran for 31s, its limit is 30s")),
		"limit_wall": created(`{"limits":{"wall":"1s"}}`).tool(1, "github.search", agentkernel.EffectRead).after(time.Second).
			ends(agentkernel.StateKilled, 124, limit("wall", "wall limit of 1s reached (used 1s)")),
		"limit_memory": two().ends(agentkernel.StateKilled, 137, limit("memory", "memory limit reached: the program needed more memory than its limit of 64 MiB")),
		"limit_new":    two().ends(agentkernel.StateKilled, 137, limit("sockets", "sockets limit of 10 reached (used 11)")),
		"limit_pids":   two().ends(agentkernel.StateKilled, 137, limit("pids", "pids limit reached: the program wanted more processes and threads than its limit of 256 at a time")),
		"exited_open":  two().tool(3, "github.create", agentkernel.EffectWrite).after(2*time.Second).ends(agentkernel.StateExited, 0, nil),
		"killed":       two().tool(3, "github.create", agentkernel.EffectWrite).after(2*time.Second).ends(agentkernel.StateKilled, 137, failure(agentkernel.CodeKilled, "kill", "killed by a signal")),
		"diverged":     two().ends(agentkernel.StateFailed, 1, diverged),
		"crashed":      two().ends(agentkernel.StateFailed, 137, failure(agentkernel.CodeCrashed, "monty worker", "the worker ended: signal: segmentation fault")),
		"crashed_oom":  two().ends(agentkernel.StateFailed, 137, failure(agentkernel.CodeCrashed, "monty worker", "the worker ended: signal: killed (EOF)")),
		"engine":       created(`{}`).ends(agentkernel.StateFailed, 69, failure(agentkernel.CodeUnavailable, "recover", "backend \"monty\" is not there any more")),
		"syntax":       created(`{}`).ends(agentkernel.StateFailed, 2, failure(agentkernel.CodeSyntax, "run", "line 3: invalid syntax")),

		"paused":           two().tool(3, "github.search", agentkernel.EffectRead).after(time.Second).pause("").after(time.Minute),
		"paused_prevented": two().pause(`by hand; server "demo" did not start`).after(time.Minute),
		"paused_kernel":    two().pause("the Monty engine is not installed; when that is mended: agentkernel resume 12").after(time.Hour),
		"unfinished":       two().tool(3, "github.create", agentkernel.EffectWrite).state(agentkernel.StateUnfinished).after(90 * time.Second),
		"unfinished_pause": created(`{"on_unknown":"pause"}`).tool(1, "github.create", agentkernel.EffectWrite).state(agentkernel.StateUnfinished).after(90 * time.Second),
		"unfinished_new":   created(`{}`).state(agentkernel.StateUnfinished).after(time.Second),
		"waiting": two().tool(3, "github.search", agentkernel.EffectRead).async().tool(4, "github.issue", agentkernel.EffectRead).async().
			state(agentkernel.StateWaiting, "tool.call github.issue", "tool.call github.search").after(4 * time.Second),
		"hostless":   two().state(agentkernel.StateWaiting, agentkernel.ItsHost, "tool.call github.create").after(4 * time.Second),
		"serverless": created(`{"tools":["/home/me/mcp.json"]}`).state(agentkernel.StateRunning, agentkernel.ItsServers).after(4 * time.Second),
		"asking":     two().state(agentkernel.StateWaiting, agentkernel.YourAnswer+"github.create").after(4 * time.Second),
		"asking_refused": created(`{"interactive":true}`).call(1, "tool.call", agentkernel.EffectWrite, `{"arguments":{},"server":"github","tool":"create"}`).
			refusedAtOnce(failure(agentkernel.CodeDenied, "tool.call", "github.create may change things (write) and was not allowed")).after(9*time.Second).
			ends(agentkernel.StateExited, 0, nil),
		"key": two().state(agentkernel.StateWaiting, "http.fetch GET https://a.test/"+agentkernel.WaitsForKey+": `agentkernel llm key x; rm -r /` gives it",
			"llm.ask fast"+agentkernel.WaitsForKey+": `agentkernel llm key fast --pid 12` gives it").after(4 * time.Second),
		"queued": two().call(3, "llm.complete", agentkernel.EffectPaid, `{"model":"fast"}`).
			state(agentkernel.StateWaiting, "llm.complete fast, queued 4.1 s: tokens/min of key fast, 20 ahead").after(4 * time.Second),
		"paused_program":     two().pause(`the tools of server "host" ` + agentkernel.OfProgram + " (os process 7)").after(time.Minute),
		"paused_with_asking": two().tool(3, "github.create", agentkernel.EffectWrite).pausedWith(11, "with process 11; "+agentkernel.YourAnswer+"github.create").after(time.Minute),
		"program_ended":      two().ends(agentkernel.StateFailed, 69, failure(agentkernel.CodeUnavailable, "tool.start", `report.py, line 1: the tools of server "host" `+agentkernel.OfProgram)),
		"talk":               two().call(3, "proc.next", agentkernel.EffectPure, `{}`).state(agentkernel.StateWaiting, "proc.next").talking().after(4 * time.Hour),
		"asking_starts":      two().state(agentkernel.StateWaiting, "tool.call github.create").after(4 * time.Second),
		"asking_paused":      two().state(agentkernel.StateWaiting, agentkernel.YourAnswer+"github.create").after(4 * time.Second).pause("").after(time.Minute),
		"child":              two().call(3, "proc.wait", agentkernel.EffectPure, `{"pid":13}`).state(agentkernel.StateWaiting, "proc.wait").after(4 * time.Second),
		"running":            two().state(agentkernel.StateRunning).after(2 * time.Second),
		"ready":              two().state(agentkernel.StateReady).after(50 * ms),
		"ready_behind": two().state(agentkernel.StateReady).after(50*ms).behind(agentkernel.Process{PID: 3, Name: "c.py"},
			agentkernel.Process{PID: 4, Name: "hog.py", Usage: agentkernel.Usage{Running: 61 * time.Second}},
			agentkernel.Process{PID: 5, Name: "e.py", Usage: agentkernel.Usage{Running: 2 * time.Second}}, agentkernel.Process{PID: 6, Name: "f.py"}),
		"empty": (&run{now: start, p: agentkernel.Process{PID: 3, Name: "x.py", State: agentkernel.StateReady, Created: start}}),
	}
}

// pausedWith pauses it because of another process.
func (r *run) pausedWith(with agentkernel.PID, note string) *run {
	r.pause(note)
	r.entries[len(r.entries)-1].Data = json.RawMessage(`{"with":` + with.String() + `}`)
	return r
}

func (r *run) talking() *run { r.talks = true; return r }

// refusedAtOnce makes the last call one whose answer is in its own entry.
func (r *run) refusedAtOnce(e *agentkernel.Error) *run {
	last := &r.entries[len(r.entries)-1]
	last.Done, last.Err = true, e
	return r
}

func (r *run) prints(stream, text string) *run {
	data, _ := json.Marshal(text)
	return r.put(agentkernel.Entry{Kind: agentkernel.EntryOutput, Stream: stream, Data: data})
}

func (r *run) exit(code int) *run {
	data, _ := json.Marshal(map[string]int{"code": code})
	return r.call(3, "proc.exit", agentkernel.EffectPure, string(data)).done(nil)
}

func (r *run) done(e *agentkernel.Error) *run {
	last := &r.entries[len(r.entries)-1]
	last.Done, last.Err = true, e
	return r
}

func (r *run) pause(note string) *run {
	r.p.Paused, r.p.PauseNote = true, note
	return r.kind(agentkernel.EntryPaused, note)
}

// doubted is the pause in which a human is asked about a call.
func (r *run) doubted(call int64, e *agentkernel.Error) *run {
	r.pause("the outcome of the call is unknown")
	last := &r.entries[len(r.entries)-1]
	last.Call, last.Err = call, e
	return r
}

func (r *run) recovered(d time.Duration) *run {
	return r.after(d).put(agentkernel.Entry{Kind: agentkernel.EntryRecover, Data: json.RawMessage(`{"from_image":true}`)})
}

func (r *run) behind(slots ...agentkernel.Process) *run { r.slots = slots; return r }

func (r *run) report() Report {
	return Of(Input{Process: r.p, Entries: r.entries, Running: r.slots, Now: r.now, Talks: r.talks})
}

// golden compares a text with what a file of testdata has.
func golden(t *testing.T, file, got string) {
	t.Helper()
	journaltest.Golden(t, *update, file, got)
}

func TestReports(t *testing.T) {
	for name, r := range cases() {
		t.Run(name, func(t *testing.T) {
			report := r.report()
			data, err := json.MarshalIndent(report, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", report.Text(false)+"\n"+string(data)+"\n")
		})
	}
}

// Whatever happened, the parts add up, nothing of a program reaches the terminal raw, there is something to do next,
// and every command is about a process that the report knows.
func TestEveryReport(t *testing.T) {
	for name, r := range cases() {
		report := r.report()
		s := report.Time
		sum := s.Running + s.Queued + s.Asleep + s.Paused + s.Stopped
		for _, w := range s.Waiting {
			sum += w.Time
		}
		if d := sum - s.Total; d < -time.Microsecond || d > time.Microsecond {
			t.Errorf("%s: the parts are %v, the whole %v: %+v", name, sum, s.Total, s)
		}
		if text := report.Text(false); strings.ContainsAny(text, "\x1b\r") || strings.Count(report.Cause.Sentence, "\n") > 0 {
			t.Errorf("%s: %q", name, text)
		}
		if len(report.Next) == 0 {
			t.Errorf("%s: nothing to type next", name)
		}
		for _, n := range report.Next {
			if !strings.HasPrefix(n.Command, "agentkernel ") {
				t.Errorf("%s: next is %q", name, n.Command)
			}
		}
		if !strings.Contains(report.Text(true), "\x1b[") {
			t.Errorf("%s: no colour", name)
		}
	}
}

// TestOnePause: a pause begins once, also where the kernel asks about a second call in it.
func TestOnePause(t *testing.T) {
	unknown := agentkernel.Errorf(agentkernel.CodeOutcomeUnknown, "tool.call", "its server died")
	r := created(`{"program":{"name":"report.py"}}`).tool(3, "github.create", agentkernel.EffectWrite).tool(4, "github.create", agentkernel.EffectWrite).
		doubted(3, unknown).after(time.Minute).doubted(4, unknown).after(time.Minute)
	report := r.report()
	if report.Time.Paused != 2*time.Minute || !strings.Contains(report.Cause.Sentence, "since 2m") {
		t.Errorf("paused for %v: %s", report.Time.Paused, report.Cause.Sentence)
	}
}

// A file whose name has blanks is suggested by its name, and not as one that does not exist.
func TestFileWithBlanks(t *testing.T) {
	r := cases()["exception"]
	r.p.Name = "my prog.py"
	if got := r.report().Next[0].Command; got != "agentkernel rerun 12 --with 'my prog.py'" {
		t.Errorf("%s", got)
	}
}

// A program may be called anything: what is suggested never takes a name for a flag, nor for more of a shell's text.
func TestNamesInCommands(t *testing.T) {
	for _, name := range []string{"--isolation=none", "-c", "x\ny", "$(id)", "a;id", "~/x", "a#b !", "<b>"} {
		for kind, r := range cases() {
			r.p.Name = name
			for _, n := range r.report().Next {
				if out, err := exec.Command("sh", "-c", "printf '%s\\n' "+n.Command).Output(); err != nil || strings.Contains(string(out), "\n"+name+"\n") {
					t.Errorf("%s of %q: %q is read as %q: %v", kind, name, n.Command, out, err)
				}
				if strings.ContainsAny(n.Command, "$;#!<>\n") {
					t.Errorf("%s of %q: %q", kind, name, n.Command)
				}
			}
		}
	}
}
