package confine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel/internal/quickexit"
	"agentkernel/internal/usertest"
)

func TestMain(m *testing.M) {
	quickexit.Main()
	Main()
	os.Exit(m.Run())
}

// plain starts and kills processes and nothing more.
type plain struct{}

func (plain) Start(cmd *exec.Cmd) error { return cmd.Start() }
func (plain) Kill(cmd *exec.Cmd)        { _ = cmd.Process.Kill() }

// bothUsers is usertest.Both with the package's testdata.
func bothUsers(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	usertest.BothWith(t, test, func(dir string) []string {
		if err := os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("testdata")); err != nil {
			t.Fatal(err)
		}
		return nil
	})
}

// publicDir is a directory that whoever is asked can reach.
func publicDir(t testing.TB) string {
	t.Helper()
	dir := usertest.Dir(t)
	t.Cleanup(func() { _ = RemoveScratch(dir) }) // may hold an overlay's
	return dir
}

func newSpawner(t testing.TB, change ...func(*SpawnerConfig)) *Spawner {
	t.Helper()
	cfg := SpawnerConfig{Launcher: plain{}, Name: fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano())}
	for _, f := range change {
		f(&cfg)
	}
	s, err := NewSpawner(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var python = sync.OnceValues(func() (p struct {
	Executable string
	Prefix     string
}, err error) {
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		out, err := exec.Command(name, "-I", "-c", `import sys, json; print(json.dumps({"Executable": sys.executable, "Prefix": sys.base_prefix}))`).Output()
		if err == nil {
			return p, json.Unmarshal(out, &p)
		}
	}
	return p, errors.New("the attacks are Python programs: install python3")
})

// running is a sandbox with what it prints.
type running struct {
	*Process
	out, err *capture
}

type capture struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	more chan struct{} // one element when something came since somebody looked
	done chan struct{}
}

func (c *capture) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}

// await waits until the output holds text.
func (c *capture) await(t *testing.T, text string) {
	t.Helper()
	late := time.After(patience)
	for !strings.Contains(c.String(), text) {
		select {
		case <-c.more:
		case <-c.done:
			if !strings.Contains(c.String(), text) {
				t.Fatalf("the program ended without %q:\n%s", text, c)
			}
		case <-late:
			t.Fatalf("no %q within %s:\n%s", text, patience, c)
		}
	}
}

// collect gives the write end of a pipe whose other end is read all the time.
func collect(t testing.TB) (*capture, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &capture{more: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer r.Close()
		b := make([]byte, 32<<10)
		for {
			n, err := r.Read(b)
			c.mu.Lock()
			if c.buf.Len() < 1<<20 {
				c.buf.Write(b[:n])
			}
			c.mu.Unlock()
			select {
			case c.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	return c, w
}

// launchWhole starts a program under the spawner.
func launchWhole(t *testing.T, s *Spawner, cfg Config) *running {
	t.Helper()
	c, err := s.Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	out, w1 := collect(t)
	errs, w2 := collect(t)
	defer w1.Close()
	defer w2.Close()
	p, err := s.Start(t.Context(), c, []*os.File{null, w1, w2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return &running{p, out, errs}
}

// finish waits for the end, of output too.
func (r *running) finish(t *testing.T) Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e, err := r.Wait(ctx)
	if err != nil {
		t.Fatalf("it does not end: %v\n%s%s", err, r.out, r.err)
	}
	<-r.out.done
	<-r.err.done
	return e
}

// pythonConfig runs a script; the file holds it, so that it may be long.
func pythonConfig(t *testing.T, script string) Config {
	t.Helper()
	py, err := python()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Profile: ProfilePython, Runtime: append(SystemRuntime(), Mount{Source: py.Executable}, Mount{Source: py.Prefix}),
		Files:   []File{{"/etc/attack.py", []byte(script)}},
		Program: Program{Path: py.Executable, Args: []string{"python3", "-I", "-S", "/etc/attack.py"}, Env: []string{"PATH=/usr/bin:/bin"}},
	}
	return cfg
}

// launchChild runs the script in a child of testdata/zygote.py.
func launchChild(t *testing.T, s *Spawner, cfg Config, script string) *running {
	t.Helper()
	return launchChildWith(t, s, cfg, script)
}

// launchChildWith gives the zygote more to see.
func launchChildWith(t *testing.T, s *Spawner, cfg Config, script string, more ...Mount) *running {
	t.Helper()
	zygote := pythonConfig(t, readFile(t, "testdata/zygote.py"))
	zygote.Kind = Zygote
	zygote.Runtime = append(zygote.Runtime, more...)
	cfg.Kind, cfg.Runtime, cfg.Files, cfg.Program.Path, cfg.Program.Args = Child, nil, nil, "", nil
	zc, err := s.Prepare(zygote)
	if err != nil {
		t.Fatal(err)
	}
	near, far := pair(t)
	defer far.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	out, w1 := collect(t)
	errs, w2 := collect(t)
	defer w1.Close()
	defer w2.Close()
	z, err := s.Start(t.Context(), zc, []*os.File{null, w1, w2, far})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.Kill)
	c, err := zc.Child(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p, err := forkChild(t, s, c, near, script)
	if err != nil {
		_, _ = z.Wait(t.Context())
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	t.Cleanup(p.Kill)
	return &running{p, out, errs}
}

func forkChild(t *testing.T, s *Spawner, c *Cell, control *net.UnixConn, script string) (*Process, error) {
	trees, err := s.Trees(t.Context(), c.Plan)
	if err != nil {
		return nil, err
	}
	fds := make([]int, len(trees))
	for i, f := range trees {
		defer f.Close()
		fds[i] = int(f.Fd())
	}
	_ = control.SetDeadline(time.Now().Add(patience))
	body, err := json.Marshal(map[string]any{"plan": c.Plan, "script": script})
	if err != nil {
		return nil, err
	}
	if _, err := control.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(body)))); err != nil {
		return nil, err
	}
	if _, _, err := control.WriteMsgUnix([]byte{0}, unix.UnixRights(fds...), nil); err != nil {
		return nil, err
	}
	if _, err := control.Write(body); err != nil {
		return nil, err
	}
	oob, b := make([]byte, 64), make([]byte, 1)
	_, n, _, _, err := control.ReadMsgUnix(b, oob)
	got := rights(oob[:n])
	if err != nil || len(got) != 1 {
		return nil, fmt.Errorf("no child: %w", errors.Join(err, errors.New("the zygote ended")))
	}
	pidfd := os.NewFile(uintptr(got[0]), "pidfd")
	defer pidfd.Close()
	p, err := c.Adopt(pidfd)
	if err != nil {
		return nil, err
	}
	_, err = control.Write([]byte("g"))
	return p, err
}

func pair(t *testing.T) (*net.UnixConn, *os.File) {
	t.Helper()
	a, b, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		t.Fatal(err)
	}
	near, far := os.NewFile(uintptr(a), "near"), os.NewFile(uintptr(b), "far")
	defer near.Close()
	conn, err := net.FileConn(near)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.UnixConn), far
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
