package packages

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agentkernel"
)

func TestRequirements(t *testing.T) {
	got, err := Requirements([]string{"Polars>=1", "  httpx[http2] == 0.27.0 ", "a_b.c", "x~=1.2,!=1.3; python_version < '3.12'", "polars>=1", "y==1.*"})
	want := []string{"a-b-c", "httpx[http2] == 0.27.0", "polars>=1", "x~=1.2,!=1.3; python_version < '3.12'", "y==1.*"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []string{"", " ", "-e .", "--index-url=http://evil.test", "-r file", "./local", "/abs", "a/b", "a @ https://evil.test/a.whl", "git+https://evil.test/a",
		"https://evil.test/a.whl", "a.whl @ file:///x", "a;import os@x", "a b", "a\n--pre", "a>=1 --hash=sha256:0", "$(x)", "a==1\x00", strings.Repeat("a", 600), "ä"} {
		if got, err := Requirements([]string{"fine", bad}); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%q is taken for %q, %v", bad, got, err)
		}
	}
}

func TestScript(t *testing.T) {
	s, err := ReadScript("#!/usr/bin/env python3\n# /// script\n# requires-python = \">=3.9\"\n# dependencies = [\n#   \"polars>=1\",\n#\n#   'rich',\n# ]\n# ///\nimport polars\n")
	if err != nil || s.Python != ">=3.9" || !slices.Equal(s.With, []string{"polars>=1", "rich"}) {
		t.Errorf("got %+v, %v", s, err)
	}
	if s, err := ReadScript("# just a comment\nprint('# /// script')\n"); err != nil || s.With != nil {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, bad := range []string{"# /// script\n# a = 1\nx = 1\n", "# /// script\n# a =\n# ///\n", "# /// script\n# ///\n# /// script\n# ///\n", "# /// script\n",
		"# /// script\n# dependencies = 7\n# ///\n"} {
		if _, err := ReadScript(bad); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestAccepts(t *testing.T) {
	for wants, ok := range map[string]bool{"": true, ">=3.9": true, ">=3.11.7": true, ">=3.12": false, "<3.12": true, ">=3.9,<3.11": false, "==3.11.*": true,
		"==3.11": false, "==3.10.*": false, "!=3.11.*": false, "!=3.10.*": true, "~=3.9": true, "~=3.11.2": true, "~=3.10.0": false, "> 3.11, < 4": true, "<=3.11": false, "==3.11.7": true} {
		if got, err := (Script{Python: wants}).Accepts("3.11.7"); err != nil || got != ok {
			t.Errorf("%q: %v, %v", wants, got, err)
		}
	}
	for _, bad := range []string{"3.11", ">=x", "=3", "<>3.1", ">="} {
		if _, err := (Script{Python: bad}).Accepts("3.11.7"); err == nil {
			t.Errorf("%q is understood", bad)
		}
	}
}

// shop is a place where pip finds wheels, and a store that builds with it.
type shop struct {
	*Store
	wheels string
	steps  func() []string
}

// open needs a real pip; without one there is nothing to test.
func open(t *testing.T) *shop {
	t.Helper()
	if out, err := exec.Command("python3", "-m", "pip", "--version").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("pip is missing: %s", out)
		}
		t.Skip("pip is missing")
	}
	wheels := t.TempDir()
	var mu sync.Mutex
	var said []string
	env := append(os.Environ(), "PIP_NO_INDEX=1", "PIP_FIND_LINKS="+wheels, "PIP_TARGET=/nonexistent", "PIP_REQUIRE_VIRTUALENV=1", "PYTHONPATH=/nonexistent")
	s := New(Config{Dir: filepath.Join(t.TempDir(), "environments"), Env: env, Progress: func(step string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, step)
	}})
	return &shop{s, wheels, func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(said) }}
}

// wheel puts a wheel into the shop.
func (s *shop) wheel(t *testing.T, name, version string, files map[string]string, requires ...string) {
	t.Helper()
	info := name + "-" + version + ".dist-info/"
	all := map[string]string{info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
	meta := "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"
	for _, r := range requires {
		meta += "Requires-Dist: " + r + "\n"
	}
	all[info+"METADATA"] = meta
	for path, text := range files {
		all[path] = text
	}
	f, err := os.Create(filepath.Join(s.wheels, name+"-"+version+"-py3-none-any.whl"))
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	record := ""
	add := func(path, text string) {
		w, err := z.Create(path)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range all {
		add(path, text)
		sum := sha256.Sum256([]byte(text))
		record += fmt.Sprintf("%s,sha256=%s,%d\n", path, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
	}
	add(info+"RECORD", record+info+"RECORD,,\n")
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// left lists what is in the store's directory and is no environment.
func (s *shop) left(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), staging) {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestGet(t *testing.T) {
	s := open(t)
	ran := filepath.Join(t.TempDir(), "ran")
	// A line of a .pth file runs when an interpreter of the environment starts: here nobody starts one.
	s.wheel(t, "alpha", "1.0", map[string]string{"alpha/__init__.py": "import beta\n", "alpha.pth": "import os; open(" + fmt.Sprintf("%q", ran) + ", 'w')\n"}, "beta>=2")
	s.wheel(t, "beta", "2.1", map[string]string{"beta.py": "X = 21\n"})
	s.wheel(t, "beta", "1.0", map[string]string{"beta.py": "X = 10\n"})
	env, err := s.Get(t.Context(), Request{With: []string{"Alpha"}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(env.Packages, []string{"alpha==1.0", "beta==2.1"}) || env.Bytes == 0 || !slices.Equal(env.Requested, []string{"alpha"}) {
		t.Errorf("got %+v", env)
	}
	modules, err := filepath.Glob(filepath.Join(env.Path, "lib", "python3*", "site-packages", "beta.py"))
	if err != nil || len(modules) != 1 {
		t.Fatalf("the package is not there: %v, %v", modules, err)
	}
	if st, err := os.Stat(modules[0]); err != nil || st.Mode().Perm()&0o044 != 0o044 || st.Mode().Perm()&0o022 != 0 {
		t.Errorf("others cannot read it, or may write it: %v, %v", st.Mode(), err)
	}
	// Another way to ask leads to the same environment; the same way needs no pip any more.
	again, err := s.Get(t.Context(), Request{Script: Script{With: []string{"alpha>=1"}}})
	if err != nil || again.ID != env.ID {
		t.Errorf("got %s and %s, %v", env.ID, again.ID, err)
	}
	steps := len(s.steps())
	if err := os.RemoveAll(s.wheels); err != nil {
		t.Fatal(err)
	}
	if again, err = s.Get(t.Context(), Request{With: []string{"alpha"}}); err != nil || again.ID != env.ID || len(s.steps()) != steps {
		t.Errorf("it was built again: %v", err)
	}
	if left := s.left(t); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("code of a package was run")
	}
	all, err := s.List()
	if err != nil || len(all) != 1 {
		t.Errorf("%d environments, %v", len(all), err)
	}
	if found, err := s.Find(env.ID[:4]); err != nil || found.ID != env.ID {
		t.Errorf("%+v, %v", found, err)
	}
	if err := s.Remove(env); err != nil {
		t.Fatal(err)
	}
	if all, err = s.List(); err != nil || len(all) != 0 || len(s.left(t)) != 0 {
		t.Errorf("still there: %v %v, %v", all, s.left(t), err)
	}
	if _, err := s.Find(env.ID); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("found although it was removed: %v", err)
	}
}

// TestBuiltOnce: of several that ask for the same at the same time one builds.
func TestBuiltOnce(t *testing.T) {
	s := open(t)
	s.wheel(t, "alpha", "1.0", map[string]string{"alpha.py": ""})
	var all sync.WaitGroup
	var ids sync.Map
	for range 4 {
		all.Go(func() {
			env, err := s.Get(t.Context(), Request{With: []string{"alpha"}})
			if err != nil {
				t.Error(err)
			}
			ids.Store(env.ID, true)
		})
	}
	all.Wait()
	built, different := 0, 0
	for _, step := range s.steps() {
		if strings.HasPrefix(step, "building an environment") {
			built++
		}
	}
	ids.Range(func(any, any) bool { different++; return true })
	if built != 1 || different != 1 {
		t.Errorf("built %d times, %d environments", built, different)
	}
}

func TestWhatCannotBeHad(t *testing.T) {
	s := open(t)
	ran := filepath.Join(t.TempDir(), "ran")
	source := filepath.Join(s.wheels, "src-1.0.tar.gz") // not even a tar: it must not be looked at
	if err := os.WriteFile(source, []byte("open("+ran+")"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.wheel(t, "one", "1.0", map[string]string{"one.py": ""}, "two==1")
	s.wheel(t, "two", "2.0", map[string]string{"two.py": ""})
	for with, says := range map[string]string{"nowhere>=3": "No matching distribution found for nowhere>=3", "src": "No matching distribution found for src", "one": "No matching distribution found for two==1"} {
		_, err := s.Get(t.Context(), Request{With: []string{with}})
		e := agentkernel.AsError(err, agentkernel.CodeInternal, "")
		if e == nil || e.Code != agentkernel.CodeInvalid || !strings.Contains(e.Message(), says) || !strings.Contains(e.Hint, "--allow-build") {
			t.Errorf("%s: %v (%+v)", with, err, e)
		}
	}
	if _, err := s.Get(t.Context(), Request{With: []string{"two"}, Script: Script{Python: ">=9"}}); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
		t.Errorf("another Python: %v", err)
	}
	if all, err := s.List(); err != nil || len(all) != 0 || len(s.left(t)) != 0 {
		t.Errorf("left over: %v %v %v", all, s.left(t), err)
	}
	gone := New(Config{Dir: t.TempDir(), Python: "/nonexistent/python3"})
	if _, err := gone.Get(t.Context(), Request{With: []string{"one"}}); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
		t.Errorf("no Python: %v", err)
	}
}

// TestBrokenOff: a build that is interrupted, or whose builder was killed, leaves nothing that anybody would use, and the
// next one clears it away.
func TestBrokenOff(t *testing.T) {
	s := open(t)
	s.wheel(t, "alpha", "1.0", map[string]string{"alpha.py": ""})
	ctx, cancel := context.WithCancel(t.Context())
	var stopped atomic.Bool
	tell := s.cfg.Progress
	s.cfg.Progress = func(step string) {
		tell(step)
		if strings.HasPrefix(step, "building") {
			stopped.Store(true)
			cancel()
		}
	}
	if _, err := s.Get(ctx, Request{With: []string{"alpha"}}); agentkernel.CodeOf(err) != agentkernel.CodeCanceled || !stopped.Load() {
		t.Fatalf("interrupted: %v", err)
	}
	if all, err := s.List(); err != nil || len(all) != 0 || len(s.left(t)) != 0 {
		t.Errorf("left over: %v %v %v", all, s.left(t), err)
	}
	keys, err := os.ReadDir(filepath.Join(s.cfg.Dir, locksDir))
	if err != nil || len(keys) != 1 {
		t.Fatalf("locks: %v, %v", keys, err)
	}
	dead := filepath.Join(s.cfg.Dir, staging+keys[0].Name()+"-dead")
	if err := os.MkdirAll(filepath.Join(dead, "env"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.cfg.Progress = tell
	if _, err := s.Get(t.Context(), Request{With: []string{"alpha"}}); err != nil {
		t.Fatal(err)
	}
	if left := s.left(t); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestErrorsHoldNoCredentials: the address of an index may have some.
func TestErrorsHoldNoCredentials(t *testing.T) {
	err := pipFailed(t.Context(), "x", "ERROR: https://user:s3cret@index.test/simple/x: 404", errors.New("exit status 1"), false)
	if strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "https://index.test/simple/x") {
		t.Errorf("%v", err)
	}
}

// Without pip, whoever has uv is told how to go on with that.
func TestNoPip(t *testing.T) {
	dir := t.TempDir()
	for _, uv := range []bool{false, true} {
		if uv {
			if err := os.WriteFile(filepath.Join(dir, "uv"), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir)
		e := agentkernel.AsError(pipFailed(t.Context(), "polars", "/usr/bin/python3: No module named pip\n", errors.New("exit status 1"), false), "", "")
		if e.Code != agentkernel.CodeUnavailable || !strings.Contains(e.Hint, "ensurepip") || strings.Contains(e.Hint, "uv pip install") != uv {
			t.Errorf("uv %v: %+v", uv, e)
		}
	}
}

// The folder in which a command is called says neither which Python is asked nor what it does: not by names in a PATH that are relative, nor by
// files that a version manager's script, or Python, looks for in its directory.
func TestInterpreterIsNotTheFolders(t *testing.T) {
	evil, own := t.TempDir(), t.TempDir()
	t.Chdir(evil)
	python := func(path, does string) {
		t.Helper()
		text := "#!/bin/sh\n" + does + "\necho '{\"executable\": \"/own/python3\", \"version\": \"3.12.1\", \"platform\": \"p\", \"tag\": \"t\"}'\n"
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	started := filepath.Join(own, "started")
	for _, at := range []string{"python3", "bin/python3"} {
		python(filepath.Join(evil, at), "touch "+started)
	}
	python(filepath.Join(own, "python3"), "pwd >"+filepath.Join(own, "where")+"; echo \"$PYTHONPATH\" >>"+filepath.Join(own, "where"))
	for _, path := range []string{".:bin::" + own + ":/usr/bin:/bin", own + ":.:/usr/bin:/bin"} {
		s := New(Config{Dir: t.TempDir(), Env: []string{"PATH=" + path, "PYTHONPATH=" + evil}})
		got, err := s.interpreter(t.Context())
		if err != nil || got.Executable != "/own/python3" {
			t.Errorf("PATH=%s: %+v, %v", path, got, err)
		}
		if _, err := os.Stat(started); err == nil {
			t.Errorf("PATH=%s: the folder's own was started", path)
		}
		if where, err := os.ReadFile(filepath.Join(own, "where")); err != nil || string(where) != "/\n\n" {
			t.Errorf("PATH=%s: it ran in %q, %v", path, where, err)
		}
	}
}
