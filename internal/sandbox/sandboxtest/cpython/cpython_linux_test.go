package cpython

import (
	"context"
	crand "crypto/rand"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/quickexit"
	"agentkernel/internal/sandbox/confine"
	"agentkernel/internal/sandbox/process"
)

//go:embed testdata/driver.py
var driver string

// This binary is also the spawner that builds the walls.
func TestMain(m *testing.M) {
	quickexit.Main()
	confine.Main()
	os.Exit(m.Run())
}

type launcher struct{}

func (launcher) Start(cmd *exec.Cmd) error { return cmd.Start() }
func (launcher) Kill(cmd *exec.Cmd)        { _ = cmd.Process.Kill() } // gone already: nothing to do

// python is the interpreter that scripts/cpython.sh has given its tests.
func python(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../../../.cache/cpython/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CPython's tests are missing: run scripts/cpython.sh")
		}
		t.Skip("SKIPPED, NOTHING PROVED: CPython's tests are missing: run scripts/cpython.sh")
	}
	return path
}

// patience bounds a module.
const patience = 3 * time.Minute

// outcome is how a case ended, and why.
type outcome [2]string

// source is the program for one module; the value of its last line is what it has found.
func source(module string) string {
	return fmt.Sprintf("%s\n\nrun(%q)\n", driver, module)
}

// outside runs a module as user 1000 without capabilities, with the environment of the sandbox, and no walls.
func outside(t *testing.T, python, module string) (map[string]outcome, error) {
	t.Helper()
	dir := t.TempDir()
	program, out := filepath.Join(dir, "program.py"), filepath.Join(dir, "out")
	text := source(module)
	at := strings.LastIndex(text, "\nrun(")
	text = text[:at] + "\nfound = " + strings.TrimSpace(text[at:]) + fmt.Sprintf("\nopen(%q, 'w').write(found)\nos._exit(0)\n", out)
	if err := os.WriteFile(program, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-s", "-B", program)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir, "LANG=C.UTF-8", "TZ=UTC", "PYTHONHASHSEED=0"}
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}}}
	cmd.WaitDelay = time.Second
	said, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, tail(string(said)))
	}
	text2, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	return read(text2)
}

// inside runs a module as a program of the backend.
func inside(t *testing.T, b agentkernel.Backend, module string) (map[string]outcome, error) {
	t.Helper()
	var said strings.Builder
	limits := agentkernel.DefaultLimits()
	limits.Time, limits.Memory = agentkernel.Duration(patience), 1<<30
	p := agentkernel.Program{Name: "program.py", Language: agentkernel.Python, Source: source(module)}
	if _, err := b.Check(p); err != nil {
		return nil, err
	}
	box, err := b.Start(t.Context(), agentkernel.StartRequest{PID: 1, Namespace: "default", Limits: limits, Program: p,
		Output: func(_, text string) { said.WriteString(text) }})
	if err != nil {
		return nil, err
	}
	turn, err := drive(t, box)
	err = errors.Join(err, box.Close())
	if err == nil && turn.Err != nil {
		err = fmt.Errorf("%w\n%s", turn.Err, turn.Err.Traceback)
	}
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, tail(said.String()))
	}
	var text string
	if err := json.Unmarshal(turn.Result, &text); err != nil {
		return nil, err
	}
	return read([]byte(text))
}

func read(text []byte) (found map[string]outcome, err error) {
	err = json.Unmarshal(text, &found)
	if err == nil && len(found) == 0 {
		err = errors.New("no case has run")
	}
	return found, err
}

func tail(s string) string { return s[max(0, len(s)-2000):] }

// drive answers a program as a kernel does, with the machine's clock and chance.
func drive(t *testing.T, box agentkernel.Sandbox) (agentkernel.Turn, error) {
	type sleeper struct {
		id  int64
		due time.Time
	}
	var sleeping []sleeper
	var reply *agentkernel.Reply
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for id := int64(1); ; {
		turn, err := box.Next(ctx, reply)
		if err != nil || turn.Kind == agentkernel.TurnExit || turn.Kind == agentkernel.TurnFail {
			return turn, err
		}
		if turn.Kind == agentkernel.TurnWait {
			if len(sleeping) == 0 {
				return turn, errors.New("the program waits for nothing")
			}
			slices.SortStableFunc(sleeping, func(a, b sleeper) int { return a.due.Compare(b.due) })
			<-time.After(time.Until(sleeping[0].due))
			reply = &agentkernel.Reply{ID: sleeping[0].id, Result: json.RawMessage("null")}
			sleeping = sleeping[1:]
			continue
		}
		var args struct {
			N       int     `json:"n"`
			Seconds float64 `json:"seconds"`
		}
		if err := json.Unmarshal(turn.Call.Args, &args); err != nil {
			return turn, err
		}
		reply = &agentkernel.Reply{ID: id, Result: json.RawMessage("null")}
		pause := time.Duration(args.Seconds * float64(time.Second))
		switch {
		case turn.Call.Async && turn.Call.Op == "time.sleep":
			sleeping = append(sleeping, sleeper{id, time.Now().Add(pause)})
			reply = &agentkernel.Reply{ID: id, Pending: true}
		case turn.Call.Op == "time.sleep":
			<-time.After(pause)
		case turn.Call.Op == "time.now":
			reply.Result = fmt.Appendf(nil, "%.9f", float64(time.Now().UnixNano())/1e9)
		case turn.Call.Op == "rand.bytes":
			b := make([]byte, args.N)
			_, _ = crand.Read(b) // never fails
			reply.Result = fmt.Appendf(nil, `{"$bytes":%q}`, base64.StdEncoding.EncodeToString(b))
		default:
			return turn, fmt.Errorf("the program calls %s %s", turn.Call.Op, turn.Call.Args)
		}
		id++
	}
}

func newBackend(t *testing.T, python string) agentkernel.Backend {
	t.Helper()
	s, err := confine.NewSpawner(confine.SpawnerConfig{Launcher: launcher{}, Name: "cpython-" + strings.ToLower(crand.Text())})
	if err != nil {
		t.Fatal(err)
	}
	b, err := process.New(process.Config{Launcher: launcher{}, Spawner: s, Python: python})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestSameInside runs the modules of the list, those of AGENTKERNEL_CPYTHON (with spaces between), or, with
// AGENTKERNEL_CPYTHON=all, the long list.
func TestSameInside(t *testing.T) {
	path := python(t)
	b := newBackend(t, path)
	chosen := modules
	if names := os.Getenv("AGENTKERNEL_CPYTHON"); names == "all" {
		chosen = append(slices.Clone(modules), more...)
	} else if names != "" {
		chosen = strings.Fields(names)
	}
	for _, module := range chosen {
		t.Run(module, func(t *testing.T) { compare(t, b, path, module) })
	}
}

func compare(t *testing.T, b agentkernel.Backend, path, module string) {
	// Some of these tests measure time, and the machine may be busy: what counts is a difference that comes again.
	var stay []string
	for try := range 2 {
		out, err := outside(t, path, module)
		if err != nil {
			t.Fatalf("outside: %v", err)
		}
		in, err := inside(t, b, module)
		if err != nil {
			t.Fatalf("inside: %v", err)
		}
		found := unlike(out, in)
		if try == 1 {
			found = slices.DeleteFunc(found, func(line string) bool {
				return !slices.ContainsFunc(stay, func(old string) bool { return name(old) == name(line) })
			})
		}
		if stay = found; len(stay) == 0 {
			t.Logf("%d cases", len(out))
			return
		}
	}
	for _, line := range stay {
		t.Error(line)
	}
}

func name(line string) string { first, _, _ := strings.Cut(line, ":"); return first }

// unlike names the cases that end in another way inside and are not on the list.
func unlike(out, in map[string]outcome) (lines []string) {
	all := map[string]bool{}
	for _, found := range []map[string]outcome{out, in} {
		for id := range found {
			all[id] = true
		}
	}
	for id := range all {
		if o, i := out[id], in[id]; o[0] != i[0] && !known(strings.TrimPrefix(id, "test.")) {
			lines = append(lines, fmt.Sprintf("%s: outside %q %s, inside %q %s", id, o[0], o[1], i[0], i[1]))
		}
	}
	slices.Sort(lines)
	return lines
}

func known(id string) bool {
	return slices.ContainsFunc(differences, func(d difference) bool { return strings.HasPrefix(id, d.prefix) })
}
