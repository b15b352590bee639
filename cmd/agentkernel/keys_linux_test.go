package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel/internal/datadir"
	"agentkernel/internal/devllm"
)

// keySeeker asks models whose servers take the key, refuse it, and repeat it, and looks for it wherever a program can look. What it
// finds it also prints backwards: nothing that strikes the key out of what programs print must hide that they have it.
const keySeeker = `
from kernel import llm

print(llm("marked question"))
for model in ["refused", "echo", "echostatus", "echohead", "given"]:
    try:
        llm("marked question", model=model)
        print("answered by", model)
    except Exception as e:
        print(model, repr(e), str(e)[::-1])
`

const processSeeker = `
import glob, os
seen = [repr(dict(os.environ))]
for name in glob.glob("/proc/*/environ") + glob.glob("/proc/*/cmdline") + glob.glob("/proc/self/task/*/environ"):
    try:
        seen.append(open(name, "rb").read().decode("latin-1"))
    except OSError as e:
        seen.append(str(e))
text = "\n".join(seen).replace("\0", "\n")
print(len(seen), "places")
print(text)
print(text[::-1])
`

// stays is what a program does that is looked into.
const stays = `
print("it stays")
while True:
    pass
`

// keyHunt is where keys are looked for.
type keyHunt struct {
	t    *testing.T
	dir  string
	env  []string
	keys []string
	in   string // of commands
}

// forms are how a key may be written.
func forms(key string) [][]byte {
	backwards := []byte(key)
	slices.Reverse(backwards)
	all := [][]byte{[]byte(key), backwards, []byte(hex.EncodeToString([]byte(key)))}
	for shift := range 3 { // what comes before it decides on its base64
		text := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + key))
		all = append(all, []byte(text[4:len(text)-4]))
	}
	return all
}

func (h *keyHunt) look(where string, text []byte) {
	h.t.Helper()
	for i, key := range h.keys {
		for _, form := range forms(key) {
			if at := bytes.Index(text, form); at >= 0 {
				h.t.Errorf("%s has key %d: %q", where, i, text[max(0, at-200):min(len(text), at+len(form)+50)])
			}
		}
	}
	for rest := text; ; { // parts of files may be packed
		at := bytes.Index(rest, []byte{0x1f, 0x8b, 8})
		if at < 0 {
			return
		}
		if z, err := gzip.NewReader(bytes.NewReader(rest[at:])); err == nil {
			z.Multistream(false)
			if plain, err := io.ReadAll(io.LimitReader(z, 1<<24)); err == nil || len(plain) > 0 {
				h.look(where+", unpacked", plain)
			}
		}
		rest = rest[at+3:]
	}
}

// run runs a command, and looks at what it says.
func (h *keyHunt) run(args ...string) string {
	h.t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(h.t.Context(), "agentkernel", args...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = h.dir, h.env, strings.NewReader(h.in), &out, &out
	err := cmd.Run()
	if code := exitStatus(err); code < 0 {
		h.t.Fatalf("%q: %v", args, err)
	}
	h.look(strings.Join(args, " "), out.Bytes())
	return out.String()
}

// memories looks at what a core file would have of each process below a kernel, and at its environment. The kernel itself, which has keys,
// writes none.
func (h *keyHunt) memories(home string) {
	h.t.Helper()
	dir, err := datadir.Open(home)
	if err != nil {
		h.t.Fatal(err)
	}
	kernel, held := dir.Held()
	if !held {
		h.t.Fatal("no kernel runs")
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(kernel.OSPID, unix.RLIMIT_CORE, nil, &limit); err != nil || limit.Cur > 1 {
		h.t.Errorf("the kernel may write a core file of %d bytes, %v", limit.Cur, err)
	}
	if !bytes.Contains(h.memory(kernel.OSPID), []byte(h.keys[0])) {
		h.t.Error("the kernel's own memory has no key: it cannot be read by this test")
	}
	asked := 0
	for _, p := range below(h.t, kernel.OSPID) {
		memory := h.memory(p)
		h.look(fmt.Sprintf("the memory of process %d", p), memory)
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p)) // it may have ended
		h.look(fmt.Sprintf("the environment of process %d", p), environ)
		if bytes.Contains(memory, []byte("marked question")) {
			asked++
		}
	}
	if asked < 2 {
		h.t.Errorf("what was asked is in the memory of %d processes below the kernel, where two programs have asked", asked)
	}
}

// allowCores lets what a test starts write core files, as far as the test may itself.
func allowCores(t *testing.T) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: before.Max, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_CORE, &before) })
}

// memory is what a process can write to, as far as it can be read.
func (h *keyHunt) memory(pid int) (all []byte) {
	maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid)) // it may have ended
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil || !strings.HasPrefix(rights, "rw") || to-from > 256<<20 {
			continue
		}
		part := make([]byte, to-from)
		n, _ := mem.ReadAt(part, from) // not all of it need be there
		all = append(all, part[:n]...)
	}
	return all
}

// below are the processes that a process has started, and those that they have.
func below(t *testing.T, pid int) (all []int) {
	t.Helper()
	children := map[int][]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if _, rest, named := bytes.Cut(stat, []byte(") ")); err == nil && named {
			var state string
			var parent, child int
			if _, err := fmt.Sscan(string(rest), &state, &parent); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Sscan(e.Name(), &child); err == nil {
				children[parent] = append(children[parent], child)
			}
		}
	}
	for next := children[pid]; len(next) > 0; next = next[1:] {
		all = append(all, next[0])
		next = append(next, children[next[0]]...)
	}
	return all
}

// echoing is a server that repeats the key that it gets, in each way in which it can.
func echoing(t *testing.T) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if strings.HasPrefix(key, "sk-") {
			asked.Add(1)
		}
		switch {
		case strings.HasPrefix(r.URL.Path, "/head"):
			w.Header().Set("X-Request-Id", key)
			w.Header().Set("Retry-After-Ms", key)
			http.Error(w, "<html>"+r.Header.Get("Authorization")+"</html>", http.StatusForbidden)
		case strings.HasPrefix(r.URL.Path, "/status"):
			w.WriteHeader(http.StatusOK)
			fmt.Fprintf(w, "no JSON: %s", key)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"type":%q,"code":%q,"message":"the key %s is unknown to this server","param":%q}}`, key, key, key, key)
		}
	}))
	t.Cleanup(web.Close)
	return web.URL, asked
}

// TestNoKeyAnywhere: a key is in no file of the data directory, no output of a command, no error, and nothing that a sandbox sees,
// though servers repeat it.
func TestNoKeyAnywhere(t *testing.T) {
	engineForTests(t)
	allowCores(t)
	h := &keyHunt{t: t, dir: t.TempDir(), keys: []string{"sk-Right4f1c7d0a9e5b3827", "sk-Wrong60d2b8e47a1f95c3", "sk-Given8a31c95e0b7d62f4"}}
	server, err := devllm.New(devllm.Options{Keys: h.keys[:1]})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	echo, asked := echoing(t)
	home, err := os.MkdirTemp("", "ak") // short, for its socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	h.env = append(os.Environ(), "HOME="+h.dir, "AGENTKERNEL_HOME="+home, "AGENTKERNEL_ENGINE="+engineForTests(t), "AGENTKERNEL_PYTHON="+pythonForTests(t),
		"AGENTKERNEL_LOG_LEVEL=debug", "OPENAI_API_KEY="+h.keys[0], "WRONG_KEY="+h.keys[1])
	settings := fmt.Sprintf("models = [\"fast openai:gpt-dev url=%[1]s/v1 price=1/1\", \"refused openai:gpt-dev url=%[1]s/v1 key=env:WRONG_KEY price=1/1\", \"echo openai:gpt-dev url=%[2]s/v1 price=1/1\", "+
		"\"echostatus openai:gpt-dev url=%[2]s/status price=1/1\", \"echohead openai:gpt-dev url=%[2]s/head price=1/1\", \"given openai:gpt-dev url=%[2]s/v1 price=1/1 key=given\"]\n", web.URL, echo)
	files := map[string]string{filepath.Join(".config", "agentkernel", "config.toml"): settings, "monty.py": keySeeker, "process.py": processSeeker + keySeeker,
		"monty-stays.py": keySeeker + stays, "process-stays.py": keySeeker + stays}
	for name, text := range files {
		path := filepath.Join(h.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { stopKernelOf(home) })
	h.in = h.keys[2]
	h.run("llm", "key", "given")
	h.run("llm", "key", "fast") // which is not given one
	h.in = ""
	// Under a budget what may have cost something is not sent again.
	for pid, backend := range []string{"monty", "process"} {
		out := h.run("run", "--budget-usd", "1", "--backend", backend, backend+".py")
		for _, want := range []string{"marked question marked", "refused ", "echo ", "echostatus ", "echohead ", "given "} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: without %q: %s", backend, want, out)
			}
		}
		if strings.Contains(out, "answered by") || backend == "process" && !strings.Contains(out, " places") {
			t.Errorf("%s: %s", backend, out)
		}
		id := fmt.Sprint(pid + 1)
		h.run("trace", id)
		h.run("trace", id, "--json")
		h.run("inspect", id, "--json")
		h.run("why", id)
		h.run("logs", id)
		h.run("export", id, "-o", id+".akr")
	}
	h.run("run", "-c", `from kernel import llm; llm("marked question", model="echo")`) // an error that ends a program
	h.run("inspect", "3")
	h.run("llm", "list", "--json")
	h.run("llm", "test", "fast")
	h.run("llm", "test", "refused")
	h.run("llm", "test", "echo")
	for _, backend := range []string{"monty", "process"} {
		pid := strings.TrimSpace(h.run("spawn", "--time", "1h", "--budget-usd", "1", "--backend", backend, backend+"-stays.py"))
		for begun := time.Now(); !strings.Contains(h.run("logs", pid), "it stays"); {
			if time.Since(begun) > scriptPatience {
				t.Fatalf("%s: process %s has not come to its end: %s", backend, pid, h.run("inspect", pid))
			}
		}
	}
	h.memories(home)
	h.run("ps", "--json")
	h.run("doctor")
	h.run("llm", "limits")
	if asked.Load() < 9 || server.Totals(devllm.Filter{Key: devllm.Fingerprint(h.keys[1])}).Statuses["401"] < 3 {
		t.Errorf("%d requests came with a key to the server that repeats it; of the other: %+v", asked.Load(), server.Totals(devllm.Filter{}))
	}
	found := 0
	for _, dir := range []string{home, h.dir} { // the kernel runs: the write-ahead log is there
		if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte("marked question")) {
				found++
			}
			h.look(path, text)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if found < 3 { // two programs, and what the store has of them
		t.Errorf("what was asked is in %d files: they cannot be read by this test", found)
	}
}
