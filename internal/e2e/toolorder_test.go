package e2e_test

import (
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
)

// TestImagesOfProgramsWithTheSameTools: a parked process goes on from its image although another program, which imports
// the same tools in another order, has just begun.
func TestImagesOfProgramsWithTheSameTools(t *testing.T) {
	dir := home(t)
	far := &book{lines: map[string]int{}}
	config := func(c *embedded.Config) {
		c.ParkAfter = time.Millisecond
		c.Tools = func([]string) (agentkernel.ToolSource, error) { return far, nil }
	}
	s := program("from tools.book import write, count\nfrom kernel import sleep\ntry:\n    sleep(3600)\nexcept KeyboardInterrupt:\n    print('awake')")
	s.Tools = []string{"/book.json"}
	k := openEmbedded(t, dir, config)
	p, err := k.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is parked", func() bool {
		p, err := k.Process(t.Context(), p.PID)
		return err == nil && p.State == agentkernel.StateWaiting && !p.Resident
	})
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k = openEmbedded(t, dir, config)
	other := program("from tools.book import count, write\nprint(1)")
	other.Tools = s.Tools
	run(t, k, other)
	if _, err := k.Recover(t.Context(), p.PID); err != nil {
		t.Fatal(err)
	}
	if err := k.Signal(t.Context(), p.PID, agentkernel.SignalInterrupt); err != nil {
		t.Fatal(err)
	}
	if end, err := k.Wait(t.Context(), p.PID); err != nil || end.State != agentkernel.StateExited || stdoutOf(t, k, p.PID) != "awake\n" {
		t.Errorf("it ended as %s: %v %v", end.State, end.Error, err)
	}
}
