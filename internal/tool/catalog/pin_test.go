package catalog_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
)

const (
	read, idempotent, writes = agentkernel.EffectRead, agentkernel.EffectIdempotent, agentkernel.EffectWrite
)

// TestAChangedToolKeepsTheStricterEffect: what a server says of a tool after it was accepted can make the tool stricter,
// and never milder. No catalog is closed: the kernels are killed.
func TestAChangedToolKeepsTheStricterEffect(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)
	other := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"to":{"type":"string"}}}`)
	for name, c := range map[string]struct {
		was, now agentkernel.Tool
		effect   agentkernel.Effect
		refused  bool
		what     string
		diff     string
	}{
		"a write that calls itself read-only":  {agentkernel.Tool{Effect: writes}, agentkernel.Tool{Effect: read}, writes, true, "effect", "effect: write -> read"},
		"a write that calls itself idempotent": {agentkernel.Tool{Effect: writes}, agentkernel.Tool{Effect: idempotent}, writes, true, "effect", "effect: write -> idempotent"},
		"an idempotent one, read-only":         {agentkernel.Tool{Effect: idempotent}, agentkernel.Tool{Effect: read}, idempotent, true, "effect", ""},
		"annotations that were removed":        {agentkernel.Tool{Effect: read}, agentkernel.Tool{Effect: writes}, writes, true, "effect", "effect: read -> write"},
		"a write with another description": {agentkernel.Tool{Effect: writes, Description: "Write."}, agentkernel.Tool{Effect: writes, Description: "Write. Mail it."},
			writes, true, "description", "description:\n- Write.\n+ Write. Mail it."},
		"a reader with another description": {agentkernel.Tool{Effect: read, Description: "Read."}, agentkernel.Tool{Effect: read, Description: "Read.\nMail it."},
			read, false, "description", "description:\n+ Mail it."},
		"a write with another argument": {agentkernel.Tool{Effect: writes, InputSchema: schema}, agentkernel.Tool{Effect: writes, InputSchema: other}, writes, true, "input_schema", `+     "to": {`},
		"a write with another result":   {agentkernel.Tool{Effect: writes}, agentkernel.Tool{Effect: writes, OutputSchema: schema}, writes, true, "output_schema", `+   "type": "object"`},
		"a write with another title":    {agentkernel.Tool{Effect: writes, Title: "A"}, agentkernel.Tool{Effect: writes, Title: "B"}, writes, true, "title", "title:\n- A\n+ B"},
		"two changes": {agentkernel.Tool{Effect: writes, Description: "Write."}, agentkernel.Tool{Effect: read, Description: "Look."}, writes, true, "effect description",
			"effect: write -> read\ndescription:\n- Write.\n+ Look."},
		"none": {agentkernel.Tool{Effect: writes, Description: "Write."}, agentkernel.Tool{Effect: writes, Description: "Write."}, writes, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newServers(), t.TempDir()
			c.was.Name, c.now.Name = "save", "save"
			s.put("fs", c.was)
			if tool := open(t, s, dir).tool("fs", 0); tool.Changed != nil || tool.Effect != c.was.Effect || tool.Refused() {
				t.Fatalf("at first sight: %+v", tool)
			}
			s.put("fs", agentkernel.Tool{Name: "stat", Effect: read}) // it vanishes for a while, which is no way out
			open(t, s, dir).tool("fs", 0)
			s.put("fs", c.now)
			r := open(t, s, dir)
			for range 2 { // and in the next kernel
				tool := r.tool("fs", 0)
				what, diff := "", ""
				if tool.Changed != nil {
					what, diff = strings.Join(tool.Changed.What, " "), tool.Changed.Diff
				}
				if tool.Effect != c.effect || tool.Refused() != c.refused || what != c.what || !strings.Contains(diff, c.diff) {
					t.Errorf("%s, refused %t, changed %q:\n%s", tool.Effect, tool.Refused(), what, diff)
				}
				if _, m := r.search(agentkernel.ToolQuery{Server: "fs"}); m.Tools[0].Effect != c.effect || (m.Tools[0].Changed != nil) != (what != "") {
					t.Errorf("a search says %+v", m.Tools[0])
				}
				r = open(t, s, dir)
			}
			n, err := r.src.(agentkernel.ToolPinner).AcceptTools(t.Context(), "fs")
			if want := len(c.what); err != nil || (n == 0) != (want == 0) {
				t.Errorf("%d accepted, %v", n, err)
			}
			if tool := open(t, s, dir).tool("fs", 0); tool.Changed != nil || tool.Effect != c.now.Effect || tool.Refused() {
				t.Errorf("once it is accepted: %+v", tool)
			}
		})
	}
}

// TestANewToolOfAKnownServerCountsAsAWrite: a tool that was refused could come back under another name.
func TestANewToolOfAKnownServerCountsAsAWrite(t *testing.T) {
	s, dir := newServers(), t.TempDir()
	s.put("fs", agentkernel.Tool{Name: "save-file", Effect: writes}, agentkernel.Tool{Name: "stat", Effect: read})
	open(t, s, dir).tool("fs", 0)
	s.put("fs", agentkernel.Tool{Name: "look", Effect: read}, agentkernel.Tool{Name: "save_file", Effect: read},
		agentkernel.Tool{Name: "drop", Effect: writes}, agentkernel.Tool{Name: "stat", Effect: read})
	r := open(t, s, dir)
	for range 2 {
		for at, want := range []string{"look write [new] false", "save_file write [effect name] true", "drop write [] false", "stat read [] false"} {
			tool := r.tool("fs", at)
			what := []string{}
			if tool.Changed != nil {
				what = tool.Changed.What
			}
			if got := fmt.Sprint(tool.Name, " ", tool.Effect, " ", what, " ", tool.Refused()); got != want {
				t.Errorf("%s, want %s: %+v", got, want, tool.Changed)
			}
		}
		r = open(t, s, dir)
	}
	if n, err := r.src.(agentkernel.ToolPinner).AcceptTools(t.Context(), "fs", "look"); n != 1 || err != nil {
		t.Errorf("accepted %d %v", n, err)
	}
	if look, other := r.tool("fs", 0), r.tool("fs", 1); look.Effect != read || look.Changed != nil || !other.Refused() {
		t.Errorf("once it is accepted: %+v, and the other %+v", look, other)
	}
	s.put("fs", agentkernel.Tool{Name: "drop", Effect: read})
	if tool := r.tool("fs", 0); tool.Effect != writes || !tool.Refused() {
		t.Errorf("a new one that becomes milder: %+v", tool)
	}
}

// TestAnotherEntryIsTheUsersAct: a server that the user configures in another way is first seen again.
func TestAnotherEntryIsTheUsersAct(t *testing.T) {
	s, dir := newServers(), t.TempDir()
	s.prints = map[string]string{"fs": "1"}
	s.put("fs", agentkernel.Tool{Name: "save", Effect: writes}, agentkernel.Tool{Name: "gone", Effect: writes})
	open(t, s, dir).tool("fs", 0)
	s.put("fs", agentkernel.Tool{Name: "save", Effect: read, Description: "Other."}, agentkernel.Tool{Name: "more", Effect: read})
	s.prints["fs"] = "2"
	r := open(t, s, dir)
	for at := range 2 {
		if tool := r.tool("fs", at); tool.Changed != nil || tool.Effect != read {
			t.Errorf("%+v", tool)
		}
	}
	s.put("fs", agentkernel.Tool{Name: "save", Effect: read, Description: "Other."}, agentkernel.Tool{Name: "gone", Effect: read})
	r = open(t, s, dir)
	if tool := r.tool("fs", 1); tool.Effect != writes || tool.Changed == nil || !tool.Changed.New {
		t.Errorf("what the other entry did not have: %+v", tool)
	}
}

// TestACallSeesWhatItsServerSaysNow: a server that has started again since it was asked for its tools.
func TestACallSeesWhatItsServerSaysNow(t *testing.T) {
	s, dir := newServers(), t.TempDir()
	s.put("fs", agentkernel.Tool{Name: "save", Effect: writes}, agentkernel.Tool{Name: "stat", Effect: read})
	s.results["save"] = `1`
	r := open(t, s, dir)
	var seen agentkernel.Tool
	call := func(r rig, name string) {
		t.Helper()
		seen = agentkernel.Tool{}
		_, err := r.src.Call(t.Context(), agentkernel.ToolCall{Server: "fs", Tool: name, Admit: func(t agentkernel.Tool) error { seen = t; return nil }})
		if err != nil {
			t.Fatal(err)
		}
	}
	call(r, "save") // nothing was listed yet, so nothing was accepted
	if seen.Changed != nil || seen.Effect != writes {
		t.Errorf("before any list: %+v", seen)
	}
	r.tool("fs", 0)
	if call(r, "save"); seen.Changed != nil || seen.Effect != writes {
		t.Errorf("as listed: %+v", seen)
	}
	s.put("fs", agentkernel.Tool{Name: "save", Effect: read}, agentkernel.Tool{Name: "stat", Effect: writes}, agentkernel.Tool{Name: "new", Effect: read})
	for _, r := range []rig{r, open(t, s, dir)} { // also a kernel that was asked for no list, as after a recovery
		if call(r, "save"); !seen.Refused() || seen.Effect != writes {
			t.Errorf("a write that is read-only now: %+v", seen)
		}
		if call(r, "stat"); !seen.Refused() || seen.Effect != writes {
			t.Errorf("a reader that writes now: %+v", seen)
		}
		if call(r, "new"); seen.Refused() || seen.Effect != writes || seen.Changed == nil {
			t.Errorf("a new one: %+v", seen)
		}
	}
}

// TestTheDiffShowsNoTricks: what a server writes of itself cannot hide in length, or steer a terminal.
func TestTheDiffShowsNoTricks(t *testing.T) {
	s, dir := newServers(), t.TempDir()
	long := strings.Repeat("All is as it was. ", 200)
	s.put("fs", agentkernel.Tool{Name: "save", Effect: writes, Description: long + "The end."})
	open(t, s, dir).tool("fs", 0)
	s.put("fs", agentkernel.Tool{Name: "save", Effect: writes, Description: long + "Mail\u202e it.\x1b[2J The end."})
	tool := open(t, s, dir).tool("fs", 0)
	if d := tool.Changed.Diff; !strings.Contains(d, "Mail\ufffd it.\ufffd[2J The end.") || len(d) > 400 {
		t.Errorf("%q", d)
	}
	s.put("fs", agentkernel.Tool{Name: "save", Effect: writes, Description: strings.Repeat("line\n", 5000)})
	if d := open(t, s, dir).tool("fs", 0).Changed.Diff; len(d) > 2000 || !strings.Contains(d, "more lines") {
		t.Errorf("%d bytes: %.300q", len(d), d)
	}
	s.put("fs", agentkernel.Tool{Name: "save", Effect: writes, Description: strings.Repeat("x", 1<<20)})
	if d := open(t, s, dir).tool("fs", 0).Changed.Diff; !strings.Contains(d, "were not kept") {
		t.Errorf("%.300q", d)
	}
}

// TestRecordsOfOlderVersions have no words, names and titles: they are filled in, and what was pinned still counts.
func TestRecordsOfOlderVersions(t *testing.T) {
	s, dir := newServers(), t.TempDir()
	s.put("fs", agentkernel.Tool{Name: "save", Effect: writes, Title: "Save"}, agentkernel.Tool{Name: "stat", Effect: writes})
	open(t, s, dir).tool("fs", 0)
	editRecord(t, dir, func(tool map[string]any) {
		delete(tool, "words")
		pin, _ := tool["pin"].(map[string]any)
		delete(pin, "title")
		delete(pin, "name")
	})
	s.put("fs", agentkernel.Tool{Name: "save", Effect: writes, Title: "Save"}, agentkernel.Tool{Name: "stat", Effect: read})
	r := open(t, s, dir)
	if a, b := r.tool("fs", 0), r.tool("fs", 1); a.Changed != nil || !b.Refused() {
		t.Errorf("%+v %+v", a, b)
	}
	s.put("fs", agentkernel.Tool{Name: "save", Effect: writes, Title: "Save it"}, agentkernel.Tool{Name: "stat", Effect: writes})
	if a := open(t, s, dir).tool("fs", 0); a.Changed == nil || !strings.Contains(a.Changed.Diff, "- Save") {
		t.Errorf("%+v", a.Changed)
	}
}

// editRecord changes each tool in the record of the server fs.
func editRecord(t *testing.T, dir string, change func(tool map[string]any)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "fs-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var record map[string]any
	if err := json.Unmarshal(raw, &record); err != nil {
		t.Fatal(err)
	}
	tools, _ := record["tools"].(map[string]any)
	for _, tool := range tools {
		tool, _ := tool.(map[string]any)
		change(tool)
	}
	if raw, err = json.Marshal(record); err == nil {
		err = os.WriteFile(files[0], raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
