package setup

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

// engine is the one that `make engine` installed for tests.
func engine(t *testing.T) string {
	t.Helper()
	p, err := here()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := filepath.Abs(p.executable("../../.cache/monty"))
	if err != nil {
		t.Fatal(err)
	}
	if !executable(exe) {
		t.Fatalf("no engine at %s; run: make engine", exe)
	}
	return exe
}

func nothing(string) (string, error) { return "", exec.ErrNotFound }

func script(t *testing.T, dir, name, body string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func only(name, path string) func(string) (string, error) {
	return func(n string) (string, error) {
		if n == name {
			return path, nil
		}
		return "", exec.ErrNotFound
	}
}

func TestThePinsAgree(t *testing.T) {
	if EngineVersion() == "" || strings.ContainsAny(EngineVersion(), "^~*x") {
		t.Fatalf("package.json does not pin one version: %q", EngineVersion())
	}
	var lock struct {
		Packages map[string]struct {
			Version, Integrity, Resolved string
		}
	}
	if err := json.Unmarshal(packageLock, &lock); err != nil {
		t.Fatal(err)
	}
	entry := lock.Packages["node_modules/"+lockedPlatform.Package]
	if entry.Version != EngineVersion() || !strings.HasPrefix(entry.Integrity, "sha512-") {
		t.Errorf("the lock file has %+v for %s %s", entry, lockedPlatform.Package, EngineVersion())
	}
	for name, p := range lock.Packages {
		if p.Resolved != "" {
			t.Errorf("%s: the lock file names a registry: %s", name, p.Resolved)
		}
	}
}

func TestPlatforms(t *testing.T) {
	for _, c := range []struct{ goos, goarch, pkg string }{
		{"linux", "amd64", "@pydantic/monty-linux-x64-gnu"},
		{"linux", "arm64", "@pydantic/monty-linux-arm64-gnu"},
		{"darwin", "arm64", "@pydantic/monty-darwin-arm64"},
		{"darwin", "amd64", "@pydantic/monty-darwin-x64"},
		{"windows", "amd64", ""},
		{"linux", "riscv64", ""},
	} {
		p, err := PlatformOf(c.goos, c.goarch)
		if p.Package != c.pkg || (c.pkg == "") != (agentkernel.CodeOf(err) == agentkernel.CodeUnsupported) {
			t.Errorf("%s/%s: %q, %v", c.goos, c.goarch, p.Package, err)
		}
	}
}

func TestMusl(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		want  bool
	}{
		"alpine":              {[]string{"lib/ld-musl-x86_64.so.1"}, true},
		"debian":              {[]string{"lib64/ld-linux-x86-64.so.2"}, false},
		"debian with musl":    {[]string{"lib/ld-musl-x86_64.so.1", "lib64/ld-linux-x86-64.so.2"}, false},
		"debian arm64":        {[]string{"lib/ld-linux-aarch64.so.1"}, false},
		"neither of them":     {nil, false},
		"alpine, glibc added": {[]string{"lib/ld-musl-aarch64.so.1", "lib/ld-linux-aarch64.so.1"}, false},
	} {
		root := t.TempDir()
		for _, f := range c.files {
			script(t, filepath.Dir(filepath.Join(root, f)), filepath.Base(f), "")
		}
		if got := isMusl(root); got != c.want {
			t.Errorf("%s: musl is %v", name, got)
		}
	}
}

func TestFindInTheDocumentedOrder(t *testing.T) {
	home := t.TempDir()
	p, err := here()
	if err != nil {
		t.Fatal(err)
	}
	byHand := script(t, filepath.Join(home, "engines"), "monty", "")
	installed := p.executable(filepath.Join(home, "engines", EngineVersion()))
	script(t, filepath.Dir(installed), "monty", "")
	onPath := script(t, t.TempDir(), "monty", "")

	path, origin, err := Find(FindOptions{Explicit: byHand, Home: home, LookPath: exec.LookPath})
	if err != nil || path != byHand || origin != OriginSetting {
		t.Errorf("setting: %s, %s, %v", path, origin, err)
	}
	path, origin, err = Find(FindOptions{Home: home, LookPath: only("monty", onPath)})
	if err != nil || path != onPath || origin != OriginPath {
		t.Errorf("path: %s, %s, %v", path, origin, err)
	}
	path, origin, err = Find(FindOptions{Home: home, LookPath: nothing})
	if err != nil || path != installed || origin != OriginHome {
		t.Errorf("home: %s, %s, %v", path, origin, err)
	}
	if err := os.RemoveAll(filepath.Join(home, "engines", EngineVersion())); err != nil {
		t.Fatal(err)
	}
	path, origin, err = Find(FindOptions{Home: home, LookPath: nothing})
	if err != nil || path != byHand || origin != OriginHome {
		t.Errorf("by hand: %s, %s, %v", path, origin, err)
	}
}

// One engine serves all data directories of a user; one that a directory has of its own goes first.
func TestOneEngineForAllDataDirectories(t *testing.T) {
	p, err := here()
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	t.Setenv("XDG_DATA_HOME", data)
	shared := UserEngines()
	if shared != filepath.Join(data, "agentkernel", "engine") {
		t.Errorf("%s", shared)
	}
	t.Setenv("XDG_DATA_HOME", "not/absolute")
	t.Setenv("HOME", data)
	if got := UserEngines(); got != filepath.Join(data, ".local", "share", "agentkernel", "engine") {
		t.Errorf("%s", got)
	}
	t.Setenv("HOME", "")
	if got := UserEngines(); got != "" {
		t.Errorf("without a home: %s", got)
	}

	one, other := t.TempDir(), t.TempDir()
	if dir, err := (Options{Home: one, Shared: shared}).into(p); err != nil || dir != shared {
		t.Errorf("setup installs into %s, %v", dir, err)
	}
	if left, err := os.ReadDir(one); err != nil || len(left) != 0 {
		t.Errorf("the data directory was touched: %v %v", left, err)
	}
	installed := p.executable(filepath.Join(shared, EngineVersion()))
	script(t, filepath.Dir(installed), "monty", "")
	for _, home := range []string{one, other} {
		if path, origin, err := Find(FindOptions{Home: home, Shared: shared, LookPath: nothing}); err != nil || path != installed || origin != OriginShared {
			t.Errorf("%s, %s, %v", path, origin, err)
		}
	}
	own := p.executable(filepath.Join(one, "engines", EngineVersion()))
	script(t, filepath.Dir(own), "monty", "")
	if path, origin, err := Find(FindOptions{Home: one, Shared: shared, LookPath: nothing}); err != nil || path != own || origin != OriginHome {
		t.Errorf("its own: %s, %s, %v", path, origin, err)
	}
	if dir, err := (Options{Home: one, Shared: shared}).into(p); err != nil || dir != filepath.Join(one, "engines") {
		t.Errorf("setup for one that has its own installs into %s, %v", dir, err)
	}
}

func TestFindNothing(t *testing.T) {
	_, _, err := Find(FindOptions{Home: t.TempDir(), LookPath: nothing})
	e := agentkernel.AsError(err, "", "")
	if e.Code != agentkernel.CodeUnavailable || !strings.HasPrefix(e.Hint, "run: agentkernel setup") ||
		!strings.Contains(e.Hint, "Without Node") || !strings.Contains(e.Hint, "@"+EngineVersion()) {
		t.Errorf("%v: %s", err, e.Hint)
	}
	_, _, err = Find(FindOptions{Explicit: "/nonexistent/monty", Home: t.TempDir(), LookPath: only("monty", engine(t))})
	if agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || !strings.Contains(err.Error(), "/nonexistent/monty") {
		t.Errorf("a wrong setting must not be passed over: %v", err)
	}
}

func TestInstallByNpm(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the lock file covers linux/amd64 only")
	}
	home := filepath.Join(t.TempDir(), "home")
	var out bytes.Buffer
	r, err := Install(t.Context(), Options{Home: home, Out: &out})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if r.Already || !r.Tested || r.Version != EngineVersion() || !strings.Contains(r.Engine, EngineVersion()) {
		t.Errorf("%+v", r)
	}
	if path, origin, err := Find(FindOptions{Home: home, LookPath: nothing}); err != nil || path != r.Path || origin != OriginHome {
		t.Errorf("found %s, %s, %v; installed %s", path, origin, err, r.Path)
	}
	// The second time nothing is done, not even npm is needed.
	r, err = Install(t.Context(), Options{Home: home, LookPath: nothing})
	if err != nil || !r.Already {
		t.Errorf("again: %+v, %v", r, err)
	}
	// What is damaged is replaced.
	if err := os.WriteFile(r.Path, []byte("#!/bin/sh\necho monty-runtime "+EngineVersion()), 0o755); err != nil {
		t.Fatal(err)
	}
	r, err = Install(t.Context(), Options{Home: home})
	if err != nil || r.Already {
		t.Errorf("damaged: %+v, %v", r, err)
	}
	if _, err := Verify(t.Context(), r.Path, lockedPlatform); err != nil {
		t.Error(err)
	}
	leftNothing(t, filepath.Join(home, "engines"), EngineVersion())
}

// leftNothing says that a directory holds what it should and no temporary files.
func leftNothing(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if fmt.Sprint(names) != fmt.Sprint(want) {
		t.Errorf("%s holds %v, want %v", dir, names, want)
	}
}

func TestInstallOffline(t *testing.T) {
	home := t.TempDir()
	env := append(os.Environ(), "npm_config_registry=http://user:secret@127.0.0.1:9/", "npm_config_cache="+t.TempDir(), "npm_config_fetch_retries=0")
	_, err := Install(t.Context(), Options{Home: home, Env: env})
	e := agentkernel.AsError(err, "", "")
	if e == nil || e.Code != agentkernel.CodeUnavailable || !strings.Contains(e.Error(), "registry") || !strings.Contains(e.Hint, "Without Node") {
		t.Fatalf("%v: %+v", err, e)
	}
	if strings.Contains(e.Error()+e.Hint, "secret") {
		t.Errorf("the error holds a secret: %v", e)
	}
	leftNothing(t, filepath.Join(home, "engines"))
}

func TestInstallFailures(t *testing.T) {
	for name, c := range map[string]struct {
		npm  string // body of a script in npm's place; "" for none at all
		code agentkernel.Code
		text string // in the message
		hint string
	}{
		"no npm":         {"", agentkernel.CodeUnavailable, "npm is not installed", "apt install nodejs npm"},
		"integrity":      {"echo 'npm error code EINTEGRITY' >&2; exit 1", agentkernel.CodeCorrupt, "not the one that was pinned", "do not use it"},
		"not served":     {"echo 'npm error code E404' >&2; exit 1", agentkernel.CodeNotFound, "does not have", "private registry"},
		"name not found": {"echo 'npm error code ENOTFOUND' >&2; exit 1", agentkernel.CodeUnavailable, "cannot reach", "Without Node"},
		"old npm's form": {"echo 'npm ERR! code EAI_AGAIN' >&2; exit 1", agentkernel.CodeUnavailable, "code EAI_AGAIN", "Without Node"},
		"full disk":      {"echo 'npm error code ENOSPC' >&2; exit 1", agentkernel.CodeStorage, "disk is full", "make room"},
		"anything else":  {"echo 'npm error it is Monday' >&2; exit 3", agentkernel.CodeUnavailable, "it is Monday", "agentkernel setup"},
		"says nothing":   {"exit 1", agentkernel.CodeUnavailable, "no reason", "agentkernel setup"},
		"brings nothing": {"exit 0", agentkernel.CodeCorrupt, "without an executable", "cache clean"},
		"brings another": {`mkdir -p node_modules/` + lockedPlatform.Package + `; cd node_modules/` + lockedPlatform.Package +
			`; printf '#!/bin/sh\necho monty 9.9.9\n' > monty; chmod +x monty`, agentkernel.CodeCorrupt, "sha256", "--force"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			look := nothing
			if c.npm != "" {
				look = only("npm", script(t, t.TempDir(), "npm", c.npm))
			}
			_, err := Install(t.Context(), Options{Home: home, LookPath: look})
			e := agentkernel.AsError(err, "", "")
			if e == nil || e.Code != c.code || !strings.Contains(e.Error(), c.text) || !strings.Contains(e.Hint, c.hint) {
				t.Fatalf("%v: %+v", err, e)
			}
			if c.npm != "" {
				leftNothing(t, filepath.Join(home, "engines"))
			}
		})
	}
}

// A broken attempt must not cost the engine that is there.
func TestFailureKeepsTheOldEngine(t *testing.T) {
	home := t.TempDir()
	p, _ := here()
	target := p.executable(filepath.Join(home, "engines", EngineVersion()))
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(engine(t), target); err != nil {
		t.Skip("other file system: ", err)
	}
	_, err := Install(t.Context(), Options{Home: home, Force: true, LookPath: only("npm", script(t, t.TempDir(), "npm", "exit 1"))})
	if err == nil {
		t.Fatal("npm failed and Install did not")
	}
	if _, err := Verify(t.Context(), target, p); err != nil {
		t.Error(err)
	}
}

func TestInstallStopsWithItsChildren(t *testing.T) {
	dir := t.TempDir()
	pidFile := filepath.Join(dir, "pid")
	npm := script(t, dir, "npm", "sleep 600 & echo $! > "+pidFile+".new; mv "+pidFile+".new "+pidFile+"; wait")
	for name, c := range map[string]struct {
		cancel bool
		code   agentkernel.Code
	}{
		"timeout":  {false, agentkernel.CodeTimeout},
		"canceled": {true, agentkernel.CodeCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(pidFile)
			var pid []byte
			for after := 300 * time.Millisecond; pid == nil; after *= 2 { // npm may not have come so far on a busy machine
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				timeout := after
				if c.cancel {
					timeout = time.Hour
					time.AfterFunc(after, cancel)
				}
				_, err := Install(ctx, Options{Home: t.TempDir(), Timeout: timeout, LookPath: only("npm", npm)})
				if agentkernel.CodeOf(err) != c.code {
					t.Fatalf("%v", err)
				}
				if pid, err = os.ReadFile(pidFile); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
			if alive(strings.TrimSpace(string(pid))) {
				t.Errorf("npm's child %s lives on", pid)
			}
		})
	}
}

// alive says whether a process is there and is not merely waiting to be collected by whoever adopted it.
func alive(pid string) bool {
	out, err := exec.Command("ps", "-o", "stat=", "-p", pid).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

func TestStart(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		path string
		code agentkernel.Code
	}{
		"the engine":      {engine(t), ""},
		"another version": {script(t, dir, "v", "echo monty-runtime 0.0.1"), agentkernel.CodeVersion},
		"another program": {script(t, dir, "p", "echo "+EngineVersion()), agentkernel.CodeVersion},
		"does not start":  {script(t, dir, "f", "echo no such library >&2; exit 127"), agentkernel.CodeUnavailable},
		"not there":       {filepath.Join(dir, "none"), agentkernel.CodeUnavailable},
		"mute worker":     {script(t, dir, "m", `[ "$1" = --version ] && echo monty-runtime `+EngineVersion()), agentkernel.CodeUnavailable},
		"other protocol": {script(t, dir, "o", `[ "$1" = --version ] && echo monty-runtime `+EngineVersion()+
			` || printf '\007\000\000\000Z\005\012\003old'`), agentkernel.CodeVersion},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Start(t.Context(), c.path); agentkernel.CodeOf(err) != c.code {
				t.Errorf("%v", err)
			}
		})
	}
}
