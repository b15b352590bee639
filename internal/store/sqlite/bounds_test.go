package sqlite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentkernel"
)

// What SQLite or JSON would refuse in the middle of a commit is refused before it is queued.
func TestWhatCannotBeWrittenIsNotQueued(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	pid := newPID(s)
	huge := make(json.RawMessage, maxBatch+1) // never written to, so it costs no memory
	megabyte := strings.Repeat("#", 1<<20)
	modules := exampleRow(pid)
	modules.Spec.Program.Modules = map[string]string{}
	for i := range maxBatch>>20 + 1 { // one text under many names
		modules.Spec.Program.Modules[fmt.Sprint("skills.s", i)] = megabyte
	}
	entries := []agentkernel.Entry{{PID: pid, Seq: 1}}
	for name, test := range map[string]struct {
		batch agentkernel.Batch
		code  agentkernel.Code
	}{
		"huge modules":  {agentkernel.Batch{Process: modules}, agentkernel.CodeLimit},
		"huge data":     {agentkernel.Batch{Entries: []agentkernel.Entry{{PID: pid, Seq: 1, Data: huge}}}, agentkernel.CodeLimit},
		"huge state":    {agentkernel.Batch{Entries: entries, State: map[string]json.RawMessage{"k": huge}}, agentkernel.CodeLimit},
		"huge together": {agentkernel.Batch{Entries: []agentkernel.Entry{{PID: pid, Seq: 1, Data: huge[:maxBatch/2], Args: huge[:maxBatch/2+1]}}}, agentkernel.CodeLimit},
	} {
		if _, err := s.Append(test.batch); agentkernel.CodeOf(err) != test.code {
			t.Errorf("%s: %v, want %s", name, err, test.code)
		}
	}
	if err := appendFlush(s, agentkernel.Batch{Entries: entries}); err != nil {
		t.Fatal(err)
	}
}

// FuzzDecompress feeds changed frames: the answer is an error or size bytes, never a panic or a gigabyte.
func FuzzDecompress(f *testing.F) {
	seal, err := newSealer(bytes.Repeat([]byte("k"), keySize), agentkernel.StoreInfo{UUID: "uuid"})
	if err != nil {
		f.Fatal(err)
	}
	base := &imageBase{1, bytes.Repeat([]byte("def tool(path): ...\n"), 100)}
	raw := append(slices.Clone(base.raw), "and more"...)
	for _, b := range []*imageBase{nil, base} {
		frame, err := seal.compress(raw, b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(slices.Clone(frame), int64(len(raw)))
	}
	based, err := newDecoder(base.raw)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, frame []byte, size int64) {
		size &= 1<<20 - 1
		alone, err := decompress(frame, size)
		if err == nil && int64(len(alone)) != size {
			t.Fatalf("%d bytes where %d were asked for", len(alone), size)
		}
		if got, err := decompressWith(based, frame, size); err == nil && int64(len(got)) != size { // as reads of images share one
			t.Fatalf("%d bytes where %d were asked for, with a base", len(got), size)
		}
	})
}

func TestLRU(t *testing.T) {
	l := newLRU[int, string](10)
	l.put(1, "one", 4)
	l.put(2, "two", 4)
	l.get(1)
	l.put(3, "three", 4) // 2 was not used for longest
	l.put(4, "too large", 11)
	l.put(1, "uno", 5)
	for key, want := range map[int]string{1: "uno", 2: "", 3: "three", 4: ""} {
		if got, _ := l.get(key); got != want {
			t.Errorf("%d: %q, want %q", key, got, want)
		}
	}
	if l.remove(1); l.size != 4 || l.order.Len() != 1 {
		t.Errorf("size %d, %d items", l.size, l.order.Len())
	}
}
