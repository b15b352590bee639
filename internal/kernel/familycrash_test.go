package kernel_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/sys/systest/toy"
)

// all makes one call of each kind that a family can have: an effect of its own with a reservation, a post, a wait, a stream
// whose items cost, the working set, and what the family keeps of the process. It prints what it got.
func all(to agentkernel.PID) func(p *prog) error {
	return func(p *prog) error {
		say := func(op, args string) {
			raw, err := p.call(op, args)
			if err != nil {
				raw = []byte(agentkernel.CodeOf(err))
			}
			p.print("%s %s\n", op, raw)
		}
		say("toy.charge", charge("write", 5, 3))
		say("toy.post", fmt.Sprintf(`{"to":%d,"data":"hello"}`, to))
		h, err := p.stream(`{"items":4,"cost":2}`)
		if err != nil {
			return err
		}
		for got := ""; got != "[]" && !strings.Contains(got, ":"); {
			got = p.nextOf(h)
			code, _, _ := strings.Cut(got, ":")
			p.print("%s\n", code)
		}
		say("toy.wait", `{}`)
		say("toy.count", `{}`)
		say("toy.charge", charge("read", 40, 0))
		say("toy.seen", `{}`)
		return nil
	}
}

// TestAllOfAFamilyOverCrashes cuts the power at each operation of the store, before and after it. Nothing is made twice or
// asked for twice, nothing that was received is lost, what was charged is what was used, or, of what nobody knows, all that was
// reserved; and a recording of the process replays equal where there is nothing to reach.
func TestAllOfAFamilyOverCrashes(t *testing.T) {
	lost := 0
	for at := 1; ; at++ {
		done := false
		synctest.Test(t, func(t *testing.T) {
			y := &toy.World{Grant: agentkernel.Amounts{"coins": 30}}
			r := newRig(t, newRAMStore(), with(y), parkSoon)
			r.mailPrograms()
			taker := r.spawnArgs(t, "takes", "1")
			r.backend.add("all", all(taker))
			pass(10 * time.Second) // parked
			s := spec("all")
			s.Tools, s.Allow = nil, nil
			s.IdempotencyKey = "one"
			r.store.cutPower(at)
			if p, err := r.Spawn(t.Context(), s); err == nil {
				pass(10 * time.Minute)
				p, err = r.Process(t.Context(), p.PID)
				done = err == nil && p.State.Terminal()
				if other, gone := r.Process(t.Context(), taker); gone != nil || !other.State.Terminal() {
					done = false
				}
			}
			next, p := r.afterCrash(t, s, with(y), parkSoon)
			pass(time.Minute)
			next.expectOutput(t, taker, agentkernel.StateExited, `"hello" `)
			lost += checkAll(t, next, y, p.PID)
			far := r.boot(t, newRAMStore(), with(&toy.World{}))
			if v, err := far.Replay(t.Context(), export(t, next, p.PID), agentkernel.ReplayOptions{}); err != nil || !v.Equal {
				t.Errorf("its recording: %+v %v", v, err)
			}
			if t.Failed() {
				t.Errorf("the power was cut at operation %d", at)
			}
		})
		if done || t.Failed() {
			if at < 40 || lost == 0 && !t.Failed() {
				t.Errorf("only %d operations, and %d times a stream was lost", at, lost)
			}
			return
		}
	}
}

// checkAll checks what is left of a process that ran all. lost is 1 if its stream was lost.
func checkAll(t *testing.T, r *rig, y *toy.World, pid agentkernel.PID) (lost int) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(r.output(t, pid)), "\n")
	first, rest := lines[0], lines[2:]
	spent := 3 // of the charge
	if unknown := "toy.charge outcome_unknown"; first == unknown {
		spent = 5
	} else if first != `toy.charge "done"` {
		t.Errorf("the charge: %s", first)
	}
	var made []string
	for _, c := range y.Charged() {
		made = append(made, strings.Fields(c)[1])
	}
	if n := strings.Count(strings.Join(made, " "), fmt.Sprintf("/%d/1", pid)); n > 1 || n == 0 && spent == 3 {
		t.Errorf("the charge was made %d times: %q", n, made)
	}
	if lines[1] != "toy.post null" {
		t.Errorf("the post: %s", lines[1])
	}
	got := 0
	for ; rest[got] == fmt.Sprintf("[%d]", got+1); got++ {
		spent += 2
	}
	switch asked := y.Asked(); {
	case len(asked) != len(slices.Compact(slices.Sorted(slices.Values(asked)))):
		t.Errorf("asked twice: %q", asked)
	case rest[got] == "[]" && (got != 4 || len(asked) != 4):
		t.Errorf("the stream has ended after %d items: %q", got, rest)
	case rest[got] == "session_lost":
		lost = 1
		spent += 2 // of the item that may be lost with it
		if len(asked) > got+1 {
			t.Errorf("received %d items of %q", got, asked)
		}
	case rest[got] != "[]":
		t.Errorf("the stream: %q", rest)
	}
	says := strings.TrimPrefix(first, "toy.charge ")
	var seen string
	if json.Unmarshal([]byte(says), &seen) != nil {
		seen = says
	}
	want := []string{`toy.wait "waited"`, "toy.count 1", "toy.charge limit_exceeded", fmt.Sprintf(`toy.seen ["5 %s","40 limit_exceeded"]`, seen)}
	if !slices.Equal(rest[got+1:], want) {
		t.Errorf("the rest: %q, want %q", rest[got+1:], want)
	}
	if a := account(t, r, pid); a != fmt.Sprintf("spent %d coins, held nothing", spent) {
		// An item that was asked for in vain costs nothing if no kernel had asked for it.
		if lost == 0 || a != fmt.Sprintf("spent %d coins, held nothing", spent-2) {
			t.Errorf("%s, want %d", a, spent)
		}
	}
	if used := y.Used()["coins"]; used > int64(spent) {
		t.Errorf("%d coins were used, and %d charged", used, spent)
	}
	return lost
}
