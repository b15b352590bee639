package workspace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkApply applies 2,600 files of 4 kB, a third of them in the place of others, the rest in new and old directories. The floor,
// measured in turns with it, is `cp -r` and syncfs.
func BenchmarkApply(b *testing.B) {
	const n = 2600
	content := make([]byte, 4096)
	var apply, floor time.Duration
	for b.Loop() {
		b.StopTimer()
		old := files{}
		for i := range n / 3 {
			old[fmt.Sprintf("old%d/f%d", i%50, i)] = "before"
		}
		r := newRig(b, old)
		for i := range n {
			dir := []string{"old", "new"}[i*3/n/2]
			p := r.upper(fmt.Sprintf("%s%d/f%d", dir, i%50, i))
			must(b, os.MkdirAll(filepath.Dir(p), 0o755))
			must(b, os.WriteFile(p, content, 0o644))
		}
		unix.Sync()
		b.StartTimer()
		begun := time.Now()
		got, err := r.apply(false)
		must(b, err)
		apply += time.Since(begun)
		b.StopTimer()
		if got.Added+got.Changed < n {
			b.Fatalf("%+v", got)
		}
		begun = time.Now()
		to := filepath.Join(filepath.Dir(r.folder), "copy")
		must(b, exec.Command("cp", "-r", r.folder, to).Run())
		d, err := openRoot(to, false)
		must(b, err)
		must(b, unix.Syncfs(d.fd()))
		floor += time.Since(begun)
		must(b, d.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(floor.Milliseconds())/float64(b.N), "floor-ms/op")
	b.ReportMetric(float64(apply)/float64(floor), "x-floor")
}
