package kernel_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// TestWallsOfEndedProcesses: what stood around a process is known when it has ended, however it came to its end.
func TestWallsOfEndedProcesses(t *testing.T) {
	const sleeps = 10 * time.Second
	for name, c := range map[string]struct {
		park bool
		end  func(*testing.T, *rig, agentkernel.PID) *rig // nil: it comes to its end by itself
		runs bool                                         // and it is continued then, to its end
	}{
		"exited":                     {},
		"killed":                     {end: killed},
		"killed while parked":        {park: true, end: killed},
		"kernel died, continued":     {end: died, runs: true},
		"parked, died and continued": {park: true, end: died, runs: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rig{store: newRAMStore(), backend: newGoBackend(), tools: &fakeTools{}}
				walls := []agentkernel.Wall{{Name: "no network", On: true, How: "tested"}, {Name: "landlock", How: "this Linux has none"}}
				r.backend.walls = walls
				own := func(cfg *kernel.Config) {
					cfg.ParkAfter = time.Hour
					if c.park {
						cfg.ParkAfter = time.Second
					}
				}
				r = r.boot(t, r.store, own)
				r.backend.add("p", func(p *prog) error {
					_, err := p.call("time.sleep", `{"seconds":10}`)
					p.result = json.RawMessage("1")
					return err
				})
				p, err := r.Spawn(t.Context(), spec("p"))
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(sleeps / 2)
				if now, err := r.Process(t.Context(), p.PID); err != nil || now.Resident == c.park || !reflect.DeepEqual(now.Walls, walls) {
					t.Fatalf("while it runs: %+v %v", now, err)
				}
				if c.end != nil {
					if next := c.end(t, r, p.PID); c.runs {
						r = next.boot(t, next.store, own)
						if _, err := r.Recover(t.Context(), p.PID); err != nil {
							t.Fatal(err)
						}
					}
				}
				end, err := r.Wait(t.Context(), p.PID)
				if err != nil || !end.State.Terminal() {
					t.Fatalf("%+v %v", end, err)
				}
				later := (&rig{backend: r.backend, tools: r.tools}).boot(t, r.store.crash(), own)
				if got, err := later.Process(t.Context(), p.PID); err != nil || !reflect.DeepEqual(got.Walls, walls) {
					t.Errorf("what is kept: %+v %v", got, err)
				}
			})
		})
	}
}
