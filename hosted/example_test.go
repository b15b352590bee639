package hosted_test

import (
	"context"
	"fmt"
	"sync"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/hosted"
)

// Three goroutines are one process: its calls are journalled, and the program may be run again after a crash as if nothing had been.
func Example() {
	ctx := context.Background()
	k, err := client.Dial(ctx, client.Options{Socket: "/run/agentkernel/kernel.sock", AnyVersion: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	spec := agentkernel.Spec{Program: agentkernel.Program{Name: "researcher"}, IdempotencyKey: "researcher-7", Budget: agentkernel.Budget{Calls: 100}}
	p, err := hosted.Run(ctx, k, spec, func(ctx context.Context, p *hosted.Process) (any, error) {
		pages := make([]string, 3)
		var group sync.WaitGroup
		for i := range pages {
			lane := hosted.Branch(ctx) // here, and not in the goroutine
			group.Go(func() {
				args := map[string]any{"server": "files", "tool": "read_file", "arguments": map[string]any{"path": fmt.Sprintf("page%d.txt", i)}}
				if err := p.Call(lane, "tool.call", args, &pages[i]); err != nil {
					pages[i] = err.Error()
				}
			})
		}
		group.Wait()
		return pages, nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.State, string(p.Result))
}
