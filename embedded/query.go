package embedded

import (
	"context"

	"agentkernel"
	"agentkernel/internal/datadir"
	"agentkernel/internal/store/sqlite"
)

// OpenQuery opens the database of a data directory for SQL that only reads, without a kernel, also while one
// runs. Nothing is created. damage says that the newest entries are lost; nil: as far as can be told they are not.
func OpenQuery(ctx context.Context, home string) (q *sqlite.Query, damage *agentkernel.Error, err error) {
	if home, err = datadir.Resolve(home); err != nil {
		return nil, nil, err
	}
	dir := datadir.At(home)
	damage = damageOf(ctx, dir)
	q, err = sqlite.OpenQuery(ctx, readerConfig(dir))
	if err != nil {
		err = readError(err, damage)
	}
	return q, damage, err
}
