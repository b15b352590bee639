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

// mailRig is a rig with a program that takes n posts, and one that sends some to a process.
func mailRig(t *testing.T, store *ramStore) *rig {
	y := &toy.World{}
	r := newRig(t, store, with(y), parkSoon)
	r.mailPrograms()
	return r
}

func (r *rig) mailPrograms() {
	args := func(p *prog) []string {
		var self struct{ Args []string }
		raw, err := p.call("proc.self", `{}`)
		if err != nil || json.Unmarshal(raw, &self) != nil {
			panic(err)
		}
		return self.Args
	}
	r.backend.add("takes", func(p *prog) error {
		for range args(p) {
			got, err := p.call("toy.recv", `{}`)
			if err != nil {
				return err
			}
			p.print("%s ", got)
		}
		return nil
	})
	r.backend.add("sends", func(p *prog) error {
		a := args(p)
		for _, data := range a[1:] {
			priority := 10
			if strings.HasPrefix(data, "!") {
				priority = 1
			}
			if _, err := p.call("toy.post", fmt.Sprintf(`{"to":%s,"data":%q,"priority":%d}`, a[0], data, priority)); err != nil {
				return err
			}
			_, _ = p.call("tool.call", callTool("append", `{}`)) // what was sent before is durable now; after a crash, its outcome may be unknown
		}
		return nil
	})
}

func (r *rig) spawnArgs(t *testing.T, program string, args ...string) agentkernel.PID {
	t.Helper()
	s := spec(program)
	s.Program.Args = args
	p, err := r.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return p.PID
}

func (r *rig) expectOutput(t *testing.T, pid agentkernel.PID, state agentkernel.State, out string) {
	t.Helper()
	p, err := r.Process(t.Context(), pid)
	if got := r.output(t, pid); err != nil || p.State != state || got != out {
		t.Errorf("pid %d: %s (%v), printed %q, want %q; error %v", pid, p.State, p.Error, got, out, err)
	}
}

// A process that is in the store alone, and waits for nothing but its inbox, takes what it is sent: the urgent first, what was
// sent before it asked, too, and each once.
func TestPostsReachTheParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mailRig(t, newRAMStore())
		r.tools.delay = func() { time.Sleep(time.Second) } // between two posts
		taker := r.spawnArgs(t, "takes", "1", "2", "3", "4")
		pass(10 * time.Second)
		if i := r.info(t); i.Parked != 1 {
			t.Fatalf("%+v", i)
		}
		if p, err := r.Process(t.Context(), taker); err != nil || !slices.Equal(p.WaitsFor, []string{"toy.recv"}) {
			t.Fatalf("%+v %v", p, err)
		}
		r.spawnArgs(t, "sends", taker.String(), "a")
		pass(10 * time.Second)
		r.expectOutput(t, taker, agentkernel.StateWaiting, `"a" `)
		if err := r.Signal(t.Context(), taker, agentkernel.SignalPause); err != nil {
			t.Fatal(err)
		}
		r.spawnArgs(t, "sends", taker.String(), "b", "c", "!d")
		pass(10 * time.Second)
		if err := r.Signal(t.Context(), taker, agentkernel.SignalResume); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		r.expectOutput(t, taker, agentkernel.StateExited, `"a" "b" "!d" "c" `) // b was taken by the call that waited
	})
}

func TestRecvTimeoutsAndErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mailRig(t, newRAMStore())
		r.backend.add("p", func(p *prog) error {
			for _, call := range []string{`toy.recv {"timeout":0}`, `toy.recv {"timeout":60}`, `toy.post {"to":99,"data":1}`, `toy.post {"to":1,"data":1}`} {
				op, args, _ := strings.Cut(call, " ")
				_, err := p.call(op, args)
				p.print("%s %s\n", call, agentkernel.CodeOf(err))
			}
			_, err := p.call("toy.post", `{"to":2,"data":"self"}`)
			got, rerr := p.call("toy.recv", `{"timeout":0}`)
			p.print("%s %v %v", got, err, rerr)
			return nil
		})
		ended := r.spawnArgs(t, "takes")
		pass(time.Second)
		r.expectOutput(t, ended, agentkernel.StateExited, "")
		p := r.spawnArgs(t, "p")
		pass(5 * time.Minute)
		r.expectOutput(t, p, agentkernel.StateExited, `toy.recv {"timeout":0} timeout
toy.recv {"timeout":60} timeout
toy.post {"to":99,"data":1} not_found
toy.post {"to":1,"data":1} conflict
"self" <nil> <nil>`)
	})
}

// The power is cut at each operation of the store, before and after it: each post is taken once, whoever was parked.
func TestPostsOverCrashes(t *testing.T) {
	for at := 1; ; at++ {
		done := false
		synctest.Test(t, func(t *testing.T) {
			r := mailRig(t, newRAMStore())
			taker := r.spawnArgs(t, "takes", "1", "2", "3")
			pass(10 * time.Second) // parked, and in the store alone
			r.store.cutPower(at)
			sender := r.spawnArgs2(t, "sends", taker.String(), "a", "b", "c")
			pass(10 * time.Second)
			if p, err := r.Process(t.Context(), taker); err == nil && p.State.Terminal() && sender != 0 {
				if q, err := r.Process(t.Context(), sender); err == nil && q.State.Terminal() {
					done = true
				}
			}
			y := &toy.World{}
			next := r.boot(t, r.store.crash(), with(y), parkSoon)
			if _, err := next.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			if sender == 0 { // nobody was told that it was created
				list, err := next.List(t.Context(), agentkernel.Filter{})
				if err != nil {
					t.Fatal(err)
				}
				if len(list) == 1 {
					next.spawnArgs(t, "sends", taker.String(), "a", "b", "c")
					pass(time.Minute)
				}
			}
			next.expectOutput(t, taker, agentkernel.StateExited, `"a" "b" "c" `)
			if left, _ := next.store.Inbox(t.Context(), taker); len(left) > 0 {
				t.Errorf("left: %+v", left)
			}
			if t.Failed() {
				t.Errorf("the power was cut at operation %d", at)
			}
		})
		if done || t.Failed() {
			if at < 10 {
				t.Errorf("only %d operations", at)
			}
			return
		}
	}
}

// spawnArgs2 is spawnArgs where the power may be cut; 0: it was.
func (r *rig) spawnArgs2(t *testing.T, program string, args ...string) agentkernel.PID {
	s := spec(program)
	s.Program.Args = args
	p, err := r.Spawn(t.Context(), s)
	if err != nil {
		return 0
	}
	return p.PID
}
