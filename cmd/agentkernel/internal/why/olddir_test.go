package why

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/e2e/olddir"
)

// TestOldDirectory explains each process of a data directory that an earlier version left behind.
func TestOldDirectory(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	if err := olddir.Unpack("main", home); err != nil {
		t.Fatal(err)
	}
	k, err := embedded.OpenReader(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}()
	list, err := k.List(t.Context(), agentkernel.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, p := range list {
		entries, err := k.Journal(t.Context(), p.PID, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		r := Of(Input{Process: p, Entries: entries, Now: list[0].Created.Add(time.Hour)})
		fmt.Fprintf(&got, "== %d %s\n%s", p.PID, p.Name, r.Text(false))
	}
	golden(t, "olddir.txt", got.String())
}
