package kernel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentkernel"
)

// Many processes in one call are durable when it returns, in order, with the arguments of each behind those of the program; keys make
// the call repeatable, also where it was cut off by a crash.
func TestSpawnMany(t *testing.T) {
	programs := func(r *rig) {
		r.backend.add("echo", func(p *prog) error { p.print("%s", strings.Join(p.args, " ")); return nil })
	}
	each := func(n int) (list []agentkernel.Instance) {
		for i := range n {
			list = append(list, agentkernel.Instance{Args: []string{fmt.Sprint(i)}, IdempotencyKey: fmt.Sprintf("k/%d", i)})
		}
		return list
	}
	r := newRig(t, newRAMStore())
	programs(r)
	s := spec("echo")
	s.Program.Args = []string{"all"}
	if pids, err := r.SpawnMany(t.Context(), s, nil); err != nil || len(pids) != 0 {
		t.Errorf("none: %v, %v", pids, err)
	}
	first, err := r.SpawnMany(t.Context(), s, each(5))
	if err != nil || len(first) != 5 || !slices.IsSorted(first) {
		t.Fatalf("%v, %v", first, err)
	}
	durable := r.store.crash()
	for i, pid := range first {
		rec, err := durable.Process(t.Context(), pid)
		if err != nil || strings.Join(rec.Spec.Program.Args, " ") != fmt.Sprint("all ", i) || rec.Spec.IdempotencyKey != fmt.Sprintf("k/%d", i) {
			t.Errorf("pid %d: %+v, %v", pid, rec.Spec, err)
		}
	}
	r2 := r.boot(t, durable)
	again, err := r2.SpawnMany(t.Context(), s, each(8))
	if err != nil || len(again) != 8 || !slices.Equal(again[:5], first) {
		t.Fatalf("again: %v, %v; first %v", again, err, first)
	}
	for i, pid := range again[5:] {
		if p, err := r2.Wait(t.Context(), pid); err != nil || p.State != agentkernel.StateExited || r2.output(t, pid) != fmt.Sprint("all ", i+5) {
			t.Errorf("pid %d is %s, %v, and printed %q", pid, p.State, err, r2.output(t, pid))
		}
	}
}

// What is wrong with one of many is said, with its place, and none is created.
func TestSpawnManyOrNone(t *testing.T) {
	r := newRig(t, newRAMStore())
	r.backend.add("ends", func(*prog) error { return nil })
	owned := spec("ends")
	owned.IdempotencyKey = "taken"
	if _, err := r.Spawn(t.Context(), owned); err != nil {
		t.Fatal(err)
	}
	keyed, ends, bad := owned, spec("ends"), spec("ends")
	bad.Priority = -1
	for name, c := range map[string]struct {
		spec agentkernel.Spec
		each []agentkernel.Instance
		code agentkernel.Code
		says string
	}{
		"too many":        {ends, make([]agentkernel.Instance, agentkernel.MaxMany+1), agentkernel.CodeLimit, "1001 processes in one call; the limit is 1000"},
		"one key":         {keyed, make([]agentkernel.Instance, 2), agentkernel.CodeInvalid, "one idempotency key for many"},
		"bad spec":        {bad, make([]agentkernel.Instance, 2), agentkernel.CodeInvalid, "priority -1"},
		"twice":           {ends, []agentkernel.Instance{{IdempotencyKey: "a"}, {}, {IdempotencyKey: "a"}}, agentkernel.CodeInvalid, `each[2] has the idempotency key "a" of each[0]`},
		"not text":        {ends, []agentkernel.Instance{{}, {Args: []string{"a", "\xff"}}}, agentkernel.CodeSyntax, "each[1]: argument 2"},
		"the kernel's":    {ends, []agentkernel.Instance{{}, {IdempotencyKey: "\x00spawn/1/1"}}, agentkernel.CodeInvalid, "each[1]: an idempotency key may not begin"},
		"other arguments": {ends, []agentkernel.Instance{{}, {IdempotencyKey: "new"}, {Args: []string{"x"}, IdempotencyKey: "taken"}}, agentkernel.CodeConflict, `each[2]: the idempotency key "taken" belongs to process 1`},
	} {
		pids, err := r.SpawnMany(t.Context(), c.spec, c.each)
		if agentkernel.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.says) || pids != nil {
			t.Errorf("%s: %v, %v; want %s that says %q", name, pids, err, c.code, c.says)
		}
	}
	if n, err := r.Count(t.Context(), agentkernel.Filter{}); err != nil || n != 1 {
		t.Errorf("%d processes, %v", n, err)
	}
}
