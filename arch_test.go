package agentkernel_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The module path stands here and in go.mod's first line; `make rename MODULE=...` changes all imports.
const module = "agentkernel"

// layer rules: a package whose path matches `of` may import, of this module, only what `may` lists.
// A trailing /... means the whole subtree. The first rule that matches counts. Test files are free to
// use real parts, so only the packages' own imports are checked.
var rules = []struct {
	of  string
	may []string
}{
	{"", nil}, // L0: the root imports the standard library only
	{"guest/...", nil},
	{"internal/journal", []string{"", "internal/quickjson"}},
	{"internal/quickjson", nil},
	{"internal/sched", nil},
	{"internal/places", nil},
	{"internal/sched/...", []string{"internal/sched"}},
	{"internal/nearest", nil},
	{"internal/bytesize", nil},
	{"internal/access", []string{"internal/shellword"}},
	{"internal/clip", nil},
	{"internal/jsonc", []string{"internal/strictjson"}},
	{"internal/strictjson", []string{"internal/clip", "internal/nearest"}},
	{"internal/asktext", nil},
	{"internal/shellword", nil},
	{"internal/mounts", nil},
	{"internal/lazy", nil},
	{"internal/envname", nil},
	{"internal/regular", nil},
	{"internal/inherited", nil},
	{"internal/portowner", nil},
	{"internal/usertest", nil},
	{"internal/quickexit", []string{"guest/..."}},
	{"internal/datadir", []string{"", "internal/access"}},
	{"internal/reaper", []string{"", "internal/inherited", "internal/lazy"}},
	{"internal/library", []string{"", "internal/lazy", "internal/strictjson"}},
	{"internal/redact", nil},
	{"internal/deadline", nil},
	{"internal/connlimit", nil},
	{"internal/incoming", nil},
	{"internal/fetch", []string{"internal/clip", "", "internal/incoming", "internal/lazy", "internal/portowner", "internal/redact", "internal/shellword"}},
	{"internal/packages", []string{"internal/clip", "", "internal/lazy"}},
	{"internal/sandbox/monty/...", []string{"internal/clip", "internal/fastpath", "", "guest/...", "internal/bytesize", "internal/journal", "internal/lazy", "internal/nearest", "internal/reaper", "internal/sandbox/confine", "internal/sandbox/monty/...", "internal/strictjson"}},
	{"internal/sandbox/confine", []string{"", "internal/inherited", "internal/lazy", "internal/mounts"}},
	{"internal/sandbox/workspace", []string{"", "internal/jsonc", "internal/lazy", "internal/mounts", "internal/regular", "internal/shellword"}},
	{"internal/sandbox/process", []string{"internal/clip", "", "guest/...", "internal/bytesize", "internal/lazy", "internal/sandbox/confine", "internal/shellword"}},
	{"internal/sandbox/sandboxtest/...", []string{"internal/fastpath", "", "internal/journal"}},
	{"internal/fastpath", []string{""}},
	{"internal/store/blob", []string{"", "internal/access"}},
	{"internal/store/sqlite", []string{"", "internal/access", "internal/journal", "internal/nearest", "internal/fastpath", "internal/store/blob", "internal/store/sqlite/binding", "internal/store/sqlite/wal", "internal/shellword"}},
	{"internal/store/sqlite/binding", nil},
	{"internal/store/sqlite/wal", nil},
	{"internal/store/...", []string{"", "internal/fastpath", "internal/journal"}},
	{"internal/tool/...", []string{"internal/clip", "", "internal/envname", "internal/incoming", "internal/journal", "internal/jsonc", "internal/lazy", "internal/nearest", "internal/places", "internal/portowner", "internal/reaper", "internal/redact", "internal/regular", "internal/strictjson", "internal/tool/...", "internal/shellword"}},
	// What speaks to models knows nothing of the kernel, and no provider knows another.
	{"internal/llm", []string{"", "internal/clip"}},
	{"internal/llm/control", []string{"internal/llm", "internal/sched/..."}},
	{"internal/llm/models", []string{"", "internal/clip", "internal/envname", "internal/lazy", "internal/llm", "internal/nearest", "internal/strictjson"}},
	{"internal/llm/router", []string{"", "internal/clip", "internal/llm", "internal/llm/control", "internal/llm/models", "internal/llm/providers", "internal/nearest", "internal/portowner", "internal/redact", "internal/sched/traffic"}},
	{"internal/llm/sse", nil},
	{"internal/llm/encode", nil},
	{"internal/llm/transport", []string{"internal/clip", "internal/llm", "internal/llm/encode", "internal/llm/sse", "internal/portowner", "internal/redact"}},
	{"internal/llm/llmtest", []string{"internal/llm"}},
	{"internal/llm/providers", []string{"internal/llm", "internal/llm/anthropic", "internal/llm/ollama", "internal/llm/openai", "internal/nearest"}},
	{"internal/llm/...", []string{"internal/llm", "internal/llm/encode", "internal/llm/sse", "internal/llm/transport", "internal/quickjson"}},
	// A stranger to both: what it says of limits is no echo of what ours believe.
	{"internal/devllm", []string{"internal/clip", "internal/lazy", "internal/nearest", "internal/strictjson"}},
	{"internal/recording", []string{"", "internal/bytesize", "internal/journal", "internal/kernel/history", "internal/lazy", "internal/strictjson"}},
	{"internal/backup", []string{"", "internal/kernel/history", "internal/kernel/specs", "internal/strictjson"}},
	// A family sees the door and what it is about, and neither the kernel nor another family.
	{"internal/sys", []string{"", "internal/journal", "internal/strictjson"}},
	{"internal/sys/families", []string{"", "internal/llm", "internal/sys", "internal/sys/..."}},
	{"internal/sys/llm", []string{"", "internal/clip", "internal/journal", "internal/llm", "internal/quickjson", "internal/sys"}},
	{"internal/sys/...", []string{"internal/clip", "", "internal/bytesize", "internal/journal", "internal/nearest", "internal/places", "internal/sys", "internal/shellword"}},
	{"internal/kernel/history", []string{"", "internal/fastpath", "internal/journal", "internal/kernel/advice"}},
	{"internal/kernel/advice", nil},
	{"internal/kernel/room", []string{"internal/bytesize"}},
	{"internal/kernel/backends", []string{"", "internal/kernel/advice"}},
	{"internal/kernel/eviction", []string{""}},
	{"internal/kernel/cells", []string{"internal/journal", "", "internal/kernel/advice", "internal/kernel/history"}},
	{"internal/kernel/files", []string{"", "internal/kernel/advice", "internal/kernel/limits"}},
	{"internal/kernel/gate", nil},
	{"internal/kernel/keys", []string{"", "internal/kernel/advice"}},
	{"internal/kernel/limits", []string{"", "internal/bytesize", "internal/kernel/advice"}},
	{"internal/kernel/moves", []string{"", "internal/clip", "internal/kernel/advice", "internal/kernel/backends", "internal/kernel/replay"}},
	{"internal/kernel/observe", []string{""}},
	{"internal/kernel/permit", []string{"internal/clip", "", "internal/bytesize", "internal/journal", "internal/nearest"}},
	{"internal/kernel/roles", []string{"", "internal/kernel/history", "internal/kernel/usage", "internal/sys"}},
	{"internal/kernel/rows", []string{"", "internal/kernel/idle"}},
	{"internal/kernel/settings", []string{"", "internal/kernel/room", "internal/sys"}},
	{"internal/kernel/skills", []string{"", "internal/kernel/backends", "internal/lazy"}},
	{"internal/kernel/specs", []string{"", "internal/bytesize", "internal/kernel/budget", "internal/kernel/history", "internal/kernel/keys", "internal/kernel/room", "internal/fastpath", "internal/sys"}},
	{"internal/kernel/origin", []string{"", "internal/journal", "internal/kernel/advice", "internal/kernel/history", "internal/kernel/unresolved", "internal/shellword", "internal/sys"}},
	{"internal/kernel/replay", []string{"", "internal/journal", "internal/kernel/advice", "internal/kernel/history", "internal/kernel/room"}},
	{"internal/kernel/locals", []string{"", "internal/kernel/history", "internal/sys"}},
	{"internal/kernel/budget", []string{"", "internal/journal", "internal/kernel/advice", "internal/kernel/history"}},
	{"internal/kernel/progress", []string{"", "internal/clip", "internal/kernel/advice", "internal/kernel/history"}},
	{"internal/kernel/reserve", []string{"", "internal/kernel/history", "internal/sys"}},
	{"internal/kernel/slots", []string{"internal/sched"}},
	{"internal/kernel/steps", []string{""}},
	{"internal/kernel/streams", []string{"", "internal/journal", "internal/kernel/advice", "internal/sys"}},
	{"internal/kernel/timers", nil},
	{"internal/kernel/running", []string{""}},
	{"internal/kernel/ends", []string{"", "internal/kernel/limits"}},
	{"internal/kernel/trees", []string{"", "internal/kernel/room"}},
	{"internal/kernel/unresolved", []string{"", "internal/journal", "internal/kernel/advice", "internal/kernel/history"}},
	{"internal/kernel/verify", []string{"", "internal/kernel/backends", "internal/kernel/ends", "internal/kernel/history", "internal/kernel/specs"}},
	{"internal/kernel/holds", []string{""}},
	{"internal/kernel/numbered", nil},
	{"internal/kernel/hosting", []string{"", "internal/clip", "internal/journal", "internal/kernel/advice", "internal/kernel/permit", "internal/kernel/replay"}},
	{"internal/kernel/idle", []string{""}},
	{"internal/kernel/inbox", []string{"", "internal/sys"}},
	{"internal/kernel/usage", []string{"", "internal/kernel/history"}},
	{"internal/kernel/wakes", []string{"", "internal/kernel/timers"}},
	{"internal/kernel/watch", []string{""}},
	{"internal/kernel/workingset", []string{"", "internal/bytesize", "internal/kernel/room", "internal/sys"}},
	{"internal/retention", []string{"", "internal/bytesize"}},
	// Whoever calls from outside does so through it, and it sees the contract alone.
	{"internal/policy", []string{""}},
	{"internal/offline", []string{"", "internal/kernel/history", "internal/kernel/usage"}},
	{"internal/kernel", []string{"internal/clip", "", "internal/fastpath", "internal/bytesize", "internal/journal", "internal/kernel/...", "internal/shellword", "internal/sys"}},
	{"internal/api/wire", []string{""}},
	{"internal/api", []string{"internal/clip", "", "internal/api/wire", "internal/connlimit", "internal/deadline", "internal/nearest", "internal/policy", "internal/strictjson"}},
	{"internal/mcpserver", []string{"", "internal/asktext", "internal/connlimit", "internal/deadline", "internal/policy", "internal/strictjson", "internal/shellword"}},
	{"client", []string{"", "internal/api/wire"}},
	{"hosted", []string{""}},
	{"userland/...", []string{""}},
	{"internal/config", []string{"", "internal/fetch", "internal/lazy", "internal/llm/models", "internal/nearest", "internal/regular", "internal/sched", "internal/shellword"}},
	{"internal/setup", []string{"", "internal/access", "internal/bytesize", "internal/datadir", "internal/lazy", "internal/shellword"}},
	{"embedded", []string{"", "internal/..."}},
	// Of the kernel, commands know what its journals mean, and nothing else.
	{"cmd/...", []string{"", "client", "embedded", "userland/...", "cmd/...", "internal/api", "internal/api/wire", "internal/asktext", "internal/clip", "internal/config", "internal/datadir", "internal/devllm", "internal/inherited", "internal/journal", "internal/jsonc", "internal/kernel/history", "internal/lazy", "internal/llm/models", "internal/mcpserver", "internal/nearest", "internal/packages", "internal/redact", "internal/regular", "internal/sandbox/process", "internal/sandbox/workspace", "internal/setup", "internal/store/sqlite", "internal/strictjson", "internal/tool", "internal/shellword"}},
	// The simulator drives the kernel by its public surface, like embedded does; nothing that is shipped imports it.
	{"internal/sim", []string{"", "internal/journal", "internal/kernel", "internal/llm", "internal/llm/models", "internal/llm/router", "internal/places", "internal/sys", "internal/sys/families", "internal/sys/tool"}},
	{"internal/gen", []string{"", "internal/config", "internal/mcpserver", "internal/sys/families"}},
	{"bench/...", []string{"", "bench/...", "client", "embedded", "guest/...", "internal/...", "userland/..."}},
	{"internal/e2e/...", []string{"", "client", "embedded", "internal/..."}},
	{"examples/...", []string{"", "client", "embedded"}},
	{"sdk/...", nil}, // Python; a Go test runs its tests
}

type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

func listPackages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Standard,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	return pkgs
}

func TestImportDirection(t *testing.T) {
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		may, ok := ruleFor(rel)
		if !ok {
			t.Errorf("package %q has no rule: say in arch_test.go which layer it is in", rel)
			continue
		}
		for _, imp := range p.Imports {
			inModule := imp == module || strings.HasPrefix(imp, module+"/")
			if !inModule {
				if rel == "" && strings.Contains(strings.Split(imp, "/")[0], ".") {
					t.Errorf("the root imports %s; it may import the standard library only", imp)
				}
				continue
			}
			target := strings.TrimPrefix(strings.TrimPrefix(imp, module), "/")
			if !allowed(may, target) {
				t.Errorf("%s imports %s, which its layer may not", p.ImportPath, imp)
			}
		}
	}
}

func TestNoDrawerPackages(t *testing.T) {
	for _, p := range listPackages(t) {
		for part := range strings.SplitSeq(p.ImportPath, "/") {
			switch part {
			case "util", "utils", "common", "types", "helpers", "misc", "consts":
				t.Errorf("%s: a package is named for what it does, not %q", p.ImportPath, part)
			}
		}
	}
}

func ruleFor(rel string) ([]string, bool) {
	for _, r := range rules {
		if match(r.of, rel) {
			return r.may, true
		}
	}
	return nil, false
}

func allowed(may []string, target string) bool {
	for _, m := range may {
		if match(m, target) {
			return true
		}
	}
	return false
}

func match(pattern, rel string) bool {
	if sub, ok := strings.CutSuffix(pattern, "/..."); ok {
		return rel == sub || strings.HasPrefix(rel, sub+"/")
	}
	return pattern == rel
}

// TestNobodyShipsTheSimulator: what is only for tests is imported by tests alone.
func TestNobodyShipsTheSimulator(t *testing.T) {
	for _, p := range listPackages(t) {
		if slices.Contains(p.Imports, module+"/internal/sim") {
			t.Errorf("%s imports the simulator", p.ImportPath)
		}
	}
}
