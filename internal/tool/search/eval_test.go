package search_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"agentkernel"
	"agentkernel/internal/tool/search"
)

// The evaluation reads two files of a folder: tools.jsonl ({"server","name","description","inputSchema"})
// and tasks.jsonl or tasks-dev.jsonl ({"task","steps","tools"}). AGENTKERNEL_TOOLSEARCH names the folder; otherwise it
// is looked for beside the checkout. testdata has folders of its own; its README says what is in them.
const dataEnv = "AGENTKERNEL_TOOLSEARCH"

type task struct {
	Task  string   `json:"task"`
	Steps []string `json:"steps"`
	Tools []string `json:"tools"`
}

// recall is what part of what was wanted is found among the first 5 and 10.
type recall struct{ At5, At10 float64 }

func (r *recall) add(o recall, part float64) { r.At5 += o.At5 * part; r.At10 += o.At10 * part }

// outcome of one task: by its steps (which tools of the task does the search of at least one step find),
// by step (which steps find a tool of the task), and by one search with the whole task text.
type outcome struct{ steps, step, whole recall }

func readLines[T any](t testing.TB, path string) []T {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []T
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, v)
	}
	return out
}

func readData(t testing.TB, dir string) ([]agentkernel.Tool, []task) {
	t.Helper()
	type wire struct {
		Server      string          `json:"server"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	var tools []agentkernel.Tool
	for _, w := range readLines[wire](t, filepath.Join(dir, "tools.jsonl")) {
		tools = append(tools, agentkernel.Tool{Server: w.Server, Name: w.Name, PythonServer: w.Server, PythonName: w.Name,
			Description: w.Description, InputSchema: w.InputSchema})
	}
	path := filepath.Join(dir, "tasks.jsonl")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join(dir, "tasks-dev.jsonl")
	}
	return tools, readLines[task](t, path)
}

// realData is the folder of the real evaluation, "" if it is not here.
func realData(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(dataEnv); dir != "" {
		return dir
	}
	dir := filepath.Join("..", "..", "..", "..", "shared", "data", "toolsearch")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return dir
}

func evaluate(tools []agentkernel.Tool, tasks []task, w search.Weights) []outcome {
	ix := search.New(w)
	ix.Add(tools...)
	out := make([]outcome, len(tasks))
	for i, tk := range tasks {
		wanted := map[string]bool{}
		for _, name := range tk.Tools {
			wanted[name] = true
		}
		found := func(query string) (at5, at10 map[string]bool) {
			at5, at10 = map[string]bool{}, map[string]bool{}
			for rank, h := range ix.Search(query, 10) {
				if wanted[h.Tool.Name] {
					at10[h.Tool.Name] = true
					if rank < 5 {
						at5[h.Tool.Name] = true
					}
				}
			}
			return at5, at10
		}
		all5, all10 := map[string]bool{}, map[string]bool{}
		o := &out[i]
		for _, step := range tk.Steps {
			at5, at10 := found(step)
			for name := range at5 {
				all5[name] = true
			}
			for name := range at10 {
				all10[name] = true
			}
			o.step.add(recall{float64(min(len(at5), 1)), float64(min(len(at10), 1))}, 1/float64(len(tk.Steps)))
		}
		n := float64(len(wanted))
		o.steps = recall{float64(len(all5)) / n, float64(len(all10)) / n}
		at5, at10 := found(tk.Task)
		o.whole = recall{float64(len(at5)) / n, float64(len(at10)) / n}
	}
	return out
}

func mean(list []outcome) (m outcome) {
	part := 1 / float64(len(list))
	for _, o := range list {
		m.steps.add(o.steps, part)
		m.step.add(o.step, part)
		m.whole.add(o.whole, part)
	}
	return m
}

// folds gives the recall of k random parts of the tasks: their mean and standard deviation.
func folds(list []outcome, k int, r *rand.Rand) (m, spread recall) {
	perm := r.Perm(len(list))
	parts := make([]recall, k)
	for i := range parts {
		var part []outcome
		for at := i; at < len(perm); at += k {
			part = append(part, list[perm[at]])
		}
		parts[i] = mean(part).steps
		m.add(parts[i], 1/float64(k))
	}
	for _, p := range parts {
		spread.At5 += (p.At5 - m.At5) * (p.At5 - m.At5) / float64(k)
		spread.At10 += (p.At10 - m.At10) * (p.At10 - m.At10) / float64(k)
	}
	return m, recall{math.Sqrt(spread.At5), math.Sqrt(spread.At10)}
}

func report(t *testing.T, name string, tools []agentkernel.Tool, tasks []task) outcome {
	t.Helper()
	list := evaluate(tools, tasks, search.Default())
	m := mean(list)
	t.Logf("%s: %d tools, %d tasks", name, len(tools), len(tasks))
	t.Logf("tools of a task found by its steps: recall@5 %.3f, @10 %.3f", m.steps.At5, m.steps.At10)
	t.Logf("steps that find a tool of the task:        @5 %.3f, @10 %.3f", m.step.At5, m.step.At10)
	t.Logf("tools of a task found by its text:         @5 %.3f, @10 %.3f", m.whole.At5, m.whole.At10)
	fm, sd := folds(list, 5, rand.New(rand.NewPCG(1, 2)))
	t.Logf("by its steps, over 5 folds of the tasks:   @5 %.3f ± %.3f, @10 %.3f ± %.3f", fm.At5, sd.At5, fm.At10, sd.At10)
	return m
}

func TestRecallOnRealTools(t *testing.T) {
	dir := realData(t)
	if dir == "" {
		t.Skipf("SEARCH IS NOT MEASURED ON REAL TOOLS: %s names no folder", dataEnv)
	}
	tools, tasks := readData(t, dir)
	if m := report(t, dir, tools, tasks); m.steps.At5 < .80 || m.steps.At10 < .88 {
		t.Errorf("recall@5 %.3f and @10 %.3f; wanted 0.80 and 0.88", m.steps.At5, m.steps.At10)
	}
}

// TestRecallOnUnseenTools measures tasks that the ranking was never tuned on. What it demands is what was measured
// when they were first looked at, with some room: their score is a fact, not a goal.
func TestRecallOnUnseenTools(t *testing.T) {
	tools, tasks := readData(t, filepath.Join("testdata", "unseen"))
	if m := report(t, "unseen", tools, tasks); m.steps.At5 < .75 || m.steps.At10 < .87 {
		t.Errorf("recall@5 %.3f and @10 %.3f; it was 0.770 and 0.889", m.steps.At5, m.steps.At10)
	}
}

// The repository's own tools and tasks: other servers, other words.
func TestRecallOnOwnTools(t *testing.T) {
	tools, tasks := readData(t, "testdata")
	if m := report(t, "testdata", tools, tasks); m.steps.At5 < .9 {
		t.Errorf("recall@5 %.3f; it was 0.9 and more", m.steps.At5)
	}
}
