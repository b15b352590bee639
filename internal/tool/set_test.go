package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/tool"
	"agentkernel/internal/tool/tooltest"
)

func incarnation(t *testing.T, src agentkernel.ToolSource, server string) string {
	t.Helper()
	r, err := src.Call(context.Background(), agentkernel.ToolCall{Server: server, Tool: "echo", Arguments: json.RawMessage(`{"value":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	return r.Incarnation
}

func TestSetsShareServers(t *testing.T) {
	h := newHub(t, tool.Config{})
	path := tooltest.Config(t, map[string]tooltest.Server{"a": tooltest.Stdio(t)})
	other := tooltest.Config(t, map[string]tooltest.Server{"a": tooltest.Stdio(t), "b": tooltest.Stdio(t)})
	set := func(files ...string) agentkernel.ToolSource {
		src, err := h.Set(files)
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	one, two, mixed, elsewhere := set(path), set(path), set(path, other), set(other)
	if incarnation(t, one, "a") != incarnation(t, two, "a") || incarnation(t, one, "a") != incarnation(t, mixed, "a") {
		t.Error("two sets with the same file and server do not share it; or the first file does not count")
	}
	if incarnation(t, one, "a") == incarnation(t, elsewhere, "a") {
		t.Error("servers of two files are one")
	}
	if incarnation(t, mixed, "b") != incarnation(t, elsewhere, "b") {
		t.Error("sets do not share b")
	}
}

// The price of a tool is what the file says: by its name, in either form, or for all of its server. It is no part of what the server is.
func TestPricesOfTools(t *testing.T) {
	h := newHub(t, tool.Config{})
	path := tooltest.Config(t, map[string]tooltest.Server{"a": tooltest.Stdio(t)})
	prices := func(cost any) (map[string]string, string, error) {
		t.Helper()
		server := tooltest.Stdio(t)
		if cost != nil {
			server["cost_usd"] = cost
		}
		tooltest.WriteConfig(t, path, map[string]tooltest.Server{"a": server})
		src, err := h.Set([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		tools, err := src.Tools(t.Context(), "a")
		got := map[string]string{}
		for _, tool := range tools {
			if tool.CostUSD != nil {
				got[tool.Name] = tool.CostUSD.String()
			}
		}
		return got, incarnation(t, src, "a"), err
	}
	got, first, err := prices(nil)
	if len(got) > 0 || err != nil {
		t.Errorf("no price is said: %v, %v", got, err)
	}
	for _, c := range []struct {
		cost              any
		add, echo, append string
	}{{0, "0.00", "0.00", "0.00"}, {0.01, "0.01", "0.01", "0.01"}, {"$0.0005", "0.0005", "0.0005", "0.0005"},
		{map[string]any{"add": 0.005, "*": 0}, "0.005", "0.00", "0.00"}, {map[string]any{"add": 1, "append_line": "2"}, "1.00", "", "2.00"}} {
		got, incarnation, err := prices(c.cost)
		if err != nil || got["add"] != c.add || got["echo"] != c.echo || got["append_line"] != c.append {
			t.Errorf("%v: %v, %v", c.cost, got, err)
		}
		if incarnation != first {
			t.Errorf("%v: the server was started again for its price", c.cost)
		}
	}
	if _, _, err := prices(map[string]any{"ad": 1, "*": 0}); agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), `names the tool "ad"`) ||
		!strings.Contains(agentkernel.AsError(err, "", "").Hint, "add?") {
		t.Errorf("the price of a tool that is not there: %v, %q", err, agentkernel.AsError(err, "", "").Hint)
	}
}

func TestFilesAreReadAgainForNewServersOnly(t *testing.T) {
	h := newHub(t, tool.Config{})
	path := tooltest.Config(t, map[string]tooltest.Server{"a": tooltest.Stdio(t), "idle": tooltest.Stdio(t, "-no-start", "old")})
	old, err := h.Set([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	before := incarnation(t, old, "a")
	tooltest.WriteConfig(t, path, map[string]tooltest.Server{
		"a": tooltest.Stdio(t).With("env", map[string]string{"NEW": "yes"}), "idle": tooltest.Stdio(t), "c": tooltest.Stdio(t)})
	incarnation(t, old, "c") // new in the file: makes the set look again
	incarnation(t, old, "idle")
	if incarnation(t, old, "a") != before {
		t.Error("a running server was exchanged under a set that uses it")
	}
	fresh, err := h.Set([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := call(t, fresh, "a", "env", obj{"name": "NEW"}); err != nil || got != `"yes"` {
		t.Errorf("a new set does not see the new configuration: %s, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if incarnation(t, old, "a") != before {
		t.Error("a broken file disturbs a running server")
	}
	_, err = h.Set([]string{path})
	wantCode(t, err, agentkernel.CodeInvalid, "line 1", "not JSON")
}

func TestSetErrors(t *testing.T) {
	h := newHub(t, tool.Config{})
	_, err := h.Set([]string{filepath.Join(t.TempDir(), "none.json")})
	wantCode(t, err, agentkernel.CodeNotFound, "there is no file", "--tools")
	_, err = h.Set([]string{"mcp.json"})
	wantCode(t, err, agentkernel.CodeInvalid, "not an absolute path")
	src, err := h.Set(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = src.Tools(context.Background(), "x")
	wantCode(t, err, agentkernel.CodeNotFound, "there are no configured servers")
}

func TestOneBadServerDoesNotCostTheOthers(t *testing.T) {
	src := open(t, tool.Config{}, map[string]tooltest.Server{"good": tooltest.Stdio(t), "bad": {"comand": "x"}, "bad-2": {"command": "x", "env": map[string]string{"A": "${SURELY_NOT_SET}"}}})
	incarnation(t, src, "good")
	_, err := call(t, src, "bad", "x", obj{})
	wantCode(t, err, agentkernel.CodeInvalid, `neither "command" nor "url"`)
	servers, err := src.Servers(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(servers, func(a, b agentkernel.ToolServer) int { return strings.Compare(a.Name, b.Name) })
	if len(servers) != 3 || servers[0].Problem == "" || servers[1].PythonName != "bad_2" ||
		!strings.Contains(servers[1].Problem, "SURELY_NOT_SET is not set") || servers[2].Problem != "" || !servers[2].Running || !servers[2].Trusted {
		t.Errorf("%+v", servers)
	}
}

func TestToolListing(t *testing.T) {
	src := open(t, tool.Config{}, map[string]tooltest.Server{
		"paged": tooltest.Stdio(t, "-page-size", "3"), "untrusted-one": tooltest.Stdio(t).With("trusted", false)})
	tools, err := src.Tools(context.Background(), "paged")
	if err != nil {
		t.Fatal(err)
	}
	byPy := map[string]agentkernel.Tool{}
	for _, x := range tools {
		byPy[x.PythonName] = x
	}
	if len(tools) < 20 || len(byPy) != len(tools) {
		t.Fatalf("%d tools, %d names", len(tools), len(byPy))
	}
	add := byPy["add"]
	if add.Signature != "add(a: int, b: int) -> dict[str, Any]" || add.Effect != agentkernel.EffectRead || add.Server != "paged" ||
		!strings.Contains(add.Doc, "'sum': int - a plus b") {
		t.Errorf("%+v", add)
	}
	if byPy["append_line"].Effect != agentkernel.EffectWrite || byPy["append_idempotent"].Effect != agentkernel.EffectIdempotent {
		t.Error("effects of the appends")
	}
	untrusted, err := src.Tools(context.Background(), "untrusted_one")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range untrusted {
		if x.Effect != agentkernel.EffectWrite || x.PythonServer != "untrusted_one" {
			t.Errorf("%s of an untrusted server: %s", x.Name, x.Effect)
		}
	}
}

func TestChangedListIsSeen(t *testing.T) {
	src := open(t, tool.Config{}, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	_, err := call(t, src, "test", "later", obj{})
	wantCode(t, err, agentkernel.CodeNotFound)
	if _, err := call(t, src, "test", "add_tool", obj{"name": "later"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new tool can be called", func() bool {
		got, err := call(t, src, "test", "later", obj{})
		return err == nil && got == `"new"`
	})
}

func TestEnvironmentOfServers(t *testing.T) {
	lookup := func(k string) (string, bool) {
		v, ok := map[string]string{"PATH": os.Getenv("PATH"), "HOME": "/home/of/kernel", "SECRET_OF_KERNEL": "x", "GIVEN": "on"}[k]
		return v, ok
	}
	src := open(t, tool.Config{LookupEnv: lookup}, map[string]tooltest.Server{"test": tooltest.Stdio(t).With("env", map[string]string{"NAMED": "${GIVEN}"})})
	for name, want := range map[string]string{"NAMED": "on", "HOME": "/home/of/kernel", "PATH": os.Getenv("PATH"), "SECRET_OF_KERNEL": "", "GIVEN": ""} {
		if got, err := call(t, src, "test", "env", obj{"name": name}); err != nil || got != strconv.Quote(want) {
			t.Errorf("%s = %s, %v; want %q", name, got, err, want)
		}
	}
}

func TestSecretsStayInside(t *testing.T) {
	const key = "sk-live-0123456789abcdef"
	var mu sync.Mutex
	var logged strings.Builder
	log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return logged.Write(p)
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg := tool.Config{Logger: log, LookupEnv: func(k string) (string, bool) {
		return map[string]string{"API_KEY": key, "PATH": os.Getenv("PATH")}[k], k == "API_KEY" || k == "PATH"
	}}
	secret := map[string]string{"SOME_KEY": "${API_KEY}"}
	src := open(t, cfg, map[string]tooltest.Server{
		"works":  tooltest.Stdio(t, "-stderr", "using "+key).With("env", secret),
		"broken": tooltest.Stdio(t, "-no-start", "cannot log in with "+key).With("env", secret),
		"args":   {"command": "false", "args": []string{"--key", "${API_KEY}"}},
	})
	var said []string
	for _, c := range []struct {
		server, tool string
		args         obj
	}{{"works", "env", obj{"name": "SOME_KEY"}}, {"works", "fail", obj{"message": "bad key " + key}}, {"works", "crash", nil},
		{"works", "garbage", nil}, {"broken", "x", nil}, {"args", "x", nil}} {
		got, err := call(t, src, c.server, c.tool, c.args)
		said = append(said, got, fmt.Sprint(err))
		if e, ok := errors.AsType[*agentkernel.Error](err); ok {
			said = append(said, e.GuestText())
		}
	}
	servers, err := src.Servers(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	said = append(said, fmt.Sprintf("%+v", servers))
	mu.Lock()
	said = append(said, logged.String())
	mu.Unlock()
	all := strings.Join(said, "\n")
	if strings.Contains(all, key) {
		t.Errorf("the key is in what was said:\n%s", all)
	}
	if !strings.Contains(all, "cannot log in with [") || !strings.Contains(all, `"[API_KEY]"`) {
		t.Errorf("the mask is missing, so the test shows nothing:\n%s", all)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestNothingOutlivesTheHub(t *testing.T) {
	h, err := tool.New(tool.Config{StopGrace: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	starts := filepath.Join(t.TempDir(), "starts")
	src, err := h.Set([]string{tooltest.Config(t, map[string]tooltest.Server{
		// deaf to SIGTERM and to the end of stdin, as npx is for its grandchildren
		"deaf":    tooltest.Stdio(t, "-delay", "1h", "-start-log", starts),
		"wrapped": {"command": "sh", "args": []string{"-c", `"$0" -start-log "$1"; echo never`, tooltest.Build(t), starts}},
	})})
	if err != nil {
		t.Fatal(err)
	}
	incarnation(t, src, "deaf")
	incarnation(t, src, "wrapped")
	pending := make(chan error, 1)
	go func() {
		_, err := src.Call(context.Background(), agentkernel.ToolCall{Server: "deaf", Tool: "append_line",
			Arguments: json.RawMessage(`{"path":"/dev/null","text":"x"}`)})
		pending <- err
	}()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, <-pending, agentkernel.CodeUnavailable)
	b, err := os.ReadFile(starts)
	if err != nil {
		t.Fatal(err)
	}
	pids := strings.Fields(string(b))
	if len(pids) != 2 {
		t.Fatalf("pids %q", pids)
	}
	for _, p := range pids {
		pid, _ := strconv.Atoi(p)
		eventually(t, "process "+p+" is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) })
	}
	_, err = call(t, src, "deaf", "echo", obj{"value": 1})
	wantCode(t, err, agentkernel.CodeUnavailable, "stopping")
}

// zombie: ended, and not yet reaped by whoever inherited it.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return errors.Is(err, fs.ErrNotExist) || strings.Contains(string(b), ") Z ")
}

func TestParallelStartsAndCalls(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	servers := map[string]tooltest.Server{}
	for i := range 4 {
		servers[fmt.Sprintf("s%d", i)] = tooltest.Stdio(t, "-start-log", starts)
	}
	src := open(t, tool.Config{}, servers)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 10 {
				want := strconv.Quote(strconv.Itoa(i*100 + j))
				if got, err := call(t, src, fmt.Sprintf("s%d", i%4), "echo", obj{"value": i*100 + j}); err != nil || got != want {
					t.Errorf("%s, %v; want %s", got, err, want)
				}
			}
		})
	}
	wg.Wait()
	if b, err := os.ReadFile(starts); err != nil || strings.Count(string(b), "\n") != 4 {
		t.Errorf("starts: %q, %v; want one for each of four servers", b, err)
	}
}
