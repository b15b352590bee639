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

// noBug is the name of none: the kernel as it is.
const noBug = "none"

// budget is how many seeds all hunts together may take, about twice what they do, which a slow machine does not change; one hunt may
// run huntSeeds, and for patience.
const (
	budget    = 1200
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
	var used atomic.Int64 // seeds
	for range 2 {
		hunters.Go(func() {
			for name := range hunts {
				used.Add(hunt(t, binary, name))
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
	t.Logf("built in %s, %d bugs hunted in %s, with %d seeds", built.Round(time.Millisecond), len(names),
		time.Since(begun).Round(time.Millisecond), used.Load())
	if n := used.Load(); n > budget {
		t.Errorf("to find all took %d seeds; %d are allowed", n, budget)
	}
}

// buildPlanted builds the tests of this package with a kernel that has all mutations, each behind a name.
func buildPlanted(t *testing.T) (binary string) {
	t.Helper()
	dir, root := t.TempDir(), moduleRoot(t)
	sources := map[string]string{}
	for _, m := range mutations {
		text, ok := sources[m.path()]
		if !ok {
			data, err := os.ReadFile(filepath.Join(root, m.path()))
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
			folder := filepath.Dir(m.path())
			sources[filepath.Join(folder, "planted.go")] = fmt.Sprintf(plantedFile, filepath.Base(folder))
		}
		if n := strings.Count(text, m.old); n != 1 {
			t.Fatalf("%q: %s has %d times what is to be changed; the bug has to be planted elsewhere:\n%s", m.name, m.path(), n, m.old)
		}
		sources[m.path()] = strings.Replace(text, m.old, strings.ReplaceAll(m.new, "PLANTED", fmt.Sprintf("planted == %q", m.name)), 1)
	}
	replace := map[string]string{}
	for file, text := range sources {
		to := filepath.Join(dir, strings.ReplaceAll(file, string(filepath.Separator), "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, file)] = to
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

// plantedFile is the file that each package with bugs has more.
const plantedFile = `package %s

import "os"

var planted = os.Getenv("` + plantEnv + `")
`

// hunt runs seeds until a bug is found, and says how many. It runs in a process of its own: some bugs end it.
func hunt(t *testing.T, binary, name string) (seeds int64) {
	begun := time.Now()
	cmd := exec.Command(binary, "-test.run=^TestHunt$", "-test.timeout="+patience.String())
	cmd.Env = append(os.Environ(), plantEnv+"="+name)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	took := time.Since(begun).Round(time.Millisecond)
	if exit, failed := errors.AsType[*exec.ExitError](err); err == nil || !failed {
		t.Errorf("MISSED %s, in %s: %v %v\n%s", name, took, err, exit, clip(out.String()))
		return huntSeeds
	}
	found := why(out.String())
	t.Logf("found %s in %s: %s", name, took, found)
	acquit(t, binary, name, found)
	return int64(strings.Count(out.String(), "sim: seed "))
}

// acquit runs the seed that found a bug once more, without the bug: what fails there, too, is a bug of the kernel itself, and
// says nothing of the planted one.
func acquit(t *testing.T, binary, name, found string) {
	var seed uint64
	if _, err := fmt.Sscanf(found, "sim: seed %d", &seed); err != nil {
		t.Errorf("%s: no seed says what found it: %s", name, found)
		return
	}
	cmd := exec.Command(binary, "-test.run=^TestHunt$", "-test.timeout="+patience.String(), fmt.Sprintf("-sim.seed=%d", seed))
	cmd.Env = append(os.Environ(), plantEnv+"="+noBug)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("FALSELY FOUND %s: seed %d fails without it: %v\n%s", name, seed, err, clip(string(out)))
	}
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

// TestHunt hunts the bug that plantEnv names, or runs one seed; it fails when it has found something.
func TestHunt(t *testing.T) {
	name := os.Getenv(plantEnv)
	if name == "" {
		t.Skip("it is for TestPlantedBugsAreFound")
	}
	from, count := *first, uint64(huntSeeds)
	if *oneSeed != 0 {
		from, count = *oneSeed, 1
	}
	for seed := from; seed < from+count; seed++ {
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
