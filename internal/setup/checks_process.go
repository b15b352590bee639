package setup

import (
	"context"
	"strings"
)

// Trial is what a trial of the process backend found.
type Trial struct {
	Python  string   // version and path
	Lacking []string // walls that do not stand here, with the reason
}

// checkProcess runs a small program in CPython, behind all walls. Programs for Monty run without it.
func checkProcess(ctx context.Context, o DoctorOptions) []Finding {
	if o.TryProcess == nil {
		return nil
	}
	t, err := o.TryProcess(ctx, o.Python)
	if err != nil {
		return failed(Warn, err)
	}
	if o.cpython != nil {
		o.cpython.Store(true)
	}
	if len(t.Lacking) > 0 {
		return warn("nothing, if that is enough; else run the kernel where these can be had", "Python %s runs behind its walls, without: %s",
			t.Python, strings.Join(t.Lacking, "; "))
	}
	return ok("Python %s runs behind its walls", t.Python)
}
