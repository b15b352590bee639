package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/internal/datadir"
)

// TestCallersWhoLoseTheirKernel: whoever follows a process when its kernel ends learns which one it is and how to continue it, and is
// not told to run the program again, which would do again what it did.
func TestCallersWhoLoseTheirKernel(t *testing.T) {
	const endless = "from kernel import sleep\nprint('begun')\nwhile True:\n    sleep(0.02)\n"
	ends := map[string]func(t *testing.T, v *victim, dir string){
		"killed": func(_ *testing.T, v *victim, _ string) { v.kill() },
		"shut down": func(t *testing.T, _ *victim, dir string) {
			d, err := datadir.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Stop(t.Context(), d.Socket()); err != nil {
				t.Fatal(err)
			}
		},
	}
	follows := map[string]func(ctx context.Context, k agentkernel.Kernel, pid agentkernel.PID, begun func(agentkernel.PID)) error{
		"run": func(ctx context.Context, k agentkernel.Kernel, _ agentkernel.PID, begun func(agentkernel.PID)) error {
			_, err := k.Run(ctx, program(endless), func(ev agentkernel.Event) error {
				if ev.Kind == agentkernel.EventOutput {
					begun(ev.PID)
				}
				return nil
			})
			return err
		},
		"wait": func(ctx context.Context, k agentkernel.Kernel, pid agentkernel.PID, begun func(agentkernel.PID)) error {
			begun(pid)
			_, err := k.Wait(ctx, pid)
			return err
		},
		"events": func(ctx context.Context, k agentkernel.Kernel, pid agentkernel.PID, begun func(agentkernel.PID)) error {
			return k.Events(ctx, pid, 1, true, func(agentkernel.Event) error {
				begun(pid)
				return nil
			})
		},
	}
	for how, end := range ends {
		for what, follow := range follows {
			t.Run(what+" "+how, func(t *testing.T) {
				t.Parallel()
				dir := home(t)
				v := startVictim(t, dir)
				k := v.client(t, dir)
				p, err := k.Spawn(t.Context(), program(endless))
				if err != nil {
					t.Fatal(err)
				}
				begun, failed := make(chan agentkernel.PID, 1), make(chan error, 1)
				go func() {
					failed <- follow(t.Context(), k, p.PID, func(pid agentkernel.PID) {
						select {
						case begun <- pid:
						default:
						}
					})
				}()
				pid := <-begun
				end(t, v, dir)
				e := agentkernel.AsError(<-failed, "", "")
				if e == nil || e.Code != agentkernel.CodeUnavailable || e.PID != pid || !strings.Contains(e.Hint, fmt.Sprintf("agentkernel recover %d", pid)) ||
					strings.Contains(e.Hint, "run the command again") {
					t.Errorf("process %d: %+v", pid, e)
				}
			})
		}
	}
}
