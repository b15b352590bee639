package kernel_test

import (
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/store/faulty"
)

// fencedRig is a kernel that holds its trees under leases of epoch 1, on a store in which others may take them over.
func fencedRig(t *testing.T) (*rig, *faulty.Store) {
	ram := newRAMStore()
	store := faulty.Wrap(ram, faulty.Plan{})
	r := newRig(t, ram, func(c *kernel.Config) {
		c.Store, c.Epoch = store, func(agentkernel.PID) int64 { return 1 }
	})
	return r, store
}

// kinds are those of the entries that are durable of a process.
func (s *ramStore) kinds(t *testing.T, pid agentkernel.PID) (list []agentkernel.EntryKind) {
	t.Helper()
	entries, err := s.crash().Entries(t.Context(), pid, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Kind)
	}
	return list
}

// TestAFencedTreeIsLetGo: the sandboxes of a tree that another kernel has are closed, whoever waits is told, and nothing more is
// journalled for it, whatever it was doing; the other trees end as if nothing had been.
func TestAFencedTreeIsLetGo(t *testing.T) {
	for name, doing := range map[string]func(p *prog) error{
		"asleep":       func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":3600}`); return err },
		"computing":    func(p *prog) error { <-p.s.dead; return nil },
		"under way":    func(p *prog) error { _, err := p.call("tool.call", callTool("append", `{"n":1}`)); return err },
		"with a child": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, store := fencedRig(t)
				stop := make(chan struct{})
				var made atomic.Int32
				r.tools.delay = func() { made.Add(1); <-stop }
				r.backend.add("root", func(p *prog) error {
					if doing != nil {
						return doing(p)
					}
					child, err := p.call("proc.spawn", `{"source":"child","name":"child"}`)
					if err != nil {
						return err
					}
					_, err = p.call("proc.wait", `{"pid":`+string(child)+`}`)
					return err
				})
				r.backend.add("child", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":3600}`); return err })
				r.backend.add("other", func(p *prog) error {
					for range 3 {
						if _, err := p.call("time.sleep", `{"seconds":60}`); err != nil {
							return err
						}
					}
					p.print("done")
					return nil
				})
				root, err := r.Spawn(t.Context(), spec("root"))
				if err != nil {
					t.Fatal(err)
				}
				other, err := r.Spawn(t.Context(), spec("other"))
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				waited := make(chan error, 2)
				go func() { _, err := r.Wait(t.Context(), root.PID); waited <- err }()
				go func() {
					waited <- r.Events(t.Context(), root.PID, 1, true, func(agentkernel.Event) error { return nil })
				}()
				synctest.Wait()
				var tree []agentkernel.PID
				before := map[agentkernel.PID]int{}
				list, err := r.List(t.Context(), agentkernel.Filter{}) // makes all durable until now
				for _, p := range list {
					if p.PID != other.PID {
						tree = append(tree, p.PID)
						entries, _ := store.Entries(t.Context(), p.PID, 1, 0)
						before[p.PID] = len(entries)
					}
				}
				if err != nil || doing == nil && len(tree) != 2 {
					t.Fatalf("processes %v, %v", list, err)
				}

				store.Fence(root.PID, 2)
				synctest.Wait()
				close(stop) // what is outside answers now, and nobody is there
				for range 2 {
					if err := <-waited; agentkernel.CodeOf(err) != agentkernel.CodeFenced {
						t.Errorf("who waited was told %v", err)
					}
				}
				if info, err := r.Info(t.Context()); err != nil || info.Processes != 1 {
					t.Errorf("the kernel carries %d processes, %v", info.Processes, err)
				}
				p, err := r.Wait(t.Context(), other.PID)
				if err != nil || p.State != agentkernel.StateExited {
					t.Errorf("the other tree: %+v, %v", p, err)
				}
				synctest.Wait() // whoever waits for an end is told of it before the sandbox has been closed
				if n := r.backend.sandboxes(); n != 0 {
					t.Errorf("%d sandboxes are open", n)
				}
				select {
				case <-r.Broken():
					t.Errorf("the kernel has stopped: %v", r.Failure())
				default:
				}
				for _, pid := range tree {
					kinds := r.store.kinds(t, pid)
					if len(kinds) != before[pid] || slices.Contains(kinds, agentkernel.EntryTerminal) {
						t.Errorf("process %d has the entries %v, and had %d before", pid, kinds, before[pid])
					}
				}
				if n := made.Load(); name == "under way" && n != 1 {
					t.Errorf("the tool was called %d times", n)
				}
			})
		})
	}
}

// TestATreeIsFencedBeforeTheKernelKnows: what it does for the tree meanwhile is refused, and no tool is called for it.
func TestATreeIsFencedBeforeTheKernelKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := fencedRig(t)
		store.OnFenced(func(agentkernel.PID) {}) // the news is late
		r.backend.add("p", func(p *prog) error {
			if _, err := p.call("time.sleep", `{"seconds":10}`); err != nil {
				return err
			}
			_, err := p.call("tool.call", callTool("append", `{"n":1}`))
			return err
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // else its first call may be what is refused, before anybody waits
		store.Fence(p.PID, 2)
		if _, err := r.Wait(t.Context(), p.PID); agentkernel.CodeOf(err) != agentkernel.CodeFenced {
			t.Errorf("who waited was told %v", err)
		}
		synctest.Wait()
		if len(r.tools.lines) != 0 || r.backend.sandboxes() != 0 {
			t.Errorf("tools have done %q, and %d sandboxes are open", r.tools.lines, r.backend.sandboxes())
		}
		if got, err := r.Process(t.Context(), p.PID); err != nil || got.State != agentkernel.StateUnfinished {
			t.Errorf("the process is shown as %s, %v", got.State, err)
		}
		r.backend.add("q", func(*prog) error { return nil })
		if q, _ := r.run(t, spec("q")); q.State != agentkernel.StateExited {
			t.Errorf("another process: %s", q.State)
		}
	})
}

// A hosted program is told what became of its process, and not that it was killed.
func TestAHostedProcessIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := fencedRig(t)
		p, err := r.Spawn(t.Context(), agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "agent"}})
		if err != nil {
			t.Fatal(err)
		}
		sys, err := r.attach(t, p.PID)
		if err != nil {
			t.Fatal(err)
		}
		said := make(chan error, 1)
		go func() {
			_, err := sys.Syscall(t.Context(), "time.sleep", json.RawMessage(`{"seconds":3600}`))
			said <- err
		}()
		synctest.Wait()
		store.Fence(p.PID, 2)
		if err := <-said; agentkernel.CodeOf(err) != agentkernel.CodeFenced {
			t.Errorf("it was told %v", err)
		}
	})
}

// Who asks about all processes waits for what was appended last. That it was refused is no answer to him.
func TestTheNewestBatchIsOfAFencedTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := fencedRig(t)
		r.backend.add("p", func(p *prog) error {
			if _, err := p.call("time.sleep", `{"seconds":10}`); err != nil {
				return err
			}
			_, err := p.call("state.set", `{"key":"k","value":1}`)
			<-p.s.dead
			return err
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		pass(11 * time.Second)
		synctest.Wait()
		appended, err := store.Entries(t.Context(), p.PID, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		store.Fence(p.PID, 2)
		synctest.Wait()
		if list, err := r.List(t.Context(), agentkernel.Filter{}); err != nil || len(list) != 1 || list[0].State != agentkernel.StateUnfinished {
			t.Errorf("%v, %v", list, err)
		}
		if kinds := r.store.kinds(t, p.PID); len(kinds) == 0 || len(kinds) >= len(appended) {
			t.Errorf("%d of %d entries are durable", len(kinds), len(appended))
		}
	})
}
