package history

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"agentkernel"
)

func TestCalls(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	sec := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	entries := []agentkernel.Entry{
		{Seq: 1, Kind: agentkernel.EntryCreated, At: at, Data: raw(`{"program":{"name":"x.py"},"allow":["a.*"]}`)},
		{Seq: 2, Kind: agentkernel.EntryCall, At: sec(1), Call: 1, Op: "time.now", Args: raw(`{}`), Done: true, Data: raw(`1.5`)},
		{Seq: 3, Kind: agentkernel.EntryCall, At: sec(2), Call: 2, Op: "tool.call", Args: raw(`{"arguments":{},"server":"a","tool":"b"}`), Async: true, Effect: agentkernel.EffectRead},
		{Seq: 4, Kind: agentkernel.EntryCall, At: sec(3), Call: 3, Op: "tool.call", Args: raw(`{"server":"a","tool":"c"}`)},
		{Seq: 5, Kind: agentkernel.EntryResult, At: sec(4), Call: 99, Data: raw(`1`)},
		{Seq: 6, Kind: agentkernel.EntryResult, At: sec(5), Call: 2, Err: &agentkernel.Error{Code: agentkernel.CodeTool, Err: errors.New("no")}, Note: "i1"},
		{Seq: 7, Kind: agentkernel.EntryResult, At: sec(6), Call: 2, Data: raw(`"late"`)},
	}
	got := Calls(entries)
	if len(got) != 3 {
		t.Fatalf("%d calls, want 3", len(got))
	}
	now, done, open := got[0], got[1], got[2]
	if !now.Instant() || now.Open() || now.Name() != "time.now" || string(now.Result) != "1.5" || now.Took(sec(60)) != 0 {
		t.Errorf("instant: %+v", now)
	}
	if done.Instant() || done.Open() || done.Name() != "a.b" || done.Err == nil || done.Result != nil || done.ResultSeq != 6 || done.Note != "i1" ||
		done.Took(sec(60)) != 3*time.Second || !done.Async {
		t.Errorf("answered: %+v", done)
	}
	if !open.Open() || open.Instant() || open.Took(sec(60)) != 57*time.Second {
		t.Errorf("open: %+v", open)
	}
	if spec, ok := Created(entries); !ok || spec.Allow[0] != "a.*" {
		t.Errorf("spec: %+v", spec)
	}
	if _, ok := Created(entries[1:]); ok {
		t.Error("a spec was found in the middle of a journal")
	}
}
