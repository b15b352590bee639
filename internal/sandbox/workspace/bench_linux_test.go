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

// BenchmarkApplyLinks applies one hundred files and a link to folders that hold many files, with and without links: what
// an apply looks up of links is in proportion to the folder, and the rest of it is, too.
func BenchmarkApplyLinks(b *testing.B) {
	for _, n := range []int{2600, 20000} {
		for _, links := range []int{0, n / 10} {
			b.Run(fmt.Sprintf("files=%d/links=%d", n, links), func(b *testing.B) {
				old := files{}
				for i := range n {
					old[fmt.Sprintf("dir%d/f%d", i%200, i)] = "before"
				}
				for i := range links {
					old[fmt.Sprintf("dir%d/l%d", i%200, i)] = fmt.Sprintf("@f%d", i)
				}
				var apply, walk time.Duration
				for b.Loop() {
					b.StopTimer()
					r := newRig(b, old)
					for i := range 100 {
						r.write(r.upper(""), files{fmt.Sprintf("dir%d/new%d", i, i): "after"})
					}
					r.write(r.upper(""), files{"dir0/to": "@f0"})
					root, err := openRoot(r.folder, false)
					must(b, err)
					begun := time.Now()
					_, err = root.links()
					must(b, err)
					walk += time.Since(begun)
					must(b, root.Close())
					b.StartTimer()
					begun = time.Now()
					_, err = r.apply(false)
					must(b, err)
					apply += time.Since(begun)
				}
				b.ReportMetric(float64(apply.Microseconds())/float64(b.N)/1000, "apply-ms/op")
				b.ReportMetric(100*float64(walk)/float64(apply), "walk-%")
			})
		}
	}
}
