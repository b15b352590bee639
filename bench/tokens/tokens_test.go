package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agentkernel/internal/quickexit"
)

func TestMain(m *testing.M) {
	quickexit.Main()
	if n, err := strconv.Atoi(os.Getenv(envCatalogue)); err == nil {
		if err := serveCatalogue(context.Background(), n); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Each task, in its smallest form, in each way: both sides do the same, and the figures are plausible.
func TestTasks(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range ways() {
		t.Run(v.name, func(t *testing.T) { tryTasks(t, root, v) })
	}
}

func tryTasks(t *testing.T, root string, v way) {
	t.Helper()
	w, err := newWorkshop(root, v)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("NO TASK WAS TRIED: %v", err)
	}
	t.Cleanup(w.close)
	w.tiny = true
	r := report{Way: v.name, way: v}
	for _, task := range tasks() {
		t.Run(task.name, func(t *testing.T) {
			row, err := w.measure(t.Context(), task)
			if err != nil {
				t.Fatal(err)
			}
			r.Rows = append(r.Rows, row)
			for _, s := range []side{row.Direct, row.Programs} {
				if s.In <= s.Schemas || s.Schemas == 0 || s.Out == 0 || s.Turns == 0 || s.WallMS <= 0 {
					t.Errorf("not measured: %+v", s)
				}
			}
			if ratio := float64(row.Programs.tokens()) / float64(row.Direct.tokens()); task.name == oneCall.name && ratio > v.goalSmallest {
				t.Errorf("the smallest task takes %.2f times the tokens, and may take %.1f", ratio, v.goalSmallest)
			}
		})
	}
	var out strings.Builder
	r.markdown(&out)
	if !strings.Contains(out.String(), "Saved over the five tasks") || strings.Contains(out.String(), w.tmp) {
		t.Errorf("%s", out.String())
	}
	t.Log("\n" + out.String())
}

// A program may not use what the model cannot know.
func TestProgramsUseWhatWasFound(t *testing.T) {
	p := &programs{shown: "from tools.filesystem import read_text_file\n  read_text_file(...)\n"}
	if _, err := p.run(t.Context(), "from tools.filesystem import write_file\n"); err == nil || !strings.Contains(err.Error(), "no search has shown") {
		t.Errorf("%v", err)
	}
}
