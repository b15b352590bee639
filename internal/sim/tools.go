package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/places"
	"agentkernel/internal/sys"
	"agentkernel/internal/sys/tool"
)

// serverName is the one server that there is.
const serverName = "srv"

// unbound is a tool that programs call without importing it, so that it is looked up at the call.
const unbound = "read1"

// server is the other side of all calls of tools. It outlives kernels, and remembers what was done.
type server struct {
	mu    sync.Mutex
	done  map[string]*deed // by idempotency key
	count int
}

// deed is what became of one call.
type deed struct {
	tool    string
	times   int             // that it was done
	answers map[string]bool // that it was answered with
	failed  bool            // it was answered with an error of the tool
}

// effectOf is what a tool does, by its name.
func effectOf(tool string) agentkernel.Effect {
	switch {
	case strings.HasPrefix(tool, "read"):
		return agentkernel.EffectRead
	case strings.HasPrefix(tool, "idem"):
		return agentkernel.EffectIdempotent
	case strings.HasPrefix(tool, "paid"):
		return agentkernel.EffectPaid
	}
	return agentkernel.EffectWrite
}

// do does what a call asks for and answers.
func (s *server) do(key, tool string, fails bool) (json.RawMessage, *deed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.done[key]
	if d == nil {
		d = &deed{tool: tool, answers: map[string]bool{}}
		s.done[key] = d
	}
	d.times++
	if fails {
		d.failed = true
		return nil, d
	}
	s.count++
	answer := fmt.Sprintf(`"%s %d"`, tool, s.count)
	d.answers[answer] = true
	return json.RawMessage(answer), d
}

// of is what became of a call; the zero deed: nothing.
func (s *server) of(pid agentkernel.PID, call int64) deed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.done[keyOf(pid, call)]; d != nil {
		return *d
	}
	return deed{}
}

func keyOf(pid agentkernel.PID, call int64) string {
	return fmt.Sprintf("%s/%d/%d", storeUUID, pid, call)
}

// source is the server as one generation of kernels reaches it.
type source struct {
	w          *World
	generation int
	places     *places.Places
}

// atOnce is how many calls the server does at once.
const atOnce = 3

var _ agentkernel.ToolSource = (*source)(nil)

func (s *source) Servers(context.Context) ([]agentkernel.ToolServer, error) {
	return []agentkernel.ToolServer{{Name: serverName, PythonName: serverName}}, nil
}

// Turn is that of the server; see gatedTurn.
func (s *source) Turn(_, namespace string, made time.Time) agentkernel.ToolTurn {
	return s.places.Turn(namespace, made, s.w.plan.slowest+time.Second, func(ctx context.Context) error { return context.Cause(ctx) })
}

// Tools answers at once: whoever asks has waited at the gate under a name of its own (see toolbox).
func (s *source) Tools(ctx context.Context, name string) ([]agentkernel.Tool, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if name != serverName {
		return nil, agentkernel.Errorf(agentkernel.CodeNotFound, "tool", "there is no server %q", name)
	}
	var out []agentkernel.Tool
	for _, name := range toolNames {
		out = append(out, s.tool(name))
	}
	return out, nil
}

// tool is a tool as the server describes it.
func (s *source) tool(name string) agentkernel.Tool {
	t := agentkernel.Tool{Server: serverName, Name: name, PythonServer: serverName, PythonName: name, Effect: effectOf(name)}
	if s.w.opt.Misdescribed && t.Effect == agentkernel.EffectWrite {
		t.Effect = agentkernel.EffectIdempotent
	}
	return t
}

// Call calls a tool: it arrives at the server, is done, and is answered, in steps between which anything may happen.
func (s *source) Call(ctx context.Context, c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
	roll, ok := s.w.gate.pass(s.generation, "call "+c.Key, 0)
	result := agentkernel.ToolResult{Incarnation: "1"}
	switch {
	case !ok:
		return result, crashed()
	case ctx.Err() != nil:
		result.NotSent = true
		return result, ctx.Err()
	}
	if err := c.Admit(s.tool(c.Tool)); err != nil {
		result.NotSent = true
		return result, err
	}
	fate := roll % 100
	if fate < 4 {
		result.NotSent = true
		return result, agentkernel.Errorf(agentkernel.CodeUnavailable, "tool", "the server cannot be reached")
	}
	s.w.arrives(c)
	answer, d := s.w.server.do(c.Key, c.Tool, fate < 12)
	s.w.checkTimes(c, d)
	if _, ok := s.w.gate.pass(s.generation, "answer "+c.Key, s.latency(roll)); !ok {
		return agentkernel.ToolResult{}, crashed()
	}
	switch {
	case ctx.Err() != nil:
		return agentkernel.ToolResult{}, ctx.Err()
	case fate < 12:
		return result, agentkernel.Errorf(agentkernel.CodeTool, "tool", "%s says no", c.Tool)
	case fate < 18:
		return result, agentkernel.Errorf(agentkernel.CodeUnavailable, "tool", "the connection broke")
	}
	result.Value = answer
	return result, nil
}

// latency is how long an answer takes at least.
func (s *source) latency(roll uint64) time.Duration {
	roll >>= 8
	if roll%4 > 0 {
		return time.Duration(roll % uint64(2*time.Millisecond))
	}
	return time.Duration(roll % uint64(s.w.plan.slowest))
}

// toolbox is the toolbox of the product, whose questions to servers wait at the gate.
type toolbox struct {
	*tool.Box
	w          *World
	generation int
}

func newToolbox(w *World, generation int) *toolbox {
	src := &source{w, generation, places.New(atOnce, serverName)}
	box := tool.New(func([]string) (agentkernel.ToolSource, error) { return src, nil }, nil)
	return &toolbox{box, w, generation}
}

// Bind finds what a program imports.
func (b *toolbox) Bind(ctx context.Context, s *agentkernel.Spec, refs []agentkernel.ToolRef) (*sys.Binding, agentkernel.ToolRef, error) {
	if _, ok := b.w.gate.pass(b.generation, "bind "+s.Program.Name, 0); !ok {
		return nil, agentkernel.ToolRef{}, crashed()
	}
	return b.Box.Bind(ctx, s, refs)
}

// Family is that of tools; to look one up waits at the gate.
func (b *toolbox) Family() sys.Family {
	f := b.Box.Family()
	for i := range f.Ops {
		if f.Ops[i].Admit == nil {
			continue
		}
		priced(&f.Ops[i])
		inner := f.Ops[i].Admit
		f.Ops[i].Admit = func(c *sys.Call) (sys.Admission, error) {
			adm, err := inner(c)
			if adm.Turn != nil {
				adm.Turn = gatedTurn{adm.Turn, b, fmt.Sprintf("%d/%d", c.PID, c.ID)}
			}
			later := adm.Later
			if err != nil || later == nil {
				return adm, err
			}
			adm.Later = func(ctx context.Context) (sys.Admission, error) {
				if _, ok := b.w.gate.pass(b.generation, fmt.Sprintf("look up %d/%d", c.PID, c.ID), 0); !ok {
					return sys.Admission{}, crashed()
				}
				adm, err := later(ctx)
				if adm.Turn != nil {
					adm.Turn = gatedTurn{adm.Turn, b, fmt.Sprintf("%d/%d", c.PID, c.ID)}
				}
				return adm, err
			}
			return adm, nil
		}
	}
	return f
}

// gatedTurn is the turn of a call of a tool. Whoever waits for one does so at the gate, too: of several that wait, each has its name.
type gatedTurn struct {
	sys.Turn
	b    *toolbox
	name string
}

// Ready is that of the turn for some calls. The others wait at the gate: what may happen meanwhile is looked for.
func (t gatedTurn) Ready() bool { return t.name[len(t.name)-1]%4 != 0 && t.Turn.Ready() }

// Wait is that of the turn. Some calls wait for so long that they are in the journal meanwhile.
func (t gatedTurn) Wait(ctx context.Context) error {
	long := time.Duration(len(t.name)%2) * 300 * time.Millisecond
	if _, ok, err := t.b.w.gate.wait(ctx, t.b.generation, "queue "+t.name, long); !ok || err != nil {
		return cmp.Or(err, crashed())
	}
	err := t.Turn.Wait(ctx)
	if _, ok := t.b.w.gate.pass(t.b.generation, "turn "+t.name, 0); !ok {
		return crashed()
	}
	return err
}
