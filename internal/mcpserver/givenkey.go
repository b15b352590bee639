package mcpserver

import (
	"context"
	"encoding/json"
	"time"

	"agentkernel"
)

// A client's own key holds wherever its code ran: in this session or another one, before this server was started or since.
// Sessions of this server are remembered; of others the journals are read, as far as they are of the last day.

// Bounds of a search for a key.
const (
	keyDays     = 24 * time.Hour
	keySessions = 100  // the newest are looked at
	maxKnown    = 1000 // processes whose keys are remembered
)

// sessionName is the program of a session.
const sessionName = "<session>"

// keyed finds the session in which code with a client's own key has run; nil: in none.
func (c *call) keyed(ctx context.Context, key string) (*session, error) {
	cs := c.h.clients
	cs.mu.Lock()
	s := cs.keyed[c.namespace()+"\x00"+key]
	cs.mu.Unlock()
	if s != nil {
		return s, nil
	}
	all, err := c.kernel().List(ctx, agentkernel.Filter{Namespace: c.namespace(), Limit: maxTasks})
	if err != nil {
		return nil, err
	}
	looked := 0
	for _, p := range all {
		if p.Name != sessionName || cs.find(c.client.principal, p.PID) != nil || c.h.cfg.Now().Sub(p.Created) > keyDays && c.h.cfg.Now().Sub(p.Ended) > keyDays {
			continue
		}
		if looked++; looked > keySessions {
			break
		}
		keys, err := c.keysOf(ctx, &p)
		if err != nil {
			return nil, err
		}
		if keys[key] {
			return &session{pid: p.PID, principal: c.client.principal}, nil
		}
	}
	return nil, nil
}

// keysOf are the keys of the pieces of a session.
func (c *call) keysOf(ctx context.Context, p *agentkernel.Process) (map[string]bool, error) {
	cs := c.h.clients
	cs.mu.Lock()
	keys, known := cs.keysOf[p.PID]
	cs.mu.Unlock()
	if known {
		return keys, nil
	}
	entries, err := c.kernel().Journal(ctx, p.PID, 1, 0)
	if err != nil {
		return nil, err
	}
	keys = map[string]bool{}
	for _, e := range entries {
		var next agentkernel.NextPiece
		if e.Kind == agentkernel.EntryResult && json.Unmarshal(e.Data, &next) == nil && next.Piece.Key != "" {
			keys[next.Piece.Key] = true
		}
	}
	if p.State.Terminal() { // it gets no others
		cs.mu.Lock()
		if len(cs.keysOf) >= maxKnown {
			clear(cs.keysOf)
		}
		cs.keysOf[p.PID] = keys
		cs.mu.Unlock()
	}
	return keys, nil
}

// remember notes in which session code with a client's own key runs.
func (c *call) remember(a *attempt) {
	if !a.given {
		return
	}
	cs := c.h.clients
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.keyed) >= maxKnown { // the journals have them
		clear(cs.keyed)
	}
	cs.keyed[c.namespace()+"\x00"+a.key] = a.session
}
