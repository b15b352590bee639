package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentkernel"
)

func random(seed byte, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// imageChanges are what somebody with an SQL shell may do to the images of TestAChangedImageIsRefused.
var imageChanges = []string{
	"UPDATE images SET seq = seq + 1",
	"UPDATE images SET kernel = '{\"calls\":9}'",
	"UPDATE images SET fingerprint = 'engine 2'",
	"UPDATE images SET mac = zeroblob(32)",
	"UPDATE images SET mac = x''",
	"UPDATE images SET mac = (SELECT mac FROM images i WHERE i.pid = images.pid % 3 + 1)",
	"UPDATE images SET size = size - 1",
	"UPDATE images SET size = size + 1",
	"UPDATE images SET size = 1 << 40",
	"UPDATE images SET size = -1",
	"UPDATE images SET zstd = substr(zstd, 1, 20), blob = NULL",
	"UPDATE images SET zstd = x'28b52ffd', blob = NULL",
	"UPDATE images SET blob = zeroblob(32)",
	"UPDATE images SET blob = x'00'",
	"UPDATE images SET pid = pid + 100",
	"UPDATE image_bases SET zstd = zeroblob(100); UPDATE images SET base = 1 WHERE base IS NULL",
	"UPDATE image_bases SET size = 10; UPDATE images SET base = 1 WHERE base IS NULL",
	"UPDATE meta SET value = '00000000-0000-4000-8000-000000000000' WHERE key = 'store_uuid'",
}

func TestAChangedImageIsRefused(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	shared := random(1, 9000)
	first, second, large := newPID(s), newPID(s), newPID(s)
	for _, im := range []agentkernel.Image{
		{PID: first, Seq: 3, Fingerprint: "engine 1", Kernel: []byte(`{"calls":1}`), Bytes: shared},
		{PID: second, Seq: 4, Fingerprint: "engine 1", Kernel: []byte(`{"calls":2}`), Bytes: append(random(2, 500), shared...)},
		{PID: large, Seq: 5, Fingerprint: "engine 1", Bytes: random(3, 100_000)},
	} {
		if err := appendFlush(s, agentkernel.Batch{Process: exampleRow(im.PID), Image: &im}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, change := range imageChanges {
		t.Run(change, func(t *testing.T) {
			changed := copyOf(t, filepath.Dir(cfg.Path))
			rawSQL(t, changed.Path, change)
			s := mustOpen(t, changed)
			for _, pid := range []agentkernel.PID{first, second, large} {
				if change == "UPDATE images SET pid = pid + 100" {
					pid += 100
				}
				_, err := s.Image(context.Background(), pid)
				checkError(t, err, agentkernel.CodeCorrupt, "replayed")
			}
		})
	}
	t.Run("another key", func(t *testing.T) {
		changed := copyOf(t, filepath.Dir(cfg.Path))
		changed.Key = bytes.Repeat([]byte("K"), keySize)
		_, err := mustOpen(t, changed).Image(context.Background(), first)
		checkError(t, err, agentkernel.CodeCorrupt, "another data directory")
	})
	t.Run("blob file", func(t *testing.T) {
		changed := copyOf(t, filepath.Dir(cfg.Path))
		for _, path := range blobFiles(t, changed) {
			if err := os.WriteFile(path, random(9, 100_000), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := mustOpen(t, changed).Image(context.Background(), large)
		checkError(t, err, agentkernel.CodeCorrupt, "damaged")
	})
}

func TestAnImageThatIsTooLargeIsRefused(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.MaxImage = 1000
	s := mustOpen(t, cfg)
	pid := newPID(s)
	_, err := s.Append(agentkernel.Batch{Image: &agentkernel.Image{PID: pid, Bytes: make([]byte, 1001)}})
	checkError(t, err, agentkernel.CodeLimit, "1001", "1000")
	if err := appendFlush(s, agentkernel.Batch{Image: &agentkernel.Image{PID: pid, Bytes: make([]byte, 1000)}}); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, path, query string) int64 {
	t.Helper()
	c, err := dial(path, map[string][]string{"mode": {"ro"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	n, err := c.int(query)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A thousand parked processes of one program share a base; it goes when the last of them has ended.
func TestImagesShareABase(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.ImageCache = -1
	s := mustOpen(t, cfg)
	shared := random(1, 12_000)
	const processes = 50
	for i := range processes {
		pid := newPID(s)
		im := &agentkernel.Image{PID: pid, Seq: 1, Fingerprint: "engine 1", Bytes: fmt.Appendf(bytes.Clone(shared), "process %d", pid)}
		if err := appendFlush(s, agentkernel.Batch{Process: exampleRow(pid), Image: im}); err != nil {
			t.Fatal(err)
		}
		if i == 10 { // also by a kernel that has to look the base up
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = mustOpen(t, cfg)
		}
	}
	if bases, size := count(t, cfg.Path, "SELECT count(*) FROM image_bases"), count(t, cfg.Path, "SELECT max(length(zstd)) FROM images"); bases != 1 || size > 300 {
		t.Fatalf("%d bases, differences of up to %d bytes; want 1 and few", bases, size)
	}
	for pid := agentkernel.PID(1); pid <= processes; pid++ {
		if got, err := s.Image(t.Context(), pid); err != nil || !bytes.HasSuffix(got.Bytes, fmt.Append(nil, pid)) || len(got.Bytes) < len(shared) {
			t.Fatalf("image of %d: %d bytes, %v", pid, len(got.Bytes), err)
		}
		if err := appendFlush(s, agentkernel.Batch{Image: &agentkernel.Image{PID: pid}}); err != nil {
			t.Fatal(err)
		}
		want := int64(1)
		if pid == processes {
			want = 0
		}
		if got := count(t, cfg.Path, "SELECT count(*) FROM image_bases"); got != want {
			t.Fatalf("%d bases after the image of %d has gone, want %d", got, pid, want)
		}
	}
	again := &agentkernel.Image{PID: 1, Seq: 2, Fingerprint: "engine 1", Bytes: append(random(7, 9000), "new"...)}
	if err := appendFlush(s, agentkernel.Batch{Image: again}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Image(t.Context(), 1); err != nil || !bytes.Equal(got.Bytes, again.Bytes) {
		t.Fatalf("with a new base: %v", err)
	}
}

func blobFiles(t *testing.T, cfg Config) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(cfg.Blobs, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return paths
}

// awaitSweep waits until the sweep is done, which follows a commit when those who waited for it have gone on.
func awaitSweep(t *testing.T, s *Store) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if s.queue.claimAny() {
			due := s.writer.sweep
			s.queue.release(0, due)
			if !due {
				return
			}
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("unused blobs were never looked for")
		}
	}
}

// Large images come and go; what nothing names any more must not stay on the disk, what something names must.
func TestUnusedBlobsAreRemoved(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pid, twin := newPID(s), newPID(s)
	put := func(pid agentkernel.PID, raw []byte, files int) {
		t.Helper()
		if err := appendFlush(s, agentkernel.Batch{Image: &agentkernel.Image{PID: pid, Bytes: raw}}); err != nil {
			t.Fatal(err)
		}
		awaitSweep(t, s)
		if got := len(blobFiles(t, cfg)); got != files {
			t.Fatalf("%d files, want %d", got, files)
		}
	}
	put(pid, random(1, 50_000), 1)
	put(pid, random(2, 50_000), 1)  // replaced
	put(pid, random(2, 50_000), 1)  // the same again
	put(twin, random(2, 50_000), 1) // two name one file
	put(pid, nil, 1)
	put(twin, random(1, 100), 0) // small now
	put(twin, random(3, 50_000), 1)

	row := exampleRow(pid) // a result in a file, replaced
	row.Result = note(1, 1, 50_000).Entries[0].Data
	if err := appendFlush(s, agentkernel.Batch{Process: row}); err != nil {
		t.Fatal(err)
	}
	if err := appendFlush(s, agentkernel.Batch{Process: exampleRow(pid)}); err != nil {
		t.Fatal(err)
	}
	put(twin, nil, 0)
	if refs := count(t, cfg.Path, "SELECT count(*) FROM blobs"); refs != 0 {
		t.Fatalf("%d rows for files that are gone", refs)
	}

	// A kernel that dies between the commit and the removal leaves a row that the next one finds.
	put(pid, random(4, 50_000), 1)
	killed := copyOf(t, filepath.Dir(cfg.Path))
	rawSQL(t, killed.Path, "DELETE FROM images")
	next := mustOpen(t, killed)
	if err := appendFlush(next, agentkernel.Batch{Process: exampleRow(newPID(next))}); err != nil {
		t.Fatal(err)
	}
	awaitSweep(t, next)
	if got := len(blobFiles(t, killed)); got != 0 {
		t.Fatalf("%d files are left of a kernel that died", got)
	}
}
