// Package state is the family of the working set: keys and values of one process. The values live in the store; the journal
// has each change, so that a replay is answered from it without changing anything.
package state

import (
	"encoding/json"
	"slices"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/sys"
)

const (
	maxKey   = 1 << 10
	maxValue = 16 << 20
	// The whole working set is in the kernel's memory while its process uses it.
	maxKeys = 10_000
	maxSize = 64 << 20 // bytes of all keys and values
)

// Family is the family of the working set.
func Family() sys.Family {
	op := func(now func(*sys.Call) (sys.Outcome, error), desc agentkernel.Syscall) sys.Op {
		desc.Effect, desc.Capability = agentkernel.EffectPure, "state"
		return sys.Op{Rerun: sys.Own, Now: now, Syscall: desc}
	}
	return sys.Family{Name: "state", Ops: []sys.Op{
		op(get, agentkernel.Syscall{Name: "state.get", Guest: "state.get",
			Doc: "Reads a key of the process's working set.",
			Args: []agentkernel.Param{
				{Name: "key", Type: "string"},
				{Name: "default", Type: "any", Optional: true, Default: "None", Doc: "returned if the key is not set"},
			},
			Result: "any"}),
		op(set, agentkernel.Syscall{Name: "state.set", Guest: "state.set",
			Doc: "Writes a key of the process's working set; it survives crashes and is deleted with the process.",
			Args: []agentkernel.Param{
				{Name: "key", Type: "string"},
				{Name: "value", Type: "any", Doc: "any value of docs/values.md"},
			},
			Result: "null"}),
		op(remove, agentkernel.Syscall{Name: "state.delete", Guest: "state.delete",
			Doc:    "Deletes a key; says whether it was there.",
			Args:   []agentkernel.Param{{Name: "key", Type: "string"}},
			Result: "boolean"}),
		op(list, agentkernel.Syscall{Name: "state.keys", Guest: "state.keys",
			Doc:    "Lists the keys, sorted.",
			Result: "array"}),
	}}
}

type keys = map[string]json.RawMessage

func get(c *sys.Call) (out sys.Outcome, err error) {
	var a struct {
		Key     string          `json:"key"`
		Default json.RawMessage `json:"default"`
	}
	if err := c.Decode(&a); err != nil {
		return out, err
	}
	err = c.State.Change(func(work keys, _ int64) (keys, error) {
		v, ok := work[a.Key]
		if !ok {
			v = a.Default
		}
		if v == nil {
			v = sys.Null
		}
		out.Result = v
		return nil, nil
	})
	return out, err
}

func set(c *sys.Call) (out sys.Outcome, err error) {
	var a struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	}
	if err := c.Decode(&a); err != nil {
		return out, err
	}
	if len(a.Key) > maxKey || len(a.Value) > maxValue {
		return out, c.Invalid("key of %d bytes, value of %d bytes; at most %d and %d", len(a.Key), len(a.Value), maxKey, maxValue)
	}
	if a.Value == nil {
		return out, c.Invalid("wrong arguments for set(key, value): value is missing")
	}
	err = c.State.Change(func(work keys, size int64) (keys, error) {
		if err := room(c, work, size, a.Key, a.Value); err != nil {
			return nil, err
		}
		out.Result, out.State = sys.Null, keys{a.Key: a.Value}
		return out.State, nil
	})
	return out, err
}

// room refuses what would make the working set too large. What makes it smaller is always possible.
func room(c *sys.Call, work keys, size int64, key string, value json.RawMessage) error {
	old, there := work[key]
	if there && len(value) <= len(old) {
		return nil
	}
	if !there && len(work) >= maxKeys {
		return c.Errorf(agentkernel.CodeLimit, "the state has %d keys, which is the limit", len(work)).
			WithHint("keep a dict under one key, or delete what is done with")
	}
	if size += int64(len(value) - len(old)); !there {
		size += int64(len(key))
	}
	if size > maxSize {
		return c.Errorf(agentkernel.CodeLimit, "the state would be %s large; the limit is %s", bytesize.Text(size), bytesize.Text(maxSize)).
			WithHint("large data belongs behind a tool; delete what is done with")
	}
	return nil
}

func remove(c *sys.Call) (out sys.Outcome, err error) {
	var a struct {
		Key string `json:"key"`
	}
	if err := c.Decode(&a); err != nil {
		return out, err
	}
	err = c.State.Change(func(work keys, _ int64) (keys, error) {
		out.Result = json.RawMessage("false")
		if _, found := work[a.Key]; found {
			out.Result, out.State = json.RawMessage("true"), keys{a.Key: nil}
		}
		return out.State, nil
	})
	return out, err
}

func list(c *sys.Call) (out sys.Outcome, err error) {
	if err := c.Decode(&struct{}{}); err != nil {
		return out, err
	}
	names := []string{}
	err = c.State.Change(func(work keys, _ int64) (keys, error) {
		for key := range work {
			names = append(names, key)
		}
		return nil, nil
	})
	if err != nil {
		return out, err
	}
	slices.Sort(names)
	out.Result, err = json.Marshal(names)
	return out, err
}
