package why

import (
	"encoding/json"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// A process that slept when its kernel was killed was asleep until then: the time without a kernel begins with the kernel's last sign of
// life, for one that was taken up again and for one that waits for it.
func TestTheTimeWithoutAKernel(t *testing.T) {
	t0 := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	life := agentkernel.KernelLife{Began: t0.Add(-time.Minute), Seen: at(2)}
	entries := []agentkernel.Entry{
		{PID: 1, Seq: 1, Kind: agentkernel.EntryCreated, At: t0, Data: json.RawMessage(`{}`)},
		{PID: 1, Seq: 2, Kind: agentkernel.EntryCall, Call: 1, Op: "time.sleep", At: t0, Args: json.RawMessage(`{"seconds":20}`), Effect: agentkernel.EffectPure},
	}
	p := agentkernel.Process{PID: 1, State: agentkernel.StateUnfinished, Created: t0}
	want := Split{Total: 12 * time.Second, Asleep: 2 * time.Second, Stopped: 10 * time.Second}
	check := func(in Input, want Split) {
		t.Helper()
		got := Of(in).Time
		if got.Total != want.Total || got.Asleep != want.Asleep || got.Stopped != want.Stopped || got.Running+got.Queued != 0 {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	check(Input{Process: p, Entries: entries, Now: at(12), Before: life}, want)
	recovery := history.Recovery(false, 7, life)
	recovery.PID, recovery.Seq, recovery.At = 1, 3, at(12)
	p.State = agentkernel.StateWaiting
	want.Total, want.Asleep = 15*time.Second, 5*time.Second
	check(Input{Process: p, Entries: append(entries, recovery), Now: at(15)}, want)
	want.Asleep, want.Stopped = 3*time.Second, 12*time.Second // of a kernel that nothing is known of
	recovery = history.Recovery(false, 7, agentkernel.KernelLife{})
	recovery.PID, recovery.Seq, recovery.At = 1, 3, at(12)
	check(Input{Process: p, Entries: append(entries, recovery), Now: at(15)}, want)
}
