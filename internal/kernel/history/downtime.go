package history

import (
	"encoding/json"
	"fmt"
	"time"

	"agentkernel"
)

// Recovery is the entry with which a kernel takes up a process again. before is the kernel that had the data directory before it.
func Recovery(fromImage bool, osPID int, before agentkernel.KernelLife) agentkernel.Entry {
	data := fmt.Appendf(nil, `{"from_image":%t,"kernel":%d`, fromImage, osPID)
	if text, err := json.Marshal(before); err == nil && !before.Began.IsZero() {
		data = append(append(data, `,"before":`...), text...)
	}
	return agentkernel.Entry{Kind: agentkernel.EntryRecover, Data: append(data, '}')}
}

// DownSince is since when no kernel had carried on the process that the entry e takes up again. last is the time of the entry before.
func DownSince(e *agentkernel.Entry, last time.Time) time.Time {
	var d struct {
		Before agentkernel.KernelLife `json:"before"`
	}
	if json.Unmarshal(e.Data, &d) != nil {
		return last
	}
	return Down(d.Before, last, e.At)
}

// Down is since when no kernel carries on a process whose last entry is of the time last, at the time now, where life is the last
// kernel's. One that wrote nothing of the process may not have carried it on: then nothing is known but the last entry.
func Down(life agentkernel.KernelLife, last, now time.Time) time.Time {
	if life.Began.IsZero() || last.Before(life.Began) || life.Seen.Before(last) || life.Seen.After(now) {
		return last
	}
	return life.Seen
}
