package kernel_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/sys/systest/toy"
)

// TestLocalOverCrashes cuts the power at each operation of the store: what a family keeps of a process is what the program
// has been told, wherever the process comes from, and it is let go of once for each time that it was made.
func TestLocalOverCrashes(t *testing.T) {
	for at := 1; ; at++ {
		done := false
		synctest.Test(t, func(t *testing.T) {
			y := &toy.World{}
			r := newRig(t, newRAMStore(), with(y), parkSoon)
			r.backend.add("p", func(p *prog) error {
				var heard []string
				for i, args := range []string{`{"for":"a"}`, `{"for":"b","free":true}`, `{"fore":"c"}`, `{"for":"d"}`} {
					_, err := p.call("toy.charge", args)
					says := "done"
					if err != nil {
						says = string(agentkernel.CodeOf(err))
					}
					heard = append(heard, strings.TrimSpace([]string{"a ", "b ", " ", "d "}[i]+says))
					if i%2 == 0 {
						continue
					}
					if _, err := p.call("toy.wait", `{}`); err != nil { // it is parked, and read back
						return err
					}
					raw, err := p.call("toy.seen", `{}`)
					var seen []string
					if err = errors.Join(err, json.Unmarshal(raw, &seen)); err != nil {
						return err
					}
					for j := range seen {
						seen[j] = strings.TrimSpace(seen[j])
					}
					if !slices.Equal(seen, heard) {
						p.print("the program heard %q, the family keeps %q", heard, seen)
					}
				}
				return nil
			})
			s := spec("p")
			s.IdempotencyKey = "one"
			r.store.cutPower(at)
			if p, err := r.Spawn(t.Context(), s); err == nil {
				pass(10 * time.Minute)
				p, err = r.Process(t.Context(), p.PID)
				done = err == nil && p.State.Terminal()
				if n := len(y.Dropped()); done && n != 3 { // it was read back twice
					t.Errorf("dropped %d times", n)
				}
			}
			next, p := r.afterCrash(t, s, with(y), parkSoon)
			if out := next.output(t, p.PID); out != "" {
				t.Error(out)
			}
			if t.Failed() {
				t.Errorf("the power was cut at operation %d", at)
			}
		})
		if done || t.Failed() {
			if at < 20 {
				t.Errorf("only %d operations", at)
			}
			return
		}
	}
}
