package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/embedded"
	"agentkernel/hosted"
	"agentkernel/internal/api"
)

// hostedSpec is a Spec of a hosted process with an idempotency key.
func hostedSpec(key string) agentkernel.Spec {
	return agentkernel.Spec{Program: agentkernel.Program{Name: "agent"}, IdempotencyKey: key}
}

// lottery is a hosted program: lanes that draw numbers beside each other. drawn gets each as it is drawn.
func lottery(lanes, draws int, drawn func(lane, n int, number string)) hosted.Program {
	return func(ctx context.Context, p *hosted.Process) (any, error) {
		all := make([][]string, lanes)
		var group sync.WaitGroup
		errs := make([]error, lanes)
		for i := range lanes {
			own := hosted.Branch(ctx)
			group.Go(func() {
				for n := range draws {
					var raw json.RawMessage
					if errs[i] = p.Call(own, "rand.bytes", map[string]int{"n": 8}, &raw); errs[i] != nil {
						return
					}
					number := string(raw)
					all[i] = append(all[i], number)
					drawn(i, n, number)
				}
			})
		}
		group.Wait()
		return all, errors.Join(errs...)
	}
}

func result(t *testing.T, p agentkernel.Process) (all [][]string) {
	t.Helper()
	if err := json.Unmarshal(p.Result, &all); err != nil || p.State != agentkernel.StateExited {
		t.Fatalf("%s %q %v, %v", p.State, p.Result, p.Error, err)
	}
	return all
}

// hosting is a kernel that hosts programs, on a socket or in this program.
type hosting interface {
	agentkernel.Kernel
	agentkernel.Hosted
}

func eachHosting(t *testing.T, fn func(t *testing.T, k hosting)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { fn(t, openEmbedded(t, home(t))) })
	t.Run("client", func(t *testing.T) { fn(t, openClient(t, home(t)).(hosting)) })
}

// TestHostedProgram runs a function as a process, over both kinds of kernel.
func TestHostedProgram(t *testing.T) {
	eachHosting(t, func(t *testing.T, k hosting) {
		var mu sync.Mutex
		first := map[string]string{}
		stopped, stop := context.WithCancel(t.Context())
		_, err := hosted.Run(stopped, k, hostedSpec("once"), lottery(5, 20, func(lane, n int, number string) {
			mu.Lock()
			defer mu.Unlock()
			if first[fmt.Sprint(lane, n)] = number; len(first) == 40 {
				stop()
			}
		}))
		if agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
			t.Fatalf("a program that was given up: %v", err)
		}
		eventually(t, "its kernel sees that it has no host", func() bool {
			list, err := k.List(t.Context(), agentkernel.Filter{})
			return err == nil && len(list) == 1 && slices.Contains(list[0].WaitsFor, agentkernel.ItsHost) && slices.Contains(list[0].WakeCauses(), "a host")
		})
		p, err := hosted.Run(t.Context(), k, hostedSpec("once"), lottery(5, 20, func(int, int, string) {}))
		if err != nil {
			t.Fatal(err)
		}
		for lane, numbers := range result(t, p) {
			for n, number := range numbers {
				if had := first[fmt.Sprint(lane, n)]; had != "" && had != number {
					t.Errorf("lane %d, draw %d: %s, and before %s", lane, n, number, had)
				}
			}
		}
		again, err := hosted.Run(t.Context(), k, hostedSpec("once"), func(context.Context, *hosted.Process) (any, error) {
			t.Error("a process that has ended is run again")
			return nil, nil
		})
		if err != nil || again.PID != p.PID || string(again.Result) != string(p.Result) {
			t.Errorf("%+v, %v", again, err)
		}
		if p.Usage.Syscalls != 100 {
			t.Errorf("it has made %d calls", p.Usage.Syscalls)
		}
	})
}

// TestHostedEnds: how a program ends, and how it is ended.
func TestHostedEnds(t *testing.T) {
	eachHosting(t, func(t *testing.T, k hosting) {
		p, err := hosted.Run(t.Context(), k, hostedSpec(""), func(context.Context, *hosted.Process) (any, error) { return nil, errors.New("no page 13") })
		if err != nil || p.State != agentkernel.StateFailed || p.Error == nil || p.Error.Code != agentkernel.CodeProgram || p.Error.Message() != "no page 13" {
			t.Errorf("a program that fails: %+v, %v", p, err)
		}
		const inOrder = `{"topic":"tides","pages":[1,2.0]}`
		p, err = hosted.Run(t.Context(), k, hostedSpec(""), func(context.Context, *hosted.Process) (any, error) { return json.RawMessage(inOrder), nil })
		if err != nil || string(p.Result) != inOrder {
			t.Errorf("a program that returns something: %s, %v", p.Result, err)
		}
		p, err = hosted.Run(t.Context(), k, hostedSpec(""), func(ctx context.Context, p *hosted.Process) (any, error) {
			return nil, p.Call(ctx, "proc.exit", map[string]int{"code": 3}, nil)
		})
		if err != nil || p.State != agentkernel.StateExited || p.ExitCode != 3 {
			t.Errorf("a program that exits: %+v, %v", p, err)
		}
		for name, calls := range map[string]bool{"in a call": true, "without a call": false} {
			p, err = hosted.Run(t.Context(), k, hostedSpec(""), func(ctx context.Context, p *hosted.Process) (any, error) {
				if !calls {
					if err := k.Signal(t.Context(), p.PID(), agentkernel.SignalKill); err != nil {
						t.Error(err)
					}
					<-ctx.Done()
					return nil, context.Cause(ctx)
				}
				go func() {
					for {
						if now, _ := k.Process(t.Context(), p.PID()); len(now.WaitsFor) > 0 {
							break
						}
					}
					if err := k.Signal(t.Context(), p.PID(), agentkernel.SignalKill); err != nil {
						t.Error(err)
					}
				}()
				err := p.Call(ctx, "time.sleep", map[string]int{"seconds": 3600}, nil)
				if code := agentkernel.CodeOf(err); code != agentkernel.CodeKilled {
					t.Errorf("the call comes to %v", err)
				}
				return nil, err
			})
			if err != nil || p.State != agentkernel.StateKilled {
				t.Errorf("a program that is killed %s: %+v, %v", name, p, err)
			}
		}
		var interrupted error
		p, err = hosted.Run(t.Context(), k, hostedSpec(""), func(ctx context.Context, p *hosted.Process) (any, error) {
			if err := k.Signal(t.Context(), p.PID(), agentkernel.SignalInterrupt); err != nil {
				return nil, err
			}
			interrupted = p.Call(ctx, "time.now", nil, nil)
			return "goes on", nil
		})
		if err != nil || p.State != agentkernel.StateExited || agentkernel.CodeOf(interrupted) != agentkernel.CodeInterrupted {
			t.Errorf("a program that is interrupted: %v, %+v, %v", interrupted, p, err)
		}
	})
}

// TestHostIsFenced: of two hosts of a process the later has it, and the earlier can do nothing any more.
func TestHostIsFenced(t *testing.T) {
	eachHosting(t, func(t *testing.T, k hosting) {
		p, err := k.Spawn(t.Context(), agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "agent"}})
		if err != nil {
			t.Fatal(err)
		}
		attach := func(how agentkernel.Attaching, want agentkernel.Code) agentkernel.Host {
			t.Helper()
			h, err := k.Attach(t.Context(), p.PID, how)
			if agentkernel.CodeOf(err) != want {
				t.Fatalf("attaching with %+v: %v", how, err)
			}
			return h
		}
		set := func(h agentkernel.Host, lane string, n int64, want agentkernel.Code) {
			t.Helper()
			args := json.RawMessage(fmt.Sprintf(`{"key":"k","value":"%s %d"}`, lane, n))
			if _, err := h.Issue(agentkernel.HostedCall{Place: agentkernel.Place{Lane: lane, N: n}, Op: "state.set", Args: args})(t.Context()); agentkernel.CodeOf(err) != want {
				t.Errorf("call %d of lane %q: %v", n, lane, err)
			}
		}
		first := attach(agentkernel.Attaching{}, "")
		set(first, "", 1, "")
		if e := first.Attached().Epoch; e != 1 {
			t.Errorf("the first epoch is %d", e)
		}
		attach(agentkernel.Attaching{}, agentkernel.CodeConflict)
		attach(agentkernel.Attaching{Epoch: 2}, agentkernel.CodeInvalid)
		second := attach(agentkernel.Attaching{Epoch: 1}, "")
		<-first.Done()
		if agentkernel.CodeOf(first.Err()) != agentkernel.CodeFenced {
			t.Errorf("the first was told %v", first.Err())
		}
		set(first, "", 2, agentkernel.CodeFenced)
		set(second, "", 2, "")
		third := attach(agentkernel.Attaching{TakeOver: true}, "")
		<-second.Done()
		attach(agentkernel.Attaching{Epoch: 2}, agentkernel.CodeFenced)
		set(third, "", 1, "") // from the journal
		set(third, "", 2, "")
		set(third, "", 3, "")
		set(third, "", 3, agentkernel.CodeInvalid)
	})
}

// TestHostLies: whatever a host says of its lanes, the journal holds.
func TestHostLies(t *testing.T) {
	k := openClient(t, home(t)).(hosting)
	for name, place := range map[string]agentkernel.Place{
		"a gap": {N: 2}, "nothing": {N: 0}, "below": {N: -1}, "far": {N: 1 << 62}, "a gap in another lane": {Lane: "x", N: 7},
		"a long name": {Lane: strings.Repeat("x", 201), N: 1}, "control": {Lane: "a\nb", N: 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := k.Spawn(t.Context(), agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "agent"}})
			if err != nil {
				t.Fatal(err)
			}
			h, err := k.Attach(t.Context(), p.PID, agentkernel.Attaching{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.Issue(agentkernel.HostedCall{Place: place, Op: "time.now"})(t.Context()); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
				t.Errorf("%+v: %v", place, err)
			}
			if entries, err := k.Journal(t.Context(), p.PID, 1, 0); err != nil || slices.ContainsFunc(entries, func(e agentkernel.Entry) bool { return e.Kind == agentkernel.EntryCall }) {
				t.Errorf("the journal has %+v, %v", entries, err)
			}
			_ = h.Close()
		})
	}
	// A call that is another than in the journal ends the process, with the difference.
	p, err := k.Spawn(t.Context(), agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "agent"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, value := range []string{"one", "two"} {
		h, err := k.Attach(t.Context(), p.PID, agentkernel.Attaching{TakeOver: true})
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Issue(agentkernel.HostedCall{Place: agentkernel.Place{N: 1}, Op: "state.set", Args: json.RawMessage(`{"key":"k","value":"` + value + `"}`)})(t.Context())
		if i == 0 && err != nil || i == 1 && agentkernel.CodeOf(err) != agentkernel.CodeDiverged {
			t.Errorf("%s: %v", value, err)
		}
	}
	got, err := k.Wait(t.Context(), p.PID)
	if err != nil || got.State != agentkernel.StateFailed || got.Error.Code != agentkernel.CodeDiverged || !strings.Contains(got.Error.Message(), "two") {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestHostedOverKernels: the program runs on while its kernel is replaced, again and again.
func TestHostedOverKernels(t *testing.T) {
	dir := home(t)
	socket := filepath.Join(dir, "k.sock")
	serve := func() (stop func()) {
		k, err := embedded.Open(t.Context(), embedded.Config{Home: dir, Engine: engine(t), Version: testVersion})
		if err != nil {
			t.Fatal(err)
		}
		s, err := api.New(api.Config{Kernel: k, Version: testVersion, IdleAfter: -1})
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(context.Background(), ln) }()
		return func() {
			// The program may have ended with the kernel before: this one may be told to end before it began to serve.
			if c, err := client.Dial(t.Context(), client.Options{Socket: socket, Version: testVersion}); err != nil {
				t.Error(err)
			} else {
				_ = c.Close()
			}
			if err := errors.Join(s.Shutdown(context.Background()), <-ended, k.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	stop := serve()
	c, err := client.Dial(t.Context(), client.Options{Socket: socket, Version: testVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	const lanes, draws = 5, 60
	var mu sync.Mutex
	total := 0
	numbers := map[string]string{}
	turn := make(chan struct{})
	ended := make(chan agentkernel.Process, 1)
	go func() {
		p, err := hosted.Runner{Kernel: c, Patience: time.Minute}.Run(t.Context(), hostedSpec("over"), lottery(lanes, draws, func(lane, n int, number string) {
			mu.Lock()
			defer mu.Unlock()
			numbers[fmt.Sprint(lane, " ", n)] = number
			if total++; total%60 == 0 {
				turn <- struct{}{}
			}
		}))
		if err != nil {
			t.Error(err)
		}
		ended <- p
	}()
	for kernels := 1; ; kernels++ {
		select {
		case <-turn:
			stop()
			stop = serve()
			continue
		case p := <-ended:
			for lane, list := range result(t, p) {
				for n, number := range list {
					if numbers[fmt.Sprint(lane, " ", n)] != number {
						t.Errorf("lane %d, draw %d: %s and %s", lane, n, number, numbers[fmt.Sprint(lane, " ", n)])
					}
				}
			}
			if p.Usage.Syscalls != lanes*draws || kernels != 1+lanes*draws/60 {
				t.Errorf("%d calls over %d kernels", p.Usage.Syscalls, kernels)
			}
		}
		break
	}
	stop()
}

// TestHostGoesOn: a program whose connection broke before it heard that it is the host again is the host all the same, and a signal
// reaches the call for which it waits.
func TestHostGoesOn(t *testing.T) {
	eachHosting(t, func(t *testing.T, k hosting) {
		p, err := k.Spawn(t.Context(), agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "agent"}})
		if err != nil {
			t.Fatal(err)
		}
		attach := func(how agentkernel.Attaching, want agentkernel.Code) agentkernel.Host {
			t.Helper()
			h, err := k.Attach(t.Context(), p.PID, how)
			if agentkernel.CodeOf(err) != want {
				t.Fatalf("attaching with %+v: %v", how, err)
			}
			return h
		}
		sleep := agentkernel.HostedCall{Place: agentkernel.Place{N: 1}, Op: "time.sleep", Args: json.RawMessage(`{"seconds":3600}`)}
		attach(agentkernel.Attaching{}, "").Issue(sleep)
		for range 3 {
			attach(agentkernel.Attaching{Epoch: 1}, "") // nobody hears that it succeeded
		}
		again := attach(agentkernel.Attaching{Epoch: 1}, "")
		wait := again.Issue(sleep)
		now := agentkernel.HostedCall{Place: agentkernel.Place{Lane: "1", N: 1}, Op: "time.now", Args: json.RawMessage(`{}`)}
		if _, err := again.Issue(now)(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := k.Signal(t.Context(), p.PID, agentkernel.SignalInterrupt); err != nil {
			t.Fatal(err)
		}
		if _, err := wait(t.Context()); agentkernel.CodeOf(err) != agentkernel.CodeInterrupted {
			t.Errorf("the call that is under way comes to %v", err)
		}
		attach(agentkernel.Attaching{TakeOver: true}, "")
		attach(agentkernel.Attaching{Epoch: again.Attached().Epoch}, agentkernel.CodeFenced)
		attach(agentkernel.Attaching{Epoch: 6}, "") // that which has taken it over
	})
}
