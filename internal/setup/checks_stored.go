package setup

import (
	"context"
	"fmt"

	"agentkernel"
	"agentkernel/internal/datadir"
)

// Examined is what was looked at of a database and its blobs, and what is wrong with them.
type Examined struct {
	Damage *agentkernel.Error // of the database; nil: none was found
	Pages  bool               // how its pages fit together was looked at

	Blobs   int                // that there should be
	There   int                // of them looked for
	Read    int                // of these read, and compared with their names
	Bad     int                // missing or damaged
	BadBlob *agentkernel.Error // the first
}

// checkStored looks for damage that shows only when somebody needs what is damaged.
func checkStored(ctx context.Context, o DoctorOptions) []Finding {
	if !datadir.At(o.Home).Begun() || o.Examine == nil {
		return ok("nothing yet")
	}
	e, err := o.Examine(ctx, o.Home)
	switch {
	case ctx.Err() != nil:
		return warn("agentkernel backup reads all there is", "not all was looked at: it takes too long")
	case err != nil:
		return ok("not known: the database cannot be read") // checkDatabase says why
	case e.Damage != nil:
		return failed(Fail, e.Damage)
	case e.Bad > 0:
		f := failed(Warn, e.BadBlob)
		f[0].Found = fmt.Sprintf("%s missing or damaged of %d that were looked for: %s", count(e.Bad, "blob", "blobs"), e.There, f[0].Found)
		f[0].Fix = "put the file back from a backup; an unfinished process that needs it is paused until then"
		return f
	}
	pages := "the pages of the database fit together"
	if !e.Pages {
		pages = "the database is too large to look at its pages"
	}
	if e.Blobs == 0 {
		return ok("%s", pages)
	}
	return ok("%s; of %s %d are there, and %d were compared with their names", pages, count(e.Blobs, "blob", "blobs"), e.There, e.Read)
}
