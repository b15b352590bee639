package kernel_test

import (
	"testing"
	"testing/synctest"

	"agentkernel"
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
