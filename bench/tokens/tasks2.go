package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

var searchThenAct = task{
	name: "search", what: "two calls, when %d tools are connected", n: 500,
	servers: func(w *workshop, n int, dir string) map[string]serverSpec {
		memory := w.npm("memory")
		memory.Env = map[string]string{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.jsonl")}
		all := map[string]serverSpec{"filesystem": w.npm("filesystem", dir), "everything": w.npm("everything"), "memory": memory,
			"thinking":  w.npm("sequential-thinking"),
			"catalogue": {Command: w.self, Args: []string{"-catalogue", strconv.Itoa(n - realTools)}, Env: map[string]string{envCatalogue: strconv.Itoa(n - realTools)}}}
		for name, s := range all {
			s.StartTimeout = startTimeout
			all[name] = s
		}
		return all
	},
	prepare: func(n int, dir string) error {
		if err := graph.prepare(graph.n, dir); err != nil {
			return err
		}
		f, err := os.OpenFile(filepath.Join(dir, "memory.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString(`{"type":"entity","name":"Nightingale","entityType":"project","observations":["moves the billing service to the new cluster"]}` + "\n")
		return err
	},
	direct: func(ctx context.Context, d *direct, dir string) error {
		text, err := d.call(ctx, "memory", "search_nodes", map[string]any{"query": "billing"})
		if err != nil {
			return err
		}
		var read struct{ Entities []entity }
		if err := json.Unmarshal([]byte(text), &read); err != nil || len(read.Entities) != 1 {
			return fmt.Errorf("%s: %w", text, err)
		}
		_, err = d.call(ctx, "filesystem", "write_file", map[string]any{"path": filepath.Join(dir, "owner.txt"), "content": read.Entities[0].Name})
		return err
	},
	programs: func(ctx context.Context, p *programs, dir string) error {
		if err := p.find(ctx, 1, "search nodes in the knowledge graph", "write file"); err != nil {
			return err
		}
		if err := p.look(ctx, `from tools.memory import search_nodes
print(search_nodes("billing"))`); err != nil {
			return err
		}
		_, err := p.run(ctx, fill(`from tools.memory import search_nodes
from tools.filesystem import write_file
write_file(FOLDER + "/owner.txt", search_nodes("billing")["entities"][0]["name"])`, dir))
		return err
	},
	result: fileResult("owner.txt"),
}

// realTools are those that the four real servers of scripts/mcp offer to the direct client: filesystem, everything, memory,
// sequential-thinking. The run checks it.
const realTools = 14 + 14 + 9 + 1

var loop = task{
	name: "loop", what: "a loop with a condition: a chain of %d files, each of which names the next", n: 60,
	servers: onlyFiles,
	prepare: func(n int, dir string) error {
		rng := random()
		order := rng.Perm(n)
		for i, at := range order {
			next := "end"
			if i+1 < n {
				next = fmt.Sprintf("part%02d.txt", order[i+1])
			}
			name := fmt.Sprintf("part%02d.txt", at)
			if i == 0 {
				name = "start.txt"
			}
			text := fmt.Sprintf("value: %d\nnext: %s\n%s", rng.IntN(1000), next, strings.Repeat(fmt.Sprintf("a remark about step %d that nobody needs\n", i), 6))
			if err := write(dir, name, text); err != nil {
				return err
			}
		}
		return nil
	},
	direct: func(ctx context.Context, d *direct, dir string) error {
		sum := 0
		for name := "start.txt"; name != "end"; {
			text, err := d.call(ctx, "filesystem", "read_text_file", map[string]any{"path": filepath.Join(dir, name)})
			if err != nil {
				return err
			}
			var value int
			if _, err := fmt.Sscanf(text, "value: %d\nnext: %s", &value, &name); err != nil {
				return fmt.Errorf("%q: %w", text, err)
			}
			sum += value
		}
		_, err := d.call(ctx, "filesystem", "write_file", map[string]any{"path": filepath.Join(dir, "sum.txt"), "content": strconv.Itoa(sum)})
		return err
	},
	programs: func(ctx context.Context, p *programs, dir string) error {
		if err := p.find(ctx, 1, "read text file", "write file"); err != nil {
			return err
		}
		if err := p.look(ctx, fill(`from tools.filesystem import read_text_file
print(read_text_file(FOLDER + "/start.txt")[:400])`, dir)); err != nil {
			return err
		}
		_, err := p.run(ctx, fill(`from tools.filesystem import read_text_file
from tools.filesystem import write_file
name, total = "start.txt", 0
while name != "end":
    lines = read_text_file(FOLDER + "/" + name).splitlines()
    total += int(lines[0][7:])
    name = lines[1][6:]
write_file(FOLDER + "/sum.txt", str(total))`, dir))
		return err
	},
	result: fileResult("sum.txt"),
}

// oneCall is no work for a program at all: what does it cost all the same?
var oneCall = task{
	name: "smallest", what: "one call of one tool",
	servers: onlyFiles,
	prepare: func(int, string) error { return nil },
	direct: func(ctx context.Context, d *direct, dir string) error {
		_, err := d.call(ctx, "filesystem", "write_file", map[string]any{"path": filepath.Join(dir, "a.txt"), "content": "hello"})
		return err
	},
	programs: func(ctx context.Context, p *programs, dir string) error {
		if err := p.find(ctx, 1, "write file"); err != nil {
			return err
		}
		_, err := p.run(ctx, fill(`from tools.filesystem import write_file
write_file(FOLDER + "/a.txt", "hello")`, dir))
		return err
	},
	result: fileResult("a.txt"),
}
