package kernel

import (
	"encoding/json"
	"fmt"
	"strings"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/history"
)

// replay is what the journal of an earlier life still knows: calls with their results in the order in
// which they were delivered, and what was printed. It shrinks as the program repeats itself and is gone
// when the program goes beyond it.
type replay struct {
	history.Queue
	session bool // see sameButAddresses
	skip    int  // bytes of Output[0] that were repeated
}

func diverged(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeDiverged, "replay", format, args...).
		WithHint("the program did not repeat what its journal says; compare with: agentkernel trace")
}

// recorded looks a call up in the journal of an earlier life. nil, nil: the call is new.
func (k *Kernel) recorded(p *process, f *inflight, canonical json.RawMessage) (*agentkernel.Entry, *agentkernel.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.replay == nil {
		return nil, nil
	}
	entry, ok := p.replay.Calls[f.id]
	if !ok {
		return nil, nil
	}
	same := string(entry.Args) == string(canonical) ||
		f.op == opNext && (sameButAddresses(string(entry.Args), string(canonical)) || p.moved != nil && sameEnd(entry.Args, canonical))
	if entry.Op != f.op || entry.Async != f.async || !same {
		return nil, diverged("call %d is not the one in the journal\n%s", f.id,
			journal.Diff(describeCall(entry.Op, entry.Async, entry.Args), describeCall(f.op, f.async, canonical)))
	}
	delete(p.replay.Calls, f.id)
	return &entry, nil
}

func describeCall(op string, async bool, args json.RawMessage) json.RawMessage {
	s := op + " " + string(args)
	if async {
		s = "async " + s
	}
	return json.RawMessage(s)
}

// redo answers a call that the journal knows. False: the process has ended.
func (k *Kernel) redo(p *process, f *inflight, entry agentkernel.Entry) bool {
	f.effect, f.since, f.label, f.seq = entry.Effect, entry.At, label(entry), entry.Seq
	if f.op == "proc.exit" {
		return k.exitAgain(p, f)
	}
	p.mu.Lock()
	result, known := p.replay.Results[f.id]
	if entry.Done {
		result, known = entry, true
	}
	switch {
	case known && f.async: // delivered in the journal's order, at a wait
	case known:
		delete(p.replay.Results, f.id)
		p.reply, p.replySeq = &agentkernel.Reply{ID: f.id, Result: result.Data, Err: result.Err}, result.Seq
		p.began(f, result.Err)
		p.calls = max(p.calls, p.replay.Skips[f.id])
	case p.inflight.find(f.id) != nil: // it was under way when the program moved, and still is
		known = true
		if err := p.arrivedAt(f); err != nil {
			p.mu.Unlock()
			k.finish(p, endingFor(err))
			return false
		}
	default:
		p.inflight.add(f)
	}
	p.replayed()
	p.mu.Unlock()
	if !known {
		k.reissue(p, f)
	}
	return true
}

// reissue decides what becomes of a call whose intent is in the journal and whose result is not.
func (k *Kernel) reissue(p *process, f *inflight) {
	if p.sealed != nil || k.resumePast(p, f) {
		return // sealed: nothing comes of it
	}
	switch {
	case f.effect == agentkernel.EffectPure:
		k.beginLater(p, f)
	case f.effect.Repeatable() || f.effect == agentkernel.EffectPaid:
		if f.op == "tool.call" {
			k.readmitTool(p, f)
			return
		}
		k.goOutside(p, f)
	default:
		k.reconsider(p, f)
	}
}

// outcomeUnknown is the answer for a write of which nobody knows whether it happened.
func outcomeUnknown(f *inflight, cause error) *agentkernel.Error {
	why := "the kernel died while it was under way"
	if cause != nil {
		why = agentkernel.AsError(cause, agentkernel.CodeInternal, "").Message()
	}
	what := strings.TrimPrefix(f.label, "tool.call ")
	return agentkernel.Errorf(agentkernel.CodeOutcomeUnknown, f.op, "%s may or may not have happened: %s", what, why)
}

// nextAsync delivers the next async result that the journal has. issued is the last call number.
func (r *replay) nextAsync(issued int64) (agentkernel.Reply, *agentkernel.Error) {
	id := r.Order[0]
	if id > issued {
		return agentkernel.Reply{}, diverged("the program waits for a result, but the journal delivers call %d next, which the program has not issued", id)
	}
	r.Order = r.Order[1:]
	e := r.Results[id]
	delete(r.Results, id)
	return agentkernel.Reply{ID: id, Result: e.Data, Err: e.Err}, nil
}

// arrived takes the result of an async call that came while the program repeats its journal. It stands behind all that
// the journal had, and is delivered behind it, whether the program has come to the call again or not.
func (r *replay) arrived(a arrival) {
	r.Results[a.ID] = agentkernel.Entry{Kind: agentkernel.EntryResult, Seq: a.seq, Call: a.ID, Data: a.Result, Err: a.Err}
	r.Order = append(r.Order, a.ID)
}

// printed compares output with the journal's and gives what goes beyond it.
func (r *replay) printed(stream, text string) (string, *agentkernel.Error) {
	for text != "" && len(r.Output) > 0 {
		e := r.Output[0]
		want := history.Text(&e)[r.skip:]
		n := min(len(want), len(text)) // of what the journal has
		m, same := n, want[:n] == text[:n]
		if !same && r.session {
			n, m = commonButAddresses(want, text)
			same = n == len(want) || m == len(text)
		}
		if e.Stream != stream || !same {
			return "", diverged("the program printed something else on %s than the journal has on %s\n%s", stream, e.Stream,
				journal.Diff(jsonString(want), jsonString(text)))
		}
		text = text[m:]
		r.skip += n
		if n == len(want) {
			r.Output, r.skip = r.Output[1:], 0
		}
	}
	return text, nil
}

// left says what the program has not repeated; "" when it has repeated all.
func (r *replay) left() string {
	switch {
	case len(r.Calls) > 0:
		low := int64(-1)
		for id := range r.Calls {
			if low < 0 || id < low {
				low = id
			}
		}
		e := r.Calls[low]
		return fmt.Sprintf("the journal goes on with call %d: %s", low, journal.Short(describeCall(e.Op, e.Async, e.Args), 120))
	case len(r.Output) > 0:
		return fmt.Sprintf("the journal has more output: %s", journal.Short(jsonString(history.Text(&r.Output[0])[r.skip:]), 120))
	}
	return ""
}

// replayed drops the replay when nothing is left of it; p.mu is held.
func (p *process) replayed() {
	if p.replay != nil && p.replay.Empty() {
		p.replay = nil
		p.inPlace()
		if p.sealed != nil {
			p.sealed.repeated(p)
		}
	}
}
