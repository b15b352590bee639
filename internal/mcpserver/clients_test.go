package mcpserver

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

// A session may use ten times what one program may, or what its server was told; time that passes ends no session.
func TestSessionLimits(t *testing.T) {
	d := agentkernel.DefaultLimits()
	l := sessionLimits(agentkernel.Limits{Wall: agentkernel.Duration(time.Second), Memory: 7 << 20})
	if l.Time != 10*d.Time || l.Output != 10*d.Output || l.Calls != 10*d.Calls || l.Memory != 7<<20 || l.Pids != d.Pids || l.Wall != 0 {
		t.Errorf("%+v", l)
	}
	if l := sessionLimits(agentkernel.Limits{Time: 5, Output: 6, Calls: 7}); l.Time != 5 || l.Output != 6 || l.Calls != 7 {
		t.Errorf("what was said: %+v", l)
	}
}

// manySessions is a kernel whose sessions wait for their first cell for ever.
type manySessions struct {
	agentkernel.Kernel
	last  agentkernel.PID
	ended []agentkernel.PID
}

func (k *manySessions) Run(_ context.Context, _ agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
	k.last++
	return agentkernel.Process{}, fn(agentkernel.Event{PID: k.last, Kind: agentkernel.EventIdle})
}

func (k *manySessions) EndSession(_ context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	k.ended = append(k.ended, pid)
	return agentkernel.Process{}, nil
}

// One principal has so many sessions and no more: of those that are idle the oldest ends, and no other principal is kept out.
func TestSessionsOfOnePrincipal(t *testing.T) {
	const own = 100
	k := &manySessions{}
	h := &server{cfg: Config{Kernel: k}}
	h.clients = newClients(h.cfg)
	begin := func(principal string) (*session, error) {
		return h.clients.begin(t.Context(), &call{h: h, client: &client{principal: principal}}, "")
	}
	first, err := begin("evil")
	if err != nil {
		t.Fatal(err)
	}
	done := h.clients.feeding(first)
	for range 1000 {
		if _, err := begin("evil"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(h.clients.sessions); n != own {
		t.Errorf("%d sessions of one principal, want %d", n, own)
	}
	if len(k.ended) != 901 || k.ended[0] != first.pid+1 || k.ended[900] != first.pid+901 {
		t.Errorf("%d ended, the first ones %v", len(k.ended), k.ended[:min(3, len(k.ended))])
	}
	done()
	good, err := begin("good")
	if err != nil {
		t.Fatal(err)
	}
	defer h.clients.feeding(good)()
	for _, s := range h.clients.sessions {
		defer h.clients.feeding(s)()
	}
	if _, err := begin("evil"); agentkernel.CodeOf(err) != agentkernel.CodeLimit || !strings.Contains(err.Error(), "100 sessions of this user run code") {
		t.Errorf("all of them run code: %v", err)
	}
	if _, err := begin("good"); err != nil {
		t.Errorf("another principal: %v", err)
	}
	for i := range 10 {
		for range own {
			if _, err = begin(string(rune('a' + i))); err != nil {
				break
			}
		}
	}
	if n := len(h.clients.sessions); agentkernel.CodeOf(err) != agentkernel.CodeLimit || n != maxSessions {
		t.Errorf("%d sessions in all: %v", n, err)
	}
}

// TestTheKernelOfACaller: whoever has a token sees his user's namespace alone; on stdio nobody is told apart.
func TestTheKernelOfACaller(t *testing.T) {
	var whole struct{ agentkernel.Kernel } // asked for nothing: it would panic
	h := &server{cfg: Config{Kernel: whole, Spec: agentkernel.Spec{Namespace: "default"}}}
	if k := (&call{h: h, client: &client{}}).kernel(); k != agentkernel.Kernel(whole) {
		t.Errorf("on stdio: %T", k)
	}
	k := (&call{h: h, client: &client{user: "alice", principal: "alice's"}}).kernel()
	if _, err := k.Document(t.Context(), "default/bob", "", "d"); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("a document of another user: %v", err)
	}
	for name, err := range map[string]error{
		"backup": k.Backup(t.Context(), io.Discard),
		"prune":  second(k.Prune(t.Context(), agentkernel.PruneOptions{})),
		"spawn":  second(k.Spawn(t.Context(), agentkernel.Spec{Namespace: "default"})),
	} {
		if agentkernel.CodeOf(err) != agentkernel.CodeDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
