package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/internal/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a kernel behind a socket.
type served struct {
	kernel *double
	server *api.Server
	socket string
	ended  chan error
}

func serve(t testing.TB, cfg api.Config) *served {
	t.Helper()
	s := &served{kernel: newDouble(), socket: filepath.Join(t.TempDir(), "k.sock"), ended: make(chan error, 1)}
	if cfg.Kernel == nil {
		cfg.Kernel = s.kernel
	}
	if cfg.Version == "" {
		cfg.Version = "1.0"
	}
	if cfg.IdleAfter == 0 {
		cfg.IdleAfter = -1
	}
	var log bytes.Buffer // read when nobody serves any more
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	ln, err := api.ListenUnix(s.socket)
	if err != nil {
		t.Fatal(err)
	}
	if s.server, err = api.New(cfg); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.server.Serve(context.Background(), ln); close(s.ended) }()
	t.Cleanup(func() {
		if err := s.server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		_ = s.kernel.Close()
		if strings.Contains(log.String(), "ended badly") {
			t.Error(log.String())
		}
	})
	return s
}

func (s *served) dial(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.Dial(context.Background(), client.Options{Socket: s.socket, Version: "1.0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func spec(source string) agentkernel.Spec {
	return agentkernel.Spec{Program: agentkernel.Program{Name: "p", Source: source}}
}

// run runs a program and gives its events with its process.
func run(k agentkernel.Kernel, s agentkernel.Spec) (any, error) {
	var got []agentkernel.Event
	p, err := k.Run(context.Background(), s, func(ev agentkernel.Event) error { got = append(got, ev); return nil })
	return []any{got, p}, err
}

// calls are made in order on a kernel and on a client of an equal kernel; both must answer alike.
var calls = []struct {
	name string
	call func(ctx context.Context, k agentkernel.Kernel) (any, error)
}{
	{"info", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Info(ctx) }},
	{"usage of models", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.ModelUsage(ctx, agentkernel.UsageQuery{By: []agentkernel.UsageKey{agentkernel.UsageDay, agentkernel.UsageTree}, Namespace: "n", Tree: 7,
			Since: time.Date(2026, 11, 25, 1, 2, 3, 456789000, time.UTC), Until: time.Date(2026, 11, 26, 0, 0, 0, 0, time.FixedZone("", 3600))})
	}},
	{"usage by nothing that is known", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.ModelUsage(ctx, agentkernel.UsageQuery{By: []agentkernel.UsageKey{"colour"}})
	}},
	{"limits of models", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.ModelLimits(ctx) }},
	{"key of a model", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.GiveKey(ctx, 7, "fast", "sk-1")
	}},
	{"key of no model", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.GiveKey(ctx, 7, "none", "sk-1")
	}},
	{"run", func(_ context.Context, k agentkernel.Kernel) (any, error) {
		return run(k, spec("print <a> & 'b' \u2028 ü 😀\nset k {\"x\":[1.0,\"<\"]}\nprint"))
	}},
	{"run that fails", func(_ context.Context, k agentkernel.Kernel) (any, error) { return run(k, spec("fail badly")) }},
	{"run until it pauses", func(_ context.Context, k agentkernel.Kernel) (any, error) { return run(k, spec("print a\npause")) }},
	{"run with a syntax error", func(_ context.Context, k agentkernel.Kernel) (any, error) { return run(k, spec("")) }},
	{"run with a bad limit", func(_ context.Context, k agentkernel.Kernel) (any, error) {
		s := spec("print")
		s.Limits.Calls = -1
		return run(k, s)
	}},
	{"run whose reader gives up", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		_, err := k.Run(ctx, spec("print a\nprint b"), func(agentkernel.Event) error { return errors.New("enough") })
		ended, waitErr := k.Wait(ctx, 4) // it runs on without its reader, and what comes next lists what runs
		return ended, errors.Join(err, waitErr)
	}},
	{"spawn", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		s := spec("block")
		s.Namespace, s.Parent, s.IdempotencyKey = "n", 1, "key"
		s.Limits.Time, s.Program.Args = agentkernel.Duration(5*time.Second), []string{"<x>"}
		p, err := k.Spawn(ctx, s)
		return p.PID, err
	}},
	{"spawn the same again", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		s := spec("block")
		s.IdempotencyKey = "key"
		p, err := k.Spawn(ctx, s)
		return p.PID, err
	}},
	{"process", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Process(ctx, 2) }},
	{"no such process", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Process(ctx, 99) }},
	{"list", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.List(ctx, agentkernel.Filter{Namespace: "n", Unfinished: true, Parent: 1, Limit: 3})
	}},
	{"list a page", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.List(ctx, agentkernel.Filter{Before: 3, Limit: 1})
	}},
	{"list the active", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.List(ctx, agentkernel.Filter{Active: true})
	}},
	{"count", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Count(ctx, agentkernel.Filter{Namespace: "n", Before: 100, Limit: 1})
	}},
	{"list nothing", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		list, err := k.List(ctx, agentkernel.Filter{Namespace: "nobody's"})
		return len(list), err
	}},
	{"prune", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Prune(ctx, agentkernel.PruneOptions{Before: time.Unix(1_700_000_000, 0).UTC(), Namespace: "team", KeepFailed: true, DryRun: true})
	}},
	{"prune without a time", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Prune(ctx, agentkernel.PruneOptions{})
	}},
	{"storage", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Storage(ctx) }},
	{"wait for one that ended", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Wait(ctx, 1) }},
	{"wait for one that is paused", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Wait(ctx, 3) }},
	{"wait for nobody", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Wait(ctx, 99) }},
	{"resume and wait", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.Signal(ctx, 3, agentkernel.SignalResume)
	}},
	{"kill", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		if err := k.Signal(ctx, 5, agentkernel.SignalKill); err != nil {
			return nil, err
		}
		return k.Wait(ctx, 5)
	}},
	{"kill again", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.Signal(ctx, 5, agentkernel.SignalKill)
	}},
	{"events", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		var got []agentkernel.Event
		err := k.Events(ctx, 1, 2, false, func(ev agentkernel.Event) error { got = append(got, ev); return nil })
		return got, err
	}},
	{"events to the end", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		var got []agentkernel.Event
		err := k.Events(ctx, 3, 0, true, func(ev agentkernel.Event) error { got = append(got, ev); return nil })
		return got, err
	}},
	{"events of nobody", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.Events(ctx, 99, 0, true, func(agentkernel.Event) error { return nil })
	}},
	{"asked and answered", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		var got []agentkernel.Event
		_, err := k.Run(ctx, spec("ask"), func(ev agentkernel.Event) error {
			got = append(got, ev)
			if ev.Kind == agentkernel.EventAsk {
				return k.Answer(ctx, ev.PID, ev.Ask.ID, agentkernel.AnswerAlways)
			}
			return nil
		})
		return got, err
	}},
	{"answer to nothing", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.Answer(ctx, 1, 1, agentkernel.AnswerYes)
	}},
	{"resolve", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.Resolve(ctx, 1, 7, agentkernel.Resolution{Decision: agentkernel.DecisionDone, Result: json.RawMessage(`{"id":1.0}`)})
	}},
	{"resolve nothing", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.Resolve(ctx, 1, 8, agentkernel.Resolution{Decision: agentkernel.DecisionFail, Message: "<no>"})
	}},
	{"resolve with no JSON", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.Resolve(ctx, 1, 7, agentkernel.Resolution{Decision: agentkernel.DecisionDone, Result: json.RawMessage(`{id`)})
	}},
	{"resolve in an unknown way", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return nil, k.Resolve(ctx, 1, 7, agentkernel.Resolution{Decision: "maybe"})
	}},
	{"export", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Export(ctx, 1, agentkernel.ExportOptions{Unredacted: true, Files: true})
	}},
	{"export nobody", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Export(ctx, 99, agentkernel.ExportOptions{})
	}},
	{"import", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Import(ctx, []byte("\x00\xff<"), agentkernel.ImportOptions{Namespace: "a b"})
	}},
	{"import nothing", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Import(ctx, nil, agentkernel.ImportOptions{})
	}},
	{"import too much", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		file := make([]byte, agentkernel.MaxRecording+1)
		if _, local := k.(*double); local {
			return nil, agentkernel.Errorf(agentkernel.CodeLimit, "recording", "the recording is larger than 64 MiB")
		}
		_, err := k.Import(ctx, file, agentkernel.ImportOptions{})
		return nil, err
	}},
	{"replay", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Replay(ctx, []byte("\x00\xff<"), agentkernel.ReplayOptions{})
	}},
	{"replay with less", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Replay(ctx, []byte("x"), agentkernel.ReplayOptions{Time: agentkernel.Duration(1500 * time.Millisecond), Memory: 7, Environment: "/v/e n&v"})
	}},
	{"replay nothing", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.Replay(ctx, nil, agentkernel.ReplayOptions{})
	}},
	{"journal", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Journal(ctx, 1, 2, 2) }},
	{"whole journal", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Journal(ctx, 1, 0, 0) }},
	{"journal in pages", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		if _, err := run(k, spec("flood 12000 3")); err != nil {
			return nil, err
		}
		return k.Journal(ctx, 7, 0, 0)
	}},
	{"journal up to a limit", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Journal(ctx, 7, 5, 7000) }},
	{"journal with large entries", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		if _, err := run(k, spec("flood 5 5000000")); err != nil {
			return nil, err
		}
		return k.Journal(ctx, 8, 0, 0)
	}},
	{"spec", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Spec(ctx, 1) }},
	{"spec of nobody", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Spec(ctx, 99) }},
	{"state", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.State(ctx, 1) }},
	{"recover one", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.Recover(ctx, 1) }},
	{"recover all", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		list, err := k.Recover(ctx, 0)
		return len(list), err
	}},
	{"tool servers", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.ToolServers(ctx, []string{"/a b", "/c&d"})
	}},
	{"tools", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.ListTools(ctx, []string{"/a", "/ü"}, "s")
	}},
	{"tools found", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.SearchTools(ctx, []string{"/a", "/ü"}, agentkernel.ToolQuery{Text: "read a file & more", Server: "s", Limit: 3})
	}},
	{"a search beyond measure", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.SearchTools(ctx, nil, agentkernel.ToolQuery{Limit: 100_000})
	}},
	{"tools accepted", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.AcceptTools(ctx, []string{"/a"}, "s", []string{"x", "y"})
	}},
	{"tools of a dead server accepted", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.AcceptTools(ctx, nil, "dead", nil)
	}},
	{"tools of a dead server", func(ctx context.Context, k agentkernel.Kernel) (any, error) { return k.ListTools(ctx, nil, "dead") }},
	{"spawn many", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		s := spec("print a")
		s.Program.Args = []string{"a"}
		return k.SpawnMany(ctx, s, []agentkernel.Instance{{Args: []string{"b", "<c>"}, IdempotencyKey: "many/1"}, {IdempotencyKey: "many/2"}})
	}},
	{"spawn none of many", func(ctx context.Context, k agentkernel.Kernel) (any, error) {
		return k.SpawnMany(ctx, spec("print a"), nil)
	}},
}

func TestClientAnswersAsTheKernelDoes(t *testing.T) {
	s := serve(t, api.Config{})
	direct, remote := newDouble(), s.dial(t)
	for _, tc := range slices.Concat(calls, libraryCalls) {
		want, wantErr := tc.call(t.Context(), direct)
		got, gotErr := tc.call(t.Context(), remote)
		if diff := cmp.Diff(flat(t, want), flat(t, got)); diff != "" {
			t.Errorf("%s: kernel -, client +\n%s", tc.name, diff)
		}
		if diff := cmp.Diff(flatError(t, wantErr), flatError(t, gotErr)); diff != "" {
			t.Errorf("%s: error of the kernel -, of the client +\n%s", tc.name, diff)
		}
	}
}

// flat makes a value comparable: as JSON, in which both sides must agree to the byte.
func flat(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func flatError(t *testing.T, err error) string {
	if e, ok := err.(*agentkernel.Error); ok {
		return flat(t, e)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestManyCallersAtOnce(t *testing.T) {
	s := serve(t, api.Config{})
	c := s.dial(t)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := run(c, spec("print a\nprint b")); err != nil {
				t.Error(err)
			}
			if _, err := c.Info(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := c.List(t.Context(), agentkernel.Filter{}); err != nil || len(list) != 50 {
		t.Errorf("%d processes, %v", len(list), err)
	}
}

// TestTwoPrincipalsOfOneServer over the wire: what is of another namespace is answered as what is not there.
func TestTwoPrincipalsOfOneServer(t *testing.T) {
	now := agentkernel.Owner()
	s := serve(t, api.Config{Principal: func(*http.Request) (agentkernel.Principal, error) { return now, nil }})
	c := s.dial(t)
	for _, namespace := range []string{"a", "b"} {
		now = agentkernel.Principal{Name: namespace, Namespace: namespace, Rights: agentkernel.Rights()}
		if _, err := c.Spawn(t.Context(), spec("print "+namespace)); err != nil {
			t.Fatal(err)
		}
		if list, err := c.List(t.Context(), agentkernel.Filter{}); err != nil || len(list) != 1 || list[0].Namespace != namespace {
			t.Errorf("%s sees %+v, %v", namespace, list, err)
		}
	}
	_, other := c.Journal(t.Context(), 1, 1, 0) // of a
	_, absent := c.Journal(t.Context(), 9, 1, 0)
	if agentkernel.CodeOf(other) != agentkernel.CodeNotFound || strings.ReplaceAll(other.Error(), "1", "9") != absent.Error() {
		t.Errorf("%v and %v differ", other, absent)
	}
	now = agentkernel.Principal{Namespace: "a", Rights: []agentkernel.Right{agentkernel.RightRead}}
	if _, err := c.Spawn(t.Context(), spec("print")); agentkernel.CodeOf(err) != agentkernel.CodeDenied {
		t.Errorf("who may only read has spawned: %v", err)
	}
	now = agentkernel.Owner()
	if list, err := c.List(t.Context(), agentkernel.Filter{}); err != nil || len(list) != 2 {
		t.Errorf("the owner sees %+v, %v", list, err)
	}
}
