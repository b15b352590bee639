package kernel

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"agentkernel"
)

// TestClaimsAreServedInOrder: of those who want a process that somebody reads, one at a time reads it next, in the order in which
// they came; once it is there, all have it, and none is forgotten who did not want to wait any longer.
func TestClaimsAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pid = agentkernel.PID(7)
		tab := newTable(0, false, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var order, have, left []int
		done := make(chan func())
		claim := func(i int, ctx context.Context) {
			go func() {
				p, first, err := tab.claim(ctx, pid)
				done <- func() {
					switch {
					case err != nil:
						left = append(left, i)
					case first:
						order = append(order, i)
					case p != nil:
						have = append(have, i)
					}
				}
			}()
			synctest.Wait()
		}
		if _, first, err := tab.claim(ctx, pid); !first || err != nil {
			t.Fatalf("the first claim: first %t, %v", first, err)
		}
		for i := range 6 {
			if i == 1 {
				claim(i, ctx)
			} else {
				claim(i, t.Context())
			}
		}
		cancel()
		(<-done)()
		for range 3 { // nothing was found: the next one looks
			tab.loaded(pid)
			(<-done)()
		}
		if !slices.Equal(order, []int{0, 2, 3}) || !slices.Equal(left, []int{1}) || have != nil {
			t.Errorf("read by %v, left %v, have it %v", order, left, have)
		}
		p := &process{pid: pid}
		if !tab.adopt(p, false) {
			t.Fatal("the table is closed")
		}
		tab.loaded(pid)
		(<-done)()
		(<-done)()
		slices.Sort(have)
		if !slices.Equal(have, []int{4, 5}) || tab.pins[pid] != 3 || len(tab.loading) != 0 {
			t.Errorf("have it %v, %d pins, %d claims", have, tab.pins[pid], len(tab.loading))
		}
	})
}

// TestAClaimGivenToWhoLeft: a caller who leaves in the moment in which it becomes his turn hands it on.
func TestAClaimGivenToWhoLeft(t *testing.T) {
	const pid = agentkernel.PID(7)
	tab := newTable(0, false, nil)
	if _, first, _ := tab.claim(t.Context(), pid); !first {
		t.Fatal("not the first")
	}
	gone, stays := make(chan *process, 1), make(chan *process, 1)
	tab.loading[pid] = append(tab.loading[pid], gone, stays)
	tab.loaded(pid)
	tab.leave(pid, gone)
	if p, ok := <-stays; p != nil || !ok {
		t.Errorf("the next one was given %v", p)
	}
	tab.loaded(pid)
	if len(tab.loading) != 0 {
		t.Errorf("%d claims are left", len(tab.loading))
	}
}
