package sqlite

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"agentkernel"
)

// files gives the content of every file below a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func mustRead(t *testing.T, cfg Config) *Reader {
	t.Helper()
	r, err := OpenReader(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// checkLength wants a journal of n entries.
func checkLength(t *testing.T, s agentkernel.StoreReader, pid agentkernel.PID, n int) {
	t.Helper()
	got, err := s.Entries(t.Context(), pid, 1, 0)
	if err != nil || len(got) != n {
		t.Fatalf("%d entries, error %v; want %d", len(got), err, n)
	}
}

// copyOf is the directory as a kernel that was killed leaves it.
func copyOf(t *testing.T, dir string) Config {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return testConfig(to)
}

func TestReadingChangesNothing(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pid := newPID(s)
	if err := appendFlush(s, agentkernel.Batch{Process: exampleRow(pid), Entries: note(pid, 1, 40_000).Entries}); err != nil {
		t.Fatal(err)
	}
	killed := copyOf(t, filepath.Dir(cfg.Path))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]Config{"closed": cfg, "killed": killed} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Dir(cfg.Path)
			before := files(t, dir)
			r := mustRead(t, cfg)
			checkLength(t, r, pid, 1)
			if rows, err := r.Processes(t.Context(), agentkernel.Filter{}); err != nil || len(rows) != 1 {
				t.Fatalf("%d rows, error %v", len(rows), err)
			}
			if !reflect.DeepEqual(r.Info(), agentkernel.StoreInfo{UUID: s.Info().UUID, Schema: len(steps()), Path: cfg.Path}) {
				t.Fatalf("the reader says %+v, the store said %+v", r.Info(), s.Info())
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			after := files(t, dir)
			// The index of the log is not data: SQLite rebuilds it, and locks in it, whoever opens the log.
			delete(before, cfg.Path+"-shm")
			delete(after, cfg.Path+"-shm")
			if !maps.Equal(before, after) {
				t.Fatalf("files %v became %v, or their content changed", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
			}
		})
	}
}

func exampleRow(pid agentkernel.PID) *agentkernel.ProcessRecord {
	return &agentkernel.ProcessRecord{
		Process: agentkernel.Process{PID: pid, Namespace: "default", Name: "a.py", State: agentkernel.StateUnfinished, Priority: 10},
		Spec:    agentkernel.Spec{Program: agentkernel.Program{Language: agentkernel.Python, Source: "print(1)\n"}},
	}
}

// A reader outlives kernels: it must see what is durable whatever kernel opens and closes the database.
func TestAReaderFollowsKernelsThatComeAndGo(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pid := newPID(s)
	if err := appendFlush(s, note(pid, 1, 10)); err != nil {
		t.Fatal(err)
	}
	r := mustRead(t, cfg) // beside a live kernel
	checkLength(t, r, pid, 1)
	if err := appendFlush(s, note(pid, 2, 10)); err != nil {
		t.Fatal(err)
	}
	checkLength(t, r, pid, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkLength(t, r, pid, 2)
	quiet := mustRead(t, cfg) // begins when no kernel runs
	checkLength(t, quiet, pid, 2)
	for n := 3; n < 8; n++ {
		s = mustOpen(t, cfg)
		if err := appendFlush(s, note(pid, int64(n), 10)); err != nil {
			t.Fatal(err)
		}
		checkLength(t, quiet, pid, n)
		checkLength(t, r, pid, n)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		checkLength(t, quiet, pid, n)
		checkLength(t, r, pid, n)
	}
}

func TestAReaderNeedsTheKeyForImagesOnly(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pid := newPID(s)
	im := &agentkernel.Image{PID: pid, Seq: 1, Bytes: []byte("image")}
	if err := appendFlush(s, agentkernel.Batch{Process: exampleRow(pid), Image: im}); err != nil {
		t.Fatal(err)
	}
	if got, err := mustRead(t, cfg).Image(t.Context(), pid); err != nil || !bytes.Equal(got.Bytes, im.Bytes) {
		t.Fatalf("with the key: %q, %v", got.Bytes, err)
	}
	cfg.Key = nil
	r := mustRead(t, cfg)
	if _, err := r.Process(t.Context(), pid); err != nil {
		t.Fatal(err)
	}
	_, err := r.Image(t.Context(), pid)
	checkError(t, err, agentkernel.CodeUnavailable, "key")
}

func TestAReaderWantsTheSchemaItKnows(t *testing.T) {
	for version, want := range map[string]struct {
		code  agentkernel.Code
		words []string
	}{
		"0":  {agentkernel.CodeCorrupt, []string{"tables and no schema version", "agentkernel restore"}},
		"99": {agentkernel.CodeVersion, []string{"version 99", fmt.Sprintf("up to %d", len(steps()))}},
	} {
		cfg := testConfig(t.TempDir())
		if err := mustOpen(t, cfg).Close(); err != nil {
			t.Fatal(err)
		}
		rawSQL(t, cfg.Path, "PRAGMA user_version = "+version)
		_, err := OpenReader(t.Context(), cfg)
		checkError(t, err, want.code, want.words...)
	}
}

func TestReadAfterClose(t *testing.T) {
	cfg := testConfig(t.TempDir())
	mustOpen(t, cfg)
	r := mustRead(t, cfg)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := r.Process(t.Context(), 1)
	checkError(t, err, agentkernel.CodeUnavailable, "closed")
}
