package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel/embedded"
	"agentkernel/internal/quickexit"
)

// TestMain lets the test binary be the helper that builds walls.
func TestMain(m *testing.M) {
	quickexit.Main()
	embedded.Main()
	os.Exit(m.Run())
}

// newTinyBench measures next to nothing: it proves that the sections work.
func newTinyBench(t *testing.T) *bench {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	engine := findEngine(root)
	if engine == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("the Monty engine is missing; run: make engine")
		}
		t.Skip("NO SECTION OF THE BENCHMARK WAS TRIED: the Monty engine is missing; run: make engine")
	}
	tmp, err := os.MkdirTemp("", "akb") // short: sockets are to fit into it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	return &bench{engine: engine, root: root, tmp: tmp, scale: tiny, errw: t.Output(), began: time.Now()}
}

// TestSections runs each section in its smallest form.
func TestSections(t *testing.T) {
	b := newTinyBench(t)
	var err error
	if b.cli, err = goBuild(t.Context(), b.root, filepath.Join(b.tmp, "agentkernel"), "./cmd/agentkernel"); err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	for _, s := range sections() {
		t.Run(s.name, func(t *testing.T) {
			o := b.measureSection(t.Context(), s)
			if o.Error != "" {
				t.Fatal(o.Error)
			}
			measured, ours := 0, 0
			for _, table := range o.Tables {
				for _, r := range table.Rows {
					if r.P50 == 0 && r.Value == "" && r.Skipped == "" {
						t.Errorf("%s: nothing was measured, and it does not say why", r.What)
					}
					if r.Skipped == "" {
						measured++
					}
					if r.Role == roleOurs && r.Skipped == "" {
						ours++
					}
				}
			}
			if measured == 0 && os.Getenv("CI") != "true" {
				t.Skip("NOT TRIED: this machine has nothing to measure it with")
			}
			if measured == 0 || ours == 0 {
				t.Errorf("%d rows measured, %d of them ours", measured, ours)
			}
			var out strings.Builder
			report{Mode: "tiny", Sections: []outcome{o}}.markdown(&out)
			for _, secret := range []string{b.root, b.tmp, filepath.Dir(b.engine), host} {
				if len(secret) > 3 && strings.Contains(out.String(), secret) {
					t.Errorf("the document names %q:\n%s", secret, out.String())
				}
			}
		})
	}
}

// TestBareWorkerIsTheSameWork: the floors do what they are compared with.
func TestBareWorkerIsTheSameWork(t *testing.T) {
	b := newTinyBench(t)
	w, err := startBareWorker(b.engine)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for range 2 { // a worker is ready for another program after each
		if err := w.whole(hello, "42\n"); err != nil {
			t.Error(err)
		}
		if s, err := w.calls(2); err != nil || len(s) != 2 {
			t.Errorf("calls: %v, %v", s, err)
		}
		if s, err := w.switches(3, 1); err != nil || len(s) != 1 {
			t.Errorf("switches: %v, %v", s, err)
		}
	}
	if err := w.whole(hello, "43\n"); err == nil {
		t.Error("a wrong output was not seen")
	}
}
