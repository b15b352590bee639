package sqlite

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"agentkernel"
)

func readDoc(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/schema.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTheSchemaIsDocumented fails when a table or column is added and docs/schema.md is not.
func TestTheSchemaIsDocumented(t *testing.T) {
	doc := readDoc(t)
	cfg := testConfig(t.TempDir())
	mustOpen(t, cfg)
	c, err := dial(cfg.Path, map[string][]string{"mode": {"ro"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	checked := 0
	err = c.query(func(r row) error {
		table, column := r.text(0), r.text(1)
		_, section, found := strings.Cut(doc, "\n### "+table)
		if !found { // tables that share a heading
			_, section, found = strings.Cut(doc, "### images, "+table)
		}
		section, _, _ = strings.Cut(section, "\n##")
		if !found || !strings.Contains(section, "`"+column+"`") {
			t.Errorf("docs/schema.md does not explain %s.%s", table, column)
		}
		checked++
		return nil
	}, `SELECT s.name, c.name FROM sqlite_schema s JOIN pragma_table_info(s.name) c
WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite_%'`)
	if err != nil || checked < 60 {
		t.Fatalf("%d columns were checked, error %v", checked, err)
	}
}

// TestTheDocumentedQuestionsHaveAnswers runs the SQL of docs/schema.md.
func TestTheDocumentedQuestionsHaveAnswers(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pid := agentkernel.PID(12)
	p := exampleRow(pid)
	p.Created = microTime(0)
	call := func(seq, id int64, tool string) agentkernel.Entry {
		return agentkernel.Entry{PID: pid, Seq: seq, Kind: agentkernel.EntryCall, Call: id, Op: "tool.call", Effect: agentkernel.EffectWrite,
			At: microTime(4e15), Args: json.RawMessage(`{"server":"fs","tool":"` + tool + `"}`)}
	}
	refused := agentkernel.Errorf(agentkernel.CodeTool, "tool.call", "no such file")
	if err := appendFlush(s, agentkernel.Batch{Process: p, Entries: []agentkernel.Entry{
		call(1, 1, "write"), {PID: pid, Seq: 2, Kind: agentkernel.EntryResult, Call: 1, Err: refused}, call(3, 2, "append"),
	}}); err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(readDoc(t), "```sql\n")
	block, _, _ = strings.Cut(block, "```")
	want := map[string][]string{ // words of the question, rows of the answer
		"ran lately":        {"12 | a.py | unfinished | 0 | 1970-01-01 00:00:00.000 |  | 0"},
		"did process 12":    {"", "no such file", ""},
		"writes did any":    {"fs | write", "fs | append"},
		"outcome nobody":    {`12 | 3 | tool.call | {"server":"fs","tool":"append"}`},
		"tools fail":        {"tool.call | write | 1 | 1", "tool.call | append | 1 | 0"},
		"program of proces": {"print(1)"},
	}
	c, err := dial(cfg.Path, map[string][]string{"mode": {"ro"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	asked := 0
	for question := range strings.SplitSeq(block, "\n\n") {
		for words, rows := range want {
			if strings.Contains(question, words) {
				asked++
				answers(t, c, question, rows)
			}
		}
	}
	if asked != len(want) || asked != len(regexp.MustCompile(`;\n`).FindAllString(block, -1)) {
		t.Fatalf("%d questions were asked", asked)
	}
}

func answers(t *testing.T, c *conn, question string, want []string) {
	t.Helper()
	var got []string
	err := c.query(func(r row) error {
		var cells []string
		for _, v := range r {
			text, err := json.Marshal(v)
			if err != nil {
				return err
			}
			var s string
			if json.Unmarshal(text, &s) != nil {
				s = strings.TrimPrefix(string(text), "null")
			}
			cells = append(cells, s)
		}
		got = append(got, strings.Join(cells, " | "))
		return nil
	}, question)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%s\n%d rows, error %v; want %d", question, len(got), err, len(want))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("%s\nrow %q, want %q in it", question, got[i], want[i])
		}
	}
}

// TestWhatPeopleReadInTheDatabase pins the encodings that the documentation promises.
func TestWhatPeopleReadInTheDatabase(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pid := newPID(s)
	p := exampleRow(pid)
	p.Spec.Namespace, p.Spec.Priority = "default", 10
	p.Spec.Program.Name, p.Spec.Allow = "a.py", []string{"fs.<*>"}
	big := note(pid, 2, 40_000)
	small := agentkernel.Entry{PID: pid, Seq: 1, Kind: agentkernel.EntryOutput, Stream: "stdout", Data: json.RawMessage(`"<b>\n"`)}
	if err := appendFlush(s, agentkernel.Batch{Process: p, Entries: []agentkernel.Entry{small, big.Entries[0]}}); err != nil {
		t.Fatal(err)
	}
	c, err := dial(cfg.Path, map[string][]string{"mode": {"ro"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	r, _, err := c.one(`SELECT p.spec, a.data, b.data, j.data FROM processes p, entries a, entries b, journal j
WHERE a.seq = 1 AND b.seq = 2 AND j.seq = 2`)
	if err != nil {
		t.Fatal(err)
	}
	if r.text(0) != `{"allow":["fs.<*>"]}` || r.text(1) != `"<b>\n"` {
		t.Errorf("spec %s, data %s", r.text(0), r.text(1))
	}
	sum := strings.TrimPrefix(r.text(3), "blob:")
	content, err := os.ReadFile(cfg.Blobs + "/" + sum[:2] + "/" + sum[2:4] + "/" + sum)
	if err != nil || string(content) != string(big.Entries[0].Data) || len(r.blob(2)) != 32 {
		t.Errorf("the file of blob %s: %d bytes, %v", sum, len(content), err)
	}
	if _, err := s.Entries(context.Background(), pid, 1, 0); err != nil {
		t.Fatal(err)
	}
}
