package library_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentkernel"
	"agentkernel/internal/library"
)

const code = "def monthly(rows,\n            year=None):\n    return len(rows)\n\ndef _hidden():\n    pass\n\nasync def later(x=(1, 2)):\n    return x\n"

func save(t *testing.T, l *library.Library, name, description string, tags ...string) agentkernel.Skill {
	t.Helper()
	s, err := l.SaveSkill(t.Context(), agentkernel.Skill{Name: name, Code: code, Description: description, Tags: tags})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSkills(t *testing.T) {
	l := library.New(t.TempDir(), nil)
	if s := save(t, l, "report", "Monthly sales report.", "sales", " sales", "csv"); s.Version != 1 || fmt.Sprint(s.Functions) != "[monthly(rows, year=None) later(x=(1, 2))]" || fmt.Sprint(s.Tags) != "[csv sales]" {
		t.Errorf("%+v", s)
	}
	save(t, l, "mailer", "Sends mail.")
	second, err := l.SaveSkill(t.Context(), agentkernel.Skill{Name: "report", Code: "def weekly():\n    pass\n"})
	if err != nil || second.Version != 2 || second.Created.After(second.Updated) {
		t.Errorf("%+v %v", second, err)
	}
	first, err := l.Skill(t.Context(), "", "report", 1)
	if err != nil || first.Code != code || first.Version != 1 {
		t.Errorf("version 1: %+v %v", first, err)
	}
	if s, err := l.Skill(t.Context(), "", "report", 0); err != nil || s.Version != 2 || fmt.Sprint(s.Functions) != "[weekly()]" {
		t.Errorf("newest: %+v %v", s, err)
	}
	for name, want := range map[string]string{"reports": "report", "../report": "report"} {
		_, err := l.Skill(t.Context(), "", name, 0)
		e := agentkernel.AsError(err, "", "")
		if e == nil || e.Code != agentkernel.CodeNotFound || !strings.Contains(e.Hint, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.Skill(t.Context(), "", "report", 9); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("version 9: %v", err)
	}
	if _, err := l.Skill(t.Context(), "other", "report", 0); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("another namespace: %v", err)
	}
	list, err := l.Skills(t.Context(), agentkernel.SkillQuery{Text: "send mails"})
	if err != nil || len(list) != 1 || list[0].Name != "mailer" || list[0].Code != "" {
		t.Errorf("found: %+v %v", list, err)
	}
	if err := l.DeleteSkill(t.Context(), "", "report"); err != nil {
		t.Error(err)
	}
	if err := l.DeleteSkill(t.Context(), "", "report"); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("deleted twice: %v", err)
	}
	if list, err := l.Skills(t.Context(), agentkernel.SkillQuery{}); err != nil || len(list) != 1 {
		t.Errorf("left: %+v %v", list, err)
	}
	if s := save(t, l, "report", "again"); s.Version != 1 {
		t.Errorf("after deletion version %d", s.Version)
	}
}

func TestSkillsThatCannotBe(t *testing.T) {
	l := library.New(t.TempDir(), nil)
	for _, s := range []agentkernel.Skill{{Name: "../../x"}, {Name: "Report"}, {Name: "class"}, {Name: ""}, {Name: "a b"}, {Name: strings.Repeat("a", 65)},
		{Name: "x", Code: " "}, {Name: "x", Code: "x = 1"}, {Name: "x", Code: "def f(): pass\xff"}, {Name: "x", Code: code + strings.Repeat("#", agentkernel.MaxSkill)},
		{Name: "x", Code: code, Tags: []string{""}}, {Name: "x", Code: code, Description: strings.Repeat("x", 5000)}} {
		if s.Code == "" {
			s.Code = code
		}
		_, err := l.SaveSkill(t.Context(), s)
		if agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%.40q: %v", s.Name, err)
		}
	}
}

// A record that is damaged or gone costs no version that was saved.
func TestDamagedSkill(t *testing.T) {
	dir := t.TempDir()
	l := library.New(dir, nil)
	save(t, l, "report", "one")
	record := filepath.Join(dir, "skills", "default", "report", "skill.json")
	if err := os.WriteFile(record, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Skill(t.Context(), "", "report", 0); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
		t.Errorf("%v", err)
	}
	if s := save(t, l, "report", "two"); s.Version != 2 {
		t.Errorf("version %d", s.Version)
	}
	if s, err := l.Skill(t.Context(), "", "report", 1); err != nil || s.Code != code {
		t.Errorf("%+v %v", s, err)
	}
}

func TestDocuments(t *testing.T) {
	l := library.New(t.TempDir(), nil)
	put := func(owner, name, data string, version int64) (agentkernel.Document, error) {
		return l.PutDocument(t.Context(), agentkernel.Document{Owner: owner, Name: name, Data: json.RawMessage(data), Version: version})
	}
	if _, err := l.Document(t.Context(), "", "ann", "state.json"); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("before: %v", err)
	}
	for i, data := range []string{`{"a": 1}`, `[1, 2]`, `null`} {
		if d, err := put("ann", "state.json", data, int64(i)); err != nil || d.Version != int64(i+1) {
			t.Errorf("%s: %+v %v", data, d, err)
		}
	}
	if _, err := put("ann", "state.json", `1`, 1); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Errorf("an old version: %v", err)
	}
	if d, err := l.Document(t.Context(), "", "ann", "state.json"); err != nil || string(d.Data) != "null" || d.Version != 3 {
		t.Errorf("%+v %v", d, err)
	}
	if _, err := l.Document(t.Context(), "", "../ann", "state.json"); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("another owner: %v", err)
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", "/etc/passwd", "A", ".hidden", strings.Repeat("a", 81), "x\x00"} {
		if _, err := put("ann", name, `1`, 0); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, data := range []string{``, `{`, `"` + strings.Repeat("x", agentkernel.MaxDocument) + `"`} {
		if _, err := put("ann", "x", data, 0); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%.20s: %v", data, err)
		}
	}
}

// Of writers at once each wins a version of its own; a reader never sees half a document.
func TestConcurrentWriters(t *testing.T) {
	l := library.New(t.TempDir(), nil)
	big := strings.Repeat("x", 100_000)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 10 {
				if _, err := l.PutDocument(t.Context(), agentkernel.Document{Name: "s", Data: json.RawMessage(fmt.Sprintf(`{"by": %d, "x": %q}`, i, big))}); err != nil {
					t.Error(err)
				}
				if d, err := l.Document(t.Context(), "", "", "s"); err != nil || len(d.Data) < len(big) {
					t.Errorf("%d bytes, %v", len(d.Data), err)
				}
			}
		})
	}
	all.Wait()
	if d, err := l.Document(t.Context(), "", "", "s"); err != nil || d.Version != 40 {
		t.Errorf("version %d, %v", d.Version, err)
	}
}

// What is said of a state or a skill that is not there is true, whatever was there before.
func TestNothingFalseIsSaidOfWhatIsNotThere(t *testing.T) {
	l := library.New(t.TempDir(), nil)
	put := func(version int64) error {
		_, err := l.PutDocument(t.Context(), agentkernel.Document{Name: "s", Data: json.RawMessage("1"), Version: version})
		return err
	}
	refused := func(err error, want string) {
		t.Helper()
		if agentkernel.CodeOf(err) != agentkernel.CodeConflict || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if somebody := strings.Contains(fmt.Sprint(err), "somebody else"); somebody != strings.Contains(want, "somebody else") {
			t.Errorf("whether somebody else wrote: %v", err)
		}
	}
	refused(put(5), `there is no state "s", so it is not at version 5`)
	for range 2 {
		if err := put(0); err != nil {
			t.Fatal(err)
		}
	}
	refused(put(5), `is at version 2, not 5`)
	refused(put(1), `is at version 2, not 1: somebody else has written it`)

	if _, err := l.SaveSkill(t.Context(), agentkernel.Skill{Name: "s", Code: "def f(): return 1"}); err != nil {
		t.Fatal(err)
	}
	if err := l.DeleteSkill(t.Context(), "", "s"); err != nil {
		t.Fatal(err)
	}
	if e := agentkernel.AsError(l.DeleteSkill(t.Context(), "", "s"), "", ""); e.Code != agentkernel.CodeNotFound || e.Hint != "there are no skills" {
		t.Errorf("%v, hint %q", e, e.Hint)
	}
}
