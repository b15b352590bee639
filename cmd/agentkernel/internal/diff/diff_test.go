package diff

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/journaltest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// runJournal is a run in the making.
type runJournal struct {
	r Run
	n int64
}

func run(pid agentkernel.PID, name, spec string) *runJournal {
	j := &runJournal{r: Run{Process: agentkernel.Process{PID: pid, Name: name, Created: start, Ended: start.Add(time.Duration(pid) * time.Second), State: agentkernel.StateExited}}}
	return j.put(agentkernel.Entry{Kind: agentkernel.EntryCreated, Data: json.RawMessage(spec)})
}

func (j *runJournal) put(e agentkernel.Entry) *runJournal {
	e.PID, e.Seq, e.At = j.r.Process.PID, int64(len(j.r.Entries)+1), start
	e.ReadNote()
	j.r.Entries = append(j.r.Entries, e)
	return j
}

func (j *runJournal) done(op, args, result string) *runJournal {
	j.n++
	return j.put(agentkernel.Entry{Kind: agentkernel.EntryCall, Call: j.n, Op: op, Effect: agentkernel.EffectPure,
		Args: json.RawMessage(args), Done: true, Data: json.RawMessage(result)})
}

func (j *runJournal) intent(name, args string) *runJournal {
	server, tool, _ := strings.Cut(name, ".")
	j.n++
	return j.put(agentkernel.Entry{Kind: agentkernel.EntryCall, Call: j.n, Op: "tool.call", Effect: agentkernel.EffectRead,
		Args: json.RawMessage(`{"arguments":` + args + `,"server":"` + server + `","tool":"` + tool + `"}`)})
}

func (j *runJournal) tool(name, args, result string) *runJournal {
	j.intent(name, args)
	return j.put(agentkernel.Entry{Kind: agentkernel.EntryResult, Call: j.n, Data: json.RawMessage(result)})
}

func (j *runJournal) fails(name, args, message string) *runJournal {
	j.intent(name, args)
	return j.put(agentkernel.Entry{Kind: agentkernel.EntryResult, Call: j.n, Err: &agentkernel.Error{Code: agentkernel.CodeTool, Err: errors.New(message)}})
}

func (j *runJournal) prints(stream, text string) *runJournal {
	data, _ := json.Marshal(text)
	return j.put(agentkernel.Entry{Kind: agentkernel.EntryOutput, Stream: stream, Data: data})
}

func (j *runJournal) ends(s agentkernel.State, code int, result string, e *agentkernel.Error) Run {
	p := &j.r.Process
	p.State, p.ExitCode, p.Result, p.Error = s, code, json.RawMessage(result), e
	j.put(agentkernel.Entry{Kind: agentkernel.EntryTerminal, Err: e})
	return j.r
}

// story is a run that failed and the run of the mended program.
func story() (a, b Run) {
	begin := func(j *runJournal, child string) *runJournal {
		return j.done("time.now", `{}`, fmt.Sprintf("%d.5", j.r.Process.PID)).
			tool("files.list", `{"path":"/data"}`, `["a","b"]`).
			done("proc.spawn", `{"source":"print(1)"}`, child).
			done("proc.wait", `{"pid":`+child+`}`, `{"pid":`+child+`,"state":"exited","exit_code":0}`).
			prints("stdout", "one\ntwo\n")
	}
	long := strings.Repeat("a very long text that goes on ", 10)
	ja := begin(run(12, "report.py", `{"program":{"name":"report.py","args":["--month","11"]},"tools":["/m.json"],"limits":{"time":"1m0s"}}`), "13")
	ja.tool("files.read", `{"path":"/data/a"}`, `{"rows":3,"ok":true}`).
		tool("github.issue", `{"body":"`+long+`x","labels":["bug"],"title":"t\u001b[2J"}`, `{"id":1}`).
		done("state.set", `{"key":"old","value":1}`, `null`).
		prints("stdout", "three\n").
		fails("github.close", `{"id":1}`, "not \x1b[2J found").
		intent("files.read", `{"path":"/data/z"}`)
	jb := begin(run(20, "fixed.py", `{"program":{"name":"fixed.py","args":["--month","11"]},"tools":["/m.json"],"allow":["github"]}`), "21")
	jb.tool("files.read", `{"path":"/data/a"}`, `{"ok":true,"rows":4}`).
		tool("github.issue", `{"body":"`+long+`y","title":"t"}`, `{"id":1}`).
		prints("stdout", "drei\n").
		tool("github.close", `{"id":1}`, `true`).
		done("state.get", `{"default":null,"key":"new"}`, `null`).
		tool("files.read", `{"path":"/data/z"}`, `""`)
	a = ja.ends(agentkernel.StateFailed, 1, "", &agentkernel.Error{Code: agentkernel.CodeProgram, Err: errors.New("ValueError: no")})
	b = jb.ends(agentkernel.StateExited, 0, `42`, nil)
	a.Source, b.Source = "one\ntwo\n  three()\n", "one\ntwo\n  drei(\x1b)\nfour\n"
	return a, b
}

func TestText(t *testing.T) {
	a, b := story()
	again := a
	again.Process.PID = 99
	cases := map[string]struct {
		a, b Run
		o    TextOptions
	}{
		"story":       {a, b, TextOptions{}},
		"story_full":  {a, b, TextOptions{Full: true, All: true}},
		"story_color": {a, b, TextOptions{Color: true}},
		"equal":       {a, again, TextOptions{}},
		"empty":       {run(1, "x", `{}`).r, run(2, "x", `{}`).r, TextOptions{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { golden(t, name+".txt", Of(tc.a, tc.b, Options{}).Text(tc.o)) })
	}
	data, err := json.MarshalIndent(Of(a, b, Options{}), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "story.json", string(data)+"\n")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	journaltest.Golden(t, *update, name, got)
	if !strings.Contains(name, "color") && strings.Contains(got, "\x1b") {
		t.Error("an escape sequence of a program is in the text")
	}
}

func TestKinds(t *testing.T) {
	a, b := story()
	d := Of(a, b, Options{})
	want := map[Kind]int{Same: 4, Result: 3, Arguments: 1, OnlyA: 1, OnlyB: 1}
	if diff := cmp.Diff(want, d.Counts); diff != "" || d.Equal {
		t.Errorf("equal %v, -want +got:\n%s", d.Equal, diff)
	}
	for _, p := range d.Calls {
		if p.Kind == Arguments && p.A.Name != "github.issue" {
			t.Errorf("other arguments: %s", p.A.Name)
		}
	}
	// The clock and PIDs differ from run to run; they count only when asked for.
	if exact := Of(a, b, Options{Exact: true}); exact.Counts[Same] != 1 {
		t.Errorf("exact: %v", exact.Counts)
	}
	if back := Of(b, a, Options{}); back.Counts[OnlyA] != 1 || back.Counts[Arguments] != 1 || back.Counts[Same] != 4 {
		t.Errorf("the other way round: %v", back.Counts)
	}
}

// What only looks different is equal: the order of members in a result, the PIDs of children, the clock.
func TestEqual(t *testing.T) {
	make := func(pid agentkernel.PID, child, result, now string) Run {
		return run(pid, "x.py", `{}`).done("time.now", `{}`, now).done("proc.spawn", `{"source":"1"}`, child).
			done("proc.wait", `{"pid":`+child+`}`, `{"exit_code":0,"pid":`+child+`}`).tool("a.b", `{}`, result).prints("stdout", "x").
			ends(agentkernel.StateExited, 0, `{"a":1,"b":2}`, nil)
	}
	a, b := make(1, "2", `{"x":1,"y":2}`, "1.5"), make(7, "8", `{"y":2,"x":1}`, "2.5")
	b.Process.Result = json.RawMessage(`{"b":2,"a":1}`)
	if d := Of(a, b, Options{}); !d.Equal || len(d.Calls) != 4 {
		t.Errorf("%+v", d)
	}
	for name, c := range map[string]Run{
		"result": make(7, "8", `{"y":2,"x":3}`, "2.5"),
		"output": func() Run {
			r := make(7, "8", `{"x":1,"y":2}`, "1.5")
			r.Entries[6].Data = json.RawMessage(`"z"`)
			return r
		}(),
		"end": func() Run { r := make(7, "8", `{"x":1,"y":2}`, "1.5"); r.Process.ExitCode = 3; return r }(),
	} {
		if d := Of(a, c, Options{}); d.Equal {
			t.Errorf("%s: equal", name)
		}
	}
}

func TestAnotherToolsFileInWords(t *testing.T) {
	a := run(1, "x", `{"tools":["/p/mcp.json"],"tool_digests":{"/p/mcp.json":"aa"}}`)
	b := run(2, "x", `{"tools":["/p/mcp.json"],"tool_digests":{"/p/mcp.json":"bb"}}`)
	none := run(3, "x", `{}`)
	if text := Of(a.r, b.r, Options{}).Text(TextOptions{}); !strings.Contains(text, "the tools file /p/mcp.json had another content\n") || strings.Contains(text, "tool_digests") {
		t.Errorf("%s", text)
	}
	if text := Of(a.r, none.r, Options{}).Text(TextOptions{}); !strings.Contains(text, "created with other tools\n") || strings.Contains(text, "digest") || strings.Contains(text, "another content") {
		t.Errorf("%s", text)
	}
}
