package history

import (
	"context"

	"agentkernel"
)

const (
	// rowsAtATime is how many rows of a page are read at a time: each may hold a large result.
	rowsAtATime = 100
	// pageWeight is after how many bytes of results a page ends.
	pageWeight = 4 << 20
)

// Page reads the rows of one page of a listing. Only one without rows says that there are no more.
func Page(ctx context.Context, store agentkernel.StoreReader, f agentkernel.Filter) (page []agentkernel.ProcessRecord, err error) {
	most, weight := f.Page().Limit, 0
	for len(page) < most && weight < pageWeight {
		f.Limit = min(most-len(page), rowsAtATime)
		rows, err := store.Processes(ctx, f)
		if err != nil {
			return nil, err
		}
		page = append(page, rows...)
		if len(rows) < f.Limit || f.Key != "" {
			break
		}
		for i := range rows {
			weight += len(rows[i].Result)
		}
		f.Before = rows[len(rows)-1].PID
	}
	return page, nil
}
