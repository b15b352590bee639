package history

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"agentkernel"
)

// Repeats is how often in a row a process has made the same call and had the same answer, in the order in which its journal has
// the answers; nil: the last one was to no call that counts. It is never changed: each entry that says something makes a new one.
//
// A call counts that the process has made itself and whose answer tells something: one that an origin answers does not, nor one that
// answers nothing (log.write, state.set) or another thing each time (time.now, stream.next), nor one that waits inside the kernel
// (time.sleep) or looks at what the process has itself (state.get): a program that computes may do so at each step. But what does not count ends the row, as any other call does. So does whoever resumes the process.
type Repeats struct {
	Call   uint64    `json:"call,omitempty"`   // see CallPrint
	Answer uint64    `json:"answer,omitempty"` // the same of what it was answered with
	Times  int64     `json:"times,omitempty"`  // 0: no row
	Since  time.Time `json:"since,omitzero"`   // when the first of the row was made
	// Open are the calls under way that will count, since an answer does not say to which call it is.
	Open []Opened `json:"open,omitempty"`
}

// Opened is a call that has no answer yet.
type Opened struct {
	Number int64     `json:"number"`
	Call   uint64    `json:"call"`
	At     time.Time `json:"at"`
}

// CallPrint tells calls apart by their name and their canonical arguments.
func CallPrint(op string, args json.RawMessage) uint64 { return fingerprint(op, "", args) }

func answerPrint(e *agentkernel.Entry) uint64 {
	if e.Err != nil {
		return fingerprint("error", string(e.Err.Code), []byte(e.Err.Message()))
	}
	return fingerprint("result", "", e.Data)
}

// longData is the size in bytes from which data is told apart by a checksum: of a conversation of half a megabyte the hash would take
// longer than all else that the kernel does with it. Two that differ and look alike make one repetition too many, of fifty.
const longData = 16 << 10

func fingerprint(kind, about string, data []byte) uint64 {
	if string(data) == "null" { // a store may say so of nothing
		data = nil
	}
	if len(data) >= longData {
		data = fmt.Appendf(nil, "%d bytes, CRC-32C %08x", len(data), crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
	}
	head := kind + "\x00" + about + "\x00"
	h := sha256.New()
	h.Write([]byte(head))
	h.Write(data)
	var sum [sha256.Size]byte
	return binary.BigEndian.Uint64(h.Sum(sum[:0]))
}

// Row is how often in a row a call was made with the same answer, and since when.
func (r *Repeats) Row(call uint64) (times int64, since time.Time) {
	if r == nil || r.Call != call {
		return 0, time.Time{}
	}
	return r.Times, r.Since
}

// String is for tests and logs.
func (r *Repeats) String() string {
	if r == nil {
		return "no row"
	}
	return fmt.Sprintf("%x with %x %d times since %s, under way %+v", r.Call, r.Answer, r.Times, r.Since.Format(time.RFC3339Nano), r.Open)
}

// add takes an entry that stands behind all that were added before.
func (r *Repeats) add(e *agentkernel.Entry) *Repeats {
	switch e.Kind {
	case agentkernel.EntryCall:
		switch {
		case !counts(e):
			return r.ended()
		case e.Done:
			return r.answered(Opened{Call: CallPrint(e.Op, e.Args), At: e.At}, e)
		}
		next := Repeats{}
		if r != nil {
			next = *r
		}
		next.Open = append(slices.Clip(next.Open), Opened{e.Call, CallPrint(e.Op, e.Args), e.At.Round(0)})
		return &next
	case agentkernel.EntryResult:
		if r == nil {
			return nil
		}
		if at := slices.IndexFunc(r.Open, func(o Opened) bool { return o.Number == e.Call }); at >= 0 {
			next := *r
			next.Open = slices.Delete(slices.Clone(r.Open), at, at+1)
			return next.answered(r.Open[at], e)
		}
		return r.ended()
	case agentkernel.EntryResumed:
		return r.ended()
	case agentkernel.EntryAborted: // of what the cell has left under way no answer comes
		return r.ended().without(e.Call)
	case agentkernel.EntryTerminal:
		return nil
	}
	return r
}

// counts says whether the answer to a call tells if its process makes progress.
func counts(e *agentkernel.Entry) bool {
	desc, _ := agentkernel.FindSyscall(e.Op)
	own := e.Effect == agentkernel.EffectPure && e.Err == nil // it waits inside the kernel, or looks at what the process has itself
	return !e.TakenOver() && !own && !desc.Advances && desc.Result != "null"
}

// answered is r with the answer to a call.
func (r *Repeats) answered(o Opened, e *agentkernel.Entry) *Repeats {
	next := Repeats{Call: o.Call, Answer: answerPrint(e), Times: 1, Since: o.At.Round(0)}
	if r != nil {
		if next.Open = r.Open; len(next.Open) == 0 {
			next.Open = nil
		}
		if r.Times > 0 && r.Call == next.Call && r.Answer == next.Answer {
			next.Times, next.Since = r.Times+1, r.Since
		}
	}
	return &next
}

// ended is r without a row.
func (r *Repeats) ended() *Repeats {
	if r == nil || len(r.Open) == 0 {
		return nil
	}
	return &Repeats{Open: r.Open}
}

// without is r without the calls under way behind one.
func (r *Repeats) without(after int64) *Repeats {
	if r == nil {
		return nil
	}
	open := slices.DeleteFunc(slices.Clone(r.Open), func(o Opened) bool { return o.Number > after })
	return (&Repeats{Open: open}).ended()
}
