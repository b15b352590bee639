package sqlite_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"agentkernel"
	"agentkernel/internal/store/sqlite"
	"agentkernel/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m, openIn) }

func TestSuite(t *testing.T) { storetest.Exercise(t, openIn) }

// A store that begins to write whatever is appended is the same store.
func TestSuiteStaged(t *testing.T) {
	storetest.Exercise(t, func(dir string) (agentkernel.Store, error) {
		s, err := sqlite.Open(context.Background(), config(dir))
		return eager{s}, err
	})
}

// newPID reserves a PID. This store always has one.
func newPID(s agentkernel.Store) agentkernel.PID {
	pid, err := s.NewPID(context.Background())
	if err != nil {
		panic(err)
	}
	return pid
}

// One kernel holds this store, so nobody else can have a lease of a tree in it.
func TestEveryEpochIsAccepted(t *testing.T) {
	s, err := openIn(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, epoch := range []int64{7, 1, 0, 9, 2} {
		pos, err := s.Append(agentkernel.Batch{Epoch: epoch, Entries: []agentkernel.Entry{{PID: 1, Seq: int64(i) + 1, Kind: agentkernel.EntryOutput}}})
		if err == nil {
			err = s.Flush(t.Context(), pos)
		}
		if err != nil {
			t.Errorf("epoch %d: %v", epoch, err)
		}
	}
	if _, ok := s.(agentkernel.Fencer); ok {
		t.Error("it says that it fences trees")
	}
}

type eager struct{ *sqlite.Store }

func (s eager) Append(b agentkernel.Batch) (agentkernel.Position, error) {
	pos, err := s.Store.Append(b)
	s.Stage()
	return pos, err
}

func openIn(dir string) (agentkernel.Store, error) {
	return sqlite.Open(context.Background(), config(dir))
}

func config(dir string) sqlite.Config {
	return sqlite.Config{Path: filepath.Join(dir, "journal.db"), Blobs: filepath.Join(dir, "blobs"), Key: bytes.Repeat([]byte("k"), 32)}
}
