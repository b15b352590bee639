// Package keys is about idempotency keys: one process has a key, whoever asks again with it is answered with that one, and two
// never get the same. It finds processes in the store, and never makes or changes one.
package keys

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
)

// child begins the keys that the kernel makes for children; users may not use it.
const child = "\x00spawn/"

// OfChild is the key of the child that a process starts with a call: a replay of the parent finds the child that it has
// already, also if the crash came between the two.
func OfChild(parent agentkernel.PID, call int64) string {
	return fmt.Sprintf("%s%d/%d", child, parent, call)
}

// IsOfChild says whether OfChild made the key.
func IsOfChild(key string) bool { return strings.HasPrefix(key, child) }

// Usable refuses a key that looks like one of the kernel's.
func Usable(key string) error {
	if !IsOfChild(key) {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "an idempotency key may not begin with %q", child)
}

// Keys lets one at a time find out who has a key, and take it. The zero value is ready.
type Keys struct{ mu sync.Mutex }

// Find finds the process that has the key of a Spec; CodeConflict: it is another program's. 0: none has it, and nobody else
// takes a key until unlock.
func (k *Keys) Find(ctx context.Context, store agentkernel.StoreReader, s *agentkernel.Spec) (owner agentkernel.PID, unlock func(), err error) {
	k.mu.Lock()
	owner, err = store.ByKey(ctx, s.Namespace, s.IdempotencyKey)
	if agentkernel.CodeOf(err) == agentkernel.CodeNotFound {
		return 0, k.mu.Unlock, nil
	}
	defer k.mu.Unlock()
	if err != nil {
		return 0, nil, err
	}
	return owner, nil, same(ctx, store, owner, s)
}

// Take keeps all others from taking keys until unlock, and refuses one that another process than pid has. nil: there is none to
// take.
func (k *Keys) Take(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID, key *agentkernel.Key) (unlock func(), err error) {
	if key == nil {
		return func() {}, nil
	}
	k.mu.Lock()
	owner, err := store.ByKey(ctx, key.Namespace, key.Name)
	if agentkernel.CodeOf(err) == agentkernel.CodeNotFound || err == nil && owner == pid {
		return k.mu.Unlock, nil
	}
	k.mu.Unlock()
	if err == nil {
		err = taken(owner, key.Name)
	}
	return nil, err
}

// taken is the error of a key that a process has otherwise than one wants it: for a cell, or as its own.
func taken(owner agentkernel.PID, key string) error {
	return agentkernel.Errorf(agentkernel.CodeConflict, agentkernel.OpKey, "the idempotency key %q belongs to process %d already", key, owner).
		WithPID(owner).WithHint(advice.OtherKeyOrLogs, owner)
}

// same refuses a key that belongs to a process with another program: its caller would take that one's result for an answer to
// his own question. What else differs (limits, permissions) is the first caller's.
func same(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID, s *agentkernel.Spec) error {
	if IsOfChild(s.IdempotencyKey) {
		return nil // the parent's journal says what it asked for
	}
	rec, err := store.Process(ctx, pid)
	if err != nil {
		return err
	}
	if rec.Spec.IdempotencyKey != s.IdempotencyKey {
		return taken(pid, s.IdempotencyKey)
	}
	a, b := &rec.Spec.Program, &s.Program
	if a.Source == b.Source && a.Language == b.Language && slices.Equal(a.Args, b.Args) {
		return nil
	}
	what := "another program"
	if a.Source == b.Source {
		what = "the same program with other arguments"
	}
	return agentkernel.Errorf(agentkernel.CodeConflict, "spawn", "the idempotency key %q belongs to process %d, which is %s", s.IdempotencyKey, pid, what).
		WithPID(pid).WithHint(advice.OtherKeyOrInspect, pid)
}

// FitEach refuses, before any of many processes is created, what is wrong with the key of one.
func FitEach(ctx context.Context, store agentkernel.StoreReader, s *agentkernel.Spec, each []agentkernel.Instance) error {
	for i := range each {
		one := s.Instance(&each[i])
		if one.IdempotencyKey == "" {
			continue
		}
		err := Usable(one.IdempotencyKey)
		if err == nil {
			var pid agentkernel.PID
			if pid, err = store.ByKey(ctx, one.Namespace, one.IdempotencyKey); err == nil {
				err = same(ctx, store, pid, &one)
			} else if agentkernel.CodeOf(err) == agentkernel.CodeNotFound {
				err = nil
			}
		}
		if err != nil {
			return OfInstance(i, err)
		}
	}
	return nil
}

// OfInstance says of which of many processes an error is.
func OfInstance(i int, err error) error {
	e := *agentkernel.AsError(err, agentkernel.CodeInternal, "spawn")
	e.Err = fmt.Errorf("each[%d]: %w", i, e.Err)
	return &e
}
