package e2e_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/store/faulty"
	"agentkernel/internal/tool/tooltest"
	"agentkernel/internal/usertest"
)

// asBoth is usertest.Both with what is found by the environment.
func asBoth(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	usertest.BothWith(t, test, func(string) []string {
		return []string{"AGENTKERNEL_MONTY=" + engine(t), envPython + "=" + systemPython(t)}
	})
}

// envLines is the test's tool server, for the half of a test that cannot build it.
const envLines = "AGENTKERNEL_E2E_LINES"

func linesServer(t testing.TB) tooltest.Server {
	t.Helper()
	if path := os.Getenv(envLines); path != "" {
		return tooltest.Server{"command": path, "args": []string{}}
	}
	return tooltest.Stdio(t)
}

// publicLines puts the tool server where every user can run it.
func publicLines(t *testing.T) {
	t.Helper()
	if os.Getenv(envLines) != "" {
		return
	}
	path := filepath.Join(usertest.Dir(t), "lines")
	raw, err := os.ReadFile(tooltest.Build(t))
	if err == nil {
		err = os.WriteFile(path, raw, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(envLines, path)
}

const envPython = "AGENTKERNEL_PYTHON"

// systemPython is an interpreter that every user can run.
func systemPython(t testing.TB) string {
	t.Helper()
	if p := os.Getenv(envPython); p != "" {
		return p
	}
	for _, p := range []string{"/usr/bin/python3", "/usr/local/bin/python3"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no python3 that every user can run")
	}
	t.Skip("SKIPPED, NOTHING PROVED: there is no /usr/bin/python3")
	return ""
}

// folder makes a folder with files.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(usertest.Dir(t), "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		writeText(t, filepath.Join(dir, name), text)
	}
	return dir
}

func writeText(t testing.TB, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// holds checks what a folder has, directories aside.
func holds(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		b, err := os.ReadFile(p)
		got[rel] = string(b)
		return err
	})
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s has %v, want %v; %v", dir, got, want, err)
	}
}

func withSandboxes(t testing.TB) func(*embedded.Config) {
	python := systemPython(t)
	return func(c *embedded.Config) { c.Sandboxes, c.Python = true, python }
}

// inFolder is a program that works in a folder.
func inFolder(dir, source string) agentkernel.Spec {
	s := program(source)
	s.Workspace = &agentkernel.Workspace{Path: dir}
	return s
}

const editor = `
import os, pathlib
print(sorted(os.listdir()), os.getcwd())
pathlib.Path("in.txt").write_text("edited")
os.remove("old.txt")
os.makedirs("out/deep")
open("out/deep/report.csv", "w").write("a,b\n1,2\n")
os.symlink("in.txt", "link")
`

func TestWorkspace(t *testing.T) {
	asBoth(t, func(t *testing.T) {
		k := openEmbedded(t, home(t), withSandboxes(t))
		before := map[string]string{"in.txt": "in", "old.txt": "old"}
		dir := folder(t, before)
		for _, force := range []bool{false, true} {
			p := run(t, k, inFolder(dir, editor))
			if p.State != agentkernel.StateExited || p.Backend != "process" || p.stdout != "['in.txt', 'old.txt'] /workspace\n" {
				t.Fatalf("%+v %q %q", p.Process, p.stdout, p.stderr)
			}
			holds(t, dir, before)
			c, err := k.Changes(t.Context(), p.PID)
			if err != nil || c.Folder != dir || c.State != agentkernel.LayerKept ||
				c.Count(agentkernel.FileAdded) != 4 || c.Count(agentkernel.FileChanged) != 1 || c.Count(agentkernel.FileDeleted) != 1 {
				t.Fatalf("changes %+v %v", c, err)
			}
			if !force {
				if err := k.Discard(t.Context(), p.PID); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if text := readAll(t, k, p.PID, "out/deep/report.csv"); text != "a,b\n1,2\n" {
				t.Errorf("report.csv is %q", text)
			}
			a, err := k.Apply(t.Context(), p.PID, agentkernel.ApplyOptions{})
			if err != nil || a.Added != 4 || a.Changed != 1 || a.Deleted != 1 {
				t.Errorf("applied %+v %v", a, err)
			}
			holds(t, dir, map[string]string{"in.txt": "edited", "link": "edited", "out/deep/report.csv": "a,b\n1,2\n"})
			ownedLike(t, dir, filepath.Join(dir, "out/deep/report.csv"))
			if _, err := k.Apply(t.Context(), p.PID, agentkernel.ApplyOptions{}); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
				t.Errorf("applied twice: %v", err)
			}
		}
	})
}

func ownedLike(t testing.TB, a, b string) {
	t.Helper()
	var x, y syscall.Stat_t
	if err := errors.Join(syscall.Stat(a, &x), syscall.Stat(b, &y)); err != nil || x.Uid != y.Uid || x.Gid != y.Gid {
		t.Errorf("%s belongs to %d:%d, %s to %d:%d; %v", a, x.Uid, x.Gid, b, y.Uid, y.Gid, err)
	}
}

func readAll(t testing.TB, k agentkernel.Kernel, pid agentkernel.PID, path string) string {
	t.Helper()
	f, err := k.OpenFile(t.Context(), pid, agentkernel.FileName{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Content.Close()
	b, err := io.ReadAll(f.Content)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPublish(t *testing.T) {
	k := openEmbedded(t, home(t), withSandboxes(t))
	dir, shared := folder(t, map[string]string{"in.txt": "in"}), folder(t, map[string]string{"count": "1"})
	publish := func(source string) outcome {
		s := inFolder(dir, source)
		s.Workspace.Publish = true
		s.Volumes = []agentkernel.Volume{{Name: "shared", Path: shared}, {Name: "same", Path: shared, ReadOnly: true}}
		return run(t, k, s)
	}
	p := publish("open('out.txt', 'w').write('1')\nopen('/volumes/shared/count', 'w').write('9')\nimport sys\nsys.exit(3)")
	if p.ExitCode != 3 {
		t.Fatalf("%+v", p.Process)
	}
	holds(t, dir, map[string]string{"in.txt": "in"})
	holds(t, shared, map[string]string{"count": "1"})
	p = publish("open('out.txt', 'w').write('2')\nopen('/volumes/shared/count', 'w').write('2')\nprint(open('/volumes/same/count').read())\n6*7")
	if p.State != agentkernel.StateExited || p.stdout != "1\n" || string(p.Result) != "42" {
		t.Fatalf("%+v %s", p.Process, p.stdout)
	}
	holds(t, dir, map[string]string{"in.txt": "in", "out.txt": "2"}) // when the end is told, the files are there
	holds(t, shared, map[string]string{"count": "2"})
	c, err := k.Changes(t.Context(), p.PID)
	if err != nil || c.State != agentkernel.LayerApplied || len(c.Changes) != 2 {
		t.Errorf("changes %+v %v", c, err)
	}
	for i, end := range []string{"import sys\nsys.exit()", "import sys\nsys.exit(0)", "import kernel\nkernel.exit(0)"} { // it may say itself that it ends
		text := strconv.Itoa(i)
		p = publish("open('out.txt', 'w').write('" + text + "')\nopen('/volumes/shared/count', 'w').write('" + text + "')\n" + end)
		if p.State != agentkernel.StateExited || p.ExitCode != 0 {
			t.Fatalf("%s: %+v", end, p.Process)
		}
		holds(t, dir, map[string]string{"in.txt": "in", "out.txt": text})
		holds(t, shared, map[string]string{"count": text})
	}
}

// What Python holds back of files that a program leaves open is written, as it is at the end of any interpreter, however the program ends.
func TestOpenFilesAreWritten(t *testing.T) {
	k := openEmbedded(t, home(t), withSandboxes(t))
	const source = `import csv, gzip, zipfile
text = open("text", "w")
text.write("abc")
octets = open("octets", "wb")
octets.write(b"abc")
class Cycle: pass
hidden = Cycle()
hidden.itself, hidden.rows = hidden, csv.writer(open("rows", "w", newline=""))
hidden.rows.writerow([1, 2])
packed = gzip.open("packed.gz", "wt")
packed.write("abc")
archive = zipfile.ZipFile("archive.zip", "w")
archive.writestr("a", "abc")
`
	const look = `import gzip, zipfile
open("seen", "w").write(" ".join([open("text").read(), open("octets").read(), open("rows").read().strip(), gzip.open("packed.gz", "rt").read(), zipfile.ZipFile("archive.zip").read("a").decode()]))`
	for _, end := range []string{"", "raise SystemExit(0)", "import sys\nsys.exit(3)", "import kernel\nkernel.exit(0)", "1/0"} {
		dir := folder(t, nil)
		p := run(t, k, inFolder(dir, source+end))
		if _, err := k.Apply(t.Context(), p.PID, agentkernel.ApplyOptions{}); err != nil {
			t.Fatalf("%q: %v", end, err)
		}
		s := inFolder(dir, look)
		s.Workspace.Publish = true
		if q := run(t, k, s); q.State != agentkernel.StateExited {
			t.Errorf("%q: %+v", end, q.Error)
		}
		if seen, err := os.ReadFile(filepath.Join(dir, "seen")); string(seen) != "abc abc 1,2 abc abc" {
			t.Errorf("%q: %q %v", end, seen, err)
		}
	}
}

// What a program has made itself of files is written in the order of its layers, once, and cannot change how the program ends.
func TestOpenFilesOfOnesOwn(t *testing.T) {
	k := openEmbedded(t, home(t), withSandboxes(t))
	const open = "import io, os, sys\nlog = open('log', 'w')\nlog.write('log')\n"
	for name, tc := range map[string]struct{ source, want string }{
		"a pipe whose lock a thread holds": {`import select, subprocess, threading
p = subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE)
threading.Thread(target=p.stdin.write, args=(b"x" * (1 << 20),), daemon=True).start()
while select.select([], [p.stdin], [], 0)[1]: pass
`, "log"},
		"a raw file below a buffer": {`class Raw(io.RawIOBase):
    def writable(self): return True
    def write(self, b):
        os.write(log.fileno(), bytes(b))
        return len(b)
kept = io.BufferedWriter(Raw())
kept.write(b"abc")
log.flush()
`, "logabc"},
		"closed already": {`class Footer(io.TextIOBase):
    def close(self):
        log.write("footer")
        super().close()
closed, left = Footer(), Footer()
closed.close()
`, "logfooterfooter"},
		"a text of one's own, compressed": {`import gzip
class Footer(io.TextIOWrapper):
    def close(self):
        if not self.closed: self.write("footer")
        super().close()
packed = gzip.GzipFile(fileobj=open("packed", "wb"), mode="w")
text = Footer(packed)
log.close()
os.rename("packed", "log")
`, "footer"},
		"an exit in a close": {`class Exits(io.RawIOBase):
    def close(self): sys.exit(7)
kept = [Exits() for _ in range(3)]
`, "log"},
		"a call that ends the program in a close": {`import kernel
class Exits(io.RawIOBase):
    def close(self): kernel.exit(0)
kept = Exits()
`, "log"},
		"a forked child": {`import kernel
pid = os.fork()
if not pid:
    try: kernel.exit(3)
    except RuntimeError: pass
    os._exit(0)
os.waitpid(pid, 0)
`, "log"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, nil)
			s := inFolder(dir, open+tc.source)
			s.Workspace.Publish, s.Limits.Time = true, agentkernel.Duration(30*time.Second)
			if p := run(t, k, s); p.State != agentkernel.StateExited || p.ExitCode != 0 {
				t.Errorf("%+v %+v", p.Process, p.Error)
			}
			got, err := os.ReadFile(filepath.Join(dir, "log"))
			if z, zerr := gzip.NewReader(bytes.NewReader(got)); zerr == nil {
				got, err = io.ReadAll(z)
			}
			if string(got) != tc.want || err != nil {
				t.Errorf("%q %v; want %q", got, err, tc.want)
			}
		})
	}
}

// meddler is a tool by which the program's world changes the folder while the program runs.
type meddler struct {
	book
	once sync.Once
	do   func()
}

func (m *meddler) Call(ctx context.Context, c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
	m.once.Do(m.do)
	return m.book.Call(ctx, c)
}

func TestPublishingThatMeetsAConflict(t *testing.T) {
	dir := folder(t, map[string]string{"in.txt": "in"})
	far := &meddler{book: book{lines: map[string]int{}}, do: func() { writeText(t, filepath.Join(dir, "in.txt"), "his") }}
	k := openEmbedded(t, home(t), withSandboxes(t), func(c *embedded.Config) {
		c.Tools = func([]string) (agentkernel.ToolSource, error) { return far, nil }
	})
	s := inFolder(dir, "from tools.book import write\nopen('in.txt', 'w').write('mine')\nwrite(line='x')")
	s.Workspace.Publish, s.Tools, s.Allow = true, []string{"/book.json"}, []string{"book"}
	p := run(t, k, s)
	if p.State != agentkernel.StateFailed || p.Error.Code != agentkernel.CodeConflict || !strings.Contains(p.Error.Message(), "in.txt was changed meanwhile") {
		t.Errorf("%+v", p.Process)
	}
	holds(t, dir, map[string]string{"in.txt": "his"})
	if _, err := k.Apply(t.Context(), p.PID, agentkernel.ApplyOptions{Force: true}); err != nil {
		t.Error(err)
	}
	holds(t, dir, map[string]string{"in.txt": "mine"})
}

func TestDiskLimit(t *testing.T) {
	k := openEmbedded(t, home(t), withSandboxes(t))
	for name, source := range map[string]string{
		"many files":       "i = 0\nwhile True:\n    open(str(i), 'w').close()\n    i += 1",
		"many large ones":  "i = 0\nwhile True:\n    open(str(i), 'wb').truncate(1 << 20)\n    i += 1",
		"quick":            "for i in range(20): open(str(i), 'wb').truncate(1 << 20)", // it ends before anybody has looked
		"quick, and exits": "import sys\nfor i in range(20): open(str(i), 'wb').truncate(1 << 20)\nsys.exit(0)",
		"quick, and fails": "for i in range(20): open(str(i), 'wb').truncate(1 << 20)\nraise ValueError('no')",
		"files that no name leads to": "import os, kernel\nheld = []\nfor i in range(20):\n    held.append(os.open('f', os.O_CREAT | os.O_RDWR))\n    os.unlink('f')\n" +
			"    os.write(held[-1], b'x' * (1 << 20))\nkernel.sleep(600)",
		"while it waits": "import threading, kernel\nfor i in range(20): open(str(i), 'wb').truncate(1 << 20)\nkernel.sleep(600)",
	} {
		t.Run(name, func(t *testing.T) {
			s := inFolder(folder(t, nil), source)
			s.Limits.Disk = 8 << 20
			p := run(t, k, s)
			if p.State != agentkernel.StateKilled || p.Error.Op != "limit.disk" || p.ExitCode != agentkernel.ExitKilled {
				t.Errorf("%+v", p.Process)
			}
			if err := k.Discard(t.Context(), p.PID); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWorkspaceRefusals(t *testing.T) {
	data := home(t)
	k := openEmbedded(t, data, withSandboxes(t))
	dir := folder(t, map[string]string{"f": ""})
	if err := os.Symlink(dir, dir+".link"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]agentkernel.Code{
		dir + "/none": agentkernel.CodeNotFound, dir + "/f": agentkernel.CodeInvalid, dir + ".link": agentkernel.CodeInvalid,
		data: agentkernel.CodeInvalid, filepath.Dir(data): agentkernel.CodeInvalid, "/": agentkernel.CodeInvalid, "relative": agentkernel.CodeInvalid,
	} {
		if _, err := k.Spawn(t.Context(), inFolder(path, "print(1)")); agentkernel.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	s := inFolder(dir, "print(1)")
	s.Backend = "monty"
	if _, err := k.Spawn(t.Context(), s); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
		t.Errorf("monty: %v", err)
	}
	p := run(t, k, program("print(1)"))
	for _, err := range []error{k.Discard(t.Context(), p.PID), k.Discard(t.Context(), 999)} {
		if c := agentkernel.CodeOf(err); c != agentkernel.CodeInvalid && c != agentkernel.CodeNotFound {
			t.Errorf("discard: %v", err)
		}
	}
	// One that runs is left alone.
	q, err := k.Spawn(t.Context(), inFolder(dir, "import kernel\nopen('x', 'w').close()\nkernel.sleep(600)"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Apply(t.Context(), q.PID, agentkernel.ApplyOptions{Force: true}); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Errorf("apply while it runs: %v", err)
	}
	if err := k.Signal(t.Context(), q.PID, agentkernel.SignalKill); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Apply(t.Context(), q.PID, agentkernel.ApplyOptions{}); err != nil {
		t.Errorf("apply right after the end: %v", err)
	}
}

// appendsToFile appends to one file by itself, a half of each line before and one after a call of a tool that must not be
// made twice, and to another by a process that it starts.
const appendsToFile = `
import subprocess
from tools.lines import append_line
from kernel import sleep, state

for i in range(%d):
    with open("log.txt", "a") as f:
        f.write("line ")
        f.flush()
        try:
            append_line(path=%q, text="line %%d" %% i)
        except OSError as e:
            assert str(e).startswith("outcome_unknown: "), e
            print("unknown", i)
        f.write("%%d\n" %% i)
    if i %% 10 == 5:
        subprocess.run(["sh", "-c", "echo %%d >> children.txt" %% i], check=True)
    state.set("at", i)
    sleep(%v)
print(open("log.txt").read().count("\n"))
`

// TestKillWhileAFileIsWritten kills the kernel at random moments, its own start and recovery included, while a program
// in CPython appends to files of its workspace and calls a tool. Afterwards it is as if nothing had happened: the folder
// is as it was until the changes are applied or published, and then it has each line once.
func TestKillWhileAFileIsWritten(t *testing.T) {
	publicLines(t)
	asBoth(t, func(t *testing.T) {
		t.Setenv(envSandboxes, systemPython(t))
		for name, publish := range map[string]bool{"applied": false, "published": true} {
			t.Run(name, func(t *testing.T) { killAppending(t, publish) })
		}
	})
}

func killAppending(t *testing.T, publish bool) {
	const n, window = 60, 500 * time.Millisecond
	before := map[string]string{"log.txt": "begin\n", "other": "o"}
	data, dir, kills := home(t), folder(t, before), kills(t, 7)
	lines := filepath.Join(usertest.Dir(t), "lines.txt")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	// The pauses make the program last for about as long as the kills do.
	s := inFolder(dir, fmt.Sprintf(appendsToFile, n, lines, float64(kills)*window.Seconds()/2/n))
	s.Tools, s.Allow = []string{tooltest.Config(t, map[string]tooltest.Server{"lines": linesServer(t)})}, []string{"lines.*"}
	s.Workspace.Publish = publish
	v := startVictim(t, data)
	p, err := v.client(t, data).Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range kills {
		if i > 0 && i%3 == 0 { // this one may die before it is up
			v = launchVictim(t, data)
		} else if i > 0 {
			v = startVictim(t, data)
		}
		time.Sleep(time.Duration(rng.Int64N(int64(window)))) //nolint:forbidigo // the random moment is what is tested
		v.kill()
		if !publish {
			holds(t, dir, before)
		}
	}
	k := startVictim(t, data).client(t, data)
	end, err := k.Wait(t.Context(), p.PID)
	if err != nil || end.State != agentkernel.StateExited {
		t.Fatalf("%+v %v %s\n%s", end, err, tracebackOf(end.Error), dump(t, k, p.PID))
	}
	if end.Recoveries < kills/3 {
		t.Errorf("only %d of %d kills met the program alive: the test proves little", end.Recoveries, kills)
	}
	if !publish {
		holds(t, dir, before)
		if _, err := k.Apply(t.Context(), p.PID, agentkernel.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	log, children := "begin\n", ""
	for i := range n {
		log += fmt.Sprintf("line %d\n", i)
		if i%10 == 5 {
			children += fmt.Sprintf("%d\n", i)
		}
	}
	holds(t, dir, map[string]string{"log.txt": log, "children.txt": children, "other": "o"})
	onceOrUnknown(t, k, p.PID, lines, n)
	t.Logf("%d kills, %d recoveries", kills, end.Recoveries)
}

// onceOrUnknown checks that each line was written by the tool once, or, if the kernel died in the middle of the call,
// that the program was told so.
func onceOrUnknown(t *testing.T, k agentkernel.Kernel, pid agentkernel.PID, path string, n int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = k.Events(t.Context(), pid, 1, false, func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventOutput {
			out.WriteString(ev.Text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		got := strings.Count("\n"+string(b), fmt.Sprintf("\nline %d\n", i))
		told := strings.Contains("\n"+out.String(), fmt.Sprintf("\nunknown %d\n", i))
		if got > 1 || got == 0 && !told {
			t.Errorf("line %d was written %d times; the program was told: %t", i, got, told)
		}
	}
	if !strings.HasSuffix(out.String(), fmt.Sprintf("%d\n", n+1)) {
		t.Errorf("printed %q", out.String())
	}
}

// TestRecoveryOverAnotherFolder: what the program read may be gone, so nobody goes on unasked.
func TestRecoveryOverAnotherFolder(t *testing.T) {
	t.Setenv(envSandboxes, systemPython(t))
	data, dir := home(t), folder(t, map[string]string{"in.txt": "in"})
	v := startVictim(t, data)
	k := v.client(t, data)
	p, err := k.Spawn(t.Context(), inFolder(dir, "import kernel\nprint(open('in.txt').read(), flush=True)\nkernel.sleep(0.2)\nopen('out', 'w').write('o')\nprint('end')"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has read", func() bool {
		entries, err := k.Journal(t.Context(), p.PID, 1, 0)
		return err == nil && len(entries) >= 3
	})
	v.kill()
	writeText(t, filepath.Join(dir, "new.txt"), "new")
	v = startVictim(t, data)
	k = v.client(t, data)
	got, err := k.Wait(t.Context(), p.PID)
	if err != nil || !got.Paused || !strings.Contains(got.PauseNote, "new.txt") {
		t.Fatalf("%+v %v", got, err)
	}
	if err := k.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has ended", func() bool { got, err = k.Process(t.Context(), p.PID); return err == nil && got.State.Terminal() })
	if got.State != agentkernel.StateExited {
		t.Errorf("%+v", got)
	}
}

// TestCrashAtEveryMomentOfPublishing cuts the power at each operation of the store of a program that publishes, and
// recovers: at the end the files are there once, whatever was cut off.
func TestCrashAtEveryMomentOfPublishing(t *testing.T) {
	modes := []faulty.Mode{faulty.Fail, faulty.CrashBefore, faulty.CrashAfter}
	for _, end := range []string{"print('x')", "import sys\nsys.exit(0)"} {
		total := crashPublishing(t, end, 0, faulty.CrashBefore)
		for at := int64(1); at <= total; at++ {
			crashPublishing(t, end, at, modes[at%int64(len(modes))])
		}
	}
}

func crashPublishing(t *testing.T, end string, at int64, mode faulty.Mode) int64 {
	t.Helper()
	data, dir := home(t), folder(t, map[string]string{"log.txt": "1\n", "old.txt": "old"})
	var store *faulty.Store
	cfg := embedded.Config{Home: data, Engine: engine(t), Sandboxes: true, Python: systemPython(t)}
	cfg.WrapStore = func(inner agentkernel.Store) agentkernel.Store {
		store = faulty.Wrap(inner, faulty.Plan{At: at, Mode: mode})
		return store
	}
	k, err := embedded.Open(t.Context(), cfg)
	if err != nil {
		if at == 0 {
			t.Fatal(err)
		}
		return 0 // the fault came before the kernel was up
	}
	s := inFolder(dir, "import os\nopen('log.txt', 'a').write('2\\n')\nos.remove('old.txt')\nos.mkdir('new')\nopen('new/f', 'w').write('n')\n"+end)
	s.Workspace.Publish = true
	p, err := tryRun(t.Context(), k, s)
	total := store.Operations()
	_ = k.Close() // the store may have failed: that is the test
	if at == 0 && (err != nil || p.State != agentkernel.StateExited) {
		t.Fatalf("%+v %v", p.Process, err)
	}
	l := openEmbedded(t, data, withSandboxes(t))
	if _, err := l.Recover(t.Context(), 0); err != nil {
		t.Fatalf("crash at %d: recover: %v", at, err)
	}
	rows, err := l.List(t.Context(), agentkernel.Filter{})
	if err != nil || len(rows) > 1 {
		t.Fatalf("crash at %d: %d processes, %v", at, len(rows), err)
	}
	if len(rows) == 0 { // it was never created
		holds(t, dir, map[string]string{"log.txt": "1\n", "old.txt": "old"})
		return total
	}
	if p, err := l.Wait(t.Context(), rows[0].PID); err != nil || p.State != agentkernel.StateExited {
		t.Errorf("crash at %d (%v): %+v %v\n%s", at, mode, p, err, dump(t, l, rows[0].PID))
	}
	holds(t, dir, map[string]string{"log.txt": "1\n2\n", "new/f": "n"})
	return total
}

// TestRerunBeginsAnew: a rerun has a layer of its own.
func TestRerunBeginsAnew(t *testing.T) {
	k := openEmbedded(t, home(t), withSandboxes(t))
	dir := folder(t, map[string]string{"n": "1"})
	s := inFolder(dir, "n = int(open('n').read())\nopen('n', 'w').write(str(n + 1))\nprint(n)")
	p := run(t, k, s)
	s.Past = &agentkernel.Past{PID: p.PID}
	q := run(t, k, s)
	if p.stdout != "1\n" || q.stdout != "1\n" {
		t.Errorf("printed %q, then %q", p.stdout, q.stdout)
	}
	if _, err := k.Apply(t.Context(), q.PID, agentkernel.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, map[string]string{"n": "2"})
	if _, err := k.Apply(t.Context(), p.PID, agentkernel.ApplyOptions{}); err != nil { // it makes the same change
		t.Errorf("the first one: %v", err)
	}
}

const gigabyte = `
import hashlib
h = hashlib.sha256()
with open("big.in", "rb") as f, open("big.out", "wb") as g:
    while b := f.read(1 << 20):
        h.update(b)
        g.write(b)
print(h.hexdigest())
`

// TestAGigabytePasses: into the sandbox, out of it, into the folder and out by OpenFile, and the kernel's memory does
// not notice.
func TestAGigabytePasses(t *testing.T) {
	if testing.Short() {
		t.Skip("writes three gigabytes")
	}
	const size = 1 << 30
	dir := folder(t, nil)
	big, err := os.Create(filepath.Join(dir, "big.in"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = big.WriteAt([]byte("somewhere"), size/2)
	if err := errors.Join(err, big.Truncate(size), big.Close()); err != nil {
		t.Fatal(err)
	}
	k := openClient(t, home(t), withSandboxes(t))
	s := inFolder(dir, gigabyte)
	s.Limits.Time, s.Limits.Disk = agentkernel.Duration(10*time.Minute), 2<<30
	peak := watchHeap(t)
	p := run(t, k, s)
	if p.State != agentkernel.StateExited {
		t.Fatalf("%+v", p.Process)
	}
	if a, err := k.Apply(t.Context(), p.PID, agentkernel.ApplyOptions{}); err != nil || a.Bytes != size {
		t.Fatalf("applied %+v %v", a, err)
	}
	f, err := k.OpenFile(t.Context(), p.PID, agentkernel.FileName{Path: "big.out"})
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	n, err := io.Copy(h, f.Content)
	if err := errors.Join(err, f.Content.Close()); err != nil || n != size || fmt.Sprintf("%x\n", h.Sum(nil)) != p.stdout {
		t.Errorf("%d bytes, %x, the program says %s; %v", n, h.Sum(nil), p.stdout, err)
	}
	if grown := peak(); grown > 64<<20 {
		t.Errorf("the kernel's heap grew by %d MiB", grown>>20)
	}
}

// watchHeap measures by how much this process's heap grows until the function that it gives is called.
func watchHeap(t *testing.T) func() uint64 {
	t.Helper()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	base, most := heap(), uint64(0)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				most = max(most, heap())
			}
		}
	}()
	return func() uint64 {
		stop()
		<-done
		return most - min(base, most)
	}
}

// Git reads a repository in a read-only workspace, whoever it belongs to, and changes nothing.
func TestGitReadsARepositoryOfAnybody(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		const msg = "SKIPPED, NOTHING PROVED: there is no git"
		if os.Getenv("CI") == "true" {
			t.Fatal(msg)
		}
		t.Skip(msg)
	}
	const envRepo = "AGENTKERNEL_E2E_REPO"
	repository := func() string {
		dir := filepath.Join(usertest.Dir(t), "repo")
		for _, args := range [][]string{{"init", "-q", dir}, {"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "the first"}} {
			if out, err := exec.Command(git, args...).CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
		}
		return dir
	}
	usertest.BothWith(t, func(t *testing.T) {
		dir := os.Getenv(envRepo) // of root, for the ordinary user
		if dir == "" {
			dir = repository()
		}
		k := openEmbedded(t, home(t), withSandboxes(t))
		for _, c := range []struct {
			args []string
			want string
		}{{[]string{"log", "--format=%s"}, "the first\n"}, {[]string{"status", "--short"}, ""}} {
			p := run(t, k, agentkernel.Spec{
				Program:   agentkernel.Program{Name: "git", Language: agentkernel.Command, Source: "git", Args: c.args},
				Workspace: &agentkernel.Workspace{Path: dir, ReadOnly: true, Optional: true},
			})
			if p.ExitCode != 0 || p.stdout != c.want || p.stderr != "" {
				t.Errorf("git %v: %d %q %q", c.args, p.ExitCode, p.stdout, p.stderr)
			}
			if c, err := k.Changes(t.Context(), p.PID); err != nil || len(c.Changes) != 0 || c.Folder != dir {
				t.Errorf("changes %+v %v", c, err)
			}
		}
	}, func(string) []string {
		return []string{"AGENTKERNEL_MONTY=" + engine(t), envPython + "=" + systemPython(t), envRepo + "=" + repository()}
	})
}

// What a read-only workspace cannot be is refused before anything runs.
func TestReadOnlyWorkspaceIsNotPublished(t *testing.T) {
	k := openEmbedded(t, home(t), withSandboxes(t))
	for _, w := range []agentkernel.Workspace{{ReadOnly: true, Publish: true}, {Optional: true}} {
		w.Path = folder(t, map[string]string{"in.txt": "in"})
		s := program("print(1)")
		s.Workspace = &w
		if _, err := k.Spawn(t.Context(), s); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%+v: %v", w, err)
		}
	}
}

// Of a directory that an ordinary user may enter and not list, no program sees what is in it, though it knows the names: not
// of the folder of a command, and not of folders that were named, where nobody could tell what it has changed.
func TestDirectoriesThatCannotBeListed(t *testing.T) {
	asBoth(t, func(t *testing.T) {
		if os.Geteuid() == 0 {
			return // root may list all
		}
		dir := folder(t, map[string]string{"conf/.env": "key", "conf/f": "old", "open/f": "old"})
		conf := filepath.Join(dir, "conf")
		if err := os.Chmod(conf, 0o311); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(conf, 0o755) })
		k := openEmbedded(t, home(t), withSandboxes(t))
		python := func(at, volume string) agentkernel.Spec {
			s := program(fmt.Sprintf(`
import os
at = %q
for do in (lambda: open(at + "conf/.env").read(), lambda: os.chmod(at + "conf", 0o755), lambda: open(at + "conf/f", "w"), lambda: os.mkdir(at + "conf/new")):
    try: print("BREACH", do())
    except OSError: pass
open(at + "open/f", "w").write("new")
`, at))
			if s.Backend = "process"; volume == "" {
				s.Workspace = &agentkernel.Workspace{Path: dir}
			} else {
				s.Volumes = []agentkernel.Volume{{Name: volume, Path: dir}}
			}
			return s
		}
		for name, c := range map[string]struct {
			spec agentkernel.Spec
			want string
		}{
			"unasked": {agentkernel.Spec{Program: agentkernel.Program{Name: "sh", Language: agentkernel.Command, Source: "sh", Args: []string{"-c", "! cat conf/.env"}},
				Workspace: &agentkernel.Workspace{Path: dir, ReadOnly: true, Optional: true}}, "[conf/] 0"},
			"workspace": {python("", ""), "[conf/] 1"},
			"volume":    {python("/volumes/v/", "v"), "[/volumes/v/conf/] 1"},
		} {
			p := run(t, k, c.spec)
			if p.ExitCode != 0 || p.State != agentkernel.StateExited || p.stdout != "" {
				t.Errorf("%s: %s %d %q %q %v", name, p.State, p.ExitCode, p.stdout, p.stderr, p.Error)
			}
			changes, err := k.Changes(t.Context(), p.PID)
			if got := fmt.Sprint(changes.Unlisted, len(changes.Changes)); err != nil || got != c.want {
				t.Errorf("%s: %s, want %s (%v)", name, got, c.want, err)
			}
		}
	})
}
