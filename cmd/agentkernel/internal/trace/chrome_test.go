package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/journaltest"
)

// repaired is a run that was cut off, decided about, and is paused with calls under way.
func repaired() *Tree {
	j := newJournal(5).kind(agentkernel.EntryCreated, `{}`)
	j.after(time.Millisecond).call(1, "tool.call", agentkernel.EffectWrite, file("a"))
	j.after(time.Second).kind(agentkernel.EntryRecover, `{"from_image":false}`)
	j.put(agentkernel.Entry{Kind: agentkernel.EntryPaused, Call: 1, Note: "the outcome of call 1 is unknown"})
	j.after(time.Minute).put(agentkernel.Entry{Kind: agentkernel.EntryResolve, Call: 1, Note: "retry"})
	j.kind(agentkernel.EntryResumed, ``).put(agentkernel.Entry{Kind: agentkernel.EntryRetry, Call: 1})
	j.after(time.Second).result(1, `true`)
	j.async(2, "tool.call", agentkernel.EffectRead, file("b"))
	j.async(3, "tool.call", agentkernel.EffectRead, file("c"))
	j.put(agentkernel.Entry{Kind: agentkernel.EntrySignal, Note: "pause"}).put(agentkernel.Entry{Kind: agentkernel.EntryPaused})
	return j.tree(agentkernel.Process{Name: "x\x1b.py", State: agentkernel.StateUnfinished, Paused: true,
		WaitsFor: []string{"tool.call filesystem.read_text_file", "tool.call filesystem.read_text_file", "tool.call github.create"}})
}

// rerun is a run whose first call was answered from the journal of another.
func rerun() *Tree {
	j := newJournal(6).kind(agentkernel.EntryCreated, `{}`)
	j.put(agentkernel.Entry{Kind: agentkernel.EntryCall, Call: 1, Op: "tool.call", Effect: agentkernel.EffectRead, Args: json.RawMessage(file("a")),
		Done: true, Data: json.RawMessage(`"1,2"`), Note: "from pid 5 call 1"})
	j.after(time.Millisecond).put(agentkernel.Entry{Kind: agentkernel.EntryPast, Call: 2, Note: "1 call taken over; call 2 is another one"})
	j.call(2, "tool.call", agentkernel.EffectRead, file("b")).after(time.Millisecond).result(2, `"3"`)
	return j.kind(agentkernel.EntryTerminal, `{"state":"exited"}`).tree(agentkernel.Process{Name: "x.py", State: agentkernel.StateExited})
}

// checkChrome holds a file against what viewers need: known phases with their members, a name for each process and
// line, and on each line stretches that are inside one another or apart.
func checkChrome(t *testing.T, data []byte) map[string]int {
	t.Helper()
	var f struct {
		TraceEvents     []map[string]any
		DisplayTimeUnit string
	}
	if err := json.Unmarshal(data, &f); err != nil || f.DisplayTimeUnit != "ms" {
		t.Fatalf("no trace file: %v", err)
	}
	type stretch struct{ from, to float64 }
	lines, named, phases := map[string][]stretch{}, map[string]bool{}, map[string]int{}
	number := func(e map[string]any, member string) float64 {
		v, ok := e[member].(float64)
		if !ok || v < 0 || v != float64(int64(v)) {
			t.Fatalf("%s of %v is no whole number from 0", member, e)
		}
		return v
	}
	for _, e := range f.TraceEvents {
		line := fmt.Sprintf("%v/%v", number(e, "pid"), number(e, "tid"))
		phases[e["ph"].(string)]++
		switch e["ph"] {
		case "X":
			s := stretch{number(e, "ts"), number(e, "ts") + number(e, "dur")}
			for _, o := range lines[line] {
				apart := s.from >= o.to || s.to <= o.from
				inside := s.from >= o.from && s.to <= o.to || o.from >= s.from && o.to <= s.to
				if !apart && !inside {
					t.Errorf("%v overlaps %v on line %s: %v", s, o, line, e)
				}
			}
			lines[line] = append(lines[line], s)
		case "i":
			number(e, "ts")
			if e["s"] != "p" {
				t.Errorf("an instant without scope: %v", e)
			}
		case "M":
			named[line] = true
		default:
			t.Errorf("phase %v", e["ph"])
		}
		if e["name"] == "" {
			t.Errorf("no name: %v", e)
		}
	}
	for line := range lines {
		if !named[line] {
			t.Errorf("line %s has no name", line)
		}
	}
	return phases
}

func TestChrome(t *testing.T) {
	for name, tree := range map[string]*Tree{"story": story(), "repaired": repaired(), "unfinished": unfinished(), "rerun": rerun(), "empty": newJournal(3).tree(agentkernel.Process{Name: "x.py"})} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Chrome(&b, tree, Options{Now: start.Add(time.Hour)}); err != nil {
				t.Fatal(err)
			}
			phases := checkChrome(t, b.Bytes())
			if len(tree.Entries) > 0 && (phases["X"] < 2 || phases["M"] < 2) {
				t.Errorf("phases %v", phases)
			}
			if bytes.Contains(b.Bytes(), []byte("\x1b")) || strings.Contains(b.String(), `\u001b`) {
				t.Error("an escape sequence of a program is in the file")
			}
			golden(t, name+".chrome.json", strings.ReplaceAll(b.String(), "},{\"name\"", "},\n{\"name\""))
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	journaltest.Golden(t, *update, name, got)
}

func TestOpenWaits(t *testing.T) {
	tree := story()
	tree.Children[13].Process.State = agentkernel.StateWaiting
	tree.Children[13].Entries = unfinished().Entries
	if list := OpenWaits(tree, start.Add(time.Minute)); len(list) != 1 || list[0].PID != 13 || list[0].Call != 1 {
		t.Errorf("of a child: %+v", list)
	}
	list := OpenWaits(repaired(), start.Add(2*time.Minute))
	golden(t, "open.txt", OpenText(list))
	if len(list) != 3 || list[0].Held || !list[2].Held || list[2].What != "github.create" || list[0].Waited < 50*time.Second {
		t.Errorf("%+v", list)
	}
	asked := newJournal(7).kind(agentkernel.EntryCreated, `{}`).call(1, "llm.ask", agentkernel.EffectPaid, `{"prompt":"x"}`).
		call(2, "proc.wait", agentkernel.EffectPure, `{"pid":8}`).tree(agentkernel.Process{State: agentkernel.StateWaiting, WaitsFor: []string{
		"llm.ask fast, no answer yet, connection refused, tried 3 times, again in 0.7 s", "proc.wait 8", agentkernel.ItsServers}})
	if text := OpenText(OpenWaits(asked, start.Add(time.Second))); strings.Contains(text, "let through") || strings.Count(text, "\n") != 4 ||
		!strings.Contains(text, `llm.ask(prompt="x")  (no answer yet, connection refused, tried 3 times, again in 0.7 s)`) {
		t.Errorf("calls that the journal has:\n%s", text)
	}
	if list := OpenWaits(newJournal(3).tree(agentkernel.Process{}), start); list == nil || len(list) != 0 {
		t.Errorf("of nothing: %v", list)
	}
}
