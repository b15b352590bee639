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

func openIn(dir string) (agentkernel.Store, error) {
	return sqlite.Open(context.Background(), config(dir))
}

func config(dir string) sqlite.Config {
	return sqlite.Config{Path: filepath.Join(dir, "journal.db"), Blobs: filepath.Join(dir, "blobs"), Key: bytes.Repeat([]byte("k"), 32)}
}
