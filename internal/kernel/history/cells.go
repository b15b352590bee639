package history

import (
	"context"
	"encoding/json"

	"agentkernel"
)

// Handed is a cell that a session was handed.
type Handed struct {
	Seq         int64 // of the entry that has it
	Next        int64 // the proc.next that was answered with it
	Source, Key string
	Aborted     bool
}

// Cells lists the cells that a session was handed, in their order.
func Cells(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID) ([]Handed, error) {
	var cells []Handed
	asked := map[int64]bool{}
	err := Each(ctx, store, pid, 1, func(e *agentkernel.Entry) error {
		switch {
		case e.Kind == agentkernel.EntryAborted:
			for i := range cells {
				cells[i].Aborted = cells[i].Aborted || cells[i].Next == e.Call
			}
		case AsksForCell(e):
			asked[e.Call] = true
		case e.Kind == agentkernel.EntryResult && asked[e.Call] && e.Err == nil:
			var next agentkernel.NextCell
			if json.Unmarshal(e.Data, &next) == nil && !next.End {
				cells = append(cells, Handed{Seq: e.Seq, Next: e.Call, Source: next.Cell.Source, Key: next.Cell.Key})
			}
		}
		return nil
	})
	return cells, err
}
