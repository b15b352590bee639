package sqlite_test

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"testing"

	"agentkernel"
	"agentkernel/internal/store/sqlite"
)

// TestDiskPerParkedProcess holds the store to its share of "20,000 parked processes at 6 kB of disk each":
// a program with 20 tools, two calls made, one waiting, parked.
func TestDiskPerParkedProcess(t *testing.T) {
	t.Parallel()
	const processes, limit = 500, 4096
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), config(dir))
	if err != nil {
		t.Fatal(err)
	}
	var pos agentkernel.Position
	for range processes {
		if pos, err = s.Append(parked(newPID(s))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context(), pos); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := diskUse(t, dir) / processes; got > limit {
		t.Errorf("%d bytes of disk for each of %d parked processes; at most %d", got, processes, limit)
	} else {
		t.Logf("%d bytes of disk for each of %d parked processes", got, processes)
	}
}

func parked(pid agentkernel.PID) agentkernel.Batch {
	p := processRow(pid, agentkernel.StateUnfinished)
	created := call(pid, 1)
	created.Kind, created.Op, created.Effect, created.Call, created.Args = agentkernel.EntryCreated, "", "", 0, nil
	spec := p.Spec
	spec.Program.Source = ""
	created.Data, _ = json.Marshal(spec)
	return agentkernel.Batch{Process: p,
		Entries: []agentkernel.Entry{created, call(pid, 2), result(pid, 3), call(pid, 4), result(pid, 5), call(pid, 6)},
		Image: &agentkernel.Image{PID: pid, Seq: 6, Fingerprint: "monty 0.0.23 protocol 2 guest 1",
			Kernel: []byte(`{"calls":3,"outstanding":[6],"output":120}`), Bytes: imageOf(pid, 10)}}
}

func diskUse(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		bytes += info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
