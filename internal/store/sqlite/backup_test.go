package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"agentkernel"
)

// spool is a file that a snapshot goes into.
func spool(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "kernel.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // it was only written for this test
	return f
}

func checkCopy(t *testing.T, f *os.File) Contents {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	found, err := CheckDatabase(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestSnapshotUnderLoad takes snapshots while processes write, and large payloads come and go. Each has everything
// that was acknowledged before it, each journal in it is a prefix, and every blob that it names can be read.
func TestSnapshotUnderLoad(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	const writers = 8
	var acked [writers]atomic.Int64
	var pids [writers]agentkernel.PID
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	for i := range writers {
		pids[i] = newPID(s)
		first := agentkernel.Batch{Process: exampleRow(pids[i])}
		first.Entries = note(pids[i], 1, 10).Entries
		if err := appendFlush(s, first); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for seq := int64(2); ctx.Err() == nil; seq++ {
				b := note(pids[i], seq, 10)
				if seq%16 == 0 { // a blob that the journal keeps, and one that the next image replaces
					b = note(pids[i], seq, BlobThreshold)
					b.Image = &agentkernel.Image{PID: pids[i], Seq: seq, Fingerprint: "f", Bytes: random(byte(seq), 2*BlobThreshold)}
				}
				if err := appendFlush(s, b); err != nil {
					t.Error(err)
					return
				}
				acked[i].Store(seq)
			}
		})
	}
	for range 5 {
		var before [writers]int64
		for i := range writers {
			before[i] = acked[i].Load()
		}
		f := spool(t)
		snap, err := s.Snapshot(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range snap.Blobs {
			if data, err := snap.Blob(ctx, b.Sum); err != nil || int64(len(data)) != b.Size {
				t.Errorf("blob %s: %d bytes of %d, %v", b.Sum, len(data), b.Size, err)
			}
		}
		snap.Close()
		found := checkCopy(t, f)
		if found.Store != s.Info().UUID || found.Processes != writers || len(found.Blobs) != len(snap.Blobs) || snap.Processes != writers {
			t.Errorf("the copy has %+v, the snapshot said %+v", found, snap)
		}
		r := mustRead(t, Config{Path: f.Name(), Blobs: cfg.Blobs})
		for i, pid := range pids {
			entries, err := r.Entries(t.Context(), pid, 1, 0)
			if err != nil || int64(len(entries)) < before[i] || entries[len(entries)-1].Seq != int64(len(entries)) {
				t.Errorf("pid %d: %d entries, %d were acknowledged, %v", pid, len(entries), before[i], err)
			}
		}
	}
}

func TestBlobsOfASnapshotAreNotCollected(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pid := newPID(s)
	image := func(seq int64) agentkernel.Batch {
		b := note(pid, seq, 10)
		if seq == 1 {
			b.Process = exampleRow(pid)
		}
		b.Image = &agentkernel.Image{PID: pid, Seq: seq, Fingerprint: "f", Bytes: random(byte(seq), 2*BlobThreshold)}
		return b
	}
	write := func(seq int64) {
		t.Helper()
		if err := appendFlush(s, image(seq)); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	snap, err := s.Snapshot(t.Context(), spool(t))
	if err != nil {
		t.Fatal(err)
	}
	write(2)
	awaitSweep(t, s)
	if len(snap.Blobs) != 1 {
		t.Fatalf("the snapshot names %d blobs", len(snap.Blobs))
	}
	if _, err := snap.Blob(t.Context(), snap.Blobs[0].Sum); err != nil {
		t.Errorf("collected under the snapshot: %v", err)
	}
	snap.Close()
	write(3)
	awaitSweep(t, s)
	if _, err := s.writer.blobs.Get(t.Context(), snap.Blobs[0].Sum); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("still there after the snapshot was closed: %v", err)
	}
}

func TestSnapshotsOfAStoppedKernel(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pid := newPID(s)
	b := note(pid, 1, 10)
	b.Process = exampleRow(pid)
	if err := appendFlush(s, b); err != nil {
		t.Fatal(err)
	}
	take := func(cfg Config) *Snapshot {
		t.Helper()
		f := spool(t)
		snap, err := OpenSnapshot(t.Context(), cfg, f)
		if err != nil {
			t.Fatal(err)
		}
		if found := checkCopy(t, f); found.Processes != 1 || found.Unfinished != snap.Unfinished {
			t.Errorf("the copy has %+v", found)
		}
		return snap
	}
	crashed := copyOf(t, filepath.Dir(cfg.Path)) // everything is still in the log
	take(crashed)
	if err := os.Remove(crashed.Path + "-shm"); err != nil {
		t.Fatal(err)
	}
	take(crashed)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(cfg.Path)
	before := files(t, dir)
	take(cfg)
	if after := files(t, dir); len(after) != len(before) {
		t.Errorf("files before %d, after %d", len(before), len(after))
	}
	_, err := OpenSnapshot(t.Context(), testConfig(t.TempDir()), spool(t))
	checkError(t, err, agentkernel.CodeNotFound)
	rawSQL(t, cfg.Path, "PRAGMA user_version = 99")
	_, err = OpenSnapshot(t.Context(), cfg, spool(t))
	checkError(t, err, agentkernel.CodeVersion, "version 99", "newer agentkernel")
}

func TestSnapshotIsCanceledAndFails(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	pid := newPID(s)
	b := note(pid, 1, 2<<20)
	b.Process = exampleRow(pid)
	for i := range 60 { // more than one look at the context
		b.State = map[string]json.RawMessage{"k" + string(rune('A'+i)): json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), 30<<10)) + `"`)}
		if err := appendFlush(s, b); err != nil {
			t.Fatal(err)
		}
		b.Entries, b.Process = nil, nil
		b.Entries = note(pid, int64(i+2), 10).Entries
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Snapshot(ctx, spool(t))
	checkError(t, err, agentkernel.CodeCanceled)
	full := spool(t)
	if err := full.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Snapshot(t.Context(), full); err == nil {
		t.Error("a snapshot into a closed file")
	}
	if n := s.writer.holds.Load(); n != 0 {
		t.Errorf("%d holds are left", n)
	}
}

// TestWhatIsNoDatabaseOfOurs looks at files as a stranger's backup may bring them.
func TestWhatIsNoDatabaseOfOurs(t *testing.T) {
	make := func(script string) []byte {
		t.Helper()
		cfg := testConfig(t.TempDir())
		if err := mustOpen(t, cfg).Close(); err != nil {
			t.Fatal(err)
		}
		if script != "" {
			rawSQL(t, cfg.Path, script)
		}
		data, err := os.ReadFile(cfg.Path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	good := make("")
	if _, err := CheckDatabase(bytes.NewReader(good), int64(len(good))); err != nil {
		t.Fatal(err)
	}
	indexed := make("CREATE INDEX mine ON entries(op)")
	if _, err := CheckDatabase(bytes.NewReader(indexed), int64(len(indexed))); err != nil {
		t.Errorf("with an index more: %v", err)
	}
	holed := bytes.Clone(good)
	for i := 4096; i < len(holed); i += 7 {
		holed[i] ^= 0x5a
	}
	for name, test := range map[string]struct {
		data  []byte
		words string
	}{
		"nothing":         {nil, ""},
		"text":            {bytes.Repeat([]byte("no database "), 1000), ""},
		"cut":             {good[:len(good)/2], "damaged"},
		"holed":           {holed, ""},
		"another's":       {make("PRAGMA application_id = 7"), "another program"},
		"a trigger":       {make("CREATE TRIGGER evil AFTER INSERT ON entries BEGIN DELETE FROM entries; END"), "trigger evil"},
		"a view":          {make("CREATE VIEW evil AS SELECT 1"), "view evil"},
		"a table":         {make("CREATE TABLE evil(x)"), "table evil"},
		"another table":   {make("ALTER TABLE state ADD COLUMN evil TEXT"), "table state"},
		"a table is gone": {make("DROP TABLE state"), "lacks its table state"},
		"no uuid":         {make("DELETE FROM meta"), "store_uuid"},
	} {
		_, err := CheckDatabase(bytes.NewReader(test.data), int64(len(test.data)))
		if agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkError(t, err, agentkernel.CodeCorrupt, test.words)
	}
	newer := make("PRAGMA user_version = 99")
	_, err := CheckDatabase(bytes.NewReader(newer), int64(len(newer)))
	checkError(t, err, agentkernel.CodeVersion, "version 99")
}

// TestRenewedStores: a restored store is another one, and its old processes are the same.
func TestRenewedStores(t *testing.T) {
	cfg := testConfig(t.TempDir())
	var uuids []string
	var pids []agentkernel.PID
	for range 3 {
		s := mustOpen(t, cfg)
		uuids = append(uuids, s.Info().UUID)
		pid := newPID(s)
		pids = append(pids, pid)
		b := note(pid, 1, 10)
		b.Process = exampleRow(pid)
		b.Image = &agentkernel.Image{PID: pid, Seq: 1, Fingerprint: "f", Bytes: []byte("image")}
		if err := appendFlush(s, b); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := Renew(cfg.Path, pid, 0); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, cfg)
	uuids = append(uuids, s.Info().UUID)
	for i, pid := range append(pids, newPID(s)) {
		if got := s.Info().UUIDOf(pid); got != uuids[i] {
			t.Errorf("pid %d is of store %s, want %s", pid, got, uuids[i])
		}
		if i < len(pids) {
			if im, err := s.Image(t.Context(), pid); err != nil || string(im.Bytes) != "image" {
				t.Errorf("the image of pid %d: %v", pid, err)
			}
		}
		for j := range i {
			if uuids[i] == uuids[j] {
				t.Errorf("stores %d and %d have one uuid", i, j)
			}
		}
	}
	cfg.Key = nil
	if r := mustRead(t, cfg); len(r.Info().Earlier) != 3 {
		t.Errorf("a reader sees origins %+v", r.Info().Earlier)
	}
}
