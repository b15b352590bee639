package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// task is one piece of work that is done twice, each time in a fresh folder.
type task struct {
	name, what string
	n          int // how large it is; 0: it has no size
	servers    func(w *workshop, n int, dir string) map[string]serverSpec
	prepare    func(n int, dir string) error
	direct     func(ctx context.Context, d *direct, dir string) error
	programs   func(ctx context.Context, p *programs, dir string) error
	// result is what has been done, to be compared.
	result func(dir string) (string, error)
}

func tasks() []task {
	return []task{folderReport, join, graph, searchThenAct, loop, oneCall}
}

func onlyFiles(w *workshop, _ int, dir string) map[string]serverSpec {
	return map[string]serverSpec{"filesystem": w.npm("filesystem", dir)}
}

func fileResult(name string) func(string) (string, error) {
	return func(dir string) (string, error) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		return string(b), err
	}
}

// random is the same numbers in every run.
func random() *rand.Rand { return rand.New(rand.NewPCG(2026, 11)) }

func write(dir, name, text string) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// fill puts a folder into the text of a program.
func fill(code, dir string) string { return strings.ReplaceAll(code, "FOLDER", strconv.Quote(dir)) }

var folderReport = task{
	name: "folder", what: "a report over %d log files", n: 300,
	servers: onlyFiles,
	prepare: func(n int, dir string) error {
		rng := random()
		for i := range n {
			var b strings.Builder
			for range 12 {
				level := "INFO"
				if rng.IntN(20) == 0 {
					level = "ERROR"
				}
				fmt.Fprintf(&b, "2026-11-%02d %s request %d took %d ms\n", 1+i%28, level, rng.IntN(1_000_000), rng.IntN(900))
			}
			if err := write(dir, fmt.Sprintf("logs/app%03d.log", i), b.String()); err != nil {
				return err
			}
		}
		return nil
	},
	direct: func(ctx context.Context, d *direct, dir string) error {
		logs := filepath.Join(dir, "logs")
		list, err := d.call(ctx, "filesystem", "list_directory", map[string]any{"path": logs})
		if err != nil {
			return err
		}
		var paths []string
		for line := range strings.Lines(list) {
			paths = append(paths, filepath.Join(logs, strings.TrimSpace(strings.TrimPrefix(line, "[FILE] "))))
		}
		all, err := d.call(ctx, "filesystem", "read_multiple_files", map[string]any{"paths": paths})
		if err != nil {
			return err
		}
		_, err = d.call(ctx, "filesystem", "write_file", map[string]any{"path": filepath.Join(dir, "report.txt"), "content": logReport(all, paths)})
		return err
	},
	programs: func(ctx context.Context, p *programs, dir string) error {
		if err := p.find(ctx, 1, "list directory", "read text file", "write file"); err != nil {
			return err
		}
		if err := p.look(ctx, fill(`from tools.filesystem import list_directory
from tools.filesystem import read_text_file
names = list_directory(FOLDER + "/logs").splitlines()
print(len(names), names[:3])
print(read_text_file(FOLDER + "/logs/" + names[0][7:])[:400])`, dir)); err != nil {
			return err
		}
		_, err := p.run(ctx, fill(`from tools.filesystem import list_directory
from tools.filesystem import read_text_file
from tools.filesystem import write_file
counts = {}
for line in list_directory(FOLDER + "/logs").splitlines():
    name = line[7:]
    counts[name] = read_text_file(FOLDER + "/logs/" + name).count(" ERROR ")
worst = sorted(counts, key=lambda n: (-counts[n], n))[:3]
lines = [f"{len(counts)} files, {sum(counts.values())} errors"] + [f"{n}: {counts[n]}" for n in worst]
write_file(FOLDER + "/report.txt", "\n".join(lines) + "\n")
print(lines)`, dir))
		return err
	},
	result: fileResult("report.txt"),
}

// logReport is what the model works out in its head. The server writes each file behind its path.
func logReport(all string, paths []string) string {
	counts, total := map[string]int{}, 0
	current := ""
	for line := range strings.Lines(all) {
		if path := strings.TrimSuffix(strings.TrimSpace(line), ":"); slices.Contains(paths, path) {
			current = filepath.Base(path)
			counts[current] += 0
		}
		if strings.Contains(line, " ERROR ") {
			counts[current]++
			total++
		}
	}
	names := make([]string, 0, len(counts))
	for n := range counts {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	report := fmt.Sprintf("%d files, %d errors\n", len(counts), total)
	for _, n := range names[:3] {
		report += fmt.Sprintf("%s: %d\n", n, counts[n])
	}
	return report
}

var join = task{
	name: "join", what: "a join of two CSV files, %d orders with their customers", n: 1000,
	servers: onlyFiles,
	prepare: func(n int, dir string) error {
		rng := random()
		customers, orders := "id,name,city\n", "order,customer,amount\n"
		for i := range n / 5 {
			customers += fmt.Sprintf("%d,Customer %d,%s\n", i, i, []string{"Basel", "Oslo", "Porto", "Turin"}[rng.IntN(4)])
		}
		for i := range n {
			orders += fmt.Sprintf("%d,%d,%d.%02d\n", 7000+i, rng.IntN(n/5), rng.IntN(500), rng.IntN(100))
		}
		if err := write(dir, "customers.csv", customers); err != nil {
			return err
		}
		return write(dir, "orders.csv", orders)
	},
	direct: func(ctx context.Context, d *direct, dir string) error {
		customers, err := d.call(ctx, "filesystem", "read_text_file", map[string]any{"path": filepath.Join(dir, "customers.csv")})
		if err != nil {
			return err
		}
		orders, err := d.also(ctx, "filesystem", "read_text_file", map[string]any{"path": filepath.Join(dir, "orders.csv")})
		if err != nil {
			return err
		}
		rows := map[string]string{}
		for line := range strings.Lines(customers) {
			id, rest, _ := strings.Cut(strings.TrimSpace(line), ",")
			rows[id] = rest
		}
		joined := "order,name,city,amount\n"
		for i, line := range strings.Split(strings.TrimSpace(orders), "\n") {
			if cells := strings.Split(line, ","); i > 0 {
				joined += cells[0] + "," + rows[cells[1]] + "," + cells[2] + "\n"
			}
		}
		_, err = d.call(ctx, "filesystem", "write_file", map[string]any{"path": filepath.Join(dir, "joined.csv"), "content": joined})
		return err
	},
	programs: func(ctx context.Context, p *programs, dir string) error {
		if err := p.find(ctx, 1, "read text file", "write file"); err != nil {
			return err
		}
		if err := p.look(ctx, fill(`from tools.filesystem import read_text_file
for name in ["customers.csv", "orders.csv"]:
    print(read_text_file(FOLDER + "/" + name)[:300])`, dir)); err != nil {
			return err
		}
		_, err := p.run(ctx, fill(`import csv
from tools.filesystem import read_text_file
from tools.filesystem import write_file
customers = {}
for c in csv.DictReader(read_text_file(FOLDER + "/customers.csv").splitlines()):
    customers[c["id"]] = c
rows = ["order,name,city,amount"]
for o in csv.DictReader(read_text_file(FOLDER + "/orders.csv").splitlines()):
    c = customers[o["customer"]]
    rows.append(",".join([o["order"], c["name"], c["city"], o["amount"]]))
write_file(FOLDER + "/joined.csv", "\n".join(rows) + "\n")
print(len(rows) - 1, "rows")`, dir))
		return err
	},
	result: fileResult("joined.csv"),
}

type entity struct {
	Type         string   `json:"type"`
	Name         string   `json:"name"`
	EntityType   string   `json:"entityType"`
	Observations []string `json:"observations"`
}

var graph = task{
	name: "graph", what: "an update of %d entities of a knowledge graph", n: 100,
	servers: func(w *workshop, _ int, dir string) map[string]serverSpec {
		s := w.npm("memory")
		s.Env = map[string]string{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.jsonl")}
		return map[string]serverSpec{"memory": s}
	},
	prepare: func(n int, dir string) error {
		rng := random()
		var b strings.Builder
		for i := range n {
			line, err := compact(entity{"entity", fmt.Sprintf("project %d", i), "project", []string{
				fmt.Sprintf("started in 20%02d by team %d", 10+rng.IntN(16), rng.IntN(9)), fmt.Sprintf("score: %d", rng.IntN(100))}})
			if err != nil {
				return err
			}
			b.WriteString(line + "\n")
		}
		return write(dir, "memory.jsonl", b.String())
	},
	direct: func(ctx context.Context, d *direct, _ string) error {
		text, err := d.call(ctx, "memory", "read_graph", map[string]any{})
		if err != nil {
			return err
		}
		var read struct{ Entities []entity }
		if err := json.Unmarshal([]byte(text), &read); err != nil {
			return err
		}
		var notes []map[string]any
		for _, e := range read.Entities {
			score, err := strconv.Atoi(strings.TrimPrefix(e.Observations[1], "score: "))
			if err != nil {
				return err
			}
			grade := "needs attention"
			if score >= 50 {
				grade = "on track"
			}
			notes = append(notes, map[string]any{"entityName": e.Name, "contents": []string{grade}})
		}
		_, err = d.call(ctx, "memory", "add_observations", map[string]any{"observations": notes})
		return err
	},
	programs: func(ctx context.Context, p *programs, _ string) error {
		if err := p.find(ctx, 1, "read graph", "add observations"); err != nil {
			return err
		}
		if err := p.look(ctx, `from tools.memory import read_graph
print(str(read_graph())[:600])`); err != nil {
			return err
		}
		_, err := p.run(ctx, `from tools.memory import read_graph
from tools.memory import add_observations
notes = []
for e in read_graph()["entities"]:
    score = int(e["observations"][1].split()[1])
    notes.append({"entityName": e["name"], "contents": ["on track" if score >= 50 else "needs attention"]})
add_observations(notes)
print(len(notes))`)
		return err
	},
	result: graphResult,
}

// graphResult is the server's own file, without its order.
func graphResult(dir string) (string, error) {
	text, err := fileResult("memory.jsonl")(dir)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	if !strings.Contains(text, "on track") || !strings.Contains(text, "needs attention") {
		return "", fmt.Errorf("the graph was not updated: %.200s, %w", text, err)
	}
	return strings.Join(lines, "\n"), err
}
