package sim_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel/internal/sim"
)

var (
	oneSeed = flag.Uint64("sim.seed", 0, "run this seed alone, and show what happens")
	seeds   = flag.Uint64("sim.seeds", 40, "how many seeds to run")
	first   = flag.Uint64("sim.first", 1, "the first seed")
	every   = flag.Uint64("sim.every", 1, "run one seed of so many; from 2 on, one of 4 has models")
	steps   = flag.Int("sim.steps", 3000, "steps of chaos for each seed")
	repeats = flag.Int("sim.repeats", 200, "how often to run the seed that is compared with itself")
	pairs   = flag.Uint64("sim.pairs", 10, "how many seeds to run twice")
)

// simulate runs one seed in a bubble.
func simulate(t *testing.T, opt sim.Options) (r sim.Report) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		r = sim.Run(opt)
	})
	return r
}

// TestSim runs the same seeds each time; in `make soak` (AGENTKERNEL_SOAK) a thousand for each, from another first one each
// time.
func TestSim(t *testing.T) {
	if *oneSeed != 0 {
		r := simulate(t, sim.Options{Seed: *oneSeed, Steps: *steps, Verbose: func(line string) { fmt.Fprintln(os.Stderr, line) }})
		t.Logf("%+v", r)
		if r.Failure != "" {
			t.Error(r.Failure)
		}
		return
	}
	from, count := *first, *seeds
	if s := os.Getenv("AGENTKERNEL_SOAK"); s != "" {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			t.Fatalf("AGENTKERNEL_SOAK=%q is not a number", s)
		}
		from, count = uint64(time.Now().UnixNano()), 1000*n //nolint:gosec // it is after 1970
	}
	var sum sim.Report
	begun := time.Now()
	for seed := from; seed < from+count**every; seed += *every {
		fmt.Fprintf(os.Stderr, "sim: seed %d\n", seed) // now: a defect may end all tests
		r := simulate(t, sim.Options{Seed: seed, Steps: *steps})
		if r.Failure != "" {
			t.Fatalf("seed %d: %s\nrepeat it with: go test ./internal/sim -run '^TestSim$' -v -sim.seed=%d -sim.steps=%d", seed, r.Failure, seed, *steps)
		}
		sum.Steps += r.Steps
		sum.Crashes += r.Crashes
		sum.Restarts += r.Restarts
		sum.Ended += r.Ended
		sum.Calls += r.Calls
		sum.Asked += r.Asked
	}
	took := time.Since(begun)
	t.Logf("seeds %d to %d in %s: %d steps (%.0f a second), %d crashes, %d kernels, %d processes, %d calls of tools, %d requests to models", from, from+(count-1)**every,
		took.Round(time.Millisecond), sum.Steps, float64(sum.Steps)/took.Seconds(), sum.Crashes, sum.Restarts+int(count), sum.Ended, sum.Calls, sum.Asked)
}

// TestSeedsThatFound runs those that have found bugs which few others find: a pause by hand that a larger budget took back, and a call that
// came back, after a halt, to a process that had begun again and made another in its place; and a call that was made again after a crash, whose process stayed paused for it;
// a kill of what was just taken up and slept; and a call of a model that a halt held back after a crash, between two tries.
func TestSeedsThatFound(t *testing.T) {
	for _, seed := range []uint64{77038434, 77066338, 77093926, 77095232, 730014} {
		if r := simulate(t, sim.Options{Seed: seed, Steps: 3000}); r.Failure != "" {
			t.Errorf("seed %d: %s", seed, r.Failure)
		}
	}
}

// TestOneSeedOneTrace: a seed decides what happens, however often it is run, and whatever it is. An effect may set several
// goroutines free at once, and the runtime may then, some time in a thousand runs, run them in another order: so most runs have
// to be the same, not all. Whatever the kernel leaves to chance itself, as the order of a map, makes every run another one.
func TestOneSeedOneTrace(t *testing.T) {
	t.Run("one seed", func(t *testing.T) { sameTrace(t, *first, *repeats, *repeats, 300) })
	t.Run("many seeds", func(t *testing.T) {
		for seed := *first; seed < *first+*pairs; seed++ {
			sameTrace(t, seed, 2, 20, 1500)
		}
	})
}

// sameTrace runs a seed a number of times, and more often, at most as often as it is told, while less than half of its runs are the same.
// They may differ where two effects of one moment set goroutines free, or where several grace times were over before a kernel began.
func sameTrace(t *testing.T, seed uint64, runs, most, steps int) {
	t.Helper()
	var before []string
	seen, same := map[uint64]int{}, 0 // by trace
	for done := 0; done < runs || 2*same < done; {
		if done >= max(runs, most) {
			t.Errorf("seed %d: at most %d of %d runs are the same", seed, same, done)
			return
		}
		var got []string
		r := simulate(t, sim.Options{Seed: seed, Steps: steps, Verbose: func(line string) { got = append(got, line) }})
		if r.Failure != "" {
			t.Fatalf("seed %d: %s", seed, r.Failure)
		}
		if done > 0 && !slices.Equal(got, before) {
			t.Logf("seed %d, run %d: %s", seed, done, firstDifference(got, before))
		}
		before = got
		done++
		seen[r.Trace]++
		same = max(same, seen[r.Trace])
	}
}

func firstDifference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("line %d differs, behind\n%s\nit is\n%s\nand was\n%s", i, strings.Join(got[max(0, i-8):i], "\n"),
				strings.Join(got[i:min(i+3, len(got))], "\n"), strings.Join(want[i:min(i+3, len(want))], "\n"))
		}
	}
	return fmt.Sprintf("it has %d lines instead of %d", len(got), len(want))
}
