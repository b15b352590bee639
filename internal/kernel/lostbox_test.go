package kernel_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/fastpath"
	"agentkernel/internal/kernel"
)

// mortal is a backend whose sandboxes die where their programs say so, as if somebody had killed them.
type mortal struct{ *goBackend }

func (b *mortal) Start(ctx context.Context, req agentkernel.StartRequest) (agentkernel.Sandbox, error) {
	box, err := b.goBackend.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return &mortalBox{box.(*goSandbox)}, nil
}

type mortalBox struct{ *goSandbox }

func (s *mortalBox) Next(ctx context.Context, reply *agentkernel.Reply) (agentkernel.Turn, error) {
	turn, err := s.goSandbox.Next(ctx, reply)
	if err == nil && turn.Kind == agentkernel.TurnFail && strings.Contains(turn.Err.Message(), "struck") {
		_ = s.Close()
		return agentkernel.Turn{Kind: agentkernel.TurnLost, Err: agentkernel.Errorf(agentkernel.CodeCrashed, "go", "the sandbox was killed")}, nil
	}
	return turn, err
}

var errStruck = agentkernel.Errorf(agentkernel.CodeProgram, "program", "struck")

// TestSandboxIsKilled: a process whose sandbox was killed begins again and does nothing twice, with what is under way outside
// going on. One that comes no further ends as crashed, and so does one that cannot be repeated.
func TestSandboxIsKilled(t *testing.T) {
	for name, c := range map[string]struct {
		deaths   int // of the program, at the end of each round
		progress bool
		noImages bool
		script   bool
		begun    int
		crashed  string
	}{
		"once":                  {deaths: 1, begun: 2},
		"thrice":                {deaths: 3, begun: 4},
		"too often":             {deaths: 99, begun: 4, crashed: "the sandbox was killed (it began again 3 times, and each time it came no further)"},
		"often, coming further": {deaths: 20, progress: true, begun: 21},
		"no images":             {deaths: 3, noImages: true, begun: 4},
		"it cannot be repeated": {deaths: 1, script: true, begun: 1, crashed: "the sandbox was killed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rig{store: newRAMStore(), backend: newGoBackend(), tools: &fakeTools{}}
				r.backend.noImages = c.noImages
				r = r.boot(t, r.store, func(cfg *kernel.Config) {
					cfg.Backends, cfg.ParkAfter = []agentkernel.Backend{&mortal{r.backend}}, time.Hour // a wake from an image would count as a beginning
				})
				begun := 0
				r.backend.add("p", func(p *prog) error {
					begun++
					p.print("begin ")
					under := p.async("time.sleep", `{"seconds":60}`)
					if _, err := p.call("tool.call", callTool("append", `{"n":1}`)); err != nil {
						return err
					}
					for i := 1; c.progress && i < begun; i++ {
						if _, err := p.call("time.now", `{}`); err != nil {
							return err
						}
					}
					if begun <= c.deaths {
						return errStruck
					}
					if _, err := p.call("tool.call", callTool("append", `{"n":2}`)); err != nil {
						return err
					}
					_, err := p.wait(under)
					p.print("end")
					return err
				})
				s := spec("p")
				if c.script {
					s.Program.Language = agentkernel.Script
				}
				start := time.Now()
				p, out := r.run(t, s)
				if begun != c.begun {
					t.Errorf("it began %d times, want %d", begun, c.begun)
				}
				if c.crashed != "" {
					if p.State != agentkernel.StateFailed || p.Error.Code != agentkernel.CodeCrashed || p.Error.Message() != c.crashed {
						t.Errorf("%+v, error %v", p, p.Error)
					}
					return
				}
				if p.State != agentkernel.StateExited || out != "begin end" || len(r.tools.lines) != 2 {
					t.Errorf("%+v, error %v; printed %q, tools were called %v", p, p.Error, out, r.tools.lines)
				}
				if took := time.Since(start); took != time.Minute {
					t.Errorf("what was under way did not go on: it took %s", took)
				}
			})
		})
	}
}

// StartNow has none at hand.
func (b *mortal) StartNow(agentkernel.StartRequest) fastpath.Sandbox { return nil }
