package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"agentkernel"
)

// What is checked, and where:
//
//   - journals have no gap, no second intent or result, nothing behind their end, and no limit is passed: ledger.take, at each append
//   - a call goes out only when its intent is durable: arrives
//   - a write is made once: source.Call; who is told otherwise: checkCalls
//   - whatever a client is told is durable then, and true for ever: promises
//   - of a crash: what was promised, and what tools did, is in what is left of the journal: checkKept
//   - a paused process is handed nothing, and two goroutines never use one sandbox: begins, sandbox.enter
//   - a program repeats its journal, ends as it should, and has printed what it should: checkProcess
//   - no process waits while there is something for it: checkIdle
//   - what the kernel says of a process is what its journal comes to: checkUsage
//   - a signal is taken once, in the order in which they came, and never while the program holds them back: ledger.hear
//   - no program waits in a call that was interrupted: checkWait
//   - what has a deadline is asked to stop then, and what was asked has ended when its time is over: checkIdle
//   - no budget is passed at any append, what the kernel says of one is what the journals come to, and who can pay is not kept: checkBudgets, askBudget, checkIdle
//   - no allowance is passed at any append, what the kernel says of one is what the journals come to, and who can pay is not kept: checkAllowances, askAllowances, checkTomorrow
//   - a request to a model is sent after its intent is durable, never after its result, never beside another of its call, and no more often than
//     it may be charged for; no server gets more than it takes, or anything while it wants to be left alone: provider.arrives, checkWindows
//   - what models have charged is what journals say was spent, to the nano-dollar, or less where nobody knows: checkAsked
//   - what is read of a stream is the beginning of one answer, and an answer is told whole: checkRead
//   - nobody has a turn at a model who does not use it: checkTraffic
//   - a hosted program is told the same of a call each time, durably, and each call has one place: guest.hears, checkGuest, ledger.call
//   - what stands still begins no call, and its program does not go on: store.Append, begins
//   - all processes come to an end when they are left alone: settle
//   - a kernel that was closed has no goroutine, sandbox or client left: stopped, kill, and the bubble itself

// arrives checks a call that reaches the server.
func (w *World) arrives(c agentkernel.ToolCall) {
	var pid agentkernel.PID
	var call int64
	if !parseKey(c.Key, &pid, &call) {
		w.failf("a call has the key %q", c.Key)
		return
	}
	w.mu.Lock()
	w.report.Calls++
	w.mu.Unlock()
	if !w.disk.intended(pid, call) {
		w.failf("call %d of process %d goes out, and its intent is not durable, or says that it waits for its turn", call, pid)
	}
}

// checkHeld checks that nothing is sent to a model, or once more, for a call whose process was told to stand still: "5/3".
func (w *World) checkHeld(call string) {
	var pid agentkernel.PID
	var id int64
	if _, err := fmt.Sscanf(call, "%d/%d", &pid, &id); err != nil {
		w.failf("a call of a model is named %q", call)
	} else if w.held.over(w.disk.row(pid)) {
		w.failf("call %s asks a model, and its process was told to stand still", call)
	}
}

// asked counts a request to a model.
func (w *World) asked() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Asked++
}

// checkTimes checks how often a call was made.
func (w *World) checkTimes(c agentkernel.ToolCall, d *deed) {
	var pid agentkernel.PID
	var id int64
	if !parseKey(c.Key, &pid, &id) || effectOf(c.Tool) != agentkernel.EffectWrite {
		return
	}
	l := w.disk.ledger(pid)
	if call := l.calls[id]; call != nil && d.times > 1+call.retries {
		w.failf("call %s of %s was made %d times, and %d retries were decided", c.Key, c.Tool, d.times, call.retries)
	}
}

// begins checks a turn that is about to begin.
func (w *World) begins(s *sandbox) {
	if !w.gate.alive(s.b.generation) || w.store.broken.Load() { // what it knows is not in the journal then, and comes to nothing
		return
	}
	again := s.loaded && !s.begun // nothing runs in a turn that is said again
	// A refusal that comes of a refund pauses at the moment of that, at which the program may get the result: in which order is left to chance.
	if l := w.disk.ledger(s.pid); l != nil && l.paused && !again && (len(w.disk.paysNone(s.pid)) == 0 && !w.disk.waitsForTomorrow(s.pid) || time.Since(l.pausedAt) > 2*time.Microsecond) {
		w.failf("process %d is paused, and its sandbox is driven on", s.pid)
	}
	if r := w.disk.row(s.pid); w.held.over(r) && !again {
		w.failf("process %d was told to stand still, and its sandbox is driven on", s.pid)
	}
	if n := w.boxes.of(s.pid); n > 1 {
		w.failf("process %d has %d sandboxes", s.pid, n)
	}
}

// checkKept checks what a crash has left.
func (w *World) checkKept() {
	w.promises.hold(w)
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	for key, d := range w.server.done {
		var pid agentkernel.PID
		var call int64
		parseKey(key, &pid, &call)
		if l := w.disk.ledger(pid); l == nil || l.calls[call] == nil {
			w.failf("%s was called by call %d of process %d, of which the journal knows nothing", d.tool, call, pid)
		}
	}
}

// checkError deals with what a client was refused.
func (w *World) checkError(o *op) {
	switch agentkernel.CodeOf(o.err) {
	case agentkernel.CodeConflict, agentkernel.CodeNotFound, agentkernel.CodeUnavailable, agentkernel.CodeCanceled:
		return
	case agentkernel.CodeFenced:
		if o.hosts {
			return
		}
	case agentkernel.CodeStorage:
		if w.store.broken.Load() {
			return
		}
	}
	if strings.Contains(o.err.Error(), "context canceled") {
		return
	}
	w.failf("%s: %v", o, o.err)
}

// checkAnswer checks what a client was told of its signal.
func (w *World) checkAnswer(o *op) {
	switch o.sig {
	case agentkernel.SignalKill:
		for _, r := range append(w.disk.below(o.pid), w.disk.row(o.pid)) {
			l := w.disk.ledger(r.PID)
			if !l.terminal {
				w.failf("process %d was killed, and process %d lives", o.pid, r.PID)
				continue
			}
			w.promises.seq(w, r.PID, l.seq, "the kill")
		}
	case "":
		if o.expect != nil {
			w.checkUsage(o)
		}
	case agentkernel.SignalPause:
		if l := w.disk.ledger(o.pid); l != nil && o.resumes == w.resumes && !l.paused && !l.terminal {
			w.failf("process %d was paused, and is not", o.pid)
		}
	}
}

// checkUsage compares what the kernel says of a process with what its journal came to when it was asked, and comes to now.
func (w *World) checkUsage(o *op) {
	got, want, now := &o.answer, o.expect, w.disk.ledger(o.pid)
	u := &got.Usage
	within := func(then, used, since int64) bool { return then <= used && used <= since }
	if u.Syscalls < want.last || !within(want.toolCalls, u.ToolCalls, now.toolCalls) || !within(want.bytesIn, u.BytesIn, now.bytesIn) || !within(want.output, u.Output, now.output) {
		w.failf("process %d has used %+v by the kernel, and by its journal %d calls, %d of tools, %d bytes from them, %d bytes of output; now %d of tools, %d and %d bytes",
			o.pid, *u, want.last, want.toolCalls, want.bytesIn, want.output, now.toolCalls, now.bytesIn, now.output)
	}
	same := now.paused == want.paused && now.terminal == want.terminal // as when it was asked
	if same && (got.Paused != want.paused || got.State.Terminal() != want.terminal) {
		w.failf("process %d is %s, paused: %t; by its journal it has ended: %t, paused: %t", o.pid, got.State, got.Paused, want.terminal, want.paused)
	}
}

// checkIdle looks for processes that wait for nothing. Nothing is about to happen now.
func (w *World) checkIdle() {
	if w.store.broken.Load() { // nothing goes on in a kernel that can write nothing down
		return
	}
	if w.engine != nil && w.running("shutdown") { // it waits a while for calls of models, and drives nothing more
		return
	}
	w.checkTraffic()
	for _, r := range w.disk.rows() {
		l := w.disk.ledger(r.PID)
		s := w.checkProcess(r, l)
		if s == nil || l.terminal || !w.disk.carries(r.PID) {
			continue
		}
		if !l.deadline.IsZero() && l.stopBy.IsZero() && time.Since(l.deadline) > time.Millisecond && !w.disk.standsStill() {
			w.failf("process %d was to be asked to stop at %s, and was not", r.PID, l.deadline)
		}
		if !l.stopBy.IsZero() && time.Since(l.stopBy) > time.Millisecond && !w.disk.standsStill() { // then it may be in the store alone
			w.failf("process %d was asked to stop until %s, and lives", r.PID, l.stopBy)
		}
		if l.paused {
			w.checkTomorrow(r, l, s)
		}
		if l.paused || w.disk.halted(r) || s.kind == elsewhere {
			continue
		}
		w.checkStill(r, l, s)
	}
}

// checkStill looks whether a process is right not to go on that nothing keeps from it.
func (w *World) checkStill(r *agentkernel.ProcessRecord, l *ledger, s *standing) {
	if s.kind == issuing && (w.engine.asks(r.PID, s.call) || w.saves(r, l, s)) {
		return
	}
	switch s.kind {
	case issuing, ended, exited:
		w.failf("process %d could go on, and nothing happens: the program comes to %v %s %s", r.PID, s.m.Turn.Kind, s.m.Turn.Op, s.m.Turn.Args)
	case blocked:
		calls := s.due
		if s.call != 0 {
			calls = append(calls, s.call)
		}
		for _, call := range calls {
			w.checkWait(r, l, call)
		}
	}
}

// checked is where a process stood when it was looked at last.
type checked struct {
	seq      int64
	standing *standing
}

// checkProcess compares a process with its program; nil: it is wrong.
func (w *World) checkProcess(r *agentkernel.ProcessRecord, l *ledger) *standing {
	if last := w.checked[r.PID]; last.seq == l.seq {
		return last.standing
	}
	s, err := w.reference(r, l)
	if err != nil {
		w.failf("process %d: %v", r.PID, err)
		return nil
	}
	if out := printed(w.disk.journal(r.PID)); out != s.out && !(strings.HasPrefix(s.out, out) && r.State != agentkernel.StateExited) {
		w.failf("process %d has printed %q by its journal, and prints %q", r.PID, out, s.out)
	}
	w.checkCalls(r.PID, l)
	w.checked[r.PID] = checked{l.seq, s}
	if r.State.Terminal() {
		w.checkEnd(r, s)
	}
	return s
}

// checkEnd compares the end of a process with that of its program.
func (w *World) checkEnd(r *agentkernel.ProcessRecord, s *standing) {
	switch r.State {
	case agentkernel.StateExited:
		if s.kind == elsewhere {
			if !bytes.Equal(r.Result, s.result) {
				w.failf("process %d exited with %s, and its program comes to %s", r.PID, r.Result, s.result)
			}
			return
		}
		if s.kind == exited {
			return
		}
		if s.kind != ended || s.m.Turn.Kind != agentkernel.TurnExit || !bytes.Equal(r.Result, s.m.result()) {
			w.failf("process %d exited with %s, and its program stands at %v %d with %s", r.PID, r.Result, s.m.Turn, s.kind, s.m.result())
		}
	case agentkernel.StateFailed:
		own := s.kind == ended && s.m.Turn.Kind == agentkernel.TurnFail && r.Error.Code == agentkernel.CodeProgram
		lost := w.plan.lose > 0 && r.Error.Code == agentkernel.CodeCrashed
		if !own && !lost {
			w.failf("process %d failed: %v; its program stands at %v", r.PID, r.Error, s.m.Turn)
		}
	case agentkernel.StateKilled:
		limited := r.Error.Code == agentkernel.CodeLimit && (w.plan.limits || w.bounded(r))
		late := r.Error.Op == agentkernel.OpDeadline && !r.Spec.Deadline.IsZero() && !r.Ended.Before(r.Spec.Deadline)
		if !limited && !late && !w.promises.killed(r) {
			w.failf("process %d was killed by nobody: %v", r.PID, r.Error)
		}
	}
}

// checkCalls compares what a program was told of its calls of tools with what the tools did.
func (w *World) checkCalls(pid agentkernel.PID, l *ledger) {
	for id, c := range l.calls {
		if c.op == "proc.spawn" && c.result != nil && c.err == nil {
			w.checkChild(pid, c)
		}
		if asksModel(c.op) && !c.done {
			w.checkAsked(pid, l, id, c)
		}
		if c.op != "tool.call" || c.resultSeq == 0 {
			continue
		}
		d := w.server.of(pid, id)
		switch { // what a human has decided
		case c.decided == agentkernel.DecisionDone && c.err == nil && string(c.result) == resolvedResult:
			continue
		case c.decided == agentkernel.DecisionFail && c.err != nil && c.err.Code == agentkernel.CodeTool:
			continue
		}
		if c.err == nil {
			if !d.answers[string(c.result)] {
				w.failf("process %d: call %d has the result %s, which no tool gave", pid, id, c.result)
			}
			continue
		}
		if d.times == 0 || d.failed || effectOf(d.tool) != agentkernel.EffectWrite {
			continue
		}
		switch c.err.Code {
		case agentkernel.CodeOutcomeUnknown, agentkernel.CodeInterrupted:
		default:
			w.failf("process %d: the write of call %d was made, and the program is told %v", pid, id, c.err)
		}
	}
}

// checkChild checks that a child is there of which its parent knows: it was written before.
func (w *World) checkChild(pid agentkernel.PID, c *ledgerCall) {
	var child agentkernel.PID
	if err := json.Unmarshal(c.result, &child); err != nil {
		w.failf("process %d has started %s", pid, c.result)
	} else if r := w.disk.row(child); r == nil || r.Parent != pid {
		w.failf("process %d has started process %d, which is not there", pid, child)
	}
}

// checkWait checks that a call which has no result is right to have none.
func (w *World) checkWait(r *agentkernel.ProcessRecord, l *ledger, id int64) {
	c := l.calls[id]
	if w.engine.asks(r.PID, id) {
		return // it waits for its turn, or before it is sent again
	}
	if (c == nil || c.unsent) && w.bounded(r) {
		return // it may be too dear, or wait for what others give back; settle sees whether it ends
	}
	if c == nil {
		w.failf("process %d: call %d was made, and nothing becomes of it", r.PID, id)
		return
	}
	if l.interrupted && l.masks == 0 && !c.async {
		w.failf("process %d was interrupted, and waits for call %d all the same", r.PID, id)
	}
	switch c.op {
	case "time.sleep":
		if over(c) {
			w.failf("process %d: the sleep of call %d is over, and it sleeps on", r.PID, id)
		}
	case "signals.wait":
		switch {
		case over(c):
			w.failf("process %d: the time of call %d is over, and it waits for a signal", r.PID, id)
		case l.masks == 0 && len(l.told) > l.heard:
			w.failf("process %d: call %d waits for a signal, and %d are there", r.PID, id, len(l.told)-l.heard)
		}
	case "proc.wait":
		var a struct {
			PID agentkernel.PID `json:"pid"`
		}
		if err := json.Unmarshal(c.args, &a); err != nil {
			w.failf("process %d: call %d: %v", r.PID, id, err)
		}
		if child := w.disk.ledger(a.PID); child == nil || child.terminal {
			w.failf("process %d waits for process %d, which has ended", r.PID, a.PID)
		}
	default:
		if _, held := w.disk.broke(r, &turn{Op: c.op, Args: c.args}); held && c.retries > 0 {
			return // it is to be made once more, and waits for what others give back
		}
		w.failf("process %d waits for call %d, %s %s, of which nothing becomes", r.PID, id, c.op, c.args)
	}
}

// over says whether the time of a sleep is over.
func over(c *ledgerCall) bool {
	var a struct {
		Seconds float64 `json:"seconds"`
		Timeout float64 `json:"timeout"`
	}
	if json.Unmarshal(c.args, &a) != nil {
		return true
	}
	return time.Since(c.at) > time.Duration((a.Seconds+a.Timeout)*float64(time.Second))+time.Millisecond
}

// printed is what a process has printed by its journal.
func printed(entries []agentkernel.Entry) string {
	var out strings.Builder
	for i := range entries {
		var text string
		if e := &entries[i]; e.Kind == agentkernel.EntryOutput && json.Unmarshal(e.Data, &text) == nil {
			out.WriteString(text)
		}
	}
	return out.String()
}

// parseKey takes an idempotency key of a call apart.
func parseKey(key string, pid *agentkernel.PID, call *int64) bool {
	n, err := fmt.Sscanf(key, storeUUID+"/%d/%d", pid, call)
	return n == 2 && err == nil
}
