package setup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/datadir"
	"testing/synctest"
)

// info is a kernel, or a database reader, of which only Info is asked.
type info struct {
	agentkernel.Kernel
	info agentkernel.KernelInfo
	err  error

	storage agentkernel.Storage
	list    []agentkernel.Process
}

func (k info) List(context.Context, agentkernel.Filter) ([]agentkernel.Process, error) {
	return slices.Clone(k.list), k.err
}

func (k info) Info(context.Context) (agentkernel.KernelInfo, error) { return k.info, k.err }
func (k info) Close() error                                         { return nil }
func (k info) Storage(context.Context) (agentkernel.Storage, error) { return k.storage, k.err }

// source is two tool servers, one of which does not start.
type source struct{ agentkernel.ToolSource }

func (source) Servers(context.Context) ([]agentkernel.ToolServer, error) {
	return []agentkernel.ToolServer{{Name: "files", PythonName: "files", Transport: "stdio"}, {Name: "broken"}}, nil
}

func (source) Tools(_ context.Context, server string) ([]agentkernel.Tool, error) {
	if server == "broken" {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "tools", "broken does not start: no such file").WithHint("correct its command")
	}
	return make([]agentkernel.Tool, 3), nil
}

func find(t *testing.T, r Report, check string) Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("no finding %q in %+v", check, r.Findings)
	return Finding{}
}

func expect(t *testing.T, r Report, check string, status Status, found, fix string) {
	t.Helper()
	f := find(t, r, check)
	if f.Status != status || !strings.Contains(f.Found, found) || !strings.Contains(f.Fix, fix) {
		t.Errorf("%+v; want %s, %q, fix %q", f, status, found, fix)
	}
}

// TestEngineThatIsNotExecutable: one that is there is not said to be missing.
func TestEngineThatIsNotExecutable(t *testing.T) {
	home := t.TempDir()
	exe := filepath.Join(datadir.At(home).Engines(), "monty")
	write(t, exe, 10)
	if err := os.Chmod(exe, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, Doctor(t.Context(), DoctorOptions{Home: home, Version: "1", LookPath: nothing}), "engine", Fail, exe+" is not executable", "chmod +x "+exe)
}

func TestDoctorOnANewMachine(t *testing.T) {
	home := filepath.Join(t.TempDir(), "not", "yet")
	r := Doctor(t.Context(), DoctorOptions{Home: home, Version: "1", LookPath: nothing})
	if r.OK {
		t.Error("without an engine nothing can run")
	}
	expect(t, r, "data directory", OK, "the first command makes it", "")
	expect(t, r, "kernel", OK, "none is running", "")
	expect(t, r, "database", OK, "none yet", "")
	expect(t, r, "leftovers", OK, "none", "")
	expect(t, r, "engine", Fail, "not installed", "run: agentkernel setup")
	expect(t, r, "node", Warn, "node, npm", "apt install")
	expect(t, r, "tool servers", OK, "no MCP configuration", "")
	if _, err := os.Stat(home); err == nil {
		t.Error("the doctor made the data directory")
	}
}

// TestDoctorOnWhatIsLeft: a directory whose database is gone is not one in which nothing has run.
func TestDoctorOnWhatIsLeft(t *testing.T) {
	home := t.TempDir()
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	database := func() Report { return Doctor(t.Context(), DoctorOptions{Home: home, Version: "1", LookPath: nothing}) }
	for _, empty := range []string{"blobs", "workspaces"} {
		if err := os.Mkdir(filepath.Join(home, empty), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(home, "key"), 32)
	expect(t, database(), "database", OK, "none yet", "")
	write(t, filepath.Join(home, "kernel.db-shm"), 10)
	write(t, filepath.Join(home, "blobs", "84", "3c", "843c"), 10)
	write(t, filepath.Join(home, "replaced-20261127T072137.513Z", "kernel.db"), 10)
	expect(t, database(), "database", Warn, "kernel.db is not there, and what belongs to one is left in "+home+": blobs, kernel.db-shm, replaced-20261127T072137.513Z", "agentkernel restore FILE --force")
}

func TestDoctorOnAWorkingOne(t *testing.T) {
	home := t.TempDir()
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := datadir.Open(home)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := dir.Lock(datadir.Holder{OSPID: os.Getpid(), Version: "1", Mode: "background", Started: time.Now().Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	write(t, dir.Database(), 3000)
	write(t, dir.Log(), 10)
	var left []agentkernel.Process
	running := agentkernel.KernelInfo{Version: "1", OSPID: 4711, Mode: "background", Store: agentkernel.StoreInfo{Schema: 7}}
	o := DoctorOptions{Home: home, Version: "1", Engine: engine(t), Tools: []string{"/mcp.json"},
		Dial: func(_ context.Context, socket string) (agentkernel.Kernel, error) {
			if socket != dir.Socket() {
				t.Errorf("dialled %s", socket)
			}
			return info{info: running, list: left}, nil
		},
		Reader: func(context.Context, string) (agentkernel.Kernel, error) {
			return info{info: running, storage: agentkernel.Storage{Database: 9 << 20, Unused: 1 << 20, Log: 4 << 20, Blobs: 2 << 20, BlobFiles: 3}}, nil
		},
		ToolSource: func(files []string) (agentkernel.ToolSource, func() error, error) {
			return source{}, func() error { return nil }, nil
		},
	}
	r := Doctor(t.Context(), o)
	if !r.OK {
		t.Errorf("%+v", r.Findings)
	}
	expect(t, r, "data directory", OK, "0700", "")
	expect(t, r, "kernel", OK, "os process 4711, background, version 1", "")
	expect(t, r, "database", OK, "schema 7", "")

	kernelAlone := func() Report {
		return examine(t.Context(), o, []Check{{Name: "kernel", Run: checkKernel}})
	}
	running.Unfinished = 2 // what a kernel before this one has left, and this one does not carry
	expect(t, kernelAlone(), "kernel", Warn, "2 unfinished", "agentkernel recover")
	left = []agentkernel.Process{{PID: 1, State: agentkernel.StateUnfinished, Paused: true}, {PID: 2, State: agentkernel.StateUnfinished, Paused: true},
		{PID: 3, State: agentkernel.StateWaiting}}
	expect(t, kernelAlone(), "kernel", OK, "2 unfinished, and paused", "")
	left[1].Paused = false
	expect(t, kernelAlone(), "kernel", Warn, "2 unfinished", "agentkernel recover")
	running.Unfinished, left = 0, left[2:]
	expect(t, kernelAlone(), "kernel", OK, "os process 4711", "")
	expect(t, r, "kernel log", OK, dir.Log(), "")
	expect(t, r, "storage", OK, "database 9 MiB (1 MiB of it free), its log 4 MiB, 3 blobs 2 MiB, kernel logs 1 KiB", "")
	o.Quota = 12 << 20
	expect(t, Doctor(t.Context(), o), "storage", Warn, "83 % of the storage quota is used; at 100 % no new process can start; 10 MiB used of the quota of 12 MiB", "prune --older 30d")
	o.Quota = 10 << 20
	expect(t, Doctor(t.Context(), o), "storage", Warn, "the storage quota is used up: no new process can start", "raise storage.quota")
	expect(t, r, "engine", OK, EngineVersion()+", from the setting", "")
	expect(t, r, "tool server files", OK, "3 tools", "")
	expect(t, r, "tool server broken", Warn, "does not start", "correct its command")

	running.Version = "2"
	expect(t, Doctor(t.Context(), o), "kernel", Warn, "version 2, and this is 1", "agentkernel shutdown")
	o.Dial = func(context.Context, string) (agentkernel.Kernel, error) {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "dial", "connection refused")
	}
	r = Doctor(t.Context(), o)
	expect(t, r, "kernel", Fail, "does not answer: connection refused", "kernel log")
	if r.OK {
		t.Error("a mute kernel is a failure")
	}
	// A command that starts a kernel cannot mend it.
	o.Dial = func(context.Context, string) (agentkernel.Kernel, error) {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "no kernel listens").WithHint("`agentkernel run` starts one")
	}
	expect(t, Doctor(t.Context(), o), "kernel", Fail, "does not answer: no kernel listens", fmt.Sprintf("kill -9 %d", os.Getpid()))
	line, err := os.ReadFile(filepath.Join(home, "kernel.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "kernel.lock"), line, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, Doctor(t.Context(), o), "kernel", OK, "none is running", "") // the number is ours, the lock nobody's
	backup, err := dir.Lock(datadir.Holder{OSPID: os.Getpid(), Mode: "backup"})
	if err != nil {
		t.Fatal(err)
	}
	defer backup.Unlock()
	expect(t, Doctor(t.Context(), o), "kernel", OK, "(backup)", "")
}

func write(t *testing.T, path string, size int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDoctorOnDamage: what opening the database does not show.
func TestDoctorOnDamage(t *testing.T) {
	home := t.TempDir()
	write(t, datadir.At(home).Database(), 10)
	for _, c := range []struct {
		e      Examined
		status Status
		found  string
		fix    string
	}{
		{Examined{Pages: true}, OK, "the pages of the database fit together", ""},
		{Examined{Blobs: 12, There: 12, Read: 10}, OK, "too large to look at its pages; of 12 blobs 12 are there, and 10 were compared", ""},
		{Examined{Damage: agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "it was cut").WithHint("restore it")}, Fail, "it was cut", "restore it"},
		{Examined{Pages: true, Blobs: 12, There: 12, Read: 12, Bad: 1, BadBlob: agentkernel.Errorf(agentkernel.CodeNotFound, "blob", "blob ab is gone")}, Warn,
			"1 blob missing or damaged of 12 that were looked for: blob ab is gone", "put the file back"},
	} {
		o := DoctorOptions{Home: home, LookPath: nothing, Engine: "/nonexistent", Examine: func(context.Context, string) (Examined, error) { return c.e, nil }}
		expect(t, Doctor(t.Context(), o), "stored data", c.status, c.found, c.fix)
	}
}

func TestDoctorOnABrokenOne(t *testing.T) {
	home := t.TempDir()
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := datadir.At(home)
	write(t, dir.Database(), 10)
	write(t, filepath.Join(dir.Run(), "x", "kernel.json"), 10)
	write(t, filepath.Join(dir.Run(), "x", "1.json"), 10)
	o := DoctorOptions{Home: home, LookPath: nothing, Engine: "/nonexistent",
		Reader: func(context.Context, string) (agentkernel.Kernel, error) {
			return nil, agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "not a database").WithHint("restore it")
		}}
	r := Doctor(t.Context(), o)
	expect(t, r, "data directory", Warn, "open to other users", "chmod 700")
	expect(t, r, "database", Fail, "not a database", "restore it")
	expect(t, r, "leftovers", Warn, "1 child process", "agentkernel recover")
	expect(t, r, "engine", Fail, "/nonexistent", "correct the setting")
	if st, _ := os.Stat(home); st.Mode().Perm() != 0o755 {
		t.Error("the doctor changed the directory")
	}
	o.Reader = func(context.Context, string) (agentkernel.Kernel, error) {
		return info{info: agentkernel.KernelInfo{Unfinished: 3}}, nil
	}
	expect(t, Doctor(t.Context(), o), "database", Warn, "3 unfinished", "agentkernel recover")
	left := []agentkernel.Process{{PID: 1, State: agentkernel.StateUnfinished, Paused: true}, {PID: 2, State: agentkernel.StateUnfinished, Paused: true}}
	o.Reader = func(context.Context, string) (agentkernel.Kernel, error) {
		return info{info: agentkernel.KernelInfo{Unfinished: 2}, list: left}, nil
	}
	expect(t, Doctor(t.Context(), o), "database", OK, "2 unfinished, and paused", "")
	left[1].Paused = false
	expect(t, Doctor(t.Context(), o), "database", Warn, "2 unfinished", "agentkernel recover")
	o.Reader = func(context.Context, string) (agentkernel.Kernel, error) { return info{err: errors.New("io")}, nil }
	expect(t, Doctor(t.Context(), o), "database", Fail, "io", "")

	shared := filepath.Join(t.TempDir(), "shared")
	if err := errors.Join(os.Mkdir(shared, 0o700), os.Chmod(shared, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	expect(t, Doctor(t.Context(), DoctorOptions{Home: shared}), "data directory", Fail, "shared with other users (sticky)", "directory of its own, such as "+shared)

	file := filepath.Join(home, "file")
	write(t, file, 1)
	expect(t, Doctor(t.Context(), DoctorOptions{Home: file}), "data directory", Fail, "not a directory", "--home")
	o.Tools, o.ToolSource = []string{"/x"}, func([]string) (agentkernel.ToolSource, func() error, error) {
		return nil, nil, agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "line 3: not JSON")
	}
	expect(t, Doctor(t.Context(), o), "tool servers", Fail, "line 3", "")
}

// A check that hangs costs its own time, not the report.
func TestOneCheckCannotHoldTheOthers(t *testing.T) {
	r := examine(t.Context(), DoctorOptions{Timeout: 10 * time.Millisecond}, []Check{
		{Name: "slow", Run: func(ctx context.Context, _ DoctorOptions) []Finding { <-ctx.Done(); return failed(Fail, ctx.Err()) }},
		{Name: "fast", Run: func(context.Context, DoctorOptions) []Finding { return ok("fine") }},
	})
	expect(t, r, "slow", Fail, "deadline", "")
	expect(t, r, "fast", OK, "fine", "")
}

func TestReportForPeopleAndPrograms(t *testing.T) {
	r := Report{Version: "1", Home: "/h", Findings: []Finding{
		{"engine", Fail, "not installed", "agentkernel setup"},
		{"node", OK, "node 20", ""},
	}}
	var b bytes.Buffer
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	const want = "fail  engine  not installed\n              -> agentkernel setup\nok    node    node 20\nnot all programs can run here yet: mend what has failed\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	j, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(j), `{"check":"engine","status":"fail","found":"not installed","fix":"agentkernel setup"}`) {
		t.Errorf("%s, %v", j, err)
	}
}

// A check that does not end, whatever becomes of its context, is a finding, and the others are made.
func TestDoctorEndsThoughACheckHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		checks := []Check{
			{Name: "stuck", Run: func(context.Context, DoctorOptions) []Finding { <-free; return nil }},
			{Name: "slow", Run: func(ctx context.Context, _ DoctorOptions) []Finding { <-ctx.Done(); return warn("", "it was cut off") }},
			{Name: "next", Run: func(context.Context, DoctorOptions) []Finding { return ok("well") }},
		}
		r := examine(t.Context(), DoctorOptions{Timeout: time.Minute}, checks)
		close(free)
		if r.OK || len(r.Findings) != 3 || r.Findings[0].Status != Fail || !strings.Contains(r.Findings[0].Found, "did not end within 1m0s") ||
			r.Findings[1].Found != "it was cut off" || r.Findings[2].Found != "well" {
			t.Errorf("%+v", r)
		}
	})
}

// TestUnfinishedHomes: what a kernel was making for a process when it died is counted, what is finished is not.
func TestUnfinishedHomes(t *testing.T) {
	dir := t.TempDir()
	for _, home := range []string{"1", "2", "removed.3.ab"} {
		if err := os.MkdirAll(filepath.Join(dir, home), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "1", homeRecord), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]int{dir: 2, filepath.Join(dir, "none"): 0} {
		if n := unfinishedHomes(at); n != want {
			t.Errorf("%s: %d, want %d", at, n, want)
		}
	}
}

// TestAKernelThatHasJustBegun is waited for until it listens.
func TestAKernelThatHasJustBegun(t *testing.T) {
	dir, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	lock, err := dir.Lock(datadir.Holder{OSPID: os.Getpid(), Version: "1", Mode: "background", Started: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	dialled := 0
	f := checkKernel(t.Context(), DoctorOptions{Home: dir.Path(), Version: "1", Dial: func(context.Context, string) (agentkernel.Kernel, error) {
		if dialled++; dialled < 3 {
			return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "dial", "connection refused")
		}
		return info{info: agentkernel.KernelInfo{Version: "1", OSPID: 4711, Mode: "background"}}, nil
	}})
	if dialled != 3 || len(f) != 1 || f[0].Status != OK {
		t.Errorf("dialled %d times: %+v", dialled, f)
	}
}

// A missing engine is no failure where programs run in CPython, unless a setting names an engine or asks for it.
func TestDoctorWithoutAnEngine(t *testing.T) {
	runs := func(context.Context, string) (Trial, error) { return Trial{Python: "3.11"}, nil }
	lacks := func(context.Context, string) (Trial, error) {
		return Trial{}, agentkernel.Errorf(agentkernel.CodeUnavailable, "sandbox", "no walls")
	}
	for _, c := range []struct {
		backend, engine string
		try             func(context.Context, string) (Trial, error)
		want            Status
		found           string
	}{
		{"", "", runs, Warn, "until then programs run in CPython"},
		{"auto", "", runs, Warn, "until then programs run in CPython"},
		{"process", "", runs, Warn, "programs need none, since the setting backend"},
		{"process", "/nonexistent", runs, Warn, "programs need none"},
		{"monty", "", runs, Fail, "not installed"},
		{"", "/nonexistent", runs, Fail, "/nonexistent"},
		{"", "", lacks, Fail, "not installed"},
		{"process", "", lacks, Fail, "not installed"},
		{"", "", nil, Fail, "not installed"},
	} {
		r := Doctor(t.Context(), DoctorOptions{Home: filepath.Join(t.TempDir(), "h"), LookPath: nothing, Backend: c.backend, Engine: c.engine, TryProcess: c.try})
		expect(t, r, "engine", c.want, c.found, "")
		if r.OK != (c.want == Warn) {
			t.Errorf("backend %q, engine %q: OK is %t", c.backend, c.engine, r.OK)
		}
	}
}

// An emptied database is no failure either: the next kernel begins a new one. One that cannot be read is.
func TestDoctorWithAnEmptiedDatabase(t *testing.T) {
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "h"))
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]Status{0: Warn, 10: Fail} {
		write(t, dir.Database(), size)
		r := Doctor(t.Context(), DoctorOptions{Home: dir.Path(), LookPath: nothing, Reader: func(context.Context, string) (agentkernel.Kernel, error) {
			return nil, agentkernel.Errorf(agentkernel.CodeVersion, "store", "it is empty").WithHint("restore it")
		}})
		expect(t, r, "database", want, "it is empty", "restore it")
	}
}
