package embedded

import (
	"context"

	"agentkernel/internal/datadir"
	"agentkernel/internal/store/sqlite"
)

// OpenQuery opens the database of a data directory for SQL that only reads, without a kernel, also while one
// runs. Nothing is created.
func OpenQuery(ctx context.Context, home string) (*sqlite.Query, error) {
	home, err := datadir.Resolve(home)
	if err != nil {
		return nil, err
	}
	return sqlite.OpenQuery(ctx, sqlite.Config{Path: datadir.At(home).Database(), Blobs: datadir.At(home).Blobs()})
}
