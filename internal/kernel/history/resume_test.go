package history_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// rows is a store with processes and images alone.
type rows struct {
	agentkernel.StoreReader
	all   []agentkernel.ProcessRecord
	image agentkernel.Image
}

func (r rows) Process(_ context.Context, pid agentkernel.PID) (agentkernel.ProcessRecord, error) {
	for _, rec := range r.all {
		if rec.PID == pid {
			return rec, nil
		}
	}
	return agentkernel.ProcessRecord{}, agentkernel.Errorf(agentkernel.CodeNotFound, "store", "no process %d", pid)
}

func (r rows) Processes(context.Context, agentkernel.Filter) (active []agentkernel.ProcessRecord, err error) {
	for _, rec := range slices.Backward(r.all) { // newest first
		if !rec.State.Terminal() {
			active = append(active, rec)
		}
	}
	return active, nil
}

func (r rows) Image(context.Context, agentkernel.PID) (agentkernel.Image, error) {
	if r.image.PID == 0 {
		return r.image, agentkernel.Errorf(agentkernel.CodeNotFound, "store", "no image")
	}
	return r.image, nil
}

func row(pid agentkernel.PID, state agentkernel.State, above ...agentkernel.PID) agentkernel.ProcessRecord {
	rec := agentkernel.ProcessRecord{Process: agentkernel.Process{PID: pid, State: state}}
	rec.Spec.Ancestors = above
	if len(above) > 0 {
		rec.Spec.Parent = above[len(above)-1]
	}
	return rec
}

// TestUnfinished: of a tree all that have not ended are found, also below one that has, and parents come before their children.
func TestUnfinished(t *testing.T) {
	const lives, ended = agentkernel.StateUnfinished, agentkernel.StateExited
	store := rows{all: []agentkernel.ProcessRecord{row(1, ended), row(2, lives, 1), row(3, lives), row(4, ended, 1, 2), row(5, lives, 1, 2, 4), row(6, ended)}}
	for root, want := range map[agentkernel.PID][]agentkernel.PID{0: {2, 3, 5}, 1: {2, 5}, 2: {2, 5}, 4: {5}, 3: {3}} {
		found, err := history.Unfinished(t.Context(), store, root)
		if err != nil || !slices.Equal(found, want) {
			t.Errorf("below %d: %v, %v; want %v", root, found, err, want)
		}
	}
	if _, err := history.Unfinished(t.Context(), store, 6); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Errorf("a tree that has ended: %v", err)
	}
	if _, err := history.Unfinished(t.Context(), store, 9); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("a process that never was: %v", err)
	}
}

// output is a journal of n lines that were printed.
func output(n int) (j journal) {
	for i := range n {
		j.entries = append(j.entries, agentkernel.Entry{Seq: int64(i + 1), Kind: agentkernel.EntryOutput, Stream: "stdout", Data: json.RawMessage(`"x"`)})
	}
	return j
}

// TestResume: from a base on only the rest is read, and what the base refers to; where the base cannot be true everything is,
// and a journal that ends before its image is a loss.
func TestResume(t *testing.T) {
	base := history.Base{Version: history.BaseVersion, Seq: 5, Refs: []int64{2}}
	for name, c := range map[string]struct {
		entries int
		whole   bool
		locals  error
		read    []int64
		based   bool
		lost    agentkernel.Code
	}{
		"the rest, and what is referred to": {entries: 7, read: []int64{2, 5, 6, 7}, based: true},
		"all of it, for an origin":          {entries: 7, whole: true, read: []int64{1, 2, 3, 4, 5, 6, 7}, based: true},
		"all of it, for its locals":         {entries: 7, locals: errors.New("of a later version"), read: []int64{1, 2, 3, 4, 5, 6, 7}},
		"shorter than the image":            {entries: 4, read: []int64{1, 2, 3, 4}, lost: agentkernel.CodeCorrupt},
	} {
		h, entries, lost, err := history.Resume(t.Context(), output(c.entries), 7, base, c.whole, nil, func(b *history.Base) (history.Locals, error) {
			if b.Seq == 0 {
				return nil, nil
			}
			return nil, c.locals
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var read []int64
		for _, e := range entries {
			read = append(read, e.Seq)
		}
		if !slices.Equal(read, c.read) || (h.Base.Seq > 0) != c.based || agentkernel.CodeOf(lost) != c.lost {
			t.Errorf("%s: read %v, base %d, lost %v", name, read, h.Base.Seq, lost)
		}
	}
}

func TestOfImage(t *testing.T) {
	part, err := json.Marshal(history.Base{Version: history.BaseVersion, Seq: 3})
	if err != nil {
		t.Fatal(err)
	}
	image := agentkernel.Image{PID: 7, Seq: 3, Fingerprint: "f", Kernel: part}
	if base, err := history.OfImage(t.Context(), rows{image: image}, 7, "f"); err != nil || base.Seq != 3 {
		t.Errorf("%+v, %v", base, err)
	}
	broken := image
	broken.Kernel = []byte(`{"version":1,`)
	if base, err := history.OfImage(t.Context(), rows{image: broken}, 7, "f"); err == nil || base.Seq != 0 {
		t.Errorf("one that cannot be read: %+v, %v", base, err)
	}
	if _, err := history.OfImage(t.Context(), rows{image: image}, 7, "g"); agentkernel.CodeOf(err) != agentkernel.CodeVersion {
		t.Errorf("of another engine: %v", err)
	}
	if _, err := history.OfImage(t.Context(), rows{}, 7, "f"); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("none: %v", err)
	}
}
