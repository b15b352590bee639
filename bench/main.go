package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/embedded"
)

type options struct {
	only    string
	quick   bool
	json    bool
	cli     string
	dir     string
	profile string
	heap    string
	chart   string
	tau2    string
}

func main() {
	embedded.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	names := make([]string, 0, len(sections()))
	for _, s := range sections() {
		names = append(names, s.name)
	}
	flag.StringVar(&o.only, "only", "", "sections to measure, separated by commas: "+strings.Join(names, ","))
	flag.IntVar(&sleepers, "sleepers", sleepers, "how many processes the section million has")
	flag.BoolVar(&o.quick, "quick", false, "fewer samples, smaller numbers: a minute or two")
	flag.BoolVar(&o.json, "json", false, "print JSON instead of Markdown")
	flag.StringVar(&o.cli, "cli", "", "the agentkernel executable (default ./agentkernel, built if it is not there)")
	flag.StringVar(&o.dir, "dir", "", "a directory on the disk to measure (default: the system's temporary directory)")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of this process to a file")
	flag.StringVar(&o.heap, "memprofile", "", "write a heap profile to a file when the processes of section parked are parked")
	flag.StringVar(&o.chart, "chart", "", "write the chart of the section agents to a file, as SVG")
	flag.StringVar(&o.tau2, "tau2", "", "a checkout of github.com/sierra-research/tau2-bench, for the section tau2")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bench: unknown argument %q; sections are named with -only\n", flag.Arg(0))
		os.Exit(agentkernel.ExitUsage)
	}
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures and prints. A section that fails is reported in the document and by an error at the end; a
// missed goal is no error.
func run(ctx context.Context, o options, out, errw io.Writer) (err error) {
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(o.dir, "akb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	b := &bench{engine: findEngine(root), root: root, tmp: tmp, scale: full, errw: errw, began: time.Now(), heapProfile: o.heap, chart: o.chart, tau2: o.tau2}
	if o.quick {
		b.scale = quick
	}
	if b.engine == "" {
		return errors.New("the Monty engine is missing; run: make engine")
	}
	if b.cli, err = findCLI(ctx, b, o.cli); err != nil {
		return err
	}
	if o.profile != "" {
		f, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	r := report{Machine: thisMachine(ctx, tmp, time.Now()), Mode: b.scale.String()}
	for _, s := range chosen {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		oc := b.measureSection(ctx, s)
		if oc.Error != "" {
			err = errors.Join(err, fmt.Errorf("%s: %s", s.name, oc.Error))
		}
		r.Sections = append(r.Sections, oc)
	}
	return errors.Join(err, r.print(out, o.json))
}

func (r report) print(out io.Writer, asJSON bool) error {
	if !asJSON {
		r.markdown(out)
		return nil
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// choose finds the sections of -only, in the order of the document.
func choose(only string) ([]section, error) {
	all := sections()
	if only == "" {
		return slices.DeleteFunc(all, func(s section) bool { return s.asked }), nil
	}
	wanted := strings.Split(only, ",")
	var chosen []section
	for _, s := range all {
		if i := slices.Index(wanted, s.name); i >= 0 {
			chosen = append(chosen, s)
			wanted = slices.Delete(wanted, i, i+1)
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("there is no section %q; bench -h lists them", wanted[0])
	}
	return chosen, nil
}

// findCLI gives the executable to measure, building one if none was named or built.
func findCLI(ctx context.Context, b *bench, named string) (string, error) {
	if named != "" {
		return filepath.Abs(named)
	}
	built := filepath.Join(b.root, "agentkernel")
	if info, err := os.Stat(built); err == nil && info.Mode().IsRegular() {
		return built, nil
	}
	b.now = "build"
	b.tell("./agentkernel is not there; building one")
	return goBuild(ctx, b.root, filepath.Join(b.tmp, "agentkernel"), "./cmd/agentkernel")
}

// goBuild builds a static executable as `make build` does.
func goBuild(ctx context.Context, dir, out, pkg string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w: %s", pkg, err, strings.TrimSpace(string(text)))
	}
	return out, nil
}

// withoutPaths takes the machine's directories out of a message.
func withoutPaths(text string, dirs ...string) string {
	for _, d := range dirs {
		if d != "" && d != "/" && d != "." {
			text = strings.ReplaceAll(text, d+"/", "")
			text = strings.ReplaceAll(text, d, ".")
		}
	}
	return text
}
