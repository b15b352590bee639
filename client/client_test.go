package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentkernel"
	"agentkernel/internal/api"
	"agentkernel/internal/api/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const version = "1.0"

// counter is a kernel with one process, which prints the numbers from 2 to `last`-1 and ends, or pauses, at
// position `last`. Everything is in its journal from the start, so that a reader can come again.
type counter struct {
	agentkernel.Kernel
	last    int64
	paused  bool
	state   agentkernel.State
	created atomic.Int64
}

func (k *counter) process() agentkernel.Process {
	return agentkernel.Process{PID: 3, State: k.state, Paused: k.paused, Name: "counter"}
}

func (k *counter) Process(context.Context, agentkernel.PID) (agentkernel.Process, error) {
	return k.process(), nil
}

func (k *counter) Wait(context.Context, agentkernel.PID) (agentkernel.Process, error) {
	return k.process(), nil
}

func (k *counter) Run(ctx context.Context, s agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
	if k.created.Load() == 0 || s.IdempotencyKey == "" {
		k.created.Add(1)
	}
	return k.process(), k.Events(ctx, 3, 0, true, fn)
}

func (k *counter) Events(ctx context.Context, _ agentkernel.PID, from int64, follow bool, fn func(agentkernel.Event) error) error {
	p := k.process()
	for seq := max(from, 1); seq <= k.last; seq++ {
		ev := agentkernel.Event{Kind: agentkernel.EventOutput, PID: 3, Seq: seq, Stream: "stdout", Text: fmt.Sprint(seq)}
		switch {
		case seq == 1:
			ev.Kind, ev.Process = agentkernel.EventCreated, &p
		case seq == k.last && k.paused:
			ev.Kind, ev.Process = agentkernel.EventState, &p
		case seq == k.last:
			ev.Kind, ev.Process = agentkernel.EventEnd, &p
		}
		if err := fn(ev); err != nil {
			return err
		}
	}
	return nil
}

func serve(t *testing.T, k agentkernel.Kernel) (socket string, stop func()) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "k.sock")
	return socket, serveAt(t, k, socket)
}

func serveAt(t *testing.T, k agentkernel.Kernel, socket string) (stop func()) {
	t.Helper()
	ln, err := api.ListenUnix(socket)
	if err != nil {
		t.Fatal(err)
	}
	s, err := api.New(api.Config{Kernel: k, Version: version, IdleAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(context.Background(), ln) }()
	stop = sync.OnceFunc(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// cutter passes bytes between clients and a kernel, and cuts its n-th connection after so many bytes of
// answers. Later connections live.
type cutter struct {
	ln    net.Listener
	to    string
	nth   int64 // 1 is the first
	after int64
	later atomic.Pointer[string] // where connections after the n-th go; nil: where that one went
	dead  atomic.Int64           // so many after the n-th are broken as soon as they are made
	made  atomic.Int64
	wg    sync.WaitGroup
}

func cut(t *testing.T, to string, nth, after int64) *cutter {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "c.sock"))
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{ln: ln, to: to, nth: nth, after: after}
	c.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() { c.pass(conn, c.made.Add(1)) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); c.wg.Wait() })
	return c
}

func (c *cutter) pass(conn net.Conn, n int64) {
	defer func() { _ = conn.Close() }()
	if n > c.nth && n <= c.nth+c.dead.Load() {
		return
	}
	to := c.to
	if later := c.later.Load(); n > c.nth && later != nil {
		to = *later
	}
	kernel, err := net.Dial("unix", to)
	if err != nil {
		return
	}
	defer func() { _ = kernel.Close() }()
	c.wg.Go(func() { _, _ = io.Copy(kernel, conn); _ = kernel.Close() })
	var answers io.Reader = kernel
	if n == c.nth {
		answers = io.LimitReader(kernel, c.after)
	}
	_, _ = io.Copy(conn, answers)
}

func dial(t *testing.T, socket string) *Client {
	t.Helper()
	c, err := Dial(t.Context(), Options{Socket: socket, Version: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// collect gathers the positions of a stream and checks that an event's text is its own.
type collect struct{ seqs []int64 }

func (c *collect) event(ev agentkernel.Event) error {
	c.seqs = append(c.seqs, ev.Seq)
	if ev.Kind == agentkernel.EventOutput && ev.Text != fmt.Sprint(ev.Seq) {
		return fmt.Errorf("event %d says %q", ev.Seq, ev.Text)
	}
	return nil
}

func (c *collect) is(from, to int64) bool {
	var want []int64
	for i := from; i <= to; i++ {
		want = append(want, i)
	}
	return slices.Equal(c.seqs, want)
}

// TestACutConnectionLosesNothing cuts the connection at every place of the conversation.
func TestACutConnectionLosesNothing(t *testing.T) {
	const last = 12
	for name, k := range map[string]*counter{
		"a process that ends":   {last: last, state: agentkernel.StateExited},
		"a process that pauses": {last: last, state: agentkernel.StateRunning, paused: true},
	} {
		t.Run(name, func(t *testing.T) {
			socket, _ := serve(t, k)
			for after := int64(200); after < 2600; after += 67 {
				k.created.Store(0)
				c := dial(t, cut(t, socket, 1, after).ln.Addr().String())
				var got collect
				s := agentkernel.Spec{IdempotencyKey: "k"}
				p, err := c.Run(t.Context(), s, got.event)
				if err != nil || p.PID != 3 || p.Name != "counter" || !got.is(1, last) || k.created.Load() != 1 {
					t.Errorf("Run, cut after %d bytes: %v, %+v, events %v, created %d", after, err, p, got.seqs, k.created.Load())
				}

				c = dial(t, cut(t, socket, 1, after).ln.Addr().String())
				got = collect{}
				if err := c.Events(t.Context(), 3, 4, true, got.event); err != nil || !got.is(4, last) {
					t.Errorf("Events, cut after %d bytes: %v, events %v", after, err, got.seqs)
				}
			}
		})
	}
}

// fed is a counter that is a session, too.
type fed struct{ *counter }

func (k fed) Feed(_ context.Context, _ agentkernel.PID, p agentkernel.Cell, _ func(agentkernel.Event) error) (agentkernel.CellEnd, error) {
	return agentkernel.CellEnd{Result: []byte(`"` + p.Key + `"`)}, nil
}

func (k fed) Spawn(context.Context, agentkernel.Spec) (agentkernel.Process, error) {
	return agentkernel.Process{PID: 3}, nil
}

// TestTheSocketOutlivesTheKernel: one that is killed takes connections for a moment after it has broken those that it had. What
// may be repeated is, until the next kernel has the socket.
func TestTheSocketOutlivesTheKernel(t *testing.T) {
	k := fed{&counter{last: 5, state: agentkernel.StateExited}}
	socket, _ := serve(t, k)
	for name, do := range map[string]func(*Client) error{
		"asks": func(c *Client) error {
			_, err := c.Process(t.Context(), 3)
			return err
		},
		"runs with a key": func(c *Client) error {
			_, err := c.Run(t.Context(), agentkernel.Spec{IdempotencyKey: "k"}, func(agentkernel.Event) error { return nil })
			return err
		},
		"feeds with a key": func(c *Client) error {
			end, err := c.Feed(t.Context(), 3, agentkernel.Cell{Source: "1", Key: "k"}, func(agentkernel.Event) error { return nil })
			if err == nil && string(end.Result) != `"k"` {
				err = fmt.Errorf("the cell ended with %s", end.Result)
			}
			return err
		},
	} {
		between := cut(t, socket, 1, 300) // the first connection answers Dial's question and is cut in the next answer's header
		between.dead.Store(3)
		if err := do(dial(t, between.ln.Addr().String())); err != nil {
			t.Errorf("a client that %s: %v", name, err)
		}
	}
}

// TestTheNextKernelEndsToo: whoever asks it again is told that it is ending, of which the error of what was begun with the first must
// not be taken for one about a request of which nothing was done.
func TestTheNextKernelEndsToo(t *testing.T) {
	k := fed{&counter{last: 12, state: agentkernel.StateRunning}}
	socket, _ := serve(t, k)
	ending := fakeHTTP(t, func(w http.ResponseWriter) {
		w.Header().Set(wire.HeaderAPI, strconv.Itoa(agentkernel.APIVersion))
		w.Header().Set(wire.HeaderVersion, version)
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "the kernel is ending").WithRecover(3))
	})
	nothing := func(agentkernel.Event) error { return nil }
	for name, do := range map[string]func(*Client) error{
		"runs with a key": func(c *Client) error {
			_, err := c.Run(t.Context(), agentkernel.Spec{IdempotencyKey: "k"}, nothing)
			return err
		},
		"spawns with a key": func(c *Client) error {
			_, err := c.Spawn(t.Context(), agentkernel.Spec{IdempotencyKey: "k"})
			return err
		},
		"feeds with a key": func(c *Client) error {
			_, err := c.Feed(t.Context(), 3, agentkernel.Cell{Source: "1", Key: "k"}, nothing)
			return err
		},
		"follows": func(c *Client) error { return c.Events(t.Context(), 3, 1, true, nothing) },
		"waits":   func(c *Client) error { _, err := c.Wait(t.Context(), 3); return err },
	} {
		for _, after := range []int64{300, 1150} { // before the process is known, and in the middle of its events
			between := cut(t, socket, 1, after)
			between.later.Store(&ending)
			if err := do(dial(t, between.ln.Addr().String())); err != nil && !agentkernel.KernelGone(err) {
				t.Errorf("a client that %s, cut after %d bytes: %v", name, after, err)
			} else if err == nil && after == 300 {
				t.Errorf("a client that %s, cut after %d bytes, was answered", name, after)
			}
		}
	}
}

func TestACutCreationIsNotRepeatedBlindly(t *testing.T) {
	k := &counter{last: 5, state: agentkernel.StateExited}
	socket, _ := serve(t, k)
	// The first connection answers Dial's question (some 250 bytes) and is cut in the next answer's header.
	c := dial(t, cut(t, socket, 1, 300).ln.Addr().String())
	_, err := c.Run(t.Context(), agentkernel.Spec{}, func(agentkernel.Event) error { return nil })
	e, ok := errors.AsType[*agentkernel.Error](err)
	if !ok || e.Code != agentkernel.CodeUnavailable || !strings.Contains(e.Hint, "agentkernel ps") || k.created.Load() != 1 {
		t.Errorf("%v, created %d times", err, k.created.Load())
	}
}

func TestTheKernelEndsUnderAWatcher(t *testing.T) {
	k := &counter{last: 5, state: agentkernel.StateUnfinished}
	socket, stop := serve(t, k)
	proxy := cut(t, socket, 1, 1150) // in the middle of the events
	c := dial(t, proxy.ln.Addr().String())
	stopped := false
	_, err := c.Run(t.Context(), agentkernel.Spec{}, func(agentkernel.Event) error {
		if !stopped {
			stopped = true
			go stop()
			_ = proxy.ln.Close()
		}
		return nil
	})
	e, ok := errors.AsType[*agentkernel.Error](err)
	if !ok || e.Code != agentkernel.CodeUnavailable || e.PID != 3 || !strings.Contains(e.Hint, "recover 3") {
		t.Errorf("%#v", err)
	}
}

// A caller that outlives kernels finds another one, and nothing of what it asked the first is repeated.
func TestRevive(t *testing.T) {
	first, second := &counter{last: 5, state: agentkernel.StateUnfinished}, &counter{last: 5, state: agentkernel.StateExited}
	socket, stop := serve(t, first)
	c := dial(t, socket)
	started := 0
	broken := errors.New("the disk is full")
	c.Revive(func(context.Context) error {
		started++
		if broken != nil {
			return broken
		}
		serveAt(t, second, socket)
		return nil
	})
	stopped := false
	_, err := c.Run(t.Context(), agentkernel.Spec{}, func(agentkernel.Event) error {
		if !stopped {
			stopped = true
			stop()
		}
		return nil
	})
	if _, cerr := c.Process(t.Context(), 3); agentkernel.CodeOf(cerr) != agentkernel.CodeUnavailable || !strings.Contains(cerr.Error(), broken.Error()) {
		t.Errorf("no kernel can be started: %v", cerr)
	}
	broken = nil
	p, perr := c.Process(t.Context(), 3)
	if perr != nil || p.State != agentkernel.StateExited || started < 2 {
		t.Errorf("another kernel: %+v %v, started %d times", p, perr, started)
	}
	if first.created.Load() != 1 || second.created.Load() != 0 {
		t.Errorf("created %d and %d times (%v)", first.created.Load(), second.created.Load(), err)
	}
}

// Many requests that find no kernel have one started between them. A client that no longer wants one gets none.
func TestReviveStartsOne(t *testing.T) {
	socket, stop := serve(t, &counter{})
	c := dial(t, socket)
	stop()
	_, _ = c.Process(t.Context(), 3) // the connection that is left
	var started atomic.Int64
	c.Revive(func(context.Context) error {
		if started.Add(1) == 1 {
			serveAt(t, &counter{state: agentkernel.StateExited}, socket)
		}
		return nil
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := c.Process(t.Context(), 3); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := started.Load(); n != 1 {
		t.Errorf("started %d times", n)
	}
}

func TestReviveEnds(t *testing.T) {
	socket, stop := serve(t, &counter{})
	c := dial(t, socket)
	c.Revive(func(context.Context) error { t.Error("started"); return nil })
	stop()
	c.Revive(nil)
	for range 2 {
		if _, err := c.Process(t.Context(), 3); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
			t.Error(err)
		}
	}
}

func TestDialRefuses(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead.sock")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	_ = ln.Close()
	for _, tc := range []struct {
		name, socket string
		code         agentkernel.Code
		says         string
	}{
		{"nobody was ever there", filepath.Join(dir, "none.sock"), agentkernel.CodeUnavailable, "no kernel listens"},
		{"a dead kernel", dead, agentkernel.CodeUnavailable, "no kernel listens"},
		{"a path that cannot be", filepath.Join(dir, strings.Repeat("x", 200)), agentkernel.CodeUnavailable, "cannot be reached"},
		{"not HTTP", fake(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1))
			_, _ = io.WriteString(c, "220 mail ready\r\n")
			_ = c.Close()
		}), agentkernel.CodeUnavailable, "went away"},
		{"a kernel that is killed", fake(t, func(c net.Conn) { _ = c.Close() }), agentkernel.CodeUnavailable, "the kernel went away before it answered: the connection broke"},
		{"another server", fakeHTTP(t, func(w http.ResponseWriter) {}), agentkernel.CodeUnavailable, "is not a kernel"},
		{"an older API", fakeHTTP(t, func(w http.ResponseWriter) {
			w.Header().Set(wire.HeaderAPI, "0")
			_ = json.NewEncoder(w).Encode(wire.Version{Version: "0.1", API: 0})
		}), agentkernel.CodeVersion, "agentkernel 0.1 (API 0)"},
		{"an error without words", fakeHTTP(t, func(w http.ResponseWriter) {
			w.Header().Set(wire.HeaderAPI, "1")
			w.WriteHeader(http.StatusBadGateway)
		}), agentkernel.CodeUnavailable, "502"},
	} {
		c, err := Dial(t.Context(), Options{Socket: tc.socket, Version: version})
		e, ok := errors.AsType[*agentkernel.Error](err)
		if !ok || c != nil || e.Code != tc.code || !strings.Contains(e.Message(), tc.says) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestDialDoesNotWaitForADeafKernel(t *testing.T) {
	socket := fake(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c); _ = c.Close() })
	_, err := Dial(t.Context(), Options{Socket: socket, Version: version, Patience: 20 * time.Millisecond})
	if agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), "but does not answer") {
		t.Errorf("Dial: %v", err)
	}
	// The caller has less patience: it learns the same.
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = Dial(short, Options{Socket: socket, Version: version})
	if agentkernel.CodeOf(err) != agentkernel.CodeTimeout || !errors.Is(err, ErrSilent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Dial with a deadline: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(ctx, Options{Socket: socket, Version: version}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrSilent) {
		t.Errorf("Dial with an ended context: %v", err)
	}
}

func TestSocketWithoutPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may connect to anything")
	}
	socket, _ := serve(t, &counter{})
	if err := os.Chmod(socket, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), Options{Socket: socket, Version: version}); agentkernel.CodeOf(err) != agentkernel.CodeDenied {
		t.Errorf("Dial: %v", err)
	}
}

func TestAnotherKernelTakesTheSocket(t *testing.T) {
	k := &counter{last: 2, state: agentkernel.StateExited}
	socket, stop := serve(t, k)
	c := dial(t, socket)
	stop()
	ln, err := api.ListenUnix(socket)
	if err != nil {
		t.Fatal(err)
	}
	s, err := api.New(api.Config{Kernel: k, Version: "2.0", IdleAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(context.Background(), ln) }()
	_, err = c.Run(t.Context(), agentkernel.Spec{}, func(agentkernel.Event) error { return nil })
	if agentkernel.CodeOf(err) != agentkernel.CodeVersion || k.created.Load() != 0 {
		t.Errorf("Run on another version: %v, created %d", err, k.created.Load())
	}
	if err := errors.Join(s.Shutdown(t.Context()), <-ended); err != nil {
		t.Error(err)
	}
}

func TestTextThatJSONWouldMend(t *testing.T) {
	k := &counter{last: 2}
	socket, _ := serve(t, k)
	c := dial(t, socket)
	for _, p := range []agentkernel.Program{
		{Name: "p.py", Source: "# \xff"},
		{Args: []string{"ok", "\xff"}},
		{Modules: map[string]string{"skills.x": "\xc0"}},
		{Name: "\xff"},
	} {
		s := agentkernel.Spec{Program: p}
		want := p.Validate() // what the kernel would say
		if _, err := c.Run(t.Context(), s, func(agentkernel.Event) error { return nil }); err == nil || err.Error() != want.Error() {
			t.Errorf("Run: %v; want %v", err, want)
		}
		if _, err := c.Spawn(t.Context(), s); err == nil || err.Error() != want.Error() {
			t.Errorf("Spawn: %v; want %v", err, want)
		}
	}
	if k.created.Load() != 0 {
		t.Error("something was created")
	}
}

// What does not fit into an address of HTTP is refused before the server has a chance to, which would not say as what.
func TestARequestWithALongAddress(t *testing.T) {
	socket, _ := serve(t, &counter{})
	for bytes, refused := range map[int]bool{190_000: false, 200_000: true} { // in the first the server has looked
		_, err := dial(t, socket).SearchTools(t.Context(), []string{strings.Repeat("x", bytes)}, agentkernel.ToolQuery{Text: "a"})
		if strings.Contains(fmt.Sprint(err), "KiB; at most 192") != refused || refused && agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Error(bytes, err)
		}
	}
	_, err := dial(t, socket).SearchTools(t.Context(), nil, agentkernel.ToolQuery{Text: strings.Repeat("a ", 100_000)})
	if agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), "the query has 195 KiB") {
		t.Error(err)
	}
}

func TestCloseThenCall(t *testing.T) {
	socket, _ := serve(t, &counter{last: 2, state: agentkernel.StateExited})
	c := dial(t, socket)
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
}

// fake listens and does as it likes with each connection.
func fake(t *testing.T, serve func(net.Conn)) (socket string) {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "f.sock"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

func fakeHTTP(t *testing.T, answer func(http.ResponseWriter)) (socket string) {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "h.sock"))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }), ReadHeaderTimeout: time.Second}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	return ln.Addr().String()
}
