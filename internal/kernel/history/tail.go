package history

import (
	"cmp"
	"context"

	"agentkernel"
)

// opRoom is the operation of errors about a journal for which there is no room in memory.
const opRoom = "room"

// pageOfTail is how many entries of a journal are read at a time: most journals behind an image are no longer.
const pageOfTail = 64

// NoRoom says whether err is about a journal that is to be read when others are not in memory any more.
func NoRoom(err error) bool {
	e := agentkernel.AsError(err, "", "")
	return e != nil && e.Op == opRoom
}

// Tail is Entries of all from a position on. It ends with an error (see NoRoom) as soon as it has read so many bytes of arguments, results and
// output that full says that there is no room for them; nil: there is for all.
func Tail(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID, from int64, full func(bytes int64) bool) (list []agentkernel.Entry, lost, err error) {
	limit := pageOfTail
	if full == nil {
		limit = 0
	}
	for bytes := int64(0); ; {
		page, gone, err := Entries(ctx, store, pid, from, limit)
		if err != nil {
			return nil, nil, err
		}
		list, lost = append(list, page...), cmp.Or(lost, gone)
		for i := range page {
			bytes += Size(&page[i])
		}
		if full != nil && full(bytes) {
			return nil, nil, agentkernel.Errorf(agentkernel.CodeUnavailable, opRoom,
				"there is no room in memory now to repeat the journal of process %d: more than %d MiB of it, beside what other processes repeat, are more than a quarter of the memory", pid, bytes>>20)
		}
		if len(page) < limit || limit == 0 {
			return list, lost, nil
		}
		from = page[len(page)-1].Seq + 1
	}
}
