package sqlite

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"agentkernel"
)

// TestOutline: who counts reads no payload, so that none can be lost to it; all else of an entry is there.
func TestOutline(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pid := newPID(s)
	large, err := json.Marshal(strings.Repeat("x", 200_000))
	if err != nil {
		t.Fatal(err)
	}
	written := []agentkernel.Entry{
		{PID: pid, Seq: 1, Kind: agentkernel.EntryCreated, Data: json.RawMessage(`{}`)},
		{PID: pid, Seq: 2, Kind: agentkernel.EntryCall, Call: 1, Op: "llm.ask", Effect: agentkernel.EffectPaid, Args: large, Reserve: agentkernel.Amounts{"usd": 7}},
		{PID: pid, Seq: 3, Kind: agentkernel.EntryResult, Call: 1, Data: large, Settle: agentkernel.Amounts{"usd": 5, "tokens": 2}},
		{PID: pid, Seq: 4, Kind: agentkernel.EntryResult, Call: 2, Err: agentkernel.Errorf(agentkernel.CodeTool, "x", "bad")},
	}
	rec := agentkernel.ProcessRecord{Process: agentkernel.Process{PID: pid, Namespace: "n", Name: "p", State: agentkernel.StateUnfinished}}
	for i := range written {
		written[i].WriteNote()
	}
	pos, err := s.Append(agentkernel.Batch{Entries: written, Process: &rec})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context(), pos); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(cfg.Blobs); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Entries(t.Context(), pid, 1, 0); err == nil {
		t.Fatal("the payloads are not gone")
	}
	r := mustRead(t, cfg)
	for name, outline := range map[string]agentkernel.Outliner{"store": s, "reader": r} {
		list, err := outline.Outline(t.Context(), pid, 2, 2)
		if err != nil || len(list) != 2 || list[0].Seq != 2 || len(list[0].Args) != 0 || len(list[1].Data) != 0 {
			t.Fatalf("%s: %+v, %v", name, list, err)
		}
		if list[0].Op != "llm.ask" || list[0].Effect != agentkernel.EffectPaid || list[0].Call != 1 || list[0].Reserve["usd"] != 7 || list[1].Settle["tokens"] != 2 {
			t.Errorf("%s: %+v", name, list)
		}
		list, err = outline.Outline(t.Context(), pid, 4, 0)
		if err != nil || len(list) != 1 || list[0].Err == nil || list[0].Err.Code != agentkernel.CodeTool {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
}
