package kernel_test

import (
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
)

// A process that has ended hides nothing of what descends from it: after a crash the whole tree is killed, recovered and
// resumed by its root.
func TestATreeBelowAnEndedProcess(t *testing.T) {
	for name, act := range map[string]func(t *testing.T, r *rig, root, grand agentkernel.PID){
		"kill": func(t *testing.T, r *rig, root, grand agentkernel.PID) {
			if err := r.Signal(t.Context(), root, agentkernel.SignalKill); err != nil {
				t.Fatal(err)
			}
			if list, err := r.Recover(t.Context(), 0); err != nil || len(list) != 0 {
				t.Errorf("left to recover: %+v %v", list, err)
			}
			if p, err := r.Process(t.Context(), grand); err != nil || p.State != agentkernel.StateKilled {
				t.Errorf("%+v %v", p, err)
			}
		},
		"recover": func(t *testing.T, r *rig, root, grand agentkernel.PID) {
			if list, err := r.Recover(t.Context(), root); err != nil || len(list) != 2 || list[1].PID != grand {
				t.Errorf("taken up: %+v %v", list, err)
			}
		},
		"resume": func(t *testing.T, r *rig, root, grand agentkernel.PID) {
			if err := r.Signal(t.Context(), root, agentkernel.SignalResume); err != nil {
				t.Fatal(err)
			}
			if p, err := r.Process(t.Context(), grand); err != nil || p.State.Terminal() || p.State == agentkernel.StateUnfinished || p.Paused {
				t.Errorf("%+v %v", p, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore(), parkSoon)
				r.sleeper("a")
				r.backend.add("ends", func(*prog) error { return nil })
				below := func(parent agentkernel.PID, source string) agentkernel.PID {
					s := spec(source)
					s.Parent = parent
					p, err := r.Spawn(t.Context(), s)
					if err != nil {
						t.Fatal(err)
					}
					return p.PID
				}
				root := below(0, "a")
				middle := below(root, "ends")
				grand := below(middle, "a")
				pass(time.Second)
				if p, err := r.Process(t.Context(), middle); err != nil || !p.State.Terminal() {
					t.Fatalf("%+v %v", p, err)
				}
				_ = r.store.Flush(t.Context(), 0)
				act(t, r.boot(t, r.store.crash(), parkSoon), root, grand)
			})
		})
	}
}
