package catalog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/tool/catalog"
)

// A search is answered from what a server listed last, without starting it; its own list counts as soon as it is
// asked for anything else.
func TestSearchBeforeServersStart(t *testing.T) {
	s, dir := newServers(), t.TempDir()
	s.prints = map[string]string{"fs": "1", "mail": "1"}
	first := open(t, s, dir)
	first.search(agentkernel.ToolQuery{})
	if s.asked["fs"] != 1 || s.asked["mail"] != 1 {
		t.Fatalf("the first kernel asked %v", s.asked)
	}
	r := open(t, s, dir) // the next kernel
	if got, m := r.search(agentkernel.ToolQuery{Text: "load the file"}); got != "fs.read-file" || m.Total != 3 || len(m.Problems) != 0 {
		t.Errorf("%s %+v", got, m)
	}
	if got, _ := r.search(agentkernel.ToolQuery{}); got != "fs.read-file fs.stat mail.send" {
		t.Errorf("everything: %s", got)
	}
	if s.asked["fs"] != 1 || s.asked["mail"] != 1 {
		t.Errorf("a search asked %v", s.asked)
	}
	s.put("fs", agentkernel.Tool{Name: "read-file", Description: "Read a file and mail it."}, agentkernel.Tool{Name: "write-file", Description: "Write a file.", Effect: agentkernel.EffectWrite})
	if got, _ := r.search(agentkernel.ToolQuery{Text: "write the file"}); strings.Contains(got, "write-file") {
		t.Errorf("before anybody asked the server: %s", got)
	}
	if c := r.tool("fs", 0).Changed; c == nil || fmt.Sprint(c.What) != "[description]" {
		t.Errorf("the change is not marked: %+v", c)
	}
	if got, m := r.search(agentkernel.ToolQuery{Text: "write the file"}); !strings.HasPrefix(got, "fs.write-file") || m.Tools[0].Changed != nil {
		t.Errorf("once it was asked: %s", got)
	}
	// The mark is there for the kernel after that as well, and it, too, asks nobody.
	asked := s.asked["fs"]
	last := open(t, s, dir)
	if _, m := last.search(agentkernel.ToolQuery{Text: "read file mail"}); len(m.Tools) == 0 || m.Tools[0].Changed == nil || s.asked["fs"] != asked {
		t.Errorf("%+v, asked %v", m, s.asked)
	}
	if n, err := last.src.(agentkernel.ToolPinner).AcceptTools(t.Context(), "fs"); n != 1 || err != nil || s.asked["fs"] != asked+1 {
		t.Errorf("accepting asks the server: %d %v, asked %v", n, err, s.asked)
	}
	if _, m := last.search(agentkernel.ToolQuery{Text: "read file mail"}); m.Tools[0].Changed != nil {
		t.Errorf("after that: %+v", m.Tools[0].Changed)
	}
}

// A server that was started for something else, and says that it is another release, is asked for its list.
func TestListOfAnotherRelease(t *testing.T) {
	s, dir := newServers(), t.TempDir()
	s.prints, s.release = map[string]string{"fs": "1", "mail": "1"}, map[string]string{"fs": "files 1.0", "mail": "mail 1.0"}
	open(t, s, dir).search(agentkernel.ToolQuery{})
	s.put("fs", agentkernel.Tool{Name: "write-file", Description: "Write a file."})
	for _, c := range []struct {
		release, found string
		asked          int
	}{
		{"", "fs.read-file fs.stat", 1}, // not started yet: nobody can know
		{"files 1.0", "fs.read-file fs.stat", 1},
		{"files 1.1", "fs.write-file", 2},
		{"files 1.1", "fs.write-file", 2},
		{"other 1.1", "fs.write-file", 3}, // the same tools, which are kept as its own
		{"other 1.1", "fs.write-file", 3},
	} {
		s.release["fs"] = c.release
		r := open(t, s, dir) // the next kernel, which has the file alone
		for range 2 {
			if got, _ := r.search(agentkernel.ToolQuery{Server: "fs"}); got != c.found || s.asked["fs"] != c.asked {
				t.Errorf("%q: found %q, asked %d times", c.release, got, s.asked["fs"])
			}
		}
	}
	// The same within one kernel.
	r := open(t, s, dir)
	r.search(agentkernel.ToolQuery{})
	s.release["fs"] = "other 1.2"
	r.search(agentkernel.ToolQuery{})
	r.search(agentkernel.ToolQuery{})
	if s.asked["fs"] != 4 || s.asked["mail"] != 1 {
		t.Errorf("asked %v", s.asked)
	}
}

// What is kept counts for the server as it is configured, for a day, and where the server itself cannot be asked.
func TestListsThatDoNotCount(t *testing.T) {
	keep := func(t *testing.T) (*servers, string) {
		s, dir := newServers(), t.TempDir()
		s.prints = map[string]string{"fs": "1", "mail": "1"}
		open(t, s, dir).search(agentkernel.ToolQuery{})
		s.asked = map[string]int{}
		return s, dir
	}
	list := func(t *testing.T, dir string) string {
		found, err := filepath.Glob(filepath.Join(dir, "fs-*.tools.json"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v %v", found, err)
		}
		return found[0]
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, s *servers, dir string)
		asked  int
		found  string
		says   string
	}{
		"as it was":            {func(*testing.T, *servers, string) {}, 0, "fs.read-file fs.stat", ""},
		"configured otherwise": {func(_ *testing.T, s *servers, _ string) { s.prints["fs"] = "2" }, 1, "fs.read-file fs.stat", ""},
		"may not be started":   {func(_ *testing.T, s *servers, _ string) { s.prints["fs"] = ""; s.put("fs") }, 1, "", "does not start"},
		"a day old":            {func(_ *testing.T, s *servers, _ string) { s.later = 25 * 3600 }, 1, "fs.read-file fs.stat", ""},
		"a day old, and gone":  {func(_ *testing.T, s *servers, _ string) { s.later = 25 * 3600; s.put("fs") }, 1, "fs.read-file fs.stat", "does not start (what it had on 2023-11-14 is shown)"},
		"a day old, and slow": {func(_ *testing.T, s *servers, _ string) {
			s.later, s.hang, s.patience = 25*3600, "fs", 50*time.Millisecond
		}, 1, "fs.read-file fs.stat", "when it was asked last is shown"},
		"it runs":                {func(_ *testing.T, s *servers, _ string) { s.running = "fs" }, 1, "fs.read-file fs.stat", ""},
		"it failed a moment ago": {func(_ *testing.T, s *servers, _ string) { s.problem = "fs"; s.put("fs") }, 1, "fs.read-file fs.stat", "is shown"},
		"damaged":                {func(t *testing.T, _ *servers, dir string) { write(t, list(t, dir), "{") }, 1, "fs.read-file fs.stat", ""},
		"of another version":     {func(t *testing.T, _ *servers, dir string) { write(t, list(t, dir), `{"form": 99}`) }, 1, "fs.read-file fs.stat", ""},
		"empty":                  {func(t *testing.T, _ *servers, dir string) { write(t, list(t, dir), ``) }, 1, "fs.read-file fs.stat", ""},
		"no file":                {func(t *testing.T, _ *servers, dir string) { write(t, list(t, dir), ``); _ = os.Remove(list(t, dir)) }, 1, "fs.read-file fs.stat", ""},
		"a folder in its place": {func(t *testing.T, _ *servers, dir string) {
			p := list(t, dir)
			_ = os.Remove(p)
			_ = os.Mkdir(p, 0o700)
		}, 1, "fs.read-file fs.stat", ""},
		"it does not start at all": {func(_ *testing.T, s *servers, _ string) { s.put("fs") }, 0, "fs.read-file fs.stat", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := keep(t)
			c.change(t, s, dir)
			r := open(t, s, dir)
			got, m := r.search(agentkernel.ToolQuery{Server: "fs"})
			if got != c.found || s.asked["fs"] != c.asked || !strings.Contains(fmt.Sprint(m.Problems), c.says) || c.says == "" && len(m.Problems) > 0 {
				t.Errorf("found %q, asked %d times, %q", got, s.asked["fs"], m.Problems)
			}
		})
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// silent is a source with one server, which answers nobody.
type silent struct{ agentkernel.ToolSource }

func (silent) Servers(context.Context) ([]agentkernel.ToolServer, error) {
	return []agentkernel.ToolServer{{Name: "slow", PythonName: "slow"}}, nil
}

func (silent) Tools(ctx context.Context, _ string) ([]agentkernel.Tool, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A search waits five seconds for servers that are starting, and no longer.
func TestASearchWaitsFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cat, err := catalog.New(catalog.Config{Source: func([]string) (agentkernel.ToolSource, error) { return silent{}, nil }})
		if err != nil {
			t.Fatal(err)
		}
		src, err := cat.Set([]string{"/mcp.json"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		m, err := src.(agentkernel.ToolSearcher).SearchTools(ctx, agentkernel.ToolQuery{Text: "x"})
		if took := time.Since(began); err != nil || took != 5*time.Second || !strings.Contains(fmt.Sprint(m.Problems), "slow: has not answered yet") {
			t.Errorf("after %s: %v, %v", took, m.Problems, err)
		}
		if err := cat.Close(); err != nil {
			t.Error(err)
		}
	})
}
