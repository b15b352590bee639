package kernel

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// What a session has beyond proc.next (sys_next.go): its sandbox can go, and its pieces can be given up. Both rest on its
// journal. A session that has no sandbox and no image begins again when it has to go on: its pieces run once more, with
// their calls answered from the journal and their output compared with it, as in a recovery.

// betweenPieces says whether the process is a session that could be repeated, and waits for its next piece. One with a
// folder keeps its sandbox: the folder may not be what it was when that is needed again. p.mu is held.
func (p *process) betweenPieces() bool {
	return p.asksForPiece() && p.replayable() && p.sealed == nil && !p.spec.HasFiles()
}

// asksForPiece says whether the process is a session that waits for its next piece; p.mu is held.
func (p *process) asksForPiece() bool {
	f := p.inflight.find(p.current)
	return p.spec.Program.Session && p.need == needReply && f != nil && f.op == opNext && f.intended()
}

// idleLong says whether a waiting process has been so long enough to lose its sandbox; p.mu is held.
func (k *Kernel) idleLong(p *process, now time.Time) bool {
	stay := k.cfg.ParkAfter
	if !p.backend.Images {
		stay = k.cfg.SessionStay
	}
	return p.state == agentkernel.StateWaiting && p.lastRun < now.Add(-stay).UnixNano()
}

// letGo takes the sandbox off a session that can be repeated; p.mu is held.
func (p *process) letGo() agentkernel.Sandbox {
	box := p.takeBox()
	p.work = nil
	p.rest()
	return box
}

// repeatIfGone sets a process whose sandbox is gone for good to its beginning: there is no image of it.
func (k *Kernel) repeatIfGone(p *process) error {
	p.mu.Lock()
	gone := p.spec.Program.Session && p.need != needStart && p.replayable() && !(p.backend.Images && p.imaged)
	p.mu.Unlock()
	if !gone {
		return nil
	}
	if p.spec.HasFiles() {
		if note := k.driftNote(p); note != "" {
			return agentkernel.Errorf(agentkernel.CodeDiverged, "session", "the session's variables cannot be brought back: %s", note)
		}
	}
	past, err := k.loadPast(p.context(), &p.spec.Spec)
	if err != nil {
		return err
	}
	entries, err := k.lockWithJournal(p.context(), p)
	if err != nil {
		return err
	}
	defer p.mu.Unlock()
	k.newRun(p, past, history.Fold(history.Base{}, entries), entries)
	p.bound = nil
	return nil
}

// began notes that a session has got a piece; p.mu is held.
func (p *process) began(f *inflight, failure *agentkernel.Error) {
	if f.op == opNext && failure == nil {
		p.piece = f.id
	}
}

// stopPiece gives up the piece that a session computes at the moment, if it can: the session then has the variables that
// it had before. What the piece did in calls stays done; p.mu is held. False: there is none.
func (k *Kernel) stopPiece(p *process) bool {
	if p.state != agentkernel.StateRunning || !p.canGiveUp() || p.cause != nil || p.piece == 0 && p.replay == nil {
		return false
	}
	if p.replay != nil && p.replay.asks() {
		return true // it comes back to where it waits for one
	}
	if p.giveUp == nil {
		p.giveUp = agentkernel.Errorf(agentkernel.CodeInterrupted, agentkernel.OpPiece,
			"it was stopped while it computed; the session has the variables from before it, and the calls that it made stay made")
		if p.box != nil {
			_ = p.box.Close() // whoever drives the process deals with what Next says then
		}
	}
	return true
}

// asks says whether the journal stops where a session waits for its next piece.
func (r *replay) asks() bool {
	for id, e := range r.Calls {
		if _, answered := r.Results[id]; e.Op == opNext && !e.Done && !answered {
			return true
		}
	}
	return false
}

// canGiveUp says whether a piece of the process can be given up; p.mu is held.
func (p *process) canGiveUp() bool {
	return p.spec.Program.Session && p.replayable() && p.sealed == nil && p.past == nil
}

// gaveUp deals with a sandbox that is dead because of the piece that it ran: the session asks for the next piece, as its
// sandbox will when its journal is repeated. False: the piece is not the reason, or there is no way back to before it.
func (k *Kernel) gaveUp(p *process, err *agentkernel.Error) bool {
	p.mu.Lock()
	why := p.giveUp
	can := p.canGiveUp() && (why != nil || pieceOnly(err))
	p.mu.Unlock()
	if !can {
		return false
	}
	if why == nil {
		why = agentkernel.Errorf(err.Code, agentkernel.OpPiece, "%s; the session has the variables from before it, and the calls that it made stay made", err.Message())
		why.Hint = err.Hint
	}
	entries, jerr := k.lockWithJournal(p.context(), p)
	if jerr != nil {
		k.cfg.Logger.Warn("a piece cannot be given up: the journal cannot be read", "pid", p.pid, "err", jerr)
		return false
	}
	h := history.Fold(history.Base{}, entries)
	piece := h.Cell.Next
	if piece == 0 && p.state == agentkernel.StateRunning && p.cause == nil && p.giveUp != nil && p.asksForPiece() {
		box := k.loseBox(p) // it has said how its piece ended: there is none to give up
		k.letWait(p, box, nil)
		return true
	}
	if piece == 0 || p.state != agentkernel.StateRunning || p.cause != nil || p.giveUp == nil && p.piece != piece {
		p.mu.Unlock() // the last: one that had run to its end before does not do so again
		return false
	}
	box, f := k.takeBack(p, piece, why)
	k.sessions.forget(p.pid)
	k.letWait(p, box, f)
	return true
}

// loseBox makes a session wait for its next piece whose sandbox an interrupt has closed; p.mu is held. It gives that to
// discard. What the sandbox was is repeated from the journal.
func (k *Kernel) loseBox(p *process) agentkernel.Sandbox {
	p.giveUp, p.bound, p.reemit = nil, nil, false
	if p.imaged { // older than its last piece
		k.appendBatch(p, agentkernel.Batch{Image: &agentkernel.Image{PID: p.pid}})
		p.imaged = false
	}
	p.to(agentkernel.StateWaiting)
	return p.takeBox()
}

// letWait closes the sandbox of a session that waits now, at the call f if that has not begun, and lets go of it; it unlocks
// p.mu.
func (k *Kernel) letWait(p *process, box agentkernel.Sandbox, f *inflight) {
	p.mu.Unlock()
	if p.spec.HasFiles() { // nothing may write to them when it begins again
		k.closeBox(p, box)
	}
	k.discard(p, box)
	if f != nil {
		k.beginLater(p, f)
	}
	p.mu.Lock()
	p.owned = false
	k.wake(p)
	p.mu.Unlock()
}

// pieceOnly says whether an error that ended a sandbox need not end its session.
func pieceOnly(e *agentkernel.Error) bool {
	return e.Code == agentkernel.CodeCrashed || e.Code == agentkernel.CodeLimit && (e.Op == "limit.memory" || e.Op == "limit.recursion")
}

// takeBack journals that a piece was given up, and the call for the next one; p.mu is held. It gives the sandbox to discard.
func (k *Kernel) takeBack(p *process, piece int64, why *agentkernel.Error) (agentkernel.Sandbox, *inflight) {
	box := p.takeBox()
	p.bound, p.replay, p.giveUp, p.reemit = nil, nil, nil, false
	var batch agentkernel.Batch
	for _, f := range slices.Clone(p.inflight) {
		f.dropped = true
		f.stop()
		p.unresolved.Drop(f.id)
		if f.intended() {
			batch.Entries = append(batch.Entries, agentkernel.Entry{Kind: agentkernel.EntryResult, Call: f.id, Err: errInterrupted(f)})
		}
	}
	p.inflight, p.arrived = nil, nil
	p.calls = max(p.calls, p.account.Calls) + 1
	args, err := json.Marshal(agentkernel.Idle{Error: why})
	if err != nil {
		args = json.RawMessage("{}") // an error always encodes
	}
	canonical, bad := arguments(&agentkernel.Call{Op: opNext, Args: args})
	if bad != nil {
		canonical = args
	}
	f := &inflight{id: p.calls, op: opNext, effect: agentkernel.EffectPure, args: args, label: opNext, since: k.cfg.Now()}
	batch.Entries = append(batch.Entries, agentkernel.Entry{Kind: agentkernel.EntryGivenUp, Call: piece, Err: why},
		agentkernel.Entry{Kind: agentkernel.EntryCall, At: f.since, Call: f.id, Op: opNext, Effect: f.effect, Args: canonical})
	if p.imaged {
		batch.Image, p.imaged = &agentkernel.Image{PID: p.pid}, false
	}
	k.appendBatch(p, batch)
	f.seq = p.seq
	p.inflight.add(f)
	p.setNeed(needReply, f.id, nil)
	p.to(agentkernel.StateWaiting)
	return box, f
}

// leastAddress is how many digits an address has at least.
const leastAddress = 6

// sameButAddresses says whether two texts of a session are the same but for addresses, which CPython shows where a value
// has no better name (<function f at 0x7f1a...>) and which are others, and longer or shorter, in each process. People look
// at such values all the time, and a session has to run again far more often than a program: for a piece that was stopped,
// or after it was idle. What a session hands to calls is compared as it is.
func sameButAddresses(a, b string) bool {
	na, nb := commonButAddresses(a, b)
	return na == len(a) && nb == len(b)
}

// commonButAddresses says how much of two texts is the same but for addresses, from their beginnings on.
func commonButAddresses(a, b string) (na, nb int) {
	for na < len(a) && nb < len(b) {
		if n, m := addressAt(a, na), addressAt(b, nb); n > 0 && m > 0 {
			na, nb = na+n, nb+m
			continue
		}
		if a[na] != b[nb] {
			break
		}
		na, nb = na+1, nb+1
	}
	return na, nb
}

// addressAt is the length of the address that begins in a text; 0: none does.
func addressAt(s string, at int) int {
	if !strings.HasPrefix(s[at:], "0x") {
		return 0
	}
	n := len("0x")
	for at+n < len(s) && isHex(s[at+n]) {
		n++
	}
	if n < len("0x")+leastAddress {
		return 0
	}
	return n
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }
