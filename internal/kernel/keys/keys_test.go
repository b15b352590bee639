package keys_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/keys"
)

// store has one process, with a key.
type store struct {
	agentkernel.StoreReader
	key string
	rec agentkernel.ProcessRecord
	err error
}

func (s store) ByKey(_ context.Context, _, key string) (agentkernel.PID, error) {
	switch {
	case s.err != nil:
		return 0, s.err
	case key != s.key:
		return 0, agentkernel.Errorf(agentkernel.CodeNotFound, "store", "no such key")
	}
	return s.rec.PID, nil
}

func (s store) Process(context.Context, agentkernel.PID) (agentkernel.ProcessRecord, error) {
	return s.rec, nil
}

func spec(key, source string, args ...string) *agentkernel.Spec {
	return &agentkernel.Spec{IdempotencyKey: key, Program: agentkernel.Program{Language: agentkernel.Python, Source: source, Args: args}}
}

func stored(s *agentkernel.Spec) store {
	return store{key: s.IdempotencyKey, rec: agentkernel.ProcessRecord{Process: agentkernel.Process{PID: 7}, Spec: *s}}
}

// TestFind: who asks again with a key is answered with the process that has it, unless he asks for something else.
func TestFind(t *testing.T) {
	of := keys.OfChild(3, 4)
	for name, c := range map[string]struct {
		has, asks *agentkernel.Spec
		owner     agentkernel.PID
		says      string
	}{
		"the same":                    {spec("k", "1", "a"), spec("k", "1", "a"), 7, ""},
		"other arguments":             {spec("k", "1", "a"), spec("k", "1", "b"), 7, "the same program with other arguments"},
		"another program":             {spec("k", "1"), spec("k", "2"), 7, "which is another program"},
		"a key that nobody has":       {spec("k", "1"), spec("j", "1"), 0, ""},
		"a child's, whatever it runs": {spec(of, "1"), spec(of, "2"), 7, ""},
	} {
		var k keys.Keys
		owner, unlock, err := k.Find(t.Context(), stored(c.has), c.asks)
		if owner != c.owner || (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || agentkernel.CodeOf(err) != agentkernel.CodeConflict) {
			t.Errorf("%s: pid %d, %v", name, owner, err)
		}
		if (unlock != nil) != (owner == 0 && err == nil) {
			t.Errorf("%s: others wait: %t", name, unlock != nil)
		}
	}
	cell := stored(spec("own", "1"))
	cell.key = "of a cell"
	var k keys.Keys
	if _, _, err := k.Find(t.Context(), cell, spec("of a cell", "1")); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Errorf("a key that a session has for a cell: %v", err)
	}
	broken := errors.New("broken")
	for range 2 { // and no lock is kept
		if _, _, err := k.Find(t.Context(), store{err: broken}, spec("k", "1")); !errors.Is(err, broken) {
			t.Errorf("a store that fails: %v", err)
		}
	}
}

// TestTake: a process may have its own key again, and no other's.
func TestTake(t *testing.T) {
	s, broken := stored(spec("k", "1")), errors.New("broken")
	var k keys.Keys
	for name, c := range map[string]struct {
		store store
		pid   agentkernel.PID
		key   *agentkernel.Key
		fails bool
	}{
		"none":            {s, 8, nil, false},
		"its own":         {s, 7, &agentkernel.Key{Name: "k"}, false},
		"another's":       {s, 8, &agentkernel.Key{Name: "k"}, true},
		"one nobody has":  {s, 8, &agentkernel.Key{Name: "j"}, false},
		"nobody can tell": {store{err: broken}, 8, &agentkernel.Key{Name: "k"}, true},
	} {
		unlock, err := k.Take(t.Context(), c.store, c.pid, c.key)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			unlock()
		}
	}
}

// TestOneAtATime: who has found no owner is alone until he has taken the key.
func TestOneAtATime(t *testing.T) {
	var k keys.Keys
	var inside atomic.Int32
	var all sync.WaitGroup
	s := stored(spec("k", "1"))
	alone := func(unlock func(), err error) {
		if n := inside.Add(1); n != 1 || err != nil {
			t.Errorf("%d take keys at the same time, %v", n, err)
		}
		runtime.Gosched()
		inside.Add(-1)
		unlock()
	}
	for range 8 {
		all.Go(func() {
			for range 200 {
				alone(k.Take(t.Context(), s, 8, &agentkernel.Key{Name: "j"}))
				_, unlock, err := k.Find(t.Context(), s, spec("j", "1"))
				alone(unlock, err)
			}
		})
	}
	all.Wait()
}

func TestKeysOfChildren(t *testing.T) {
	if a, b := keys.OfChild(1, 23), keys.OfChild(12, 3); a == b || !keys.IsOfChild(a) {
		t.Errorf("%q and %q", a, b)
	}
	if keys.Usable(keys.OfChild(1, 2)) == nil || keys.Usable("spawn/1/2") != nil || keys.Usable("") != nil {
		t.Error("a caller may use what looks like a child's, or nothing else")
	}
}
