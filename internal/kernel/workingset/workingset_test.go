package workingset_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/kernel/workingset"
)

type keys = map[string]json.RawMessage

// ram is a store with one working set. err is what reading it gives.
type ram struct {
	keys keys
	err  error
	seen func() // while it is read
}

func (r *ram) State(context.Context, agentkernel.PID) (keys, error) {
	if r.seen != nil {
		r.seen()
	}
	return r.keys, r.err
}

func (r *ram) SmallState(ctx context.Context, pid agentkernel.PID, atMost int64) (state keys, size int64, err error) {
	small, size := agentkernel.SmallState(r.keys, atMost)
	if small == nil {
		return nil, size, nil
	}
	state, err = r.State(ctx, pid)
	return state, size, err
}

// value has n bytes.
func value(n int) json.RawMessage { return json.RawMessage(strings.Repeat("1", n)) }

func most(t *testing.T, bytes int64) {
	before := room.Most
	room.Most = func() int64 { return bytes }
	t.Cleanup(func() { room.Most = before })
}

func TestLoad(t *testing.T) {
	most(t, 200_000)
	for name, c := range map[string]struct {
		size, others int
		want         agentkernel.Code
	}{
		"nothing":            {0, 300_000, ""},
		"small, and no room": {room.BigPayload - 1, 300_000, ""},
		"large, and no room": {room.BigPayload, 200_000 - room.BigPayload + 1, agentkernel.CodeLimit},
		"large, and room":    {room.BigPayload, 200_000 - room.BigPayload, ""},
	} {
		var total room.Total
		var others room.Share
		total.Set(&others, int64(c.others))
		r := &ram{seen: func() {
			if n := total.Held(); c.size >= room.BigPayload && n != int64(c.others+c.size) {
				t.Errorf("%s: %d bytes count while it is read", name, n)
			}
		}}
		if c.size > 0 {
			r.keys = keys{"k": value(c.size - 1)}
		}
		s, err := workingset.Load(t.Context(), r, 1, "state.get", &total)
		if agentkernel.CodeOf(err) != c.want || (s == nil) != (err != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && total.Held() != int64(c.others+c.size) {
			t.Errorf("%s: %d bytes count", name, total.Held())
		}
		if s.Drop(); total.Held() != int64(c.others) {
			t.Errorf("%s: %d bytes count after it", name, total.Held())
		}
	}
	var total room.Total
	failed := errors.New("it fails")
	if s, err := workingset.Load(t.Context(), &ram{keys: keys{"k": value(9)}, err: failed}, 1, "state.get", &total); !errors.Is(err, failed) || s != nil || total.Held() != 0 {
		t.Errorf("%v, and %d bytes count", err, total.Held())
	}
}

func TestChange(t *testing.T) {
	most(t, 100)
	var total room.Total
	s, err := workingset.Load(t.Context(), &ram{}, 1, "state.set", &total)
	if err != nil {
		t.Fatal(err)
	}
	var had keys
	change := func(changed keys, err error) error {
		return s.Change("state.set", func(all keys, size int64) (keys, error) {
			had = all
			if size != total.Held() {
				t.Errorf("it has %d bytes, and %d count", size, total.Held())
			}
			return changed, err
		})
	}
	other := errors.New("wrong")
	for _, c := range []struct {
		changed keys
		err     error
		size    int64
		code    agentkernel.Code
	}{
		{keys{"a": value(29), "b": value(29)}, nil, 60, ""},
		{keys{"c": value(40)}, nil, 60, agentkernel.CodeLimit},
		{keys{"c": value(39)}, nil, 100, ""},
		{keys{"c": value(40)}, nil, 100, agentkernel.CodeLimit},
		{keys{"c": value(40), "a": nil}, nil, 71, ""}, // smaller than it was
		{keys{"c": value(1)}, other, 71, agentkernel.CodeOf(other)},
		{keys{"none": nil}, nil, 71, ""},
		{nil, nil, 71, ""},
		{keys{"c": nil, "b": value(0)}, nil, 1, ""},
	} {
		if err := change(c.changed, c.err); agentkernel.CodeOf(err) != c.code || total.Held() != c.size {
			t.Errorf("%d changes: %d bytes, want %d; %v", len(c.changed), total.Held(), c.size, err)
		}
		var size int64
		for k, v := range had {
			size += int64(len(k) + len(v))
		}
		if size != c.size {
			t.Errorf("%d changes: it has %d bytes, want %d", len(c.changed), size, c.size)
		}
	}
	most(t, 0)
	if err := change(keys{"b": nil}, nil); err != nil {
		t.Errorf("what is deleted needs no room: %v", err)
	}
}
