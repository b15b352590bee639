package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// startTimeout is how long a server may take to start, in seconds.
const startTimeout = 60

// envCatalogue makes this program the catalogue: in tests it is the test binary, which has other flags.
const envCatalogue = "AGENTKERNEL_BENCH_CATALOGUE"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	asJSON := flag.Bool("json", false, "print JSON instead of Markdown")
	way := flag.String("way", "", "small, default or \"\" for both: what the side of programs has and knows")
	only := flag.String("only", "", "names of tasks, separated by commas")
	catalogue := flag.Int("catalogue", 0, "serve this many tools on standard input and output")
	flag.Parse()
	var err error
	if *catalogue > 0 {
		err = serveCatalogue(ctx, *catalogue)
	} else {
		err = run(ctx, *only, *way, *asJSON, os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "tokens:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, way string, asJSON bool, out, progress io.Writer) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	var all []report
	for _, v := range ways() {
		if way != "" && way != v.name {
			continue
		}
		r, err := tryWay(ctx, root, v, only, progress)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return fmt.Errorf("there is no way %q", way)
	}
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(all)
	}
	for _, r := range all {
		r.markdown(out)
	}
	return nil
}

// tryWay does the tasks in one way.
func tryWay(ctx context.Context, root string, v way, only string, progress io.Writer) (report, error) {
	r := report{Way: v.name, way: v}
	w, err := newWorkshop(root, v)
	if err != nil {
		return r, err
	}
	defer w.close()
	for _, t := range tasks() {
		if only != "" && !slices.Contains(strings.Split(only, ","), t.name) {
			continue
		}
		began := time.Now()
		fmt.Fprintf(progress, "%-8s %-9s", v.name, t.name)
		row, err := w.measure(ctx, t)
		if err != nil {
			return r, fmt.Errorf("%s: %w", t.name, err)
		}
		fmt.Fprintf(progress, " %.1f s\n", time.Since(began).Seconds())
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

// workshop is where tasks are done.
type workshop struct {
	root, tmp, engine, self string
	way                     way
	tiny                    bool // a twentieth of the work: proves that everything runs
}

func newWorkshop(root string, v way) (*workshop, error) {
	engine := os.Getenv("AGENTKERNEL_MONTY")
	if engine == "" {
		found, err := filepath.Glob(filepath.Join(root, ".cache", "monty", "node_modules", "@pydantic", "monty-*", "monty"))
		if err != nil || len(found) == 0 {
			return nil, errors.New("the Monty engine is missing; run: make engine")
		}
		engine = found[0]
	}
	w := &workshop{root: root, engine: engine, way: v}
	if _, err := os.Stat(w.npm("memory").Args[0]); err != nil {
		return nil, errors.New("the MCP servers are missing; run: make mcp")
	}
	var err error
	if w.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if w.tmp, err = os.MkdirTemp("", "akt"); err == nil {
		w.tmp, err = filepath.EvalSymlinks(w.tmp) // the filesystem server compares real paths
	}
	return w, err
}

func (w *workshop) close() { _ = os.RemoveAll(w.tmp) }

func (w *workshop) size(n int) int {
	if w.tiny {
		return max(n/20, 50)
	}
	return n
}

// npm is an official server that `make mcp` installs.
func (w *workshop) npm(name string, args ...string) serverSpec {
	script := filepath.Join(w.root, ".cache", "mcp", "node_modules", "@modelcontextprotocol", "server-"+name, "dist", "index.js")
	return serverSpec{Command: "node", Args: append([]string{script}, args...), StartTimeout: startTimeout}
}

// measure does a task twice and compares what was done.
func (w *workshop) measure(ctx context.Context, t task) (row, error) {
	what := t.what
	if t.n > 0 {
		what = fmt.Sprintf(what, w.size(t.n))
	}
	r := row{Task: t.name, What: what}
	first, err := w.byCalls(ctx, t, &r.Direct)
	if err != nil {
		return r, fmt.Errorf("by direct calls: %w", err)
	}
	second, err := w.byPrograms(ctx, t, &r.Programs)
	if err != nil {
		return r, fmt.Errorf("by programs: %w", err)
	}
	if first != second || first == "" {
		return r, fmt.Errorf("the two ways did not do the same\n%.500s\nand\n%.500s", first, second)
	}
	return r, nil
}

// place is where one way of one task is done, and what counts its tokens.
type place struct {
	dir, data string
	meter     meter
}

// fresh is a new place. The folders of both ways have paths of the same length.
func (w *workshop) fresh(t task, way string) (place, error) {
	dir := filepath.Join(w.tmp, way+"-"+t.name)
	p := place{dir: dir, data: filepath.Join(dir, "data")}
	if err := os.MkdirAll(p.data, 0o755); err != nil {
		return p, err
	}
	codec, err := newCodec()
	if err != nil {
		return p, err
	}
	p.meter.codec = codec
	return p, t.prepare(w.size(t.n), p.data)
}

func (w *workshop) byCalls(ctx context.Context, t task, s *side) (result string, err error) {
	at, err := w.fresh(t, "a")
	if err != nil {
		return "", err
	}
	d := &direct{meter: at.meter}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.open(ctx, t.servers(w, w.size(t.n), at.data)); err != nil {
		return "", err
	}
	if t.name == searchThenAct.name && d.tools != w.size(t.n) {
		return "", fmt.Errorf("%d tools are connected, not %d", d.tools, w.size(t.n))
	}
	began := time.Now()
	if err := t.direct(ctx, d, at.data); err != nil {
		return "", err
	}
	s.take(&d.meter, time.Since(began))
	return t.result(at.data)
}

func (w *workshop) byPrograms(ctx context.Context, t task, s *side) (result string, err error) {
	at, err := w.fresh(t, "b")
	if err != nil {
		return "", err
	}
	p := &programs{meter: at.meter, way: w.way}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.open(ctx, w.engine, at.dir, t.servers(w, w.size(t.n), at.data)); err != nil {
		return "", err
	}
	began := time.Now()
	if err := t.programs(ctx, p, at.data); err != nil {
		return "", err
	}
	s.take(&p.meter, time.Since(began))
	return t.result(at.data)
}
