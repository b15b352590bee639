package kernel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/recording"
)

// secretive is a tool source that knows of secrets.
type secretive struct {
	*fakeTools
	err error
}

func (s secretive) Redaction(context.Context) (agentkernel.Redaction, error) { return mask{}, s.err }

// mask takes the text hunter2 out.
type mask struct{}

func (mask) Text(s string) string { return strings.ReplaceAll(s, "hunter2", "[PASSWORD]") }
func (mask) JSON(raw json.RawMessage) json.RawMessage {
	return bytes.ReplaceAll(raw, []byte("hunter2"), []byte("[PASSWORD]"))
}
func (m mask) Source(s string) string { return m.Text(s) }

// recorder is a rig whose tools keep secrets, on which the given program ran to its end.
func recorder(t *testing.T, program func(*prog) error, needs ...agentkernel.ToolRef) (*rig, agentkernel.Process) {
	t.Helper()
	r := newRig(t, newRAMStore())
	r = r.boot(t, r.store, func(c *kernel.Config) {
		c.Tools = toolsOf(func([]string) (agentkernel.ToolSource, error) { return secretive{fakeTools: r.tools}, nil })
	})
	r.backend.add("p", program, needs...)
	p, _ := r.run(t, spec("p"))
	return r, p
}

func export(t *testing.T, r *rig, pid agentkernel.PID) []byte {
	t.Helper()
	file, err := r.Export(t.Context(), pid, agentkernel.ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// elsewhere is another kernel: the same backend, an empty store, no tool server that could be reached.
func elsewhere(t *testing.T, r *rig) *rig {
	t.Helper()
	return r.boot(t, newRAMStore(), func(c *kernel.Config) {
		c.Tools = toolsOf(func(files []string) (agentkernel.ToolSource, error) {
			t.Errorf("a replay asked for the tools of %q", files)
			return nil, agentkernel.Errorf(agentkernel.CodeNotFound, "tools", "there are none here")
		})
	})
}

var everything = steps("w1 n r2 s1 l R3 W4 R5 . z p1 w6? p2 l n")

// TestReplayOfARecording: an exported process replays equal elsewhere, without tools, whatever it did and
// however it ended; nothing of it is stored.
func TestReplayOfARecording(t *testing.T) {
	limited := func(p *prog) error {
		for {
			if _, err := p.call("time.now", `{}`); err != nil {
				return err
			}
		}
	}
	for name, c := range map[string]struct {
		program func(*prog) error
		fails   []string
		change  func(*agentkernel.Spec)
		cut     string
	}{
		"to the end":     {program: everything.run},
		"with an error":  {program: steps("w1 R2 W3 . x").run},
		"a tool error":   {program: steps("w1 r2 w3").run, fails: []string{"r2"}},
		"handled errors": {program: everything.run, fails: []string{"w6?"}},
		"a result":       {program: func(p *prog) error { p.result = json.RawMessage(`{"$tuple":[1]}`); return nil }},
		"nothing at all": {program: func(*prog) error { return nil }},
		"an exit code":   {program: func(p *prog) error { _, err := p.call("proc.exit", `{"code":"bye"}`); return err }},
		"too many calls": {program: limited, change: func(s *agentkernel.Spec) { s.Limits.Calls = 5 }},
		"too much output": {program: func(p *prog) error {
			p.print("0123456789")
			p.print("0123456789")
			_, err := p.call("time.now", `{}`)
			return err
		}, change: func(s *agentkernel.Spec) { s.Limits.Output = 15 }},
		"calls that nobody waited for": {program: func(p *prog) error {
			p.async("time.sleep", `{"seconds":100}`)
			p.async("tool.call", callTool("append", `{"n":"1"}`))
			p.print("done")
			return nil
		}},
		"out of time": {program: func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":1000}`); return err },
			change: func(s *agentkernel.Spec) { s.Limits.Wall = agentkernel.Duration(time.Second) }, cut: "ended from outside: wall limit"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := recorder(t, func(*prog) error { return nil })
				watchTools(r, failFor(c.fails...))
				r.backend.add("q", c.program, agentkernel.ToolRef{Server: "fake", Name: "*"})
				s := spec("q")
				if c.change != nil {
					c.change(&s)
				}
				p, _ := r.run(t, s)
				synctest.Wait() // what is under way comes to its end
				made := toolRuns(r)
				far := elsewhere(t, r)
				v, err := far.Replay(t.Context(), export(t, r, p.PID), agentkernel.ReplayOptions{})
				if err != nil || !v.Equal || v.Difference != "" {
					t.Fatalf("%+v %v", v, err)
				}
				if (c.cut == "") != (v.Cut == "") || !strings.Contains(v.Cut, c.cut) {
					t.Errorf("cut %q, want %q", v.Cut, c.cut)
				}
				if v.PID != p.PID || v.State != p.State || v.ExitCode != p.ExitCode || v.Output != p.Usage.Output || v.Calls != p.Usage.Syscalls && c.change == nil {
					t.Errorf("%+v of %+v", v, p)
				}
				rows, err := far.List(t.Context(), agentkernel.Filter{})
				if err != nil || len(rows) != 0 || far.store.ops > 0 && len(far.store.all()) != 0 || toolRuns(r) != made {
					t.Errorf("the replay left %d rows, %d batches and made %q after %q; %v", len(rows), len(far.store.all()), toolRuns(r), made, err)
				}
			})
		})
	}
}

// TestReplayFindsDifferences: a program that does something else than its recording says is told so, with the
// place.
func TestReplayFindsDifferences(t *testing.T) {
	first := steps("w1 n R2 W3 . p1 w4 p2")
	for name, c := range map[string]struct {
		second steps
		says   string
	}{
		"another argument":  {"w9 n R2 W3 . p1 w4 p2", "call 1 is not the one in the journal"},
		"another call":      {"w1 r2 R2 W3 . p1 w4 p2", "call 2 is not the one in the journal"},
		"another output":    {"w1 n R2 W3 . p7 w4 p2", "printed something else on stdout"},
		"more output":       {"w1 n R2 W3 . p1 w4 p2 p3", `prints more than the recording has: "3"`},
		"less output":       {"w1 n R2 W3 . p1 w4", "the journal has more output"},
		"one call more":     {"w1 n R2 W3 . p1 w4 p2 w5", "goes on with call 6, which the recording does not have: tool.call"},
		"one call less":     {"w1 n R2 W3 . p1 p2", "the journal goes on with call 5"},
		"an error":          {"w1 n R2 W3 . p1 w4 p2 x", "ended as failed (program_error: it failed); the recording ends as exited with code 0"},
		"waits for nothing": {"w1 n R2 W3 . p1 w4 p2 hang", "waits for a result that the recording does not have"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, p := recorder(t, first.run)
				file := export(t, r, p.PID)
				r.backend.add("p", func(p *prog) error {
					hang := strings.HasSuffix(string(c.second), "hang")
					if err := steps(strings.TrimSuffix(string(c.second), "hang")).run(p); err != nil || !hang {
						return err
					}
					p.turn(agentkernel.Turn{Kind: agentkernel.TurnWait})
					return nil
				})
				v, err := elsewhere(t, r).Replay(t.Context(), file, agentkernel.ReplayOptions{})
				if err != nil || v.Equal || !strings.Contains(v.Difference, c.says) {
					t.Errorf("%+v %v, want %q", v, err, c.says)
				}
			})
		})
	}
}

// TestReplayOfWhatHadNotEnded: a process that was running, waiting or killed is compared as far as it came.
func TestReplayOfWhatHadNotEnded(t *testing.T) {
	programs := map[string]func(*prog) error{
		"waits": func(p *prog) error {
			p.print("a")
			_, err := p.call("time.sleep", `{"seconds":10000}`)
			return err
		},
		"waits for two": func(p *prog) error {
			a := p.async("time.sleep", `{"seconds":10000}`)
			b := p.async("tool.call", callTool("echo", `{"n":"1"}`))
			if _, err := p.wait(b); err != nil {
				return err
			}
			_, err := p.wait(a)
			return err
		},
	}
	for name, program := range programs {
		for _, kill := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r, _ := recorder(t, func(*prog) error { return nil })
				r.backend.add("q", program)
				p, err := r.Spawn(t.Context(), spec("q"))
				if err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
				if kill {
					if err := r.Signal(t.Context(), p.PID, agentkernel.SignalKill); err != nil {
						t.Fatal(err)
					}
				}
				file := export(t, r, p.PID)
				v, err := elsewhere(t, r).Replay(t.Context(), file, agentkernel.ReplayOptions{})
				if err != nil || !v.Equal || v.Cut == "" || (v.State == agentkernel.StateKilled) != kill {
					t.Errorf("%s, killed %v: %+v %v", name, kill, v, err)
				}
			})
		}
	}
}

// TestReplayRefusals: what cannot be replayed says why.
func TestReplayRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := recorder(t, everything.run, agentkernel.ToolRef{Server: "fake", Name: "echo"})
		file := export(t, r, p.PID)
		far := elsewhere(t, r)
		check := func(what string, file []byte, code agentkernel.Code, says string) {
			t.Helper()
			if _, err := far.Replay(t.Context(), file, agentkernel.ReplayOptions{}); agentkernel.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %s that says %q", what, err, code, says)
			}
		}
		check("a damaged file", append(bytes.Clone(file), 0), agentkernel.CodeCorrupt, "checksum")
		rewrite := func(change func(*recording.Recording)) []byte {
			rec, err := recording.Decode(file)
			if err != nil {
				t.Fatal(err)
			}
			change(rec)
			b, err := recording.Encode(rec)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		check("another backend", rewrite(func(r *recording.Recording) { r.Process.Backend = "docker" }), agentkernel.CodeUnsupported, `"docker", which is not here`)
		check("a hosted program", rewrite(func(r *recording.Recording) { r.Process.Backend = "hosted" }), agentkernel.CodeUnsupported, "ran outside the kernel")
		check("a program that never ran", rewrite(func(r *recording.Recording) { r.Entries[1].Kind = agentkernel.EntryResumed }), agentkernel.CodeUnsupported, "ended before its program ran")
		check("a program that cannot run", rewrite(func(r *recording.Recording) { r.Spec.Program.Source = "nothing of this name" }), agentkernel.CodeSyntax, "no such program")
		r.backend.missing = agentkernel.Errorf(agentkernel.CodeUnavailable, "go", "the engine is not installed")
		check("no engine", file, agentkernel.CodeUnavailable, "not installed")
	})
}

// TestReplayCanBeGivenUp, and does not outlive its kernel.
func TestReplayCanBeGivenUp(t *testing.T) {
	for _, how := range []string{"caller", "kernel"} {
		r, p := recorder(t, everything.run)
		file := export(t, r, p.PID)
		looping := make(chan struct{})
		forever := make(chan struct{})
		t.Cleanup(func() { close(forever) })
		r.backend.add("p", func(*prog) error { close(looping); <-forever; return nil })
		far := elsewhere(t, r)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-looping
			if how == "caller" {
				cancel()
			} else {
				_ = far.Close()
			}
		}()
		_, err := far.Replay(ctx, file, agentkernel.ReplayOptions{})
		want := map[string]agentkernel.Code{"caller": agentkernel.CodeCanceled, "kernel": agentkernel.CodeUnavailable}[how]
		if agentkernel.CodeOf(err) != want {
			t.Errorf("%s: %v", how, err)
		}
		cancel()
	}
}

// TestReplayGrantsNoMore: a recording from a stranger cannot help itself to time and memory.
func TestReplayGrantsNoMore(t *testing.T) {
	var got agentkernel.Limits
	r, _ := recorder(t, func(*prog) error { return nil })
	r.backend.add("q", everything.run)
	s := spec("q")
	s.Limits = agentkernel.Limits{Time: agentkernel.Duration(100 * time.Hour), Memory: 1 << 40, Wall: agentkernel.Duration(1000 * time.Hour), Recursion: 50}
	p, _ := r.run(t, s)
	file := export(t, r, p.PID)
	r.backend.onStart = func(req agentkernel.StartRequest) { got = req.Limits }
	far := elsewhere(t, r)
	defaults := agentkernel.DefaultLimits()
	if v, err := far.Replay(t.Context(), file, agentkernel.ReplayOptions{}); err != nil || !v.Equal || got.Time != defaults.Time || got.Memory != defaults.Memory || got.Wall != 0 || got.Recursion != 50 {
		t.Errorf("granted %+v: %+v %v", got, v, err)
	}
	o := agentkernel.ReplayOptions{Time: agentkernel.Duration(time.Hour), Memory: 1 << 30}
	if v, err := far.Replay(t.Context(), file, o); err != nil || !v.Equal || got.Time != o.Time || got.Memory != o.Memory {
		t.Errorf("granted %+v: %+v %v", got, v, err)
	}
}

// TestImport: the process can be read and rerun under its new PID, and has lost its permissions.
func TestImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := recorder(t, func(*prog) error { return nil })
		watchTools(r, nil)
		r.backend.add("q", steps("w1 s1 r2 x").run)
		s := spec("q")
		s.Namespace, s.IdempotencyKey, s.Deny, s.Priority = "theirs", "key", []string{"rand"}, 3
		p, _ := r.run(t, s)
		file := export(t, r, p.PID)
		far := r.boot(t, newRAMStore())
		for range 2 { // so that the PIDs differ
			far.run(t, spec("p"))
		}
		got, err := far.Import(t.Context(), file, agentkernel.ImportOptions{})
		if err != nil || got.PID == p.PID || got.State != agentkernel.StateFailed || got.Namespace != "default" || got.Error.Message() != "it failed" {
			t.Fatalf("%+v %v", got, err)
		}
		if same, err := far.Process(t.Context(), got.PID); err != nil || same.State != got.State || same.Usage != p.Usage {
			t.Errorf("in the store: %+v %v", same, err)
		}
		theirs, _ := r.Journal(t.Context(), p.PID, 1, 0)
		ours, err := far.Journal(t.Context(), got.PID, 1, 0)
		if err != nil || len(ours) != len(theirs) || ours[0].Note != fmt.Sprintf("imported: pid %d of store ram", p.PID) {
			t.Errorf("%d of %d entries, %q, %v", len(ours), len(theirs), ours[0].Note, err)
		}
		back, err := far.Spec(t.Context(), got.PID)
		if err != nil || back.Program.Source != "q" || back.Tools != nil || back.Allow != nil || back.IdempotencyKey != "" || back.Priority != 3 || back.Deny[0] != "rand" {
			t.Errorf("spec %+v %v", back, err)
		}
		if state, err := far.State(t.Context(), got.PID); err != nil || string(state["k"]) != "1" {
			t.Errorf("state %s %v", state["k"], err)
		}
		if err := far.Signal(t.Context(), got.PID, agentkernel.SignalResume); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
			t.Errorf("resume: %v", err)
		}
		r.tools.log = nil
		r.backend.add("q", steps("w1 s1 r2 w3").run)
		again, said := far.rerun(t, rerunning("q", got.PID))
		if again.State != agentkernel.StateExited || toolRuns(r) != "w3" || !strings.Contains(said, fmt.Sprintf("calls 1-3 answered from the journal of process %d", got.PID)) {
			t.Errorf("rerun: %+v, made %q, %s", again, toolRuns(r), said)
		}
	})
}

// TestImportOfWhatHadNotEnded: it ends where it was exported, and no kernel takes it up.
func TestImportOfWhatHadNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := recorder(t, func(*prog) error { return nil })
		r.backend.add("q", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":10000}`); return err })
		p, err := r.Spawn(t.Context(), spec("q"))
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalPause); err != nil {
			t.Fatal(err)
		}
		far := elsewhere(t, r)
		got, err := far.Import(t.Context(), export(t, r, p.PID), agentkernel.ImportOptions{Namespace: "n"})
		if err != nil || got.State != agentkernel.StateKilled || got.Namespace != "n" || got.Paused || !strings.Contains(got.Error.Message(), "had not ended") {
			t.Fatalf("%+v %v", got, err)
		}
		far2 := r.boot(t, far.store.crash())
		if list, err := far2.Recover(t.Context(), 0); err != nil || len(list) != 0 {
			t.Errorf("recovered: %+v %v", list, err)
		}
	})
}

// TestExportTakesSecretsOut of everything, and replays all the same.
func TestExportTakesSecretsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := recorder(t, func(*prog) error { return nil })
		const secret = "hunter2"
		source := "says " + secret
		program := func(word func() string) func(p *prog) error {
			return func(p *prog) error {
				got, err := p.call("tool.call", callTool("echo", `{"`+word()+`":"`+word()+`","a":1}`))
				if err != nil {
					return err
				}
				if _, err := p.call("state.set", `{"key":"`+word()+`","value":"`+word()+`"}`); err != nil {
					return err
				}
				p.print("%s", got)
				for _, c := range word() { // one character at a time
					p.print("%c", c)
				}
				p.result = json.RawMessage(`"` + word() + `"`)
				return agentkernel.Errorf(agentkernel.CodeProgram, "p", "no %s", word()).WithHint("%s", word())
			}
		}
		r.backend.add(source, program(func() string { return secret }))
		s := spec(source)
		s.Program.Args, s.Program.Modules = []string{secret}, map[string]string{"m": secret}
		s.Tools = []string{"/home/someone/fake.json"}
		p, _ := r.run(t, s)
		file := export(t, r, p.PID)
		rec, err := recording.Decode(file)
		if err != nil {
			t.Fatal(err)
		}
		all, err := json.Marshal(rec)
		if err != nil || bytes.Contains(all, []byte(secret)) || bytes.Contains(all, []byte("someone")) || !rec.Manifest.Redacted {
			t.Errorf("it still says %s (%v)", all, err)
		}
		var out strings.Builder
		for _, e := range rec.Entries {
			if e.Kind == agentkernel.EntryOutput {
				var s string
				_ = json.Unmarshal(e.Data, &s)
				out.WriteString(s)
			}
		}
		if got := out.String(); strings.Contains(got, secret) || !strings.HasSuffix(got, "}[PASSWORD]") {
			t.Errorf("printed in pieces: %q", got)
		}
		r.backend.add("says [PASSWORD]", program(func() string { return "[PASSWORD]" }))
		if v, err := elsewhere(t, r).Replay(t.Context(), file, agentkernel.ReplayOptions{}); err != nil || !v.Equal {
			t.Errorf("%+v %v", v, err)
		}
		open, err := r.Export(t.Context(), p.PID, agentkernel.ExportOptions{Unredacted: true})
		if err != nil {
			t.Fatal(err)
		}
		if rec, err := recording.Decode(open); err != nil || rec.Spec.Program.Source != source || rec.Manifest.Redacted {
			t.Errorf("unredacted: %+v %v", rec.Spec, err)
		}
	})
}

// TestExportThatDoesNotKnowTheSecrets is refused, unless it is told to go ahead.
func TestExportThatDoesNotKnowTheSecrets(t *testing.T) {
	r, p := recorder(t, everything.run)
	for name, tools := range map[string]func([]string) (agentkernel.ToolSource, error){
		"a variable is missing": func([]string) (agentkernel.ToolSource, error) {
			return secretive{r.tools, agentkernel.Errorf(agentkernel.CodeInvalid, "tools", "TOKEN is not set")}, nil
		},
		"the file is gone": func([]string) (agentkernel.ToolSource, error) {
			return nil, agentkernel.Errorf(agentkernel.CodeNotFound, "tools", "there is no file")
		},
		"a source without the ability": func([]string) (agentkernel.ToolSource, error) { return r.tools, nil },
	} {
		far := r.boot(t, r.store, func(c *kernel.Config) { c.Tools = toolsOf(tools) })
		_, err := far.Export(t.Context(), p.PID, agentkernel.ExportOptions{})
		if err == nil || !strings.Contains(err.Error(), "secrets of its tool servers") || !strings.Contains(agentkernel.AsError(err, "", "").Hint, "--unredacted") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := far.Export(t.Context(), p.PID, agentkernel.ExportOptions{Unredacted: true}); err != nil {
			t.Errorf("%s, unredacted: %v", name, err)
		}
	}
	if _, err := r.Export(t.Context(), 99, agentkernel.ExportOptions{}); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("unknown: %v", err)
	}
}
