package mcpserver

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
)

// refusing is a kernel that is ending, after another died while it ran a process.
type refusing struct {
	agentkernel.Kernel
	refusals int // of what is asked of it
	lists    int
}

func (k *refusing) refuse() error {
	if k.refusals == 0 {
		return nil
	}
	k.refusals--
	return errNoKernel
}

func (k *refusing) Run(_ context.Context, _ agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
	p := agentkernel.Process{PID: 3, State: agentkernel.StateUnfinished}
	return p, fn(agentkernel.Event{PID: 3, Kind: agentkernel.EventCreated, Process: &p})
}

func (k *refusing) Recover(context.Context, agentkernel.PID) ([]agentkernel.Process, error) {
	return nil, k.refuse()
}

func (k *refusing) Process(context.Context, agentkernel.PID) (agentkernel.Process, error) {
	return agentkernel.Process{PID: 3, State: agentkernel.StateUnfinished}, k.refuse()
}

func (k *refusing) List(context.Context, agentkernel.Filter) ([]agentkernel.Process, error) {
	k.lists++
	return []agentkernel.Process{{PID: 3}}, k.refuse()
}

// What is refused by a kernel that ends, about a program that was begun, is no error of a request of which nothing was done: its client is
// told to make the same call again.
func TestAKernelThatEndsRefusesToContinue(t *testing.T) {
	k := &refusing{refusals: 1}
	c := &call{h: &server{cfg: Config{Kernel: k, Now: time.Now}}, client: &client{here: t.Context()}, req: &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{}}}
	_, err := c.runOnce(t.Context(), &attempt{key: "k", given: true}, agentkernel.Spec{}, time.Minute)
	if e := agentkernel.AsError(err, "", ""); e == nil || !agentkernel.KernelGone(e) || !strings.HasPrefix(e.Hint, sameCall) || strings.Contains(e.TextFor(agentkernel.OverMCP), "would do again") {
		t.Errorf("%v: %+v", err, e)
	}

	k.refusals = 2
	if p, err := c.holder(t.Context(), "k"); err != nil || p == nil || p.PID != 3 || k.lists != 3 {
		t.Errorf("whose key it is, after two kernels that end: %v %v, asked %d times", p, err, k.lists)
	}
}
