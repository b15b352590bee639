package reaper

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentkernel"
)

func contextWithin(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOwnersMustBeNamesAndNew(t *testing.T) {
	dir := t.TempDir()
	for _, owner := range []string{"", "a/b", "a:b", "../x", ".hidden", strings.Repeat("x", 200)} {
		if _, err := New(dir, owner); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("New(%q): %v", owner, err)
		}
	}
	r, err := New(dir, "one")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, err := New(dir, "one"); err == nil {
		t.Error("an owner was used twice")
	}
}

func TestEnvironmentCarriesTheMark(t *testing.T) {
	t.Setenv(EnvOwner, "outer/7")
	r := newReaper(t)
	for _, tc := range []struct {
		env  []string
		want string
	}{
		{nil, "outer/7:test/1"},
		{[]string{"A=1", EnvOwner + "=forged"}, "outer/7:test/2"},
		{[]string{}, "outer/7:test/3"},
	} {
		cmd := exec.Command("/bin/sh", "-c", `echo "$AGENTKERNEL_OWNER"`)
		cmd.Env = tc.env
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(cmd); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, _ := out.Read(b)
		_ = cmd.Wait()
		r.Kill(cmd)
		if got := strings.TrimSpace(string(b[:n])); got != tc.want {
			t.Errorf("mark %q, want %q", got, tc.want)
		}
		if tc.env == nil && !slices.ContainsFunc(cmd.Env, func(s string) bool { return strings.HasPrefix(s, "PATH=") }) {
			t.Error("the kernel's own environment was lost")
		}
	}
}

func TestStartFails(t *testing.T) {
	r := newReaper(t)
	if err := r.Start(exec.Command("/no/such/program")); !os.IsNotExist(err) {
		t.Errorf("Start: %v", err)
	}
	if names, _ := os.ReadDir(r.dir); len(names) != 1 {
		t.Errorf("a record of nothing: %v", names)
	}
	r.Kill(exec.Command("sleep", "1")) // never started: nothing happens
}

func TestCloseKillsAndRefuses(t *testing.T) {
	dir := t.TempDir()
	r, err := New(dir, "test")
	if err != nil {
		t.Fatal(err)
	}
	w := newWitness(t)
	var started sync.WaitGroup
	for range 4 {
		started.Go(func() {
			cmd := exec.Command("sh", "-c", scripts[5].script)
			cmd.ExtraFiles = []*os.File{w.w}
			if err := r.Start(cmd); err != nil {
				t.Error(err)
				return
			}
			go func() { _ = cmd.Wait() }()
		})
	}
	started.Wait()
	w.await(t, 8)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	w.allGone(t)
	if err := r.Start(exec.Command("true")); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
		t.Errorf("Start after Close: %v", err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("records left: %v", names)
	}
	if err := r.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

func TestDamagedRecordsDoNotStopRecovery(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "old")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{kernelFile: `{"pid":`, "1.json": "", "2.json": `{"pid":"x"}`, "3.json": `{"pid":1,"start":1}`} {
		if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "note.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := KillSurvivors(dir); n != 0 || err != nil {
		t.Errorf("KillSurvivors = %d, %v", n, err)
	}
	if _, err := os.Stat(own); !os.IsNotExist(err) {
		t.Error("records are still there")
	}
	if n, err := KillSurvivors(filepath.Join(dir, "never")); n != 0 || err != nil {
		t.Errorf("without a directory: %d, %v", n, err)
	}
}

func TestStartsAreCheap(t *testing.T) {
	r := newReaper(t)
	const n = 200
	cmds := make([]*exec.Cmd, n)
	begin := time.Now()
	for i := range cmds {
		cmds[i] = exec.Command("sleep", "60")
		if err := r.Start(cmds[i]); err != nil {
			t.Fatal(err)
		}
	}
	started := time.Since(begin)
	for _, cmd := range cmds[:n/2] {
		r.Kill(cmd)
		_ = cmd.Wait()
	}
	killed := time.Since(begin) - started
	for _, cmd := range cmds[n/2:] {
		go func() { _ = cmd.Wait() }()
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("a start %v, a kill %v", started/n, killed/(n/2))
	if started/n > time.Second { // it takes less than 2 ms; a busy machine is no reason to fail
		t.Errorf("a start takes %v", started/n)
	}
}

func BenchmarkStart(b *testing.B) {
	r, err := New(b.TempDir(), "bench")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for b.Loop() {
		cmd := exec.Command("true")
		if err := r.Start(cmd); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		_ = cmd.Wait()
		r.Kill(cmd)
		b.StartTimer()
	}
}

func BenchmarkPlainStart(b *testing.B) {
	for b.Loop() {
		cmd := exec.Command("true")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		_ = cmd.Wait()
		b.StartTimer()
	}
}
