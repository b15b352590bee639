package agentkernel

import (
	"context"
	"iter"
)

// PageSize is how many processes one page of a listing has at most.
const PageSize = 1000

// Listing reads the process table, however large it is.
type Listing interface {
	// List gives a page of the processes that f selects, newest first, as they stand at this moment: at most f.Limit of them, and
	// at most PageSize. A page may be shorter than that though older processes follow, since what it weighs is bounded, too; only
	// an empty one says that none follow. The next page is that Before the last PID of this one. See Pages.
	List(ctx context.Context, f Filter) ([]Process, error)
	// Count says how many processes f selects; f.Limit does not count.
	Count(ctx context.Context, f Filter) (int, error)
}

// Pages yields the processes that f selects, newest first, page by page, and at most f.Limit of them (0: all). Nothing is held but
// one page. Processes may come and go meanwhile: none is there twice, and none is missing that f selected all the time.
func Pages(ctx context.Context, k Listing, f Filter) iter.Seq2[[]Process, error] {
	return func(yield func([]Process, error) bool) {
		limit := f.Limit
		for {
			page, err := k.List(ctx, f)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(page) > 0 && f.Before != 0 && page[0].PID >= f.Before {
				yield(nil, Errorf(CodeInternal, "list", "a page before pid %d begins with pid %d", f.Before, page[0].PID))
				return
			}
			if len(page) == 0 || !yield(page, nil) {
				return
			}
			f.Before = page[len(page)-1].PID
			if limit > 0 {
				if f.Limit -= len(page); f.Limit <= 0 {
					return
				}
			}
			if f.Before <= 1 || f.Key != "" {
				return
			}
		}
	}
}

// Page bounds a filter to one page.
func (f Filter) Page() Filter {
	if f.Limit <= 0 || f.Limit > PageSize {
		f.Limit = PageSize
	}
	return f
}
