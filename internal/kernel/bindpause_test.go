package kernel_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// slowServer is asked for its tools and answers when the test says so.
type slowServer struct {
	*fakeTools
	answers chan error
}

func (s *slowServer) Tools(ctx context.Context, server string) ([]agentkernel.Tool, error) {
	if err := <-s.answers; err != nil {
		return nil, err
	}
	return s.fakeTools.Tools(ctx, server)
}

// waitsForServer starts a program whose server has been asked and has not answered.
func waitsForServer(t *testing.T) (*slowServer, *rig, agentkernel.Process) {
	t.Helper()
	src := &slowServer{&fakeTools{}, make(chan error)}
	r := newRig(t, newRAMStore(), func(c *kernel.Config) {
		c.Tools = toolsOf(func([]string) (agentkernel.ToolSource, error) { return src, nil })
	})
	r.backend.add("p", func(p *prog) error { p.print("ran\n"); return nil }, agentkernel.ToolRef{Server: "fake", Name: "append"})
	p, err := r.Spawn(t.Context(), spec("p"))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return src, r, p
}

// A server may take long to start. Meanwhile its programs say what they wait for, a pause takes effect at once, and a server that
// does not start in the end fails no program that is paused: it is asked again when the program goes on.
func TestAPauseWhileAServerStarts(t *testing.T) {
	late := agentkernel.Errorf(agentkernel.CodeTimeout, "tool.start", `server "fake" did not answer the handshake within 20s`)
	for name, first := range map[string]error{"it starts": nil, "it does not": late} {
		synctest.Test(t, func(t *testing.T) {
			src, r, p := waitsForServer(t)
			if now, err := r.Process(t.Context(), p.PID); err != nil || !slices.Equal(now.WaitsFor, []string{agentkernel.ItsServers}) ||
				!slices.Equal(now.WakeCauses(), []string{agentkernel.ItsServers}) {
				t.Errorf("%s: it waits for %v, causes %v, %v", name, now.WaitsFor, now.WakeCauses(), err)
			}
			waited := make(chan agentkernel.Process, 1)
			go func() {
				p, _ := r.Wait(context.Background(), p.PID)
				waited <- p
			}()
			synctest.Wait()
			if err := r.Signal(t.Context(), p.PID, agentkernel.SignalPause); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			select {
			case now := <-waited:
				if !now.Paused {
					t.Errorf("%s: %+v", name, now)
				}
			default:
				t.Errorf("%s: the pause has no effect before the server has answered", name)
			}
			src.answers <- first
			synctest.Wait()
			note := "" // what came of the servers meanwhile is what whoever resumes it has to know
			if first != nil {
				note = "by hand; " + agentkernel.AsError(first, "", "").Message()
			}
			if now, err := r.Process(t.Context(), p.PID); err != nil || now.State != agentkernel.StateWaiting || !now.Paused || now.PauseNote != note {
				t.Errorf("%s: %s, paused %t, %q, %v", name, now.State, now.Paused, now.PauseNote, err)
			}
			if err := r.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
				t.Fatal(err)
			}
			if first != nil {
				src.answers <- nil
			}
			if end, err := r.Wait(t.Context(), p.PID); err != nil || end.State != agentkernel.StateExited {
				t.Errorf("%s: %+v, %v", name, end, err)
			}
		})
	}
}

// A hold does the same.
func TestAHaltWhileAServerStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, r, p := waitsForServer(t)
		if err := r.Halt(t.Context(), agentkernel.Hold{Tree: p.PID}); err != nil {
			t.Fatal(err)
		}
		src.answers <- agentkernel.Errorf(agentkernel.CodeTimeout, "tool.start", `server "fake" did not answer the handshake within 20s`)
		synctest.Wait()
		if now, err := r.Process(t.Context(), p.PID); err != nil || now.State != agentkernel.StateWaiting || now.Halted == "" || now.Paused {
			t.Errorf("%s, halted by %q, paused %t, %v", now.State, now.Halted, now.Paused, err)
		}
		if err := r.Thaw(t.Context(), agentkernel.Hold{Tree: p.PID}); err != nil {
			t.Fatal(err)
		}
		src.answers <- nil
		if end, err := r.Wait(t.Context(), p.PID); err != nil || end.State != agentkernel.StateExited {
			t.Errorf("%+v, %v", end, err)
		}
	})
}
