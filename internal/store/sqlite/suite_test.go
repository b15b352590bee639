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
