package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/nearest"
)

// handler is what the kernel does for one syscall. Exactly one of the functions is set. They run without
// locks.
type handler struct {
	// now answers at once, without leaving the kernel.
	now func(k *Kernel, p *process, f *inflight) (json.RawMessage, error)
	// begin starts a pure call that takes time; somebody calls Kernel.complete later. It is called again
	// for the same call after a recovery.
	begin func(k *Kernel, p *process, f *inflight) error
	// outside leaves the kernel. The note is kept beside the result (the server's incarnation).
	outside func(ctx context.Context, k *Kernel, p *process, f *inflight) (result json.RawMessage, note string, err error)
}

// families is where a new family of syscalls is added: one file, one line.
var families = []map[string]handler{procCalls, sessionCalls, toolCalls, stateCalls, timeCalls, randCalls, logCalls, httpCalls}

// handlerTable joins the families and checks them against the table of the contract.
func handlerTable() (map[string]handler, error) {
	all := map[string]handler{}
	for _, fam := range families {
		for name, h := range fam {
			if _, ok := agentkernel.FindSyscall(name); !ok {
				return nil, agentkernel.Errorf(agentkernel.CodeInternal, "kernel", "handler %s is not in the syscall table", name)
			}
			all[name] = h
		}
	}
	for _, d := range agentkernel.Syscalls() {
		if _, ok := all[d.Name]; !ok {
			return nil, agentkernel.Errorf(agentkernel.CodeInternal, "kernel", "syscall %s has no handler", d.Name)
		}
	}
	return all, nil
}

// issue takes a call from the sandbox that the caller drives. False: the process has ended.
func (k *Kernel) issue(p *process, call agentkernel.Call) bool {
	canonical, err := arguments(&call)
	p.mu.Lock()
	f := k.number(p, call)
	p.mu.Unlock()
	return k.dispatch(p, f, canonical, err)
}

// maxArgs bounds the arguments of one call, in bytes: no tool server takes a larger message.
const maxArgs = 64 << 20

// arguments gives the canonical form of a call's arguments; null with the reason for those that have none.
func arguments(call *agentkernel.Call) (json.RawMessage, *agentkernel.Error) {
	if len(call.Args) > maxArgs {
		return json.RawMessage("null"), agentkernel.Errorf(agentkernel.CodeLimit, call.Op, "the arguments are %s long; the limit is %s",
			byteCount(int64(len(call.Args))), byteCount(maxArgs))
	}
	canonical, err := journal.Canonical(call.Args)
	if err != nil {
		return json.RawMessage("null"), agentkernel.Errorf(agentkernel.CodeInvalid, call.Op, "arguments: %v", err)
	}
	return canonical, nil
}

// number gives a call its number and notes what the sandbox needs next; p.mu is held.
func (k *Kernel) number(p *process, call agentkernel.Call) *inflight {
	p.calls++
	f := &inflight{id: p.calls, op: call.Op, async: call.Async, args: call.Args, label: call.Op, since: k.cfg.Now()}
	if call.Async {
		p.setNeed(needAck, f.id, &agentkernel.Reply{ID: f.id, Pending: true})
	} else {
		p.setNeed(needReply, f.id, nil)
	}
	return f
}

// dispatch is the one path of every syscall, of sandboxes and hosted programs alike. bad says what is wrong
// with the arguments. False: the process has ended.
func (k *Kernel) dispatch(p *process, f *inflight, canonical json.RawMessage, bad *agentkernel.Error) bool {
	desc, known := agentkernel.FindSyscall(f.op)
	f.effect = desc.Effect
	if entry, diverged := k.recorded(p, f, canonical); diverged != nil {
		k.finish(p, endingFor(diverged))
		return false
	} else if entry != nil {
		return k.redo(p, f, *entry)
	}
	if err := k.spent(p, f); err != nil {
		k.finish(p, endingFor(err))
		return false
	}
	if p.sealed != nil {
		return k.beyond(p, f, canonical)
	}
	if err := k.refusal(p, desc, known, f, canonical, bad); err != nil {
		k.answer(p, f, canonical, nil, err)
		return true
	}
	if k.answeredByPast(p, f, canonical) {
		return true
	}
	if f.op == "proc.exit" {
		return k.exit(p, f, canonical)
	}
	if desc.Effect == agentkernel.EffectByTool {
		k.admitTool(p, f, canonical)
		return true
	}
	if desc.Effect == agentkernel.EffectByMethod {
		k.admitFetch(p, f, canonical)
		return true
	}
	k.begin(p, f, canonical)
	return true
}

// spent says which limit on a whole life the call would go beyond; that ends the process.
func (k *Kernel) spent(p *process, f *inflight) *agentkernel.Error {
	if f.id > p.spec.limits.Calls {
		return limitError("calls", fmt.Sprint(p.spec.limits.Calls), fmt.Sprint(f.id)).
			WithHint("--max-calls allows more, if the program is right")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return k.journalFull(p)
}

// refusal says why a call may not run: unknown, no capability, bad arguments, a signal, too much under way.
// It is journalled as the call's result, so that a replay refuses the same calls.
func (k *Kernel) refusal(p *process, desc agentkernel.Syscall, known bool, f *inflight, canonical json.RawMessage, bad *agentkernel.Error) *agentkernel.Error {
	switch {
	case !known:
		return agentkernel.Errorf(agentkernel.CodeNotFound, clip(f.op), "there is no syscall %q", clip(f.op))
	case denied(p.spec.Deny, desc):
		return agentkernel.Errorf(agentkernel.CodeDenied, f.op, "%s is denied to this process (deny = %q)", f.op, desc.Capability)
	case bad != nil:
		return bad
	}
	if err := unknownArgument(desc, canonical); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.account.Interrupted { // the entry of this answer takes it back
		return errInterrupted(f)
	}
	if k.handlers[f.op].now != nil && !f.async {
		return nil // never under way
	}
	if limit := p.spec.limits.InFlight; len(p.inflight)+p.untaken() >= limit {
		return tooManyCalls(f, limit)
	}
	return p.tooMuchHeld(f, len(f.args), "there is no room for arguments of %s")
}

// unknownArgument refuses names that the call does not have. encoding/json would take "TOOL" for "tool", and
// which of the two counts would depend on their order, which is another one in the journal.
func unknownArgument(desc agentkernel.Syscall, canonical json.RawMessage) *agentkernel.Error {
	names, ok := journal.Names(canonical)
	if !ok {
		return agentkernel.Errorf(agentkernel.CodeInvalid, desc.Name, "wrong arguments for %s: they are not an object", desc.Signature())
	}
	for _, name := range names {
		if !slices.ContainsFunc(desc.Args, func(a agentkernel.Param) bool { return a.Name == name }) {
			return agentkernel.Errorf(agentkernel.CodeInvalid, desc.Name, "wrong arguments for %s: there is no argument %q", desc.Signature(), clip(name))
		}
	}
	return nil
}

// clip keeps what a program made up short where it stands in a message.
func clip(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	s = validPrefix(s, most)
	if i := strings.LastIndexByte(s, ' '); i > most/2 { // between words
		s = s[:i]
	}
	return s + " ..."
}

func denied(deny []string, desc agentkernel.Syscall) bool {
	if desc.Capability == "" {
		return false
	}
	for _, d := range deny {
		if d == desc.Capability || d == desc.Family() || d == desc.Name {
			return true
		}
	}
	return false
}

// deniable are the words that take something away.
func deniable() []string {
	var words []string
	for _, desc := range agentkernel.Syscalls() {
		if desc.Capability != "" {
			words = append(words, desc.Capability, desc.Family(), desc.Name)
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// meaningful refuses permissions that would never match: whoever wrote them relies on them.
func meaningful(s *agentkernel.Spec) error {
	for _, word := range s.Deny {
		if known := deniable(); !slices.Contains(known, word) {
			e := agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "deny %q takes nothing away: there is no capability of that name", word)
			if q := nearest.Question(word, known); q != "" {
				return e.WithHint("%s", q)
			}
			return e.WithHint("proc.spawn, tool, state, time, rand, http, log, or the name of a system call")
		}
	}
	for _, pattern := range s.Allow {
		if _, err := path.Match(pattern, ""); err != nil {
			return agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "allow %q is no pattern, and would allow nothing: %w", pattern, err).
				WithHint("server.tool with * and ?; a bracket or backslash that is meant as such has a backslash before it")
		}
	}
	return nil
}

// begin runs the handler of a call that may run.
func (k *Kernel) begin(p *process, f *inflight, canonical json.RawMessage) {
	h := k.handlers[f.op]
	switch {
	case h.now != nil:
		result, err := h.now(k, p, f)
		k.answer(p, f, canonical, result, err)
	case h.begin != nil:
		if k.intend(p, f, canonical) {
			k.beginLater(p, f)
		}
	default:
		if k.intend(p, f, canonical) {
			k.goOutside(p, f)
		}
	}
}

func (k *Kernel) beginLater(p *process, f *inflight) {
	if err := k.handlers[f.op].begin(k, p, f); err != nil {
		k.complete(p, f, nil, "", err)
	}
}

// answer journals a call together with its result and hands the result over.
func (k *Kernel) answer(p *process, f *inflight, canonical, result json.RawMessage, err error) {
	if err != nil && k.isClosed() {
		return // it may be about the end of the kernel, which is nothing that the program should learn: it is asked again
	}
	entry := agentkernel.Entry{Kind: agentkernel.EntryCall, At: f.since, Call: f.id, Op: f.op, Effect: f.effect, Async: f.async,
		Args: canonical, Done: true, Data: result, Err: agentkernel.AsError(err, agentkernel.CodeInternal, f.op), Note: f.note}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Terminal() || f.dropped {
		return
	}
	p.inflight.remove(f)
	k.appendBatch(p, agentkernel.Batch{Entries: []agentkernel.Entry{entry}, State: f.change})
	k.deliver(p, f, arrival{agentkernel.Reply{ID: f.id, Result: result, Err: entry.Err}, p.seq})
}

// intend journals the intent of a call whose result comes later. False: nobody waits for it any more.
func (k *Kernel) intend(p *process, f *inflight, canonical json.RawMessage) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Terminal() || f.dropped {
		return false
	}
	p.inflight.add(f)
	k.append(p, agentkernel.Entry{Kind: agentkernel.EntryCall, At: f.since, Call: f.id, Op: f.op, Effect: f.effect,
		Async: f.async, Args: canonical})
	f.seq = p.seq
	return true
}

// goOutside runs an external handler once its intent is durable.
func (k *Kernel) goOutside(p *process, f *inflight) {
	if !k.external.enter() {
		return // the kernel is stopping; recovery finds the intent
	}
	ctx, cancel := context.WithCancel(p.context())
	p.mu.Lock()
	pos := p.pos
	f.cancel = cancel
	p.mu.Unlock()
	go func() {
		defer k.external.leave()
		defer cancel()
		if err := k.store.Flush(ctx, pos); err != nil {
			k.storageFailed(err)
			return
		}
		ctx, late := context.WithTimeout(ctx, time.Duration(p.spec.limits.CallWait)) // the disk's time is not the call's
		defer late()
		result, note, err := k.handlers[f.op].outside(ctx, k, p, f)
		k.complete(p, f, result, note, err)
	}()
}

// complete journals the result of a call that was under way and hands it over. A result that nobody waits
// for any more (killed, interrupted, kernel stopping) is dropped: recovery treats the call as open.
func (k *Kernel) complete(p *process, f *inflight, result json.RawMessage, note string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k.completeNow(p, f, result, note, err)
}

// completeNow is complete; p.mu is held.
func (k *Kernel) completeNow(p *process, f *inflight, result json.RawMessage, note string, err error) {
	if p.state.Terminal() || p.inflight.find(f.id) != f || k.ctx.Err() != nil || err != nil && p.over {
		return
	}
	failure, unknown := f.unknown(agentkernel.AsError(err, agentkernel.CodeInternal, f.op))
	if unknown && p.spec.OnUnknown == agentkernel.UnknownPause {
		k.hold(p, f, failure)
		return
	}
	p.inflight.remove(f)
	if err := p.tooMuchHeld(f, len(result), "it was done, and its result of %s is dropped: there is no room for it"); err != nil {
		result, failure = nil, err
	}
	if f.tool != nil {
		p.servers = history.Answered(p.servers, f.tool.Server, note, failure)
	}
	batch := agentkernel.Batch{Entries: []agentkernel.Entry{{Kind: agentkernel.EntryResult, Call: f.id, Data: result, Err: failure, Note: note}}}
	if failure == nil {
		batch.Key = f.bind
	}
	k.appendBatch(p, batch)
	p.began(f, failure)
	k.deliver(p, f, arrival{agentkernel.Reply{ID: f.id, Result: result, Err: failure}, p.seq})
}

// deliver hands a result to whoever needs it; p.mu is held and the result is in the journal.
func (k *Kernel) deliver(p *process, f *inflight, r arrival) {
	switch {
	case f.done != nil:
		f.done <- r.Reply
	case f.async && p.replay != nil && p.sealed == nil:
		p.replay.arrived(r)
	case f.async:
		p.arrived = append(p.arrived, r)
	case p.current == f.id:
		p.reply, p.replySeq = &r.Reply, r.seq
	}
	k.wake(p)
}

// append journals an entry of p; p.mu is held.
func (k *Kernel) append(p *process, e agentkernel.Entry) {
	k.appendBatch(p, agentkernel.Batch{Entries: []agentkernel.Entry{e}})
}

// appendBatch hands a batch to the store, numbering its entries; p.mu is held.
func (k *Kernel) appendBatch(p *process, b agentkernel.Batch) {
	if p.sealed != nil {
		return // it is in no store
	}
	for i := range b.Entries {
		p.seq++
		b.Entries[i].PID, b.Entries[i].Seq = p.pid, p.seq
		if b.Entries[i].At.IsZero() {
			b.Entries[i].At = k.cfg.Now()
		}
	}
	k.account(p, &b)
	pos, err := k.store.Append(b)
	if err != nil {
		go k.storageFailed(err)
		return
	}
	p.pos = pos
	for { // another process's batch may be later, and noted already
		last := k.last.Load()
		if last >= int64(pos) || k.last.CompareAndSwap(last, int64(pos)) {
			return
		}
	}
}
