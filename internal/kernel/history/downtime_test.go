package history_test

import (
	"encoding/json"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

func TestDownSince(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 3, 1, 12, 0, s, 0, time.UTC) }
	for name, c := range map[string]struct {
		before agentkernel.KernelLife
		want   int
	}{
		"nothing is known":               {agentkernel.KernelLife{}, 10},
		"it died after the last entry":   {agentkernel.KernelLife{Began: at(5), Seen: at(20)}, 20},
		"it wrote nothing of it":         {agentkernel.KernelLife{Began: at(11), Seen: at(20)}, 10},
		"its last beat was before that":  {agentkernel.KernelLife{Began: at(5), Seen: at(9)}, 10},
		"its clock was ahead":            {agentkernel.KernelLife{Began: at(5), Seen: at(40)}, 10},
		"it died when it wrote it":       {agentkernel.KernelLife{Began: at(5), Seen: at(10)}, 10},
		"it began when it wrote it":      {agentkernel.KernelLife{Began: at(10), Seen: at(20)}, 20},
		"the process was taken up there": {agentkernel.KernelLife{Began: at(10), Seen: at(30)}, 30},
	} {
		e := history.Recovery(true, 7, c.before)
		e.At = at(30)
		if got := history.DownSince(&e, at(10)); !got.Equal(at(c.want)) {
			t.Errorf("%s: since %s, want %s", name, got, at(c.want))
		}
		if !json.Valid(e.Data) {
			t.Errorf("%s: %s", name, e.Data)
		}
	}
	for _, data := range []string{"", "null", "[1]", `{"before":7}`, `{"from_image":true,"kernel":7}`} { // also of earlier versions
		e := agentkernel.Entry{Kind: agentkernel.EntryRecover, At: at(30), Data: json.RawMessage(data)}
		if got := history.DownSince(&e, at(10)); !got.Equal(at(10)) {
			t.Errorf("%s: since %s", data, got)
		}
	}
}
