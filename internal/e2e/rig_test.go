package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/embedded"
	"agentkernel/internal/api"
	"agentkernel/internal/datadir"
	"agentkernel/internal/quickexit"
	"agentkernel/internal/tool/tooltest"
)

const testVersion = "0.0.0-test"

func engine(t testing.TB) string {
	t.Helper()
	return tooltest.Engine(t, "NOTHING IS TESTED END TO END")
}

// home makes a data directory. Its path is short, because a socket is to fit into it.
func home(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ak")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func openEmbedded(t testing.TB, home string, change ...func(*embedded.Config)) *embedded.Kernel {
	t.Helper()
	cfg := embedded.Config{Home: home, Engine: engine(t), Version: testVersion}
	for _, c := range change {
		c(&cfg)
	}
	k, err := embedded.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return k
}

// openClient gives a client of a kernel that is served on a socket.
func openClient(t testing.TB, home string, change ...func(*embedded.Config)) agentkernel.Kernel {
	t.Helper()
	k := openEmbedded(t, home, change...)
	socket := serveKernel(t, k, home)
	c, err := client.Dial(t.Context(), client.Options{Socket: socket, Version: testVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func serveKernel(t testing.TB, k agentkernel.Kernel, home string) string {
	t.Helper()
	dir, err := datadir.Open(home)
	if err != nil {
		t.Fatal(err)
	}
	l, err := api.ListenUnix(dir.Socket())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, k, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return dir.Socket()
}

func serve(ctx context.Context, k agentkernel.Kernel, l net.Listener) error {
	s, err := api.New(api.Config{Kernel: k, Version: testVersion})
	if err != nil {
		return err
	}
	if err := s.Serve(ctx, l); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// outcome is what a run gave.
type outcome struct {
	agentkernel.Process
	stdout, stderr string
}

func run(t testing.TB, k agentkernel.Kernel, s agentkernel.Spec) outcome {
	t.Helper()
	o, err := tryRun(t.Context(), k, s)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return o
}

func tryRun(ctx context.Context, k agentkernel.Kernel, s agentkernel.Spec) (outcome, error) {
	var o outcome
	var stdout, stderr strings.Builder
	p, err := k.Run(ctx, s, func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventOutput && ev.Stream == "stderr" {
			stderr.WriteString(ev.Text)
		} else if ev.Kind == agentkernel.EventOutput {
			stdout.WriteString(ev.Text)
		}
		return nil
	})
	o.Process, o.stdout, o.stderr = p, stdout.String(), stderr.String()
	return o, err
}

func program(source string) agentkernel.Spec {
	return agentkernel.Spec{Program: agentkernel.Program{Name: "program.py", Language: agentkernel.Python, Source: source}}
}

// eventually waits until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if cond() {
			return
		}
		time.Sleep(2 * time.Millisecond) //nolint:forbidigo // polling a condition of another process
	}
	t.Fatalf("waited in vain until %s", what)
}

// A kernel in a process of its own, to be killed: this test binary, started again.
const (
	envChild = "AGENTKERNEL_E2E_CHILD"
	envHome  = "AGENTKERNEL_E2E_HOME"
	envLeave = "AGENTKERNEL_E2E_LEAVE" // what is unfinished
	// envSandboxes is the Python of a child that has the process backend; none without it.
	envSandboxes = "AGENTKERNEL_E2E_SANDBOXES"
	// envModels declares the language models of a child, one a line.
	envModels = "AGENTKERNEL_E2E_MODELS"
)

func TestMain(m *testing.M) {
	quickexit.Main()
	embedded.Main() // does not return if this process is to be the sandboxes' spawner
	if role := os.Getenv(envChild); role != "" {
		start := childKernel
		if role == roleMCP {
			start = childMCP
		}
		if err := start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childKernel recovers everything, says "ready" and serves until it is killed or its parent has gone.
func childKernel() error {
	ctx := context.Background()
	k, err := embedded.Open(ctx, embedded.Config{Home: os.Getenv(envHome), Engine: os.Getenv("AGENTKERNEL_MONTY"), Version: testVersion,
		Models: strings.FieldsFunc(os.Getenv(envModels), func(r rune) bool { return r == '\n' }), ParkAfter: 20 * time.Millisecond, Sandboxes: os.Getenv(envSandboxes) != "", Python: os.Getenv(envSandboxes)})
	if err != nil {
		return err
	}
	dir, err := datadir.Open(os.Getenv(envHome))
	if err != nil {
		return err
	}
	l, err := api.ListenUnix(dir.Socket())
	if err != nil {
		return err
	}
	go func() { _ = serve(ctx, k, l) }()
	if os.Getenv(envLeave) == "" {
		if _, err := k.Recover(ctx, 0); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // ends when the parent does
	return k.Close()
}

// victim is a kernel that can be killed.
type victim struct {
	cmd    *exec.Cmd
	stdin  interface{ Close() error }
	stdout io.Reader
}

// startVictim starts one and waits until it has recovered everything and serves.
func startVictim(t testing.TB, home string) *victim {
	t.Helper()
	v := launchVictim(t, home)
	line, err := bufio.NewReader(v.stdout).ReadString('\n')
	if err != nil || line != "ready\n" {
		_ = v.cmd.Wait()
		t.Fatalf("the kernel did not come up: %q %v", line, err)
	}
	return v
}

// launchVictim starts one and waits for nothing.
func launchVictim(t testing.TB, home string) *victim {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), envChild+"=1", envHome+"="+home, "AGENTKERNEL_MONTY="+engine(t))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v := &victim{cmd: cmd, stdin: stdin, stdout: stdout}
	t.Cleanup(v.kill)
	return v
}

// kill is kill -9.
func (v *victim) kill() {
	if v.cmd.ProcessState == nil {
		_ = v.cmd.Process.Kill()
		_ = v.cmd.Wait()
	}
}

func (v *victim) client(t testing.TB, home string) agentkernel.Kernel {
	t.Helper()
	dir, err := datadir.Open(home)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), client.Options{Socket: dir.Socket(), Version: testVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
