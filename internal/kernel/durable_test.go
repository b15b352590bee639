package kernel_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/store/faulty"
)

// What a reader of a journal is shown is durable, also what was appended while he reads.
func TestReadersSeeWhatIsDurable(t *testing.T) {
	for name, read := range map[string]func(t *testing.T, r *rig, pid agentkernel.PID) (seen int64){
		"events": func(t *testing.T, r *rig, pid agentkernel.PID) (seen int64) {
			if err := r.Events(t.Context(), pid, 1, false, func(ev agentkernel.Event) error { seen = ev.Seq; return nil }); err != nil {
				t.Fatal(err)
			}
			return seen
		},
		"journal": func(t *testing.T, r *rig, pid agentkernel.PID) (seen int64) {
			list, err := r.Journal(t.Context(), pid, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			return list[len(list)-1].Seq
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore())
				more := make(chan struct{})
				r.backend.add("late", func(p *prog) error {
					p.print("one\n")
					<-more
					p.print("two\n")
					if _, err := p.call("state.set", `{"key":"k","value":1}`); err != nil {
						return err
					}
					<-more
					return nil
				})
				p, err := r.Spawn(t.Context(), spec("late"))
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				r.store.beforeNextRead(func() { more <- struct{}{}; synctest.Wait() })
				seen := read(t, r, p.PID)
				found, err := r.store.crash().Entries(t.Context(), p.PID, 1, 0)
				if err != nil || int64(len(found)) < seen || seen < 3 {
					t.Errorf("a reader was shown entry %d, and %d are durable; %v", seen, len(found), err)
				}
				close(more)
			})
		})
	}
}

// Whatever a process's durability is: before a tool is called, the intent is on the disk, and everything before it.
func TestIntentsAreDurableAlsoWhereRepliesAreNot(t *testing.T) {
	for _, d := range []agentkernel.Durability{agentkernel.DurabilityFull, agentkernel.DurabilityRelaxed} {
		t.Run(string(d), func(t *testing.T) {
			r := newRig(t, newRAMStore())
			r.backend.add("p", func(p *prog) error {
				p.print("before\n")
				if _, err := p.call("state.set", `{"key":"k","value":1}`); err != nil {
					return err
				}
				_, err := p.call("tool.call", callTool("append", `{"line":1}`))
				return err
			})
			var kinds []string
			r.tools.delay = func() { // inside the tool
				r.store.mu.Lock()
				defer r.store.mu.Unlock()
				for _, b := range r.store.durable {
					for _, e := range b.Entries {
						kinds = append(kinds, string(e.Kind)+e.Op)
					}
				}
			}
			s := spec("p")
			s.Durability, s.Allow = d, []string{"*"}
			if p, _ := r.run(t, s); p.State != agentkernel.StateExited {
				t.Fatalf("%+v", p.Error)
			}
			for _, want := range []string{"created", "output", "callstate.set", "calltool.call"} {
				if !slices.Contains(kinds, want) {
					t.Errorf("the tool was called when %q was not durable; durable were %q", want, kinds)
				}
			}
		})
	}
}

// TestRecoveryOnAFullDisk: whoever tries again is told again, also of a process that writes nothing more.
func TestRecoveryOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ram := newRAMStore()
		r := newRig(t, ram)
		r.backend.add("p", func(p *prog) error { <-p.s.dead; return nil })
		if _, err := r.Spawn(t.Context(), spec("p")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		left := r.store.crash()
		full := faulty.Wrap(left, faulty.Plan{At: 1, Counts: func(op faulty.Op) bool { return op == faulty.Flush }})
		next := r.boot(t, left, func(c *kernel.Config) { c.Store = full })
		for n := range 3 {
			if list, err := next.Recover(t.Context(), 0); agentkernel.CodeOf(err) != agentkernel.CodeStorage {
				t.Errorf("recovery %d: %v, %v", n, list, err)
			}
		}
		<-next.Broken()
	})
}
