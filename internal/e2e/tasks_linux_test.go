package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/devllm"
	"agentkernel/internal/tool/tooltest"
	"agentkernel/internal/usertest"
	"agentkernel/userland/agent"
)

// task is one of testdata/tasks.yaml, which says what each field is.
type task struct {
	About   string              `yaml:"about"`
	Task    string              `yaml:"task"`
	Files   map[string]string   `yaml:"files"`
	Knows   map[string][]string `yaml:"knows"`
	Allow   []string            `yaml:"allow"`
	Schema  any                 `yaml:"schema"`
	Turns   int64               `yaml:"turns"`
	USD     float64             `yaml:"usd"`
	Output  int64               `yaml:"output"`
	Time    int64               `yaml:"time"`
	Model   []taskStep          `yaml:"model"`
	taskEnd `yaml:",inline"`
}

// taskEnd is how it ends.
type taskEnd struct {
	Result string              `yaml:"result"`
	Says   []string            `yaml:"says"`
	Never  []string            `yaml:"never"`
	Asked  int                 `yaml:"asked"`
	Calls  []string            `yaml:"calls"`
	Unsent int                 `yaml:"unsent"`
	Leaves map[string]string   `yaml:"leaves"`
	Learns map[string][]string `yaml:"learns"`
}

// taskStep is an answer of the model, and what it is an answer to.
type taskStep struct {
	Shown   string `yaml:"shown"`
	Told    string `yaml:"told"`
	System  string `yaml:"system"`
	Offered string `yaml:"offered"`
	Turn    int    `yaml:"turn"`
	Always  bool   `yaml:"always"`
	Text    string `yaml:"text"`
	Program string `yaml:"program"`
	Finish  any    `yaml:"finish"`
	Calls   []any  `yaml:"calls"`
	Error   any    `yaml:"error"`
}

// rule is a step in the words of a script of devllm.
func (s taskStep) rule(name, sentence string, turn int) map[string]any {
	when := map[string]any{"anywhere": sentence}
	set := func(key, value string) {
		if value != "" {
			when[key] = value
		}
	}
	set("tool_result", s.Shown)
	set("user", s.Told)
	set("system", s.System)
	switch {
	case s.Offered != "":
		when["tools"] = []string{s.Offered}
	case s.Turn != 0:
		when["turn"] = s.Turn
	case !s.Always:
		when["turn"] = turn
	}
	answer, calls := map[string]any{}, s.Calls
	call := func(name, argument string, value any) {
		calls = append(calls, map[string]any{"name": name, "arguments": map[string]any{argument: value}})
	}
	if s.Program != "" {
		call("run_python", "code", s.Program)
	}
	if s.Finish != nil {
		call("finish", "result", s.Finish)
	}
	if s.Text != "" {
		answer["text"] = s.Text
	}
	if calls != nil {
		answer["calls"] = calls
	}
	if s.Error != nil {
		answer["error"] = s.Error
	}
	return map[string]any{"name": name, "when": when, "answer": answer}
}

// loadTasks reads the table. ROOT in it is the folder of the server filesystem, OUTSIDE a file beside it.
func loadTasks(t *testing.T, root, outside string) (tasks []task, script *devllm.Script) {
	t.Helper()
	text, err := os.ReadFile("testdata/tasks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for n := range 1000 {
		fmt.Fprintf(&lines, "line %d\\n", n)
	}
	d := yaml.NewDecoder(strings.NewReader(strings.NewReplacer("LINES", lines.String(), "ROOT", root, "OUTSIDE", outside).Replace(string(text))))
	d.KnownFields(true)
	if err := d.Decode(&tasks); err != nil {
		t.Fatal(err)
	}
	var rules []any
	for _, c := range tasks {
		for i, s := range c.Model {
			rules = append(rules, s.rule(c.Task, c.Task, i+1))
		}
	}
	written, err := yaml.Marshal(map[string]any{"rules": rules, "default": map[string]any{"error": map[string]any{"status": 400, "message": "this was not to be shown"}}})
	if err != nil {
		t.Fatal(err)
	}
	if script, err = devllm.ParseScript("tasks.yaml", written); err != nil {
		t.Fatal(err)
	}
	return tasks, script
}

// world is what tasks can change, and what has come to the servers: none of it by the journal.
type world struct {
	root, outside, graph string
	logs                 map[string]string // of each server: what it was sent
	read                 map[string]int    // how much of it belongs to earlier tasks
	files                map[string]string // that there are to be
	knows                map[string][]string
}

// asServer is a real server with a tee in front, which has written a line before the server is given it.
func (w *world) asServer(t *testing.T, name, pkg string, args ...string) tooltest.Server {
	t.Helper()
	w.logs[name] = filepath.Join(filepath.Dir(w.root), name+".log")
	return tooltest.Server{"command": "/bin/sh", "args": append([]string{"-c", `tee /dev/fd/3 3>&1 >>"$0" | exec node "$@"`, w.logs[name], tooltest.NPM(t, "@modelcontextprotocol/server-"+pkg)}, args...)}.
		With("startTimeout", 60).With("cost_usd", 0)
}

// called are the tools that the servers were asked for since the last time, those of each server in their order.
func (w *world) called(t *testing.T) map[string][]string {
	t.Helper()
	calls := map[string][]string{}
	for name, path := range w.logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text[w.read[name]:])) {
			var m struct {
				Method string
				Params struct{ Name string }
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatalf("%s was sent %q: %v", name, line, err)
			}
			if m.Method == "tools/call" {
				calls[name] = append(calls[name], m.Params.Name)
			}
		}
		w.read[name] = len(text)
	}
	return calls
}

// compare looks at the whole folder and the whole graph.
func (w *world) compare(t *testing.T) {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(w.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(w.root, path)
		files[name] = string(b)
		return err
	})
	if err != nil || !maps.Equal(files, w.files) {
		t.Errorf("the folder holds\n%q\nwant\n%q, %v", files, w.files, err)
	}
	if b, err := os.ReadFile(w.outside); err != nil || string(b) != secretOutside {
		t.Errorf("the file outside is %q, %v", b, err)
	}
	knows := map[string][]string{}
	f, err := os.Open(w.graph)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var e struct {
			Type, Name   string
			Observations []string
		}
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			t.Fatalf("the graph has %q: %v", s.Text(), err)
		}
		knows[e.Type+" "+e.Name] = e.Observations
	}
	want := map[string][]string{}
	for name, observations := range w.knows {
		want["entity "+name] = observations
	}
	if !reflect.DeepEqual(knows, want) {
		t.Errorf("the graph holds\n%q\nwant\n%q", knows, want)
	}
}

const secretOutside = "the combination is 12345\n"

// newWorld makes the folder and the graph that the tasks begin with.
func newWorld(t *testing.T) *world {
	t.Helper()
	dir := usertest.Dir(t)
	return &world{root: filepath.Join(dir, "root"), outside: filepath.Join(dir, "secret.txt"), graph: filepath.Join(dir, "graph.jsonl"),
		logs: map[string]string{}, read: map[string]int{}, files: map[string]string{}, knows: map[string][]string{}}
}

func (w *world) fill(t *testing.T, tasks []task) {
	t.Helper()
	var graph strings.Builder
	for _, c := range tasks {
		for name, text := range c.Files {
			path := filepath.Join(w.root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			writeText(t, path, text)
			w.files[name] = text
		}
		for name, observations := range c.Knows {
			graph.WriteString(asJSON(t, map[string]any{"type": "entity", "name": name, "entityType": "person", "observations": observations}) + "\n")
			w.knows[name] = observations
		}
	}
	writeText(t, w.graph, graph.String())
	writeText(t, w.outside, secretOutside)
}

// TestTasksWithRealServers does the tasks of testdata/tasks.yaml, one after the other, in one kernel with one set of servers, and looks after each at
// everything that it could have changed.
func TestTasksWithRealServers(t *testing.T) {
	w := newWorld(t)
	tasks, script := loadTasks(t, w.root, w.outside)
	w.fill(t, tasks)
	config := tooltest.Config(t, map[string]tooltest.Server{
		"filesystem": w.asServer(t, "filesystem", "filesystem", w.root),
		"everything": w.asServer(t, "everything", "everything"),
		"memory":     w.asServer(t, "memory", "memory").With("env", map[string]string{"MEMORY_FILE_PATH": w.graph}),
		"thinking":   w.asServer(t, "thinking", "sequential-thinking"),
	})
	provider, model := devModels(t, func(o *devllm.Options) {
		o.Script = script
		o.Profile.Limits = devllm.Limits{Requests: 3000, Total: 10_000_000}
	})
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	k := openEmbedded(t, home(t), func(c *embedded.Config) {
		c.Models, c.Sandboxes, c.Python = []string{model}, true, systemPython(t)
	})
	about := map[string]int{}
	for _, c := range tasks {
		about[c.About]++
		t.Run(c.About+"/"+c.Task, func(t *testing.T) {
			before := len(provider.Log(devllm.Filter{}))
			got := run(t, k, c.spec(t, config))
			c.ended(t, k, got, w.called(t))
			c.spent(t, provider.Log(devllm.Filter{})[before:])
			maps.Copy(w.files, c.Leaves)
			maps.Copy(w.knows, c.Learns)
			w.compare(t)
			if t.Failed() || testing.Verbose() {
				t.Logf("$ agentkernel do '%s'\n%s%s", c.Task, got.stderr, got.stdout)
			}
		})
	}
	for _, kind := range []string{"nothing", "error", "denied", "nonsense", "loop", "claim", "injected"} {
		if about[kind] < 2 {
			t.Errorf("%d tasks are about %s", about[kind], kind)
		}
	}
	if len(tasks) < 30 {
		t.Errorf("there are %d tasks", len(tasks))
	}
}

// spec is the process of the task.
func (c *task) spec(t *testing.T, config string) agentkernel.Spec {
	t.Helper()
	todo := agent.Task{Text: c.Task}
	if c.Schema != nil {
		todo.Schema = json.RawMessage(asJSON(t, c.Schema))
	}
	program, err := agent.Program(todo)
	if err != nil {
		t.Fatal(err)
	}
	if c.Turns == 0 {
		c.Turns = 8
	}
	if c.USD == 0 {
		c.USD = 0.25
	}
	return agentkernel.Spec{Program: program, Tools: []string{config}, Allow: c.Allow, OnBudget: agentkernel.BudgetRaise, Limits: agentkernel.Limits{Output: c.Output, Time: agentkernel.Duration(time.Duration(c.Time) * time.Second)},
		Budget: agentkernel.Budget{Turns: c.Turns, USD: agentkernel.NanoUSD(c.USD * 1e9)}}
}

// ended compares how a task has ended, and what has reached the servers.
func (c *task) ended(t *testing.T, k agentkernel.Kernel, got outcome, calls map[string][]string) {
	t.Helper()
	code, result := 0, c.Result+"\n"
	if c.Result == "" {
		code, result = 1, ""
	}
	if got.State != agentkernel.StateExited || got.ExitCode != code || got.stdout != result {
		t.Errorf("%s, exit code %d, %v, printed %q; want exit code %d, %q", got.State, got.ExitCode, got.Error, got.stdout, code, result)
	}
	for _, text := range c.Says {
		if !strings.Contains(got.stderr, text) {
			t.Errorf("it does not say %q", text)
		}
	}
	want, all := map[string][]string{}, 0
	for _, name := range c.Calls {
		name, several := strings.CutSuffix(name, "...")
		server, tool, _ := strings.Cut(name, ".")
		n := 1
		if several { // as many as the bounds leave, and of no other kind
			n = max(1, len(calls[server]))
		}
		want[server], all = append(want[server], slices.Repeat([]string{tool}, n)...), all+n
	}
	if !reflect.DeepEqual(calls, want) {
		t.Errorf("the servers were asked for %v, want %v", calls, want)
	}
	says, printed := int64(0), got.stderr+got.stdout
	for _, p := range tree(t, k, got.Process) {
		says += p.Usage.ToolCalls
		printed += stdoutOf(t, k, p.PID)
	}
	if says != int64(all+c.Unsent) {
		t.Errorf("the last line says %d tool calls, and %d came to the servers, %d were not sent", says, all, c.Unsent)
	}
	for _, text := range c.Never {
		if strings.Contains(printed, text) {
			t.Errorf("it or a program of it says %q", text)
		}
	}
}

// tree is a process and all below it, which the last line of a run counts.
func tree(t *testing.T, k agentkernel.Kernel, p agentkernel.Process) []agentkernel.Process {
	t.Helper()
	all := []agentkernel.Process{p}
	below, err := k.List(t.Context(), agentkernel.Filter{Parent: p.PID})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range below {
		all = append(all, tree(t, k, q)...)
	}
	return all
}

// spent compares what the provider was asked for with the bounds.
func (c *task) spent(t *testing.T, log []devllm.Entry) {
	t.Helper()
	var nanos int64
	for _, e := range log {
		if nanos += e.Nanos; e.Rule != c.Task {
			t.Errorf("the model was shown what it was not to be shown: %+v", e)
		}
	}
	if c.Asked != 0 && len(log) != c.Asked || int64(len(log)) > c.Turns {
		t.Errorf("the model was asked %d times, want %d, and at most %d", len(log), c.Asked, c.Turns)
	}
	if most := c.USD * 1e9; float64(nanos) > most {
		t.Errorf("the provider charges %d nano-dollars of %.0f", nanos, most)
	}
}
