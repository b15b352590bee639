package kernel

import (
	"context"
	"encoding/json"
	"sort"

	"agentkernel"
)

// stateCalls is the family of the working set: keys and values of one process. The values live in the
// store; the journal has each change, so that replay answers from it without changing anything.
var stateCalls = map[string]handler{
	"state.get":    {now: stateGet},
	"state.set":    {now: stateSet},
	"state.delete": {now: stateDelete},
	"state.keys":   {now: stateKeys},
}

const (
	maxStateKey   = 1 << 10
	maxStateValue = 16 << 20
	// The whole working set is in the kernel's memory while its process uses it.
	maxStateKeys = 10_000
	maxState     = 64 << 20 // bytes of all keys and values
)

// withState runs fn on the working set, reading it first if it is not in memory.
func (k *Kernel) withState(p *process, fn func(work map[string]json.RawMessage) error) error {
	p.mu.Lock()
	loaded := p.work != nil
	p.mu.Unlock()
	if !loaded {
		work, err := k.store.State(p.context(), p.pid)
		if err != nil {
			return err
		}
		if work == nil {
			work = map[string]json.RawMessage{}
		}
		p.mu.Lock()
		if p.work == nil {
			p.work = work
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.work == nil {
		return agentkernel.Errorf(agentkernel.CodeCanceled, "state", "the process was parked meanwhile")
	}
	return fn(p.work)
}

func stateGet(k *Kernel, p *process, f *inflight) (result json.RawMessage, err error) {
	var a struct {
		Key     string          `json:"key"`
		Default json.RawMessage `json:"default"`
	}
	if err := decodeArgs(f, &a); err != nil {
		return nil, err
	}
	err = k.withState(p, func(work map[string]json.RawMessage) error {
		v, ok := work[a.Key]
		if !ok {
			v = a.Default
		}
		if v == nil {
			v = json.RawMessage("null")
		}
		result = v
		return nil
	})
	return result, err
}

func stateSet(k *Kernel, p *process, f *inflight) (json.RawMessage, error) {
	var a struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	}
	if err := decodeArgs(f, &a); err != nil {
		return nil, err
	}
	if len(a.Key) > maxStateKey || len(a.Value) > maxStateValue {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, f.op, "key of %d bytes, value of %d bytes; at most %d and %d",
			len(a.Key), len(a.Value), maxStateKey, maxStateValue)
	}
	if a.Value == nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, f.op, "wrong arguments for set(key, value): value is missing")
	}
	return json.RawMessage("null"), k.changeState(p, f, a.Key, a.Value)
}

// changeState changes the working set in memory; the change is journalled in one batch with the call.
func (k *Kernel) changeState(p *process, f *inflight, key string, value json.RawMessage) error {
	return k.withState(p, func(work map[string]json.RawMessage) error {
		if value == nil {
			delete(work, key)
		} else if err := roomInState(work, key, value); err != nil {
			return err
		} else {
			work[key] = value
		}
		f.change = map[string]json.RawMessage{key: value}
		return nil
	})
}

// roomInState refuses what would make the working set too large. What makes it smaller is always possible.
func roomInState(work map[string]json.RawMessage, key string, value json.RawMessage) error {
	old, there := work[key]
	if there && len(value) <= len(old) {
		return nil
	}
	if !there && len(work) >= maxStateKeys {
		return agentkernel.Errorf(agentkernel.CodeLimit, "state.set", "the state has %d keys, which is the limit", len(work)).
			WithHint("keep a dict under one key, or delete what is done with")
	}
	size := len(key) + len(value) - len(old)
	for k, v := range work {
		size += len(k) + len(v)
	}
	if size > maxState {
		return agentkernel.Errorf(agentkernel.CodeLimit, "state.set", "the state would be %s large; the limit is %s", byteCount(int64(size)), byteCount(maxState)).
			WithHint("large data belongs behind a tool; delete what is done with")
	}
	return nil
}

func stateDelete(k *Kernel, p *process, f *inflight) (json.RawMessage, error) {
	var a struct {
		Key string `json:"key"`
	}
	if err := decodeArgs(f, &a); err != nil {
		return nil, err
	}
	found := false
	err := k.withState(p, func(work map[string]json.RawMessage) error { _, found = work[a.Key]; return nil })
	if err != nil || !found {
		return json.RawMessage("false"), err
	}
	return json.RawMessage("true"), k.changeState(p, f, a.Key, nil)
}

func stateKeys(k *Kernel, p *process, f *inflight) (json.RawMessage, error) {
	if err := decodeArgs(f, &struct{}{}); err != nil {
		return nil, err
	}
	keys := []string{}
	err := k.withState(p, func(work map[string]json.RawMessage) error {
		for key := range work {
			keys = append(keys, key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sort.Strings(keys)
	return json.Marshal(keys)
}

// State is the working set of a process.
func (k *Kernel) State(ctx context.Context, pid agentkernel.PID) (map[string]json.RawMessage, error) {
	if _, err := k.store.Process(ctx, pid); err != nil {
		return nil, err
	}
	if err := k.settled(ctx); err != nil {
		return nil, err
	}
	return k.store.State(ctx, pid)
}
