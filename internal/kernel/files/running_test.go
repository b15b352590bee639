package files_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/files"
)

// layers is a Layers of one process.
type layers struct {
	agentkernel.Layers
	err     error
	created agentkernel.PID
	changes agentkernel.Changes
}

func (l *layers) Create(pid agentkernel.PID, _ *agentkernel.Spec) error {
	l.created = pid
	return l.err
}

func (l *layers) Begin(agentkernel.PID) ([]agentkernel.Mount, error) {
	return []agentkernel.Mount{{}}, l.err
}
func (l *layers) Stdin(agentkernel.PID) (string, error)                { return "in", nil }
func (l *layers) Changes(agentkernel.PID) (agentkernel.Changes, error) { return l.changes, nil }
func (l *layers) Drift(agentkernel.PID) ([]string, error) {
	return strings.Split("a b c d e f", " "), l.err
}

func (l *layers) Apply(context.Context, agentkernel.PID, agentkernel.ApplyOptions) (agentkernel.Applied, error) {
	return agentkernel.Applied{}, l.err
}

// box is a sandbox that holds bytes in files without a name, and whose end takes a while.
type box struct {
	agentkernel.Sandbox
	held int64
	ends time.Duration
	gone chan struct{}
}

func (b *box) Held(known int64) int64 { return b.held }
func (b *box) Gone() <-chan struct{}  { return b.gone }

func (b *box) Close() error {
	time.AfterFunc(b.ends, func() { close(b.gone) })
	return nil
}

func withFolder() *agentkernel.Spec {
	return &agentkernel.Spec{Workspace: &agentkernel.Workspace{Path: "/w"}, Stdin: "x"}
}

// TestWithoutLayers: a kernel that gives no folders refuses a Spec that needs some, and any other begins without.
func TestWithoutLayers(t *testing.T) {
	none := disk(nil, nil)
	if err := none.Create(t.Context(), 7, withFolder()); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
		t.Errorf("create: %v", err)
	}
	if _, _, err := files.Begin(nil, 7, withFolder()); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
		t.Errorf("begin: %v", err)
	}
	plain := &agentkernel.Spec{}
	if err := none.Create(t.Context(), 7, plain); err != nil {
		t.Errorf("create without: %v", err)
	}
	if mounts, stdin, err := files.Begin(nil, 7, plain); mounts != nil || stdin != "" || err != nil {
		t.Errorf("begin without: %v %q %v", mounts, stdin, err)
	}
}

func TestBegin(t *testing.T) {
	l := &layers{}
	if err := disk(nil, l).Create(t.Context(), 7, withFolder()); err != nil || l.created != 7 {
		t.Errorf("create: %v, process %d", err, l.created)
	}
	if mounts, stdin, err := files.Begin(l, 7, withFolder()); len(mounts) != 1 || stdin != "in" || err != nil {
		t.Errorf("begin: %v %q %v", mounts, stdin, err)
	}
	l.err = errors.New("broken")
	if _, _, err := files.Begin(l, 7, withFolder()); err == nil {
		t.Error("what cannot begin does")
	}
}

// TestWatch: a layer is measured soon and then for a tenth of the time, until it is full or its process ends.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begun := time.Now()
		files.WatchLoop(t.Context(), func() bool {
			at = append(at, time.Since(begun))
			wait(time.Duration(len(at)) * 10 * time.Millisecond) // 10, 20, 30 ms
			return len(at) == 3
		})
		want := []time.Duration{50 * time.Millisecond, 160 * time.Millisecond, 380 * time.Millisecond}
		for i := range want {
			if i >= len(at) || at[i] != want[i] {
				t.Fatalf("measured at %v, want %v", at, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		files.WatchLoop(ctx, func() bool { t.Error("measured after the end"); return true })
	})
}

func wait(d time.Duration) { <-time.After(d) }

// TestClose returns when nothing of a sandbox runs any more, and gives up on one that does not end.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		log := slog.New(slog.NewTextHandler(&logged, nil))
		files.Close(nil, 7, log)
		for ends, want := range map[time.Duration]time.Duration{2 * time.Second: 2 * time.Second, time.Hour: 30 * time.Second} {
			begun := time.Now()
			files.Close(&box{ends: ends, gone: make(chan struct{})}, 7, log)
			if took := time.Since(begun); took != want {
				t.Errorf("a sandbox that ends after %v: waited for %v", ends, took)
			}
		}
		if n := strings.Count(logged.String(), "does not end"); n != 1 {
			t.Errorf("%d sandboxes did not end: %s", n, logged.String())
		}
		wait(2 * time.Hour)
	})
}

// TestIntent: what is journalled before files are published is read again as it was; anything else is no intent.
func TestIntent(t *testing.T) {
	data, err := files.Intent{ExitCode: 0, Result: json.RawMessage(`{"a":1}`)}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := files.ParseIntent(data); !ok || string(got.Result) != `{"a":1}` {
		t.Errorf("%+v, %t", got, ok)
	}
	for _, none := range []string{"", "{"} {
		if _, ok := files.ParseIntent(json.RawMessage(none)); ok {
			t.Errorf("%q is an intent", none)
		}
	}
	if _, ok := files.ParseIntent(nil); ok {
		t.Error("nothing is an intent")
	}
	if _, err := (files.Intent{Result: json.RawMessage("{")}).Encode(); err == nil {
		t.Error("what is no JSON is journalled")
	}
}

// TestPublish: a crash after the last file was written is no failure; any other conflict is, and says what to do.
func TestPublish(t *testing.T) {
	conflict := agentkernel.Errorf(agentkernel.CodeConflict, "apply", "changed meanwhile").WithHint("look")
	for name, c := range map[string]struct {
		layers layers
		fails  bool
	}{
		"as it should":       {layers{}, false},
		"applied before":     {layers{err: conflict, changes: agentkernel.Changes{State: agentkernel.LayerApplied}}, false},
		"changed meanwhile":  {layers{err: conflict, changes: agentkernel.Changes{State: agentkernel.LayerKept}}, true},
		"a disk that is bad": {layers{err: errors.New("broken")}, true},
	} {
		err := files.Publish(t.Context(), &c.layers, 7, nil)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && err.Code == agentkernel.CodeConflict && err.Hint != "look" {
			t.Errorf("%s: %v has lost its hint", name, err)
		}
	}
}

// TestDrifted names a few paths, and says so where there are more.
func TestDrifted(t *testing.T) {
	if note := files.Drifted(&layers{}, 7); !strings.Contains(note, "a, b, c, d, e and more") {
		t.Error(note)
	}
	if note := files.Drifted(&layers{err: errors.New("broken")}, 7); !strings.Contains(note, "broken") {
		t.Error(note)
	}
}
