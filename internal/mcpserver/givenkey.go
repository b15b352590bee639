package mcpserver

import (
	"context"

	"agentkernel"
)

// A client's own key holds wherever its code ran: in this session or another one, by itself, before this server was started or
// since. The kernel knows which process has a key, and lets no two have it.

// sessionName is the program of a session.
const sessionName = "<session>"

// keyTries is how often a call looks who has its key: it may be another call's between the looking and the running.
const keyTries = 3

// ownKey is the key that a client gave to a call, as an argument or beside them, as the kernel knows it; "": it gave none.
func (c *call) ownKey(key string) (string, error) {
	if own, ok := c.req.Params.Meta[metaKey].(string); ok && key == "" {
		key = own
	}
	switch {
	case len(key) > maxKey:
		return "", agentkernel.Errorf(agentkernel.CodeInvalid, c.tool, "idempotency_key has %d bytes; at most %d are possible", len(key), maxKey)
	case key == "":
		return "", nil
	}
	return "given/" + c.tool + "/" + key, nil
}

// holder is the process that has a client's own key; nil: none has.
func (c *call) holder(ctx context.Context, key string) (*agentkernel.Process, error) {
	if key == "" {
		return nil, nil
	}
	all, err := patiently(ctx, endPatience, func() ([]agentkernel.Process, error) {
		return c.kernel().List(ctx, agentkernel.Filter{Namespace: c.namespace(), Key: key})
	})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// keyTaken says whether code was not run because another process has its key.
func keyTaken(err error) bool {
	return agentkernel.CodeOf(err) == agentkernel.CodeConflict && agentkernel.AsError(err, "", "").Op == agentkernel.OpKey
}

// sessionOf is the session that a process is, for the user of a call, also where this server has not begun it.
func (c *call) sessionOf(p *agentkernel.Process) *session {
	if s := c.h.clients.find(c.client.principal, p.PID); s != nil {
		return s
	}
	return &session{pid: p.PID, principal: c.client.principal}
}
