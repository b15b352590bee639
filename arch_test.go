package agentkernel_test

import (
	"encoding/json"
	"os/exec"
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
	{"internal/journal", []string{""}},
	{"internal/sched", nil},
	{"internal/nearest", nil},
	{"internal/jsonc", nil},
	{"internal/strictjson", []string{"internal/nearest"}},
	{"internal/lazy", nil},
	{"internal/regular", nil},
	{"internal/usertest", nil},
	{"internal/quickexit", []string{"guest/..."}},
	{"internal/datadir", []string{""}},
	{"internal/reaper", []string{"", "internal/lazy"}},
	{"internal/library", []string{"", "internal/lazy"}},
	{"internal/redact", nil},
	{"internal/deadline", nil},
	{"internal/fetch", []string{"", "internal/lazy", "internal/redact"}},
	{"internal/packages", []string{"", "internal/lazy"}},
	{"internal/sandbox/monty/...", []string{"", "guest/...", "internal/journal", "internal/lazy", "internal/nearest", "internal/reaper", "internal/sandbox/confine", "internal/sandbox/monty/..."}},
	{"internal/sandbox/confine", []string{"", "internal/lazy"}},
	{"internal/sandbox/workspace", []string{""}},
	{"internal/sandbox/process", []string{"", "guest/...", "internal/lazy", "internal/sandbox/confine"}},
	{"internal/sandbox/sandboxtest/...", []string{"", "internal/journal"}},
	{"internal/simplespec", []string{""}},
	{"internal/store/blob", []string{""}},
	{"internal/store/sqlite", []string{"", "internal/journal", "internal/nearest", "internal/simplespec", "internal/store/blob", "internal/store/sqlite/wal"}},
	{"internal/store/sqlite/wal", nil},
	{"internal/store/...", []string{"", "internal/journal"}},
	{"internal/tool/...", []string{"", "internal/journal", "internal/jsonc", "internal/lazy", "internal/nearest", "internal/reaper", "internal/redact", "internal/regular", "internal/strictjson", "internal/tool/..."}},
	{"internal/recording", []string{"", "internal/lazy", "internal/strictjson"}},
	{"internal/backup", []string{""}},
	{"internal/kernel/history", []string{"", "internal/journal"}},
	{"internal/retention", []string{""}},
	{"internal/offline", []string{"", "internal/kernel/history"}},
	{"internal/kernel", []string{"", "internal/journal", "internal/kernel/history", "internal/recording", "internal/nearest", "internal/sched", "internal/simplespec"}},
	{"internal/api", []string{"", "internal/deadline", "internal/nearest", "internal/strictjson"}},
	{"internal/mcpserver", []string{"", "internal/deadline", "internal/strictjson"}},
	{"client", []string{"", "internal/api"}},
	{"userland/...", []string{""}},
	{"internal/config", []string{"", "internal/lazy", "internal/nearest", "internal/regular"}},
	{"internal/setup", []string{"", "internal/datadir", "internal/lazy"}},
	{"embedded", []string{"", "internal/..."}},
	{"cmd/...", []string{"", "client", "embedded", "userland/...", "internal/...", "cmd/..."}},
	{"internal/gen", []string{"", "internal/config", "internal/mcpserver"}},
	{"bench/...", []string{"", "client", "embedded", "guest/...", "internal/..."}},
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
