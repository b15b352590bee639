package kernel_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

func onceSpec(name string, r agentkernel.Restart) agentkernel.Spec {
	s := spec(name)
	s.Program.Language, s.Restart = agentkernel.Script, r
	return s
}

// A program that cannot be replayed fails after the death of its kernel, or begins anew if that was asked for; what it
// did stays done and is not done again by the kernel.
func TestAfterACrashWithoutReplay(t *testing.T) {
	for _, c := range []struct {
		restart agentkernel.Restart
		lives   int
		code    agentkernel.Code
	}{{"", 1, agentkernel.CodeCrashed}, {agentkernel.RestartNever, 1, agentkernel.CodeCrashed}, {agentkernel.RestartOnCrash, 2, ""}} {
		synctest.Test(t, func(t *testing.T) {
			backend := newGoBackend()
			backend.noImages = true
			r := (&rig{backend: backend, tools: &fakeTools{}}).boot(t, newRAMStore())
			lives := 0
			r.backend.add("p", func(p *prog) error {
				lives++
				p.print("life %d\n", lives)
				if _, err := p.call("tool.call", callTool("append", fmt.Sprintf(`{"n":%d}`, lives))); err != nil {
					return err
				}
				_, err := p.call("time.sleep", `{"seconds":100}`)
				return err
			})
			p, err := r.Spawn(t.Context(), onceSpec("p", c.restart))
			if err != nil || p.Replayable || p.Language != agentkernel.Script {
				t.Fatalf("%+v %v", p, err)
			}
			pass(10 * time.Second)
			_ = r.store.Flush(t.Context(), 0)
			r2 := r.boot(t, r.store.crash())
			if got, err := r2.Process(t.Context(), p.PID); err != nil || got.Replayable {
				t.Errorf("as the store shows it: %+v %v", got, err)
			}
			if _, err := r2.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			got, err := r2.Wait(t.Context(), p.PID)
			if err != nil || (got.Error == nil) != (c.code == "") || got.Error != nil && got.Error.Code != c.code || lives != c.lives || len(r.tools.lines) != c.lives {
				t.Errorf("%q: %+v %v, %d lives, tools %q", c.restart, got, err, lives, r.tools.lines)
			}
			if c.lives == 2 {
				entries, err := r2.Journal(t.Context(), p.PID, 1, 0)
				if err != nil {
					t.Fatal(err)
				}
				calls := map[int64]int{}
				for _, e := range entries {
					if e.Kind == agentkernel.EntryCall {
						calls[e.Call]++
					}
				}
				if len(calls) != 4 || calls[3] != 1 || got.Usage.Output != int64(len("life 1\nlife 2\n")) {
					t.Errorf("calls %v, %+v", calls, got.Usage)
				}
			}
		})
	}
}

// A program that had not begun when its kernel died begins, whatever is asked for.
func TestNotBegunBeginsAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.Slots = 1 })
		gate := make(chan struct{})
		begun := 0
		r.backend.add("hog", func(*prog) error { <-gate; return nil })
		r.backend.add("p", func(*prog) error { begun++; return nil })
		if _, err := r.Spawn(t.Context(), spec("hog")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p, err := r.Spawn(t.Context(), onceSpec("p", ""))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if begun != 0 {
			t.Fatal("it has begun")
		}
		next := r.store.crash()
		close(gate)
		r2 := r.boot(t, next)
		if _, err := r2.Recover(t.Context(), p.PID); err != nil {
			t.Fatal(err)
		}
		if got, err := r2.Wait(t.Context(), p.PID); err != nil || got.State != agentkernel.StateExited || begun != 1 {
			t.Errorf("%+v %v, begun %d times", got, err, begun)
		}
	})
}

// Languages that a backend does not have are refused, by name or by choice.
func TestLanguagesOfBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", func(*prog) error { return nil })
		for backend, want := range map[string]string{"": "no backend here runs programs in the language node", r.backend.name: "runs no programs in the language node"} {
			s := onceSpec("p", "")
			s.Backend, s.Program.Language = backend, agentkernel.Node
			if _, err := r.Spawn(t.Context(), s); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", backend, err)
			}
		}
		s := onceSpec("p", "sometimes")
		if _, err := r.Spawn(t.Context(), s); agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), "never or on-crash") {
			t.Errorf("%v", err)
		}
	})
}
