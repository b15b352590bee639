package sim

import (
	"encoding/json"
	"fmt"
	"time"

	"agentkernel"
)

// ledger is the journal of one process, folded entry by entry without the kernel's code. It says what no journal may have.
type ledger struct {
	pid      agentkernel.PID
	seq      int64
	calls    map[int64]*ledgerCall
	last     int64 // the highest number of a call
	open     int   // calls without a result
	limits   agentkernel.Limits
	paused   bool
	terminal bool
	rowEnded bool // the row says so
	// As agentkernel.Usage has them.
	toolCalls, bytesIn, output int64
	killed                     bool // by a signal or a limit
	deadline, stopBy, pausedAt time.Time
	signalled                  bool // since pausedAt
	purse                      purse
	masks                      int                         // how many hold signals back
	interrupted                bool                        // it was interrupted, and no call says so yet
	told                       []json.RawMessage           // user signals, in their order
	heard                      int                         // how many of them the program has taken
	places                     map[agentkernel.Place]int64 // of a hosted program: its calls
}

// ledgerCall is a call as the journal has it.
type ledgerCall struct {
	seq, resultSeq int64
	at             time.Time
	op             string
	args           json.RawMessage
	effect         agentkernel.Effect
	asked          bool // what became of it is not known, and a human is to decide
	decided        agentkernel.Decision
	retries        int  // that were decided and begun
	paid           int  // how often a call that is paid for was begun again
	unsent         bool // it waits for its turn, and was not sent yet
	turns          int  // how often it went back to that
	async, done    bool
	result         json.RawMessage
	settled        agentkernel.Amounts // that it has used up, as it was said last; nil: nobody knows
	over           bool                // the stream that it has opened was settled
	err            *agentkernel.Error
}

func newLedger(pid agentkernel.PID) *ledger {
	return &ledger{pid: pid, calls: map[int64]*ledgerCall{}, places: map[agentkernel.Place]int64{}}
}

// take folds a batch; the error says what is wrong with it.
func (l *ledger) take(b *agentkernel.Batch) error {
	for i := range b.Entries {
		e := &b.Entries[i]
		if e.PID != l.pid {
			return fmt.Errorf("a batch of process %d has an entry of process %d", l.pid, e.PID)
		}
		if e.Seq != l.seq+1 {
			return fmt.Errorf("process %d: entry %d (%s) follows entry %d", l.pid, e.Seq, e.Kind, l.seq)
		}
		l.seq = e.Seq
		if l.terminal {
			return fmt.Errorf("process %d: entry %d (%s) follows the end", l.pid, e.Seq, e.Kind)
		}
		if (e.Kind == agentkernel.EntryCreated) != (e.Seq == 1) {
			return fmt.Errorf("process %d: entry %d is %s", l.pid, e.Seq, e.Kind)
		}
		if err := l.add(e); err != nil {
			return fmt.Errorf("process %d: entry %d: %w", l.pid, e.Seq, err)
		}
	}
	if b.Process != nil {
		l.rowEnded = b.Process.State.Terminal()
		l.limits, l.deadline = b.Process.Spec.Limits, b.Process.Spec.Deadline
	}
	if l.rowEnded != l.terminal {
		return fmt.Errorf("process %d: ended by its journal: %t, by its row: %t", l.pid, l.terminal, l.rowEnded)
	}
	if b.Image != nil && len(b.Image.Bytes) > 0 && (l.terminal || b.Image.Seq != l.seq) {
		return fmt.Errorf("process %d: an image of entry %d was made at entry %d; ended: %t", l.pid, b.Image.Seq, l.seq, l.terminal)
	}
	return nil
}

func (l *ledger) add(e *agentkernel.Entry) error {
	if err := l.purse.add(e); err != nil {
		return err
	}
	switch e.Kind {
	case agentkernel.EntryCall:
		return l.call(e)
	case agentkernel.EntryResult:
		return l.result(e)
	case agentkernel.EntrySettled:
		return l.settle(e)
	case agentkernel.EntryOutput:
		var text string
		if err := json.Unmarshal(e.Data, &text); err != nil {
			return err
		}
		l.output += int64(len(text))
	case agentkernel.EntrySignal:
		return l.signal(e)
	case agentkernel.EntryPaused:
		l.paused, l.pausedAt, l.signalled = true, e.At, false
		if c := l.calls[e.Call]; c != nil {
			if c.asked = true; c.unsent {
				return fmt.Errorf("somebody is asked whether call %d happened, which waits for its turn", e.Call)
			}
		}
	case agentkernel.EntryResolve, agentkernel.EntryRetry:
		return l.decide(e)
	case agentkernel.EntryResumed:
		l.paused = false
	case agentkernel.EntryTerminal:
		l.terminal, l.paused = true, false
		var end struct {
			State agentkernel.State `json:"state"`
		}
		if err := json.Unmarshal(e.Data, &end); err != nil {
			return err
		}
		l.killed = end.State == agentkernel.StateKilled
	}
	return nil
}

// settle takes what a stream has used up, or a call that is left without a result or waits for its turn again.
func (l *ledger) settle(e *agentkernel.Entry) error {
	c := l.calls[e.Call]
	again := c != nil && c.over && e.Settle != nil && len(e.Settle) == 0 // all of it was given, after it was settled
	switch {
	case again:
	case c != nil && c.resultSeq == 0 && e.Settle != nil && e.Reserve[agentkernel.AmountUnsent] > 0 && len(e.Reserve) == 1:
		c.unsent = true
		c.turns++
	case c == nil || c.over || c.resultSeq == 0 && (e.Settle == nil || e.Async): // one without a result may be left by the end of its process
		return fmt.Errorf("call %d is settled, which has no open stream", e.Call)
	default:
		c.settled, c.over = e.Settle, true
	}
	return nil
}

// signal takes a signal that was sent.
func (l *ledger) signal(e *agentkernel.Entry) error {
	l.signalled = true
	var s struct {
		By      time.Time       `json:"by"`
		Payload json.RawMessage `json:"payload"`
		Pending bool            `json:"pending"`
	}
	if len(e.Data) > 0 {
		if err := json.Unmarshal(e.Data, &s); err != nil {
			return err
		}
	}
	if !s.By.IsZero() {
		l.stopBy = s.By
	}
	l.interrupted = l.interrupted || s.Pending
	if s.Payload != nil {
		l.told = append(l.told, s.Payload)
	}
	return nil
}

func (l *ledger) call(e *agentkernel.Entry) error {
	if l.calls[e.Call] != nil { // they need not come in their order: a tool may have to be looked up first
		return fmt.Errorf("call %d has a second intent", e.Call)
	}
	if limit := l.limits.Calls; limit > 0 && e.Call > limit {
		return fmt.Errorf("call %d is beyond the limit of %d", e.Call, limit)
	}
	if place, hosted := agentkernel.ParsePlace(e.Stream); hosted {
		if l.places[place] != 0 {
			return fmt.Errorf("call %d has the place %s, which call %d has", e.Call, place, l.places[place])
		}
		l.places[place] = e.Call
	}
	l.last = max(l.last, e.Call)
	c := &ledgerCall{seq: e.Seq, at: e.At, op: e.Op, args: e.Args, effect: e.Effect, async: e.Async, done: e.Done,
		unsent: e.Reserve[agentkernel.AmountUnsent] > 0}
	l.calls[e.Call] = c
	if e.Done {
		c.resultSeq, c.result, c.err = e.Seq, e.Data, e.Err
		if e.Err != nil {
			return l.hear(c)
		}
		switch e.Op {
		case "signals.mask":
			l.masks++
		case "signals.unmask":
			l.masks = max(0, l.masks-1)
		}
		return nil
	}
	if e.Op == "tool.call" {
		l.toolCalls++
	}
	l.open++
	if limit := l.limits.InFlight; limit > 0 && l.open > limit {
		return fmt.Errorf("%d calls are under way, beyond the limit of %d", l.open, limit)
	}
	return nil
}

func (l *ledger) result(e *agentkernel.Entry) error {
	c := l.calls[e.Call]
	switch {
	case c == nil:
		return fmt.Errorf("call %d has a result and no intent", e.Call)
	case c.resultSeq != 0:
		return fmt.Errorf("call %d has a second result", e.Call)
	case c.unsent && e.Err != nil && e.Err.Code == agentkernel.CodeOutcomeUnknown:
		return fmt.Errorf("call %d is said to have happened, perhaps, and waits for its turn", e.Call)
	}
	l.open--
	c.asked = false
	c.resultSeq, c.result, c.err, c.settled = e.Seq, e.Data, e.Err, e.Settle
	if e.Incarnation != "" {
		l.bytesIn += int64(len(e.Data))
	}
	return l.hear(c)
}

// hear checks an answer that comes of a signal.
func (l *ledger) hear(c *ledgerCall) error {
	interrupted := c.err != nil && c.err.Code == agentkernel.CodeInterrupted
	took := c.op == "signals.wait" && c.err == nil
	switch {
	case (interrupted || took) && l.masks > 0:
		return fmt.Errorf("a signal reaches %s, and the program holds signals back", c.op)
	case interrupted:
		l.interrupted = false
		return nil
	case !took:
		return nil
	case l.heard == len(l.told):
		return fmt.Errorf("%s takes the signal %s, which nobody has sent", c.op, c.result)
	case string(c.result) != string(l.told[l.heard]):
		return fmt.Errorf("%s takes the signal %s, and the next is %s", c.op, c.result, l.told[l.heard])
	}
	l.heard++
	return nil
}

// decide takes what a human has decided about a call.
func (l *ledger) decide(e *agentkernel.Entry) error {
	c := l.calls[e.Call]
	switch {
	case c == nil || c.resultSeq != 0:
		return fmt.Errorf("it is decided about call %d, which is not open", e.Call)
	case e.Kind == agentkernel.EntryResolve:
		c.decided, c.asked = agentkernel.Decision(e.Note), false
	case c.unsent:
		c.unsent, c.seq = false, e.Seq
	case c.effect == agentkernel.EffectPaid:
		if c.paid++; c.paid > 1 {
			return fmt.Errorf("call %d, which costs each time, is begun a third time", e.Call)
		}
		c.seq = e.Seq
	case c.decided != agentkernel.DecisionRetry:
		return fmt.Errorf("call %d is made again, and nobody has decided so", e.Call)
	default:
		c.retries++
		c.seq = e.Seq // what has to be durable before it goes out
	}
	return nil
}
