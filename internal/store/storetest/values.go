package storetest

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"agentkernel"
)

func workingSets(t *testing.T, open Opener) {
	f := start(t, open)
	pid, other := f.pid(), f.pid()
	seq := int64(0)
	set := func(state map[string]json.RawMessage) {
		seq++
		f.append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(pid, seq)}, State: state})
	}
	want := func(state map[string]json.RawMessage) {
		t.Helper()
		f.twice(func() {
			got, err := f.State(t.Context(), pid)
			if err != nil {
				t.Fatal(err)
			}
			f.same(state, got)
			var bytes int64
			for k, v := range state {
				bytes += int64(len(k) + len(v))
			}
			small, n, err := f.SmallState(t.Context(), pid, bytes)
			if err != nil || n != bytes {
				t.Errorf("a working set of %d bytes is said to have %d: %v", bytes, n, err)
			}
			f.same(state, small)
			if small, n, err := f.SmallState(t.Context(), pid, bytes-1); err != nil || n != bytes || small != nil && bytes > 0 {
				t.Errorf("%d bytes of a working set of %d are small: %v, %v", n, bytes, small, err)
			}
		})
	}
	type values = map[string]json.RawMessage
	want(values{})
	set(values{"a": json.RawMessage(`1`), "": json.RawMessage(`""`), "ü '\" \x00": json.RawMessage(`{"x":[null]}`)})
	f.append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(other, 1)}, State: values{"a": json.RawMessage(`"not mine"`)}})
	want(values{"a": json.RawMessage(`1`), "": json.RawMessage(`""`), "ü '\" \x00": json.RawMessage(`{"x":[null]}`)})
	set(values{"a": json.RawMessage(`2`), "": nil})
	set(values{"a": json.RawMessage(`3`), "b": json.RawMessage(`null`)})
	set(values{"never set": nil})
	want(values{"a": json.RawMessage(`3`), "b": json.RawMessage(`null`), "ü '\" \x00": json.RawMessage(`{"x":[null]}`)})
	set(values{"a": nil})
	set(values{"a": json.RawMessage(`4`)})
	set(values{"b": json.RawMessage(`5`)})
	set(values{"b": nil, "ü '\" \x00": nil})
	want(values{"a": json.RawMessage(`4`)})
}

// noise is bytes that no compression makes smaller.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n)})
	r.Read(b)
	return b
}

func images(t *testing.T, open Opener) {
	f := start(t, open)
	base := slices.Concat(noise(3000), bytes.Repeat([]byte("def tool(path): ...\n"), 300))
	variant := func(n int) []byte { // like a parked program: mostly what it was, some of it new
		b := slices.Clone(base)
		copy(b[1000+n*10:], noise(n*20))
		return append(b, noise(n*30)...)
	}
	want := map[agentkernel.PID]agentkernel.Image{}
	put := func(im agentkernel.Image) {
		f.append(agentkernel.Batch{Image: &im})
		want[im.PID] = im
	}
	check := func() {
		f.Helper()
		for pid, im := range want {
			got, err := f.Image(t.Context(), pid)
			if len(im.Bytes) == 0 {
				f.refused(err, agentkernel.CodeNotFound)
				continue
			}
			if err != nil {
				t.Fatalf("image of %d: %v", pid, err)
			}
			f.same(im, got)
		}
	}
	var pids []agentkernel.PID
	for i := range 8 { // of one program and one engine, as a thousand agents are; two of another engine
		pid := f.pid()
		pids = append(pids, pid)
		f.append(agentkernel.Batch{Process: record(pid)})
		put(agentkernel.Image{PID: pid, Seq: int64(i), Fingerprint: []string{"monty 1", "monty 2"}[i/6],
			Kernel: []byte(`{"calls":3}`), Bytes: variant(i)})
	}
	f.twice(check)
	put(agentkernel.Image{PID: pids[1], Seq: 9, Fingerprint: "monty 2", Bytes: variant(40)})       // newer, another engine
	put(agentkernel.Image{PID: pids[2], Seq: 9, Fingerprint: "monty 1", Bytes: noise(100_000)})    // incompressible
	put(agentkernel.Image{PID: pids[3], Seq: 9, Fingerprint: "", Bytes: make([]byte, 2<<20)})      // large
	put(agentkernel.Image{PID: pids[4], Seq: 9, Fingerprint: "monty 1", Bytes: []byte{0}})         // tiny
	put(agentkernel.Image{PID: f.pid(), Seq: 1, Fingerprint: "monty 1", Bytes: variant(2)})        // without a row
	put(agentkernel.Image{PID: pids[5], Seq: 9, Kernel: []byte{0xff, 0, '\n'}, Bytes: variant(3)}) // any bytes
	f.twice(check)
	for _, pid := range pids[:6] {
		put(agentkernel.Image{PID: pid})
	}
	f.twice(check)
	put(agentkernel.Image{PID: pids[0], Seq: 11, Fingerprint: "monty 1", Bytes: variant(7)}) // back again
	put(agentkernel.Image{PID: pids[2]})                                                     // deleted twice
	f.twice(check)
}
