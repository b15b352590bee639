package kernel_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
)

// parent is a program that starts children, "source" or "source:name", one behind the other, and waits for each; "-" sleeps for a minute,
// "x" fails, and "r1" is a step. It does not mind how they end.
func parent(words string) func(*prog) error {
	return func(p *prog) error {
		for word := range strings.FieldsSeq(words) {
			switch {
			case word == "-":
				if _, err := p.call("time.sleep", `{"seconds":60}`); err != nil {
					return err
				}
				continue
			case word == "x" || word[0] == 'r':
				if err := steps(word).run(p); err != nil {
					return err
				}
				continue
			}
			detached := strings.HasPrefix(word, "&")
			source, name, named := strings.Cut(strings.TrimPrefix(word, "&"), ":")
			args := fmt.Sprintf(`{"source":%q,"detached":%t}`, source, detached)
			if named {
				args = fmt.Sprintf(`{"source":%q,"name":%q}`, source, name)
			}
			kid, err := p.call("proc.spawn", args)
			if err != nil {
				return err
			}
			if detached {
				continue
			}
			if _, err := p.call("proc.wait", `{"pid":`+string(kid)+`}`); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestAMendedChildGoesOnFromTheOld: what a child of the origin wrote is not written again where the rerun starts another child in its
// place: with another source, another name, or in another order.
func TestAMendedChildGoesOnFromTheOld(t *testing.T) {
	kids := map[string]steps{
		"a1": "w1 w2 x", "a2": "w1 w2 w3", // a2 is a1 mended
		"b1": "w4 w5 x", "b2": "w4 w5 w6", // b2 is b1 mended
		"c1": "w7", "d1": "w8",
		"s1": "w9 z z z z z z z z z z", "s2": "w9 w8",
	}
	for name, c := range map[string]struct {
		first, second string
		made          string // by the second and its children
		says          string
	}{
		"the source is mended":           {first: "a1 x", second: "a2", made: "w3", says: "call 1 starts another child than call 1 of process 1 did: what process 2 made there is not made again"},
		"and the name is another":        {first: "a1:one x", second: "a2:two", made: "w3"},
		"only the name is another":       {first: "a1:one x", second: "a1:two", made: ""},
		"both are mended":                {first: "a1 b1 x", second: "a2 b2", made: "w3 w6"},
		"both are mended, behind a call": {first: "r1 a1 b1 x", second: "r2 a2 b2", made: "r2 w3 w6"},
		"named, in another order":        {first: "a1:a b1:b x", second: "b2:b a2:a", made: "w3 w6"},
		"the same, in another order":     {first: "a1 b1 c1 x", second: "b1 a2 c1", made: "w3"},
		"one more in front":              {first: "a1 b1 x", second: "d1 a1 b1", made: "w8"},
		"one more in front, named":       {first: "a1:a b1:b x", second: "d1:d a2:a b2:b", made: "w8 w3 w6"},
		"one less in front, named":       {first: "a1:a b1:b x", second: "b2:b", made: "w6"},
		"one more behind":                {first: "a1 x", second: "a2 c1 d1", made: "w3 w7 w8"},
		"several of one name":            {first: "a1:w b1:w x", second: "a2:w b2:w c1:w", made: "w3 w6 w7"},
		"a child that goes on":           {first: "&s1 x", second: "s2", made: "w9 w8", says: "call 1 starts another child than call 1 of process 1 did: process 2 goes on, and what it made may be made again"},
		"a child of a child":             {first: "p1 x", second: "p2", made: "w3"},
		"a crash between":                {first: "a1 b1 x", second: "d1 - a1 - b2", made: "w8 w6"},
		"a crash between, named":         {first: "a1:a b1:b x", second: "b2:b - a2", made: "w3 w6"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore(), parkSoon)
				watchTools(r, nil)
				for source, program := range kids {
					r.backend.add(source, program.run)
				}
				r.backend.add("p1", parent("a1:kid"))
				r.backend.add("p2", parent("a2"))
				r.backend.add("first", parent(c.first))
				r.backend.add("second", parent(c.second))
				first, _ := r.run(t, spec("first"))
				pass(time.Second) // a child that goes on has begun
				r.tools.mu.Lock()
				r.tools.log = nil
				r.tools.mu.Unlock()
				second, err := r.Spawn(t.Context(), rerunning("second", first.PID))
				if err != nil {
					t.Fatal(err)
				}
				for range strings.Count(c.second, "-") {
					pass(30 * time.Second) // it sleeps
					_ = r.store.Flush(t.Context(), 0)
					log := r.tools.log
					r = r.boot(t, r.store.crash(), parkSoon)
					watchTools(r, nil)
					r.tools.log = log
					if _, err := r.Recover(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
					pass(45 * time.Second)
				}
				p, err := r.Wait(t.Context(), second.PID)
				if err != nil || p.State != agentkernel.StateExited {
					t.Fatalf("%+v %v", p, err)
				}
				if got := sorted(toolRuns(r)); got != sorted(c.made) {
					t.Errorf("made again: %q, want %q", got, sorted(c.made))
				}
				var said []string
				for _, e := range r.entries(t, second.PID) {
					if e.Kind == agentkernel.EntryPast {
						said = append(said, e.Note)
					}
				}
				if !strings.Contains(strings.Join(said, "\n"), c.says) {
					t.Errorf("said %q", said)
				}
				// A rerun of that, whose children are others once more, makes nothing again either.
				r.tools.mu.Lock()
				r.tools.log = nil
				r.tools.mu.Unlock()
				r.backend.add("third", parent("r1 "+strings.ReplaceAll(c.second, "-", "")))
				third, _ := r.rerun(t, rerunning("third", second.PID))
				if got := toolRuns(r); third.State != agentkernel.StateExited || strings.Contains(got, "w") {
					t.Errorf("a rerun of the rerun: %q, %+v", got, third)
				}
			})
		})
	}
}

// TestAnswersThatARerunDidNotReceive: a rerun that ended before its program had an answer which its origin has is the origin of another,
// which has it.
func TestAnswersThatARerunDidNotReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		watchTools(r, nil)
		r.backend.add("kid", steps("w4").run)
		issue := func(end error) func(*prog) error {
			return func(p *prog) error {
				open := []int64{p.async("tool.call", callTool("append", `{"n":"1"}`)), p.async("tool.call", callTool("put", `{"n":"2"}`)),
					p.async("proc.spawn", `{"source":"kid"}`)}
				for range open {
					if end != nil {
						return end
					}
					if reply := p.turn(agentkernel.Turn{Kind: agentkernel.TurnWait}); reply.Err != nil {
						return reply.Err
					}
				}
				return nil
			}
		}
		r.backend.add("first", func(p *prog) error {
			err := issue(nil)(p)
			pass(time.Second)
			return err
		})
		r.backend.add("second", issue(agentkernel.Errorf(agentkernel.CodeProgram, "p", "no")))
		r.backend.add("third", issue(nil))
		first, _ := r.run(t, spec("first"))
		made := toolRuns(r)
		second, _ := r.rerun(t, rerunning("second", first.PID))
		for _, change := range []func(*agentkernel.Past){func(*agentkernel.Past) {}, func(p *agentkernel.Past) { p.From = 1 }} {
			p, said := r.rerun(t, rerunning("third", second.PID, change))
			if got := toolRuns(r); p.State != agentkernel.StateExited || got != made {
				t.Errorf("made: %s, before: %s, %+v\n%s", got, made, p, said)
			}
		}
	})
}
