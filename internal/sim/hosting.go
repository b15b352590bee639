package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"agentkernel"
)

const hostedBackend = "hosted"

// guest is a program that lives outside the kernel, and over its ends: some lanes, each a program of the model.
type guest struct {
	pid     agentkernel.PID
	program agentkernel.Program

	mu   sync.Mutex
	now  *visit // the program that attached last; nil: none has
	told map[agentkernel.Place]string
}

// visit is one start of such a program, over all of its attachments.
type visit struct {
	epoch int64 // of the last of them
	lanes []*guestLane
}

type guestLane struct {
	m     *machine
	calls int64
	turn  turn // of the call that has no answer
	open  bool // there is one
	ended bool
}

// hostedSpec is that of a hosted process: the source is its lanes.
func (w *World) hostedSpec() agentkernel.Spec {
	var lanes []string
	for range 1 + w.rng.IntN(3) {
		g := &generator{rng: w.rng, asks: w.market != nil}
		var code []instr
		for range 1 + w.rng.IntN(5) {
			code = append(code, g.call())
		}
		text, err := json.Marshal(append(code, instr{Op: opEnd}))
		if err != nil {
			panic(err) // texts and numbers always encode
		}
		lanes = append(lanes, string(text))
	}
	source, err := json.Marshal(lanes)
	if err != nil {
		panic(err)
	}
	s := agentkernel.Spec{
		Program: agentkernel.Program{Name: fmt.Sprintf("h%d", w.programs), Source: string(source)},
		Backend: hostedBackend, Tools: []string{"/srv.json"}, Allow: []string{"*"}, Priority: 1 + w.rng.IntN(20),
	}
	if w.chance(1, 5) {
		s.OnUnknown = agentkernel.UnknownPause
	}
	return s
}

// machines are the lanes of a hosted program at their beginning.
func machines(p *agentkernel.Program) ([]*machine, error) {
	var sources []string
	if err := json.Unmarshal([]byte(p.Source), &sources); err != nil {
		return nil, err
	}
	var out []*machine
	for i, source := range sources {
		m, err := newMachine(&agentkernel.Program{Name: fmt.Sprint(p.Name, " ", i), Source: source})
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// laneName is the name of a lane by its number.
func laneName(i int) string {
	if i == 0 {
		return ""
	}
	return fmt.Sprint(i)
}

// guestResult is what a hosted program ends with.
func guestResult(lanes []*machine) json.RawMessage {
	var sum uint64
	for _, m := range lanes {
		sum = sum*31 + m.Digest
	}
	return fmt.Appendf(nil, `"%x"`, sum)
}

// next runs a lane to its next call. False: it has ended.
func next(m *machine) (turn, bool, error) {
	t, err := m.run(func(pause) error { return nil })
	return t, t.Kind == agentkernel.TurnCall, err
}

// guest is the hosted program of a process.
func (w *World) guest(pid agentkernel.PID) *guest {
	g, program := w.guests[pid], w.disk.row(pid).Spec.Program
	if g == nil || g.program.Source != program.Source { // a process that was lost before it was durable leaves its PID to another
		g = &guest{pid: pid, program: program, told: map[agentkernel.Place]string{}}
		w.guests[pid] = g
	}
	return g
}

// hostless says whether a process waits for its host, and nobody is about to be it.
func (w *World) hostless(pid agentkernel.PID) bool {
	return w.disk.row(pid).Spec.Backend == hostedBackend && w.disk.carries(pid) && !w.running(fmt.Sprintf("host %d ", pid))
}

// visit lets a hosted program attach: one that goes on, one that begins again, or one that takes the process from another. False:
// there is none.
func (w *World) visit(open []*agentkernel.ProcessRecord) bool {
	var pids []agentkernel.PID
	for _, r := range open {
		if r.Spec.Backend == hostedBackend && !r.State.Terminal() {
			pids = append(pids, r.PID)
		}
	}
	if len(pids) == 0 || w.recovering() {
		return false
	}
	pid := pids[w.rng.IntN(len(pids))]
	taken := w.running(fmt.Sprintf("host %d ", pid))
	w.host(pid, taken || w.chance(1, 3), taken && w.chance(1, 2))
	return true
}

// host lets the program of a process attach, and run until something ends that.
func (w *World) host(pid agentkernel.PID, again, takeOver bool) {
	g, k, generation := w.guest(pid), w.kernel, w.gate.generation
	g.mu.Lock()
	v := g.now
	g.mu.Unlock()
	how := agentkernel.Attaching{TakeOver: takeOver}
	if v == nil || again {
		lanes, err := machines(&g.program)
		if err != nil {
			w.failf("process %d: %v", pid, err)
			return
		}
		v = &visit{}
		for _, m := range lanes {
			v.lanes = append(v.lanes, &guestLane{m: m})
		}
	} else {
		how = agentkernel.Attaching{Epoch: v.epoch}
	}
	w.start(&op{what: fmt.Sprintf("host %d again %t takes over %t", pid, again, takeOver), pid: pid, hosts: true, run: func(ctx context.Context, o *op) error {
		h, err := k.Attach(ctx, pid, how)
		if err != nil {
			g.mu.Lock()
			if g.now == v && agentkernel.CodeOf(err) == agentkernel.CodeFenced { // by one that did not hear that it succeeded
				g.now = nil
			}
			g.mu.Unlock()
			return err
		}
		defer func() { _ = h.Close() }()
		g.mu.Lock()
		g.now, v.epoch = v, h.Attached().Epoch
		g.mu.Unlock()
		var group sync.WaitGroup
		for i, l := range v.lanes {
			group.Go(func() { w.runLane(ctx, o, generation, h, g, l, i) })
		}
		group.Wait()
		var lanes []*machine
		for _, l := range v.lanes {
			if !l.ended {
				return cause(ctx, h)
			}
			lanes = append(lanes, l.m)
		}
		if _, ok := w.gate.pass(generation, fmt.Sprintf("host %d ends by op %d", pid, o.id), 0); !ok {
			return crashed()
		}
		if o.answer, err = h.End(ctx, agentkernel.HostedEnd{Result: guestResult(lanes)}); err != nil {
			o.answer = agentkernel.Process{}
		}
		return err
	}})
}

// cause is why a host is the host no more.
func cause(ctx context.Context, h agentkernel.Host) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return h.Err()
}

// gone says whether an attachment is over.
func gone(h agentkernel.Host) bool {
	select {
	case <-h.Done():
		return true
	default:
		return false
	}
}

// runLane runs a lane until it ends, or has no host.
func (w *World) runLane(ctx context.Context, o *op, generation int, h agentkernel.Host, g *guest, l *guestLane, i int) {
	for !l.ended {
		if !l.open {
			t, goesOn, err := next(l.m)
			if err != nil {
				w.failf("process %d: %v", g.pid, err)
				return
			}
			if !goesOn {
				l.ended = true
				return
			}
			l.turn, l.open = t, true
			l.calls++
		}
		if _, ok := w.gate.pass(generation, fmt.Sprintf("host %d lane %d call %d by op %d", g.pid, i, l.calls, o.id), 0); !ok || gone(h) || ctx.Err() != nil {
			return
		}
		place := agentkernel.Place{Lane: laneName(i), N: l.calls}
		result, err := h.Issue(agentkernel.HostedCall{Place: place, Op: l.turn.Op, Args: l.turn.Args})(ctx)
		if err != nil && (gone(h) || ctx.Err() != nil) {
			return
		}
		e := agentkernel.AsError(err, agentkernel.CodeInternal, "host")
		if !w.gate.alive(generation) {
			return
		}
		g.hears(w, place, result, e)
		if err := l.m.give(agentkernel.Reply{ID: l.calls, Result: result, Err: e}); err != nil {
			w.failf("process %d: %v", g.pid, err)
			return
		}
		l.open = false
	}
}

// hears checks what a hosted program is told of a call.
func (g *guest) hears(w *World, place agentkernel.Place, result json.RawMessage, e *agentkernel.Error) {
	l := w.disk.ledger(g.pid)
	c := l.calls[l.places[place]]
	if c == nil || c.resultSeq == 0 || e == nil && !bytes.Equal(c.result, result) || (e != nil) != (c.err != nil) || e != nil && e.Code != c.err.Code {
		w.failf("process %d was told %s %v of its call %s, and the journal has %+v", g.pid, result, e, place, c)
		return
	}
	w.promises.seq(w, g.pid, c.resultSeq, "a reply")
	text := string(result)
	if e != nil {
		text = string(e.Code)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if had, ok := g.told[place]; ok && had != text {
		w.failf("process %d was told %s of its call %s, and before %s", g.pid, text, place, had)
	}
	g.told[place] = text
}

// checkGuest runs the lanes of a hosted program by themselves, with the answers that the journal has.
func checkGuest(p *agentkernel.Program, l *ledger) (*standing, error) {
	lanes, err := machines(p)
	if err != nil {
		return nil, err
	}
	made, ended := 0, 0
	for i, m := range lanes {
		for n := int64(1); ; n++ {
			t, goesOn, err := next(m)
			if err != nil {
				return nil, err
			}
			if !goesOn {
				ended++
				break
			}
			place := agentkernel.Place{Lane: laneName(i), N: n}
			c := l.calls[l.places[place]]
			if c == nil {
				break
			}
			made++
			if c.op != t.Op || !bytes.Equal(c.args, t.Args) {
				return nil, fmt.Errorf("call %s of the journal is %s %s, and the program calls %s %s", place, c.op, c.args, t.Op, t.Args)
			}
			if c.resultSeq == 0 {
				break
			}
			if err := m.give(agentkernel.Reply{ID: n, Result: c.result, Err: c.err}); err != nil {
				return nil, err
			}
		}
	}
	if made != len(l.places) || made != len(l.calls) {
		return nil, fmt.Errorf("the journal has %d calls at %d places, and the program makes %d of them", len(l.calls), len(l.places), made)
	}
	s := &standing{kind: elsewhere}
	if ended == len(lanes) {
		s.result = guestResult(lanes)
	}
	return s, nil
}
