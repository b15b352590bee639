package sim_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentkernel/internal/sim"
)

// plantEnv names the bug that a hunt is for, to the test binary that was built with all of them.
const plantEnv = "AGENTKERNEL_SIM_PLANT"

// budget is how much processor time all hunts together may take, which a busy machine does not change; one hunt may run
// so many seeds, and for patience.
const (
	budget    = 60 * time.Second
	huntSeeds = 400
	patience  = 5 * time.Minute
)

var plant = flag.String("sim.plant", "", "hunt this planted bug alone")

// TestPlantedBugsAreFound: a simulator that finds nothing may be blind. Bugs like those that a kernel could have, and bugs of
// the world around it, must each be found, and soon. Those of the kernel are planted in a copy of its files, which only the
// compiler sees (go build -overlay); the kernel itself has no switch for them.
func TestPlantedBugsAreFound(t *testing.T) {
	if testing.Short() || os.Getenv(plantEnv) != "" {
		t.Skip("it builds a kernel with bugs")
	}
	begun := time.Now()
	binary := buildPlanted(t)
	built := time.Since(begun)
	var names []string
	for _, m := range mutations {
		names = append(names, m.name)
	}
	for _, f := range faults {
		names = append(names, f.name)
	}
	begun = time.Now()
	hunts := make(chan string)
	var hunters sync.WaitGroup
	var used atomic.Int64 // nanoseconds of processors
	for range 2 {
		hunters.Go(func() {
			for name := range hunts {
				used.Add(int64(hunt(t, binary, name)))
			}
		})
	}
	for _, name := range names {
		if *plant == "" || *plant == name {
			hunts <- name
		}
	}
	close(hunts)
	hunters.Wait()
	took := time.Duration(used.Load())
	t.Logf("built in %s, %d bugs hunted in %s, with %s of processor time", built.Round(time.Millisecond), len(names),
		time.Since(begun).Round(time.Millisecond), took.Round(time.Millisecond))
	if took > budget {
		t.Errorf("to find all took %s of processor time; %s are allowed", took, budget)
	}
}

// buildPlanted builds the tests of this package with a kernel that has all mutations, each behind a name.
func buildPlanted(t *testing.T) (binary string) {
	t.Helper()
	dir, root := t.TempDir(), moduleRoot(t)
	sources := map[string]string{"planted.go": plantedFile}
	for _, m := range mutations {
		text, ok := sources[m.file]
		if !ok {
			data, err := os.ReadFile(filepath.Join(root, "internal", "kernel", m.file))
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
		}
		if n := strings.Count(text, m.old); n != 1 {
			t.Fatalf("%q: internal/kernel/%s has %d times what is to be changed; the bug has to be planted elsewhere:\n%s", m.name, m.file, n, m.old)
		}
		sources[m.file] = strings.Replace(text, m.old, strings.ReplaceAll(m.new, "PLANTED", fmt.Sprintf("planted == %q", m.name)), 1)
	}
	replace := map[string]string{}
	for file, text := range sources {
		to := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, "internal", "kernel", file)] = to
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "planted.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, "agentkernel/internal/sim")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the kernel with bugs does not build: %v\n%s", err, out)
	}
	return binary
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// plantedFile is the file that the kernel has more.
const plantedFile = `package kernel

import "os"

var planted = os.Getenv("` + plantEnv + `")
`

// hunt runs seeds until a bug is found. It runs in a process of its own: some bugs end it.
func hunt(t *testing.T, binary, name string) (used time.Duration) {
	begun := time.Now()
	cmd := exec.Command(binary, "-test.run=^TestHunt$", "-test.timeout="+patience.String())
	cmd.Env = append(os.Environ(), plantEnv+"="+name)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	took := time.Since(begun).Round(time.Millisecond)
	if cmd.ProcessState != nil {
		used = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if exit, failed := errors.AsType[*exec.ExitError](err); err == nil || !failed {
		t.Errorf("MISSED %s, in %s: %v %v\n%s", name, took, err, exit, clip(out.String()))
		return used
	}
	t.Logf("found %s in %s: %s", name, took, why(out.String()))
	return used
}

// why is the line that says what was found.
func why(out string) string {
	seed := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "sim: seed ") {
			seed = line
		}
		if strings.Contains(line, "FOUND") || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return clip(seed + ": " + line)
		}
	}
	return clip(out)
}

func clip(s string) string { return s[:min(len(s), 400)] }

// TestHunt hunts the bug that plantEnv names; it fails when it has found it.
func TestHunt(t *testing.T) {
	name := os.Getenv(plantEnv)
	if name == "" {
		t.Skip("it is for TestPlantedBugsAreFound")
	}
	for seed := *first; seed < *first+huntSeeds; seed++ {
		fmt.Fprintf(os.Stderr, "sim: seed %d\n", seed)
		opt := sim.Options{Seed: seed, Steps: 1500}
		for _, f := range faults {
			if f.name == name {
				f.plant(&opt)
			}
		}
		if r := simulate(t, opt); r.Failure != "" {
			t.Fatalf("FOUND: %s", r.Failure)
		}
	}
}
