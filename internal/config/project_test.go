package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentkernel"
)

// TestEachKeySaysWhatAProjectMayDo: a new key must choose, and one that is only lowered must say how.
func TestEachKeySaysWhatAProjectMayDo(t *testing.T) {
	for _, k := range keyTable() {
		switch k.project {
		case Never, Accepted:
		case Harmless:
			if len(k.only) == 0 {
				t.Errorf("%s is harmless, whatever it is?", k.name)
			}
		case Lower:
			if !k.list && len(k.only) == 0 && k.value.number == nil {
				t.Errorf("nobody can tell whether %s is lowered", k.name)
			}
			if k.value.number != nil && k.least == "" && k.name != "priority" {
				t.Errorf("%s has no floor: a project file could keep every program from running", k.name)
			}
		default:
			t.Errorf("may a project file set %s? Choose Never, Lower, Harmless or Accepted", k.name)
		}
	}
}

// set is a line of a file that sets a key.
func set(k *key, value string) string {
	if k.list {
		value = "['" + value + "']"
	} else {
		value = "'" + value + "'"
	}
	if k.value.form.Kind == KindInteger || k.value.form.Kind == KindNumber {
		if strings.Trim(value, "'") == none {
			return k.name + ` = "none"` + "\n"
		}
		value = strings.Trim(value, "'")
	}
	return k.name + " = " + value + "\n"
}

// values are one that is less, and one that is more, than what the user has, which is between them.
var projectCases = map[string]struct{ less, user, more string }{
	"priority":          {"500", "20", "1"},
	"on_unknown":        {"pause", "pause", "raise"},
	"durability":        {"full", "full", "relaxed"},
	"restart":           {"never", "never", "on-crash"},
	"limits.time":       {"2s", "3s", "1h"},
	"limits.wall":       {"2s", "3s", "1h"},
	"limits.memory":     {"65m", "70m", "1g"},
	"limits.recursion":  {"200", "300", "999999"},
	"limits.output":     {"65k", "70k", "1g"},
	"limits.calls":      {"200", "300", "999999999"},
	"limits.call_wait":  {"2s", "3s", "1h"},
	"limits.in_flight":  {"2", "3", "999999"},
	"limits.repeats":    {"2", "3", "none"},
	"limits.processes":  {"2", "3", "999999"},
	"limits.disk":       {"2m", "3m", "1t"},
	"limits.journal":    {"2m", "3m", "1t"},
	"limits.cpus":       {"0.2", "0.5", "64"},
	"limits.cpu_time":   {"2s", "3s", "1h"},
	"limits.pids":       {"40", "50", "9999"},
	"limits.open_files": {"65", "70", "9999"},
	"limits.file_size":  {"2m", "3m", "1t"},
}

// TestAProjectFileOnlyLowers what the user's own file says, or the default where it says nothing.
func TestAProjectFileOnlyLowers(t *testing.T) {
	for _, k := range keyTable() {
		if k.project != Lower || k.list {
			continue
		}
		c, ok := projectCases[k.name]
		if !ok {
			t.Errorf("no values for %s", k.name)
			continue
		}
		if strings.HasSuffix(c.more, "t") {
			c.more = "1024g"
		}
		load := func(user, project string) *Config {
			t.Helper()
			got, err := newPlace(t, user, project).load()
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		want := &Config{}
		value := func(v string) string {
			if v != "" {
				if err := k.value.set(want, Origin{}, []string{v}); err != nil {
					t.Fatalf("%s: %v", k.name, err)
				}
			}
			return fmt.Sprint(k.value.get(want))
		}
		if got := load(set(&k, c.user), set(&k, c.less)); fmt.Sprint(k.value.get(got)) != value(c.less) || got.Origin(k.name).Kind != Project || got.Notes() != nil {
			t.Errorf("%s lowered: %v %v", k.name, k.value.get(got), got.Notes())
		}
		got := load(set(&k, c.user), set(&k, c.more))
		if fmt.Sprint(k.value.get(got)) != value(c.user) || got.Origin(k.name).Kind != User {
			t.Errorf("%s raised over the user's: %v", k.name, k.value.get(got))
		}
		if n := got.Notes(); len(n) != 1 || !strings.Contains(n[0], "agentkernel.toml:1: "+k.name) {
			t.Errorf("%s: %q", k.name, n)
		}
		if err := got.SetFlag(k.name, "--flag", c.more); err != nil || fmt.Sprint(k.value.get(got)) != value(c.more) || got.Notes() != nil {
			t.Errorf("%s by a flag: %v %v", k.name, k.value.get(got), err)
		}
		if d := fmt.Sprint(k.value.get(&Config{Values: defaults()})); d == "[]" || d == value(c.more) {
			continue // there is no default that could be raised
		}
		if got := load("", set(&k, c.more)); len(k.value.get(got)) != 0 || len(got.Notes()) != 1 {
			t.Errorf("%s raised over the default: %v %q", k.name, k.value.get(got), got.Notes())
		}
	}
}

// TestAProjectFileStopsNobody: less than a program needs is refused, with the name of the file.
func TestAProjectFileStopsNobody(t *testing.T) {
	for _, k := range keyTable() {
		if k.least == "" {
			continue
		}
		if _, err := newPlace(t, "", set(&k, k.least)).load(); err != nil {
			t.Errorf("%s at its floor: %v", k.name, err)
		}
		for _, tiny := range []string{"1", "1ms", "1k", "16", "0.01"} {
			floor, low := &Config{}, &Config{}
			if k.value.set(low, Origin{}, []string{tiny}) != nil || k.value.set(floor, Origin{}, []string{k.least}) != nil || k.value.number(low) >= k.value.number(floor) {
				continue
			}
			_, err := newPlace(t, "", set(&k, tiny)).load()
			if agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), "agentkernel.toml:1") {
				t.Errorf("%s = %s: %v", k.name, tiny, err)
			}
			_, err = newPlace(t, set(&k, tiny), "").load()
			if name, _ := low.Limits.Problem(); (err != nil) != ("limits."+name == k.name) || err != nil && !strings.Contains(err.Error(), "config.toml:1") {
				t.Errorf("%s = %s in the user's own file: %v", k.name, tiny, err)
			}
		}
	}
}

// TestAProjectFileTakesMoreAway, and gives nothing back.
func TestAProjectFileTakesMoreAway(t *testing.T) {
	for project, want := range map[string][]string{"deny = ['rand']\n": {"state", "rand"}, "deny = []\n": {"state"}} {
		c, err := newPlace(t, "deny = ['state']\n", project).load()
		if err != nil || !slices.Equal(c.Deny, want) {
			t.Errorf("%s: %q %v", project, c.Deny, err)
		}
	}
}

// TestProjectFileOfAnotherUser: whoever may write above the working directory can neither set nor break anything.
func TestProjectFileOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	p := newPlace(t, "", "limits.time = \"2s\"\nnonsense = [")
	if err := os.Chown(filepath.Join(p.project, ProjectFileName), 12345, 12345); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Options{Dir: p.dir, UserHome: p.home})
	if err != nil {
		t.Fatal(err)
	}
	if notes := c.Notes(); c.ProjectFile != "" || len(notes) != 1 || !strings.Contains(notes[0], "belongs to another user") {
		t.Errorf("file %q, notes %q", c.ProjectFile, notes)
	}
}
