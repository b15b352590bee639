package monty

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"agentkernel"
)

// struck is a worker behind what passes for walls, which somebody kills at once.
type struck struct{ body }

// first starts the worker that decides about walls. fate says what becomes of the nth behind them: "" nothing.
func first(t *testing.T, fate func(n int) string) (decided bool, walled bool, tries int, err error) {
	t.Helper()
	b := newBackend(t, func(c *Config) { c.Spare = -1 })
	w := newWalls(&b.cfg)
	w.decision.Store(nil) // as with a spawner
	stand := w.plainFor(agentkernel.Errorf(agentkernel.CodeUnavailable, "test", "these are the walls"))
	w.behind = func(ctx context.Context, engine string, in, out *os.File, said io.Writer, wall uint64) (body, error) {
		tries++
		switch fate(tries) {
		case "refused":
			return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "test", "no namespaces")
		case "dies":
			engine = "/bin/false"
		case "killed":
			made, err := stand(ctx, engine, in, out, said, wall)
			if err == nil {
				made.kill()
			}
			return &struck{made}, err
		}
		return stand(ctx, engine, in, out, said, wall)
	}
	wk, err := w.start(t.Context(), enginePath(t), spareSettings(), func(*worker) {})
	d := w.decision.Load()
	if err == nil {
		wk.kill(errRetired)
		<-wk.buried
		wk.closePipes()
	}
	return d != nil, d != nil && d.problem == nil, tries, err
}

// TestFirstWorker: walls are given up where they cannot stand, not where somebody killed the first worker: out of memory, say.
func TestFirstWorker(t *testing.T) {
	always := func(what string) func(int) string { return func(int) string { return what } }
	until := func(n int, what string) func(int) string {
		return func(i int) string {
			if i < n {
				return what
			}
			return ""
		}
	}
	for name, c := range map[string]struct {
		fate            func(int) string
		decided, walled bool
		tries           int
	}{
		"good":             {always(""), true, true, 1},
		"refused":          {always("refused"), true, false, 1},
		"killed once":      {until(2, "killed"), true, true, 2},
		"killed each time": {always("killed"), false, false, 3},
		"dies once":        {until(2, "dies"), true, true, 2},
		"dies each time":   {always("dies"), true, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			decided, walled, tries, err := first(t, c.fate)
			if decided != c.decided || walled != c.walled || tries != c.tries {
				t.Errorf("decided %v, walled %v after %d tries; want %v, %v, %d (%v)", decided, walled, tries, c.decided, c.walled, c.tries, err)
			}
			if (err == nil) != c.decided || err != nil && (agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || !strings.Contains(err.Error(), "stopped")) {
				t.Errorf("%v", err)
			}
		})
	}
}
